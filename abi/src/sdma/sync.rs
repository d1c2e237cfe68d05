//! Packets that order, wait, tell and branch.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Header;

word! {
    /// First dword of a jump, `SDMA_PKT_INDIRECT_HEADER`.
    IndirectHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind; there is only one.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// VM context of the buffer, for rings of the kernel.
        pub u8, vmid, set_vmid: 19, 16;
        /// Runs with the rights of the kernel.
        pub privileged, set_privileged: 31;
    }
}

/// Jump into a buffer, `SDMA_PKT_INDIRECT`: the engine comes back to the packet after this one.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Indirect {
    /// Operation and VM context.
    pub header: IndirectHeader,
    /// Address of the buffer, low half: a multiple of 32.
    pub base_lo: u32,
    /// Address of the buffer, high half.
    pub base_hi: u32,
    /// Dwords of the buffer, in bits 19:0.
    pub size: u32,
    /// Context save area of the kernel's rings, low half.
    pub csa_lo: u32,
    /// Context save area of the kernel's rings, high half.
    pub csa_hi: u32,
}

/// Write of a dword after all earlier work, `SDMA_PKT_FENCE`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Fence {
    /// Operation; MTYPE 18:16 and cache policies.
    pub header: Header,
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Value that is written.
    pub data: u32,
}

/// Interrupt, `SDMA_PKT_TRAP`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Trap {
    /// Operation.
    pub header: Header,
    /// Context word 0 of the interrupt, in bits 27:0.
    pub int_context: u32,
}

word! {
    /// First dword of a wait, `SDMA_PKT_POLL_REGMEM_HEADER`.
    PollRegmemHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind of wait.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Flushes the HDP by writing one register and waiting for another.
        pub hdp_flush, set_hdp_flush: 26;
        /// 0 always, 1 <, 2 <=, 3 ==, 4 !=, 5 >=, 6 >.
        pub u8, func, set_func: 30, 28;
        /// Of memory instead of a register.
        pub mem_poll, set_mem_poll: 31;
    }
}

word! {
    /// Number of looks of a wait, and the time between them.
    PollRegmemRetry {
        /// Cycles between looks.
        pub u16, interval, set_interval: 15, 0;
        /// Looks, [`POLL_RETRY_FOREVER`] for no limit.
        pub u16, retry_count, set_retry_count: 27, 16;
    }
}

/// [`PollRegmemRetry::retry_count`] of a wait without a limit.
pub const POLL_RETRY_FOREVER: u16 = 0xfff;

/// Wait for memory or a register, `SDMA_PKT_POLL_REGMEM`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct PollRegmem {
    /// Operation and comparison.
    pub header: PollRegmemHeader,
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Compared with.
    pub value: u32,
    /// Mask of the value that is read.
    pub mask: u32,
    /// Looks.
    pub retry: PollRegmemRetry,
}

/// Skip unless memory has a value, `SDMA_PKT_COND_EXE`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CondExe {
    /// Operation.
    pub header: Header,
    /// Address of the condition, low half.
    pub addr_lo: u32,
    /// Address of the condition, high half.
    pub addr_hi: u32,
    /// Value that lets the next packets be executed.
    pub reference: u32,
    /// Dwords that follow and belong to the condition, in bits 13:0.
    pub exec_count: u32,
}

word! {
    /// First dword of an atomic operation, `SDMA_PKT_ATOMIC_HEADER`.
    AtomicHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Until the comparison holds.
        pub is_loop, set_is_loop: 16;
        /// Works on protected memory.
        pub tmz, set_tmz: 18;
        /// Operation, `TC_OP_ATOMIC_*` of linux `soc21_enum.h`.
        pub u8, atomic_op, set_atomic_op: 31, 25;
    }
}

/// Atomic operation on memory, `SDMA_PKT_ATOMIC`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Atomic {
    /// Operation.
    pub header: AtomicHeader,
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Operand, low half.
    pub src_lo: u32,
    /// Operand, high half.
    pub src_hi: u32,
    /// Compared with, low half.
    pub cmp_lo: u32,
    /// Compared with, high half.
    pub cmp_hi: u32,
    /// Cycles between looks, in bits 12:0.
    pub loop_interval: u32,
}

/// Time set or stored, `SDMA_PKT_TIMESTAMP_SET`, `_GET` and `_GET_GLOBAL`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Timestamp {
    /// Operation, by [`super::timestamp_sub_op`].
    pub header: Header,
    /// Time, or address without its three lowest bits; low half.
    pub lo: u32,
    /// Time or address, high half.
    pub hi: u32,
}

/// Request to the caches, `SDMA_PKT_GCR_REQ`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct GcrReq {
    /// Operation; kind 1 is for user queues (ROCr, `sdma_registers.h`, `SDMA_SUBOP_USER_GCR`).
    pub header: Header,
    /// Base address, bits 31:7.
    pub base_lo: u32,
    /// Base address bits 47:32 in 15:0, `GCR_CNTL` bits 15:0 in 31:16.
    pub base_hi: u32,
    /// `GCR_CNTL` bits 18:16 in 2:0, limit address in 31:7.
    pub limit_lo: u32,
    /// Limit address bits 47:32 in 15:0, VM context in 27:24.
    pub limit_hi: u32,
}

const _: () = {
    assert!(size_of::<Indirect>() == 6 * 4);
    assert!(size_of::<Fence>() == 4 * 4);
    assert!(size_of::<Trap>() == 2 * 4);
    assert!(size_of::<PollRegmem>() == 6 * 4);
    assert!(size_of::<CondExe>() == 5 * 4);
    assert!(size_of::<Atomic>() == 8 * 4);
    assert!(size_of::<Timestamp>() == 3 * 4);
    assert!(size_of::<GcrReq>() == 5 * 4);
};
