//! MQD of an SDMA queue on gfx9, by the places of its dwords in the MQD of gfx11.
//!
//! `struct v9_sdma_mqd` of linux `v9_structs.h` has the registers `SDMA_RLC0_*` in their order on SDMA 4.
//! They have equal meanings, so there is one type: [`SdmaMqd`].

use super::SdmaMqd;
use super::sdma::DWORDS;

/// Index of a dword of [`SdmaMqd`] on gfx9, if it is there.
const fn place(dword: usize) -> Option<usize> {
    Some(match dword {
        // RB_CNTL to RB_WPTR_HI, and the driver's choices.
        0..=6 | 126..=127 => dword,
        // RB_RPTR_ADDR to DOORBELL: RB_WPTR_POLL_CNTL is before them.
        7..=17 => dword + 1,
        // DOORBELL_LOG, after STATUS.
        18 => 20,
        // DOORBELL_OFFSET to CSA_ADDR_HI, after WATERMARK.
        19..=21 => dword + 3,
        // IB_SUB_REMAIN to MINOR_PTR_UPDATE: there is no SCHED_CNTL.
        23..=29 => dword + 2,
        // MIDCMD_DATA0 to 8, and MIDCMD_CNTL.
        31..=39 => dword + 1,
        42 => 41,
        // SCHED_CNTL, RB_PREEMPT, MIDCMD_DATA9 and 10, F32_DBG0 and 1 are not there.
        _ => return None,
    })
}

impl SdmaMqd {
    /// The MQD whose dwords on gfx9 are these.
    #[must_use]
    pub fn from_v9(dwords: &[u32; DWORDS]) -> Self {
        Self::from_places(place, dwords)
    }

    /// Puts the fields where gfx9 has them; dwords that no field has stay as they are.
    pub fn write_v9(&self, dwords: &mut [u32; DWORDS]) {
        self.write_places(place, dwords);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for at in 0..DWORDS {
            let there = (0..DWORDS).filter(|&dword| place(dword) == Some(at)).count();
            assert!(there <= 1, "dword {at} of gfx9");
        }
    }

    #[test]
    fn fields_are_where_the_structure_of_gfx9_has_them() {
        let mut dwords = [0; DWORDS];
        dwords[3] = 0x40;
        (dwords[8], dwords[9]) = (1, 0x1000);
        (dwords[28], dwords[29]) = (2, 0x2000);
        (dwords[22], dwords[27], dwords[32], dwords[127]) = (3, 4, 5, 6);
        (dwords[13], dwords[14], dwords[15], dwords[41]) = (0x3000, 3, 8, 9);
        let mqd = SdmaMqd::from_v9(&dwords);
        assert_eq!((mqd.rptr_report(), mqd.wptr_poll()), (0x1_0000_1000, 0x2_0000_2000));
        assert_eq!((mqd.sdmax_rlcx_doorbell_offset, mqd.sdmax_rlcx_dummy_reg), (3, 4));
        assert_eq!((mqd.sdmax_rlcx_midcmd_data[0], mqd.sdma_queue_id, mqd.read_pointer()), (5, 6, 0x40));
        assert_eq!(
            (mqd.buffer_base(), mqd.sdmax_rlcx_ib_size, mqd.sdmax_rlcx_midcmd_cntl),
            (0x3_0000_3000, 8, 9)
        );
        let mut back = [0; DWORDS];
        // RB_WPTR_POLL_CNTL, which no field of gfx11 stands for.
        back[7] = 7;
        mqd.write_v9(&mut back);
        dwords[7] = 7;
        assert_eq!(back, dwords);
    }
}
