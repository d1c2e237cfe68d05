//! MQD of an SDMA queue.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

use super::join;

word! {
    /// `SDMA0_QUEUE0_RB_CNTL` (linux `gc_11_0_0_sh_mask.h`).
    SdmaRbCntl {
        /// `RB_ENABLE`.
        pub rb_enable, set_rb_enable: 0;
        /// `RB_SIZE`: dwords of the ring, as a power of two.
        pub u8, rb_size, set_rb_size: 5, 1;
        /// `F32_WPTR_POLL_ENABLE`: the firmware reads the write pointer in memory.
        pub f32_wptr_poll_enable, set_f32_wptr_poll_enable: 11;
        /// `RPTR_WRITEBACK_ENABLE`: the read pointer is written to memory.
        pub rptr_writeback_enable, set_rptr_writeback_enable: 12;
        /// `RPTR_WRITEBACK_TIMER`.
        pub u8, rptr_writeback_timer, set_rptr_writeback_timer: 20, 16;
        /// `RB_PRIV`.
        pub rb_priv, set_rb_priv: 23;
        /// `RB_VMID`.
        pub u8, rb_vmid, set_rb_vmid: 27, 24;
    }
}

/// MQD of an SDMA queue on gfx11, 128 dwords: `struct v11_sdma_mqd` of linux `v11_structs.h`.
///
/// Dwords 0 to 44 are the registers `SDMA0_QUEUE0_*` in their order. What a driver puts in is in
/// `amdkfd/kfd_mqd_manager_v11.c`, `update_mqd_sdma`. Ring pointers count bytes.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct SdmaMqd {
    /// Dword 0, `RB_CNTL`.
    pub sdmax_rlcx_rb_cntl: SdmaRbCntl,
    /// Dword 1, `RB_BASE`.
    pub sdmax_rlcx_rb_base: u32,
    /// Dword 2, `RB_BASE_HI`.
    pub sdmax_rlcx_rb_base_hi: u32,
    /// Dword 3, `RB_RPTR`.
    pub sdmax_rlcx_rb_rptr: u32,
    /// Dword 4, `RB_RPTR_HI`.
    pub sdmax_rlcx_rb_rptr_hi: u32,
    /// Dword 5, `RB_WPTR`.
    pub sdmax_rlcx_rb_wptr: u32,
    /// Dword 6, `RB_WPTR_HI`.
    pub sdmax_rlcx_rb_wptr_hi: u32,
    /// Dword 7, `RB_RPTR_ADDR_HI`.
    pub sdmax_rlcx_rb_rptr_addr_hi: u32,
    /// Dword 8, `RB_RPTR_ADDR_LO`.
    pub sdmax_rlcx_rb_rptr_addr_lo: u32,
    /// Dword 9, `IB_CNTL`.
    pub sdmax_rlcx_ib_cntl: u32,
    /// Dword 10, `IB_RPTR`.
    pub sdmax_rlcx_ib_rptr: u32,
    /// Dword 11, `IB_OFFSET`.
    pub sdmax_rlcx_ib_offset: u32,
    /// Dword 12, `IB_BASE_LO`.
    pub sdmax_rlcx_ib_base_lo: u32,
    /// Dword 13, `IB_BASE_HI`.
    pub sdmax_rlcx_ib_base_hi: u32,
    /// Dword 14, `IB_SIZE`.
    pub sdmax_rlcx_ib_size: u32,
    /// Dword 15, `SKIP_CNTL`.
    pub sdmax_rlcx_skip_cntl: u32,
    /// Dword 16, `CONTEXT_STATUS`.
    pub sdmax_rlcx_context_status: u32,
    /// Dword 17, `DOORBELL`.
    pub sdmax_rlcx_doorbell: u32,
    /// Dword 18, `DOORBELL_LOG`.
    pub sdmax_rlcx_doorbell_log: u32,
    /// Dword 19, `DOORBELL_OFFSET`.
    pub sdmax_rlcx_doorbell_offset: u32,
    /// Dword 20, `CSA_ADDR_LO`.
    pub sdmax_rlcx_csa_addr_lo: u32,
    /// Dword 21, `CSA_ADDR_HI`.
    pub sdmax_rlcx_csa_addr_hi: u32,
    /// Dword 22, `SCHED_CNTL`.
    pub sdmax_rlcx_sched_cntl: u32,
    /// Dword 23, `IB_SUB_REMAIN`.
    pub sdmax_rlcx_ib_sub_remain: u32,
    /// Dword 24, `PREEMPT`.
    pub sdmax_rlcx_preempt: u32,
    /// Dword 25, `DUMMY_REG`.
    pub sdmax_rlcx_dummy_reg: u32,
    /// Dword 26, `RB_WPTR_POLL_ADDR_HI`.
    pub sdmax_rlcx_rb_wptr_poll_addr_hi: u32,
    /// Dword 27, `RB_WPTR_POLL_ADDR_LO`.
    pub sdmax_rlcx_rb_wptr_poll_addr_lo: u32,
    /// Dword 28, `RB_AQL_CNTL`.
    pub sdmax_rlcx_rb_aql_cntl: u32,
    /// Dword 29, `MINOR_PTR_UPDATE`.
    pub sdmax_rlcx_minor_ptr_update: u32,
    /// Dword 30, `RB_PREEMPT`.
    pub sdmax_rlcx_rb_preempt: u32,
    /// Dwords 31 to 41, `MIDCMD_DATA0` and following: the firmware's state of a packet that it has begun.
    pub sdmax_rlcx_midcmd_data: [u32; 11],
    /// Dword 42, `MIDCMD_CNTL`.
    pub sdmax_rlcx_midcmd_cntl: u32,
    /// Dwords 43 and 44, `F32_DBG0` and `F32_DBG1`.
    pub sdmax_rlcx_f32_dbg: [u32; 2],
    /// Reserved.
    pub reserved_45: [u32; 81],
    /// Dword 126: engine that the driver has chosen.
    pub sdma_engine_id: u32,
    /// Dword 127: queue of the engine that the driver has chosen.
    pub sdma_queue_id: u32,
}

