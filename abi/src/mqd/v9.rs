//! Compute MQD of gfx9 (`struct v9_mqd` of linux `v9_structs.h`), by its differences from [`ComputeMqd`].
//!
//! Both have 512 dwords, and equal contents in dwords 0 to 14 (up to `COMPUTE_PGM_HI`), 19 to 31, 33, 34 and
//! from 65 on (user data, the bank of HQD registers, `queue_doorbell_id`). Dwords 43 to 52 and 448 to 511 are
//! reserved on gfx9.
//!
//! A queue of a partition with several XCCs has one MQD for each XCC, each [`CP_MQD_STRIDE_SIZE`] bytes after
//! the one before; queues are mapped by the address of the first.

use zerocopy::{transmute, transmute_ref};

use super::ComputeMqd;

/// Dwords of an MQD.
const DWORDS: usize = 512;

/// A dword of the MQD.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field(pub usize);

/// `compute_tba_lo`: trap handler, bits 39:8 of its address. The high half follows.
pub const COMPUTE_TBA_LO: Field = Field(15);
/// `compute_tma_lo`: memory of the trap handler. The high half follows.
pub const COMPUTE_TMA_LO: Field = Field(17);
/// `compute_relaunch`.
pub const COMPUTE_RELAUNCH: Field = Field(35);
/// `compute_wave_restore_addr_lo`. The high half follows.
pub const COMPUTE_WAVE_RESTORE_ADDR_LO: Field = Field(36);
/// `compute_wave_restore_control`.
pub const COMPUTE_WAVE_RESTORE_CONTROL: Field = Field(38);
/// `compute_current_logic_xcc_id` of GC 9.4.3: which share of the workgroups is this XCC's.
pub const COMPUTE_CURRENT_LOGIC_XCC_ID: Field = Field(39);
/// `compute_restart_cg_tg_id` of GC 9.4.3.
pub const COMPUTE_RESTART_CG_TG_ID: Field = Field(40);
/// `compute_tg_chunk_size` of GC 9.4.3: workgroups in a row that one XCC takes; 0 where one XCC takes all.
pub const COMPUTE_TG_CHUNK_SIZE: Field = Field(41);
/// `compute_restore_tg_chunk_size` of GC 9.4.3.
pub const COMPUTE_RESTORE_TG_CHUNK_SIZE: Field = Field(42);
/// `pm4_target_xcc_in_xcp` of GC 9.4.3: the XCC of the partition that executes the ring of a PM4 queue.
pub const PM4_TARGET_XCC_IN_XCP: Field = Field(225);
/// `cp_mqd_stride_size` of GC 9.4.3: bytes from the MQD of one XCC to that of the next.
pub const CP_MQD_STRIDE_SIZE: Field = Field(226);

impl ComputeMqd {
    /// A dword that gfx9 has.
    #[must_use]
    pub fn v9(&self, field: Field) -> u32 {
        let dwords: &[u32; DWORDS] = transmute_ref!(self);
        dwords.get(field.0).copied().unwrap_or(0)
    }

    /// Sets a dword that gfx9 has.
    pub fn set_v9(&mut self, field: Field, value: u32) {
        let mut dwords: [u32; DWORDS] = transmute!(*self);
        if let Some(dword) = dwords.get_mut(field.0) {
            *dword = value;
        }
        *self = transmute!(dwords);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_dwords_of_the_structure() {
        let mut mqd = ComputeMqd::new();
        mqd.set_v9(COMPUTE_TG_CHUNK_SIZE, 1);
        mqd.set_v9(CP_MQD_STRIDE_SIZE, 0x4000);
        // What gfx11 has there.
        assert_eq!((mqd.compute_pgm_rsrc3, mqd.reserved_225), (1, [0, 0x4000, 0]));
        assert_eq!((mqd.v9(COMPUTE_TG_CHUNK_SIZE), mqd.v9(CP_MQD_STRIDE_SIZE)), (1, 0x4000));
        assert_eq!((mqd.header, mqd.v9(Field(512))), (super::super::HEADER, 0));
    }
}
