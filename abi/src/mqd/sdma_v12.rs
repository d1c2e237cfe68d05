//! MQD of an SDMA queue on gfx12, by the places of its dwords in the MQD of gfx11.
//!
//! `struct v12_sdma_mqd` of linux `v12_structs.h` has the registers `SDMA0_QUEUE0_*` in their order on SDMA
//! 7. They have equal meanings, so there is one type: [`SdmaMqd`].

use super::SdmaMqd;
use super::sdma::DWORDS;

/// Index of a dword of [`SdmaMqd`] on gfx12, if it is there.
const fn place(dword: usize) -> Option<usize> {
    Some(match dword {
        // RB_CNTL to RB_WPTR_HI, IB_CNTL to IB_SIZE, and the driver's choices.
        0..=6 | 9..=14 | 126..=127 => dword,
        // RB_RPTR_ADDR and RB_WPTR_POLL_ADDR have their halves the other way round.
        7 => 8,
        8 => 7,
        26 => 25,
        27 => 24,
        // DOORBELL to DUMMY_REG, RB_AQL_CNTL, MINOR_PTR_UPDATE.
        17..=25 | 28..=29 => dword - 2,
        // MIDCMD_DATA and MIDCMD_CNTL.
        31..=41 => dword + 1,
        42 => 31,
        // F32_DBG0 and F32_DBG1 are MCU_DBG0 and MCU_DBG1.
        43..=44 => dword - 15,
        // SKIP_CNTL, CONTEXT_STATUS and RB_PREEMPT are gone.
        _ => return None,
    })
}

impl SdmaMqd {
    /// The MQD whose dwords on gfx12 are these.
    #[must_use]
    pub fn from_v12(dwords: &[u32; DWORDS]) -> Self {
        Self::from_places(place, dwords)
    }

    /// Puts the fields where gfx12 has them; dwords that no field has stay as they are.
    pub fn write_v12(&self, dwords: &mut [u32; DWORDS]) {
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
            assert!(there <= 1, "dword {at} of gfx12");
        }
    }

    #[test]
    fn fields_are_where_the_structure_of_gfx12_has_them() {
        let mut dwords = [0; DWORDS];
        dwords[3] = 0x40;
        (dwords[7], dwords[8]) = (0x1000, 1);
        (dwords[24], dwords[25]) = (0x2000, 2);
        (dwords[17], dwords[23], dwords[32], dwords[127]) = (3, 4, 5, 6);
        let mqd = SdmaMqd::from_v12(&dwords);
        assert_eq!((mqd.rptr_report(), mqd.wptr_poll()), (0x1_0000_1000, 0x2_0000_2000));
        assert_eq!((mqd.sdmax_rlcx_doorbell_offset, mqd.sdmax_rlcx_dummy_reg), (3, 4));
        assert_eq!((mqd.sdmax_rlcx_midcmd_data[0], mqd.sdma_queue_id, mqd.read_pointer()), (5, 6, 0x40));
        let mut back = [0; DWORDS];
        // MQD_CONTROL, which no field of gfx11 stands for.
        back[46] = 7;
        mqd.write_v12(&mut back);
        dwords[46] = 7;
        assert_eq!(back, dwords);
    }
}