/// `SDMA_RLC_DUMMY_DEFAULT`, the driver's value for [`SdmaMqd::sdmax_rlcx_dummy_reg`].
pub const SDMA_DUMMY_DEFAULT: u32 = 0xf;

const _: () = {
    assert!(size_of::<SdmaMqd>() == 512);
    assert!(offset_of!(SdmaMqd, sdmax_rlcx_doorbell_offset) == 19 * 4);
    assert!(offset_of!(SdmaMqd, sdmax_rlcx_rb_preempt) == 30 * 4);
    assert!(offset_of!(SdmaMqd, sdmax_rlcx_midcmd_cntl) == 42 * 4);
    assert!(offset_of!(SdmaMqd, sdma_engine_id) == 126 * 4);
};

/// Dwords of an MQD.
pub(super) const DWORDS: usize = 128;

/// Index of a dword of [`SdmaMqd`] in another generation's MQD, if it is there.
pub(super) type Place = fn(usize) -> Option<usize>;

impl SdmaMqd {
    /// The MQD whose dwords lie in their generation's places.
    pub(super) fn from_places(place: Place, dwords: &[u32; DWORDS]) -> Self {
        let own: [u32; DWORDS] = core::array::from_fn(|at| place(at).map_or(0, |place| dwords[place]));
        transmute!(own)
    }

    /// Puts the fields into a generation's places; dwords that no field has stay as they are.
    pub(super) fn write_places(&self, place: Place, dwords: &mut [u32; DWORDS]) {
        let own: [u32; DWORDS] = transmute!(*self);
        for (at, value) in own.into_iter().enumerate() {
            if let Some(place) = place(at) {
                dwords[place] = value;
            }
        }
    }

    /// Ring address in bytes.
    #[must_use]
    pub const fn ring_base(&self) -> u64 {
        join(self.sdmax_rlcx_rb_base, self.sdmax_rlcx_rb_base_hi) << 8
    }

    /// Sets the ring address, which must be a multiple of 256.
    pub const fn set_ring_base(&mut self, address: u64) {
        self.sdmax_rlcx_rb_base = (address >> 8) as u32;
        self.sdmax_rlcx_rb_base_hi = (address >> 40) as u32;
    }

    /// Read pointer in bytes.
    #[must_use]
    pub const fn read_pointer(&self) -> u64 {
        join(self.sdmax_rlcx_rb_rptr, self.sdmax_rlcx_rb_rptr_hi)
    }

    /// Sets the read pointer.
    pub const fn set_read_pointer(&mut self, bytes: u64) {
        self.sdmax_rlcx_rb_rptr = bytes as u32;
        self.sdmax_rlcx_rb_rptr_hi = (bytes >> 32) as u32;
    }

    /// Address for reports of the read pointer.
    #[must_use]
    pub const fn rptr_report(&self) -> u64 {
        join(self.sdmax_rlcx_rb_rptr_addr_lo, self.sdmax_rlcx_rb_rptr_addr_hi)
    }

    /// Sets where the read pointer is reported.
    pub const fn set_rptr_report(&mut self, address: u64) {
        self.sdmax_rlcx_rb_rptr_addr_lo = address as u32;
        self.sdmax_rlcx_rb_rptr_addr_hi = (address >> 32) as u32;
    }

    /// Address of the write pointer in memory.
    #[must_use]
    pub const fn wptr_poll(&self) -> u64 {
        join(self.sdmax_rlcx_rb_wptr_poll_addr_lo, self.sdmax_rlcx_rb_wptr_poll_addr_hi)
    }

    /// Sets where the write pointer is in memory.
    pub const fn set_wptr_poll(&mut self, address: u64) {
        self.sdmax_rlcx_rb_wptr_poll_addr_lo = address as u32;
        self.sdmax_rlcx_rb_wptr_poll_addr_hi = (address >> 32) as u32;
    }

    /// Next address of the indirect buffer the queue is in.
    #[must_use]
    pub const fn buffer_base(&self) -> u64 {
        join(self.sdmax_rlcx_ib_base_lo, self.sdmax_rlcx_ib_base_hi)
    }

    /// Sets the next address of the indirect buffer.
    pub const fn set_buffer_base(&mut self, address: u64) {
        self.sdmax_rlcx_ib_base_lo = address as u32;
        self.sdmax_rlcx_ib_base_hi = (address >> 32) as u32;
    }
}
