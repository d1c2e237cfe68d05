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

word! {
    /// First dword of a write of a register, `SDMA_PKT_SRBM_WRITE_HEADER`.
    SrbmWriteHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind; there is only one.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Bytes that are written, one bit for each.
        pub u8, byte_en, set_byte_en: 31, 28;
    }
}

/// Write of a register, `SDMA_PKT_SRBM_WRITE`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct SrbmWrite {
    /// Operation and bytes.
    pub header: SrbmWriteHeader,
    /// Register as an absolute dword index, in bits 17:0.
    pub register: u32,
    /// Value.
    pub data: u32,
}

word! {
    /// First dword of an invalidation, `SDMA_PKT_VM_INVALIDATION_HEADER`: a kind of [`super::Op::POLL_REGMEM`].
    VmInvalidationHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind, [`VM_INVALIDATION`].
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Engine of the GC hub; 0x1f for none.
        pub u8, gfx_eng_id, set_gfx_eng_id: 20, 16;
        /// Engine of the MM hub; 0x1f for none.
        pub u8, mm_eng_id, set_mm_eng_id: 28, 24;
    }
}

/// Kind of [`super::Op::POLL_REGMEM`] that invalidates translations, `SDMA_SUBOP_VM_INVALIDATION`.
pub const VM_INVALIDATION: u8 = 4;

/// Request to an engine that invalidates translations, `SDMA_PKT_VM_INVALIDATION`: the packet is over when the engine has
/// acknowledged it.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct VmInvalidation {
    /// Operation and engines.
    pub header: VmInvalidationHeader,
    /// Value for the engine's request register: VMIDs in bits 15:0.
    pub request: u32,
    /// Address range, low half.
    pub range_lo: u32,
    /// Acknowledgement to wait for in bits 15:0, address range in 20:16.
    pub acknowledge: u32,
}

/// Write of page-table entries that count up, `SDMA_PKT_WRITE_INCR` with the operation [`super::Op::PTEPDE`]
/// (`sdma_v6_0_vm_set_pte_pde`).
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct PtePde {
    /// Operation.
    pub header: Header,
    /// Address of the first entry, low half.
    pub addr_lo: u32,
    /// Address of the first entry, high half.
    pub addr_hi: u32,
    /// Bits that every entry has, low half.
    pub mask_lo: u32,
    /// Bits that every entry has, high half.
    pub mask_hi: u32,
    /// First value, low half.
    pub init_lo: u32,
    /// First value, high half.
    pub init_hi: u32,
    /// Difference of two values, low half.
    pub incr_lo: u32,
    /// Difference of two values, high half.
    pub incr_hi: u32,
    /// Entries without the last one, in bits 18:0.
    pub count: u32,
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
    assert!(size_of::<SrbmWrite>() == 3 * 4);
    assert!(size_of::<VmInvalidation>() == 4 * 4);
    assert!(size_of::<PtePde>() == 10 * 4);
    assert!(size_of::<Atomic>() == 8 * 4);
    assert!(size_of::<Timestamp>() == 3 * 4);
    assert!(size_of::<GcrReq>() == 5 * 4);
};
