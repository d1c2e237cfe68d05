//! Packets about memory, registers and caches, which any ring takes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

word! {
    /// First word of WRITE_DATA.
    WriteDataControl {
        /// `WRITE_DATA_DST_*`.
        pub u8, dst_sel, set_dst_sel: 11, 8;
        /// Every dword goes to the same address.
        pub one_addr, set_one_addr: 16;
        /// Waits until the write has landed.
        pub wr_confirm, set_wr_confirm: 20;
        /// Engine.
        pub u8, engine_sel, set_engine_sel: 31, 30;
    }
}

/// WRITE_DATA destination: a register.
pub const WRITE_DATA_DST_REGISTER: u8 = 0;
/// WRITE_DATA destination: memory, through the GRBM.
pub const WRITE_DATA_DST_MEMORY_SYNC: u8 = 1;
/// WRITE_DATA destination: memory through GL2.
pub const WRITE_DATA_DST_GL2: u8 = 2;
/// WRITE_DATA destination: memory, directly.
pub const WRITE_DATA_DST_MEMORY: u8 = 5;

/// Body of WRITE_DATA before its data dwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WriteData {
    /// First word.
    pub control: WriteDataControl,
    /// Register dword offset, or memory address, low half.
    pub addr_lo: u32,
    /// Memory address, high half.
    pub addr_hi: u32,
}

word! {
    /// First word of WAIT_REG_MEM.
    WaitRegMemControl {
        /// 0 always, 1 <, 2 <=, 3 ==, 4 !=, 5 >=, 6 >.
        pub u8, function, set_function: 2, 0;
        /// 0 register, 1 memory.
        pub u8, mem_space, set_mem_space: 5, 4;
        /// 0 wait, 1 write then wait for another register, 3 wait for memory, where the queue may be preempted.
        pub u8, operation, set_operation: 7, 6;
        /// Engine.
        pub u8, engine, set_engine: 9, 8;
    }
}

/// Body of WAIT_REG_MEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitRegMem {
    /// First word.
    pub control: WaitRegMemControl,
    /// Memory address, low half, or register.
    pub addr_lo: u32,
    /// Memory address, high half, or second register.
    pub addr_hi: u32,
    /// Compared with.
    pub reference: u32,
    /// Applied to the value first.
    pub mask: u32,
    /// Cycles between looks.
    pub poll_interval: u32,
}

/// Body of WAIT_REG_MEM64 (PAL `gfx9_plus_merged_f32_mec_pm4_packets.h`, `PM4_MEC_WAIT_REG_MEM64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitRegMem64 {
    /// First word.
    pub control: WaitRegMemControl,
    /// Memory address, low half, a multiple of 8.
    pub addr_lo: u32,
    /// Memory address, high half.
    pub addr_hi: u32,
    /// Compared with, low half.
    pub reference_lo: u32,
    /// Compared with, high half.
    pub reference_hi: u32,
    /// Applied to the value first, low half.
    pub mask_lo: u32,
    /// Applied to the value first, high half.
    pub mask_hi: u32,
    /// Cycles between looks.
    pub poll_interval: u32,
}

word! {
    /// Third word of INDIRECT_BUFFER.
    IndirectBufferControl {
        /// Dwords in the buffer.
        pub size, set_size: 19, 0;
        /// Replaces the current buffer instead of returning to it.
        pub chain, set_chain: 20;
        /// The packet takes effect.
        pub valid, set_valid: 23;
        /// VM context.
        pub u8, vmid, set_vmid: 27, 24;
    }
}

/// Body of INDIRECT_BUFFER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct IndirectBuffer {
    /// Buffer address, low half; bits 1:0 are the swap mode.
    pub base_lo: u32,
    /// Buffer address, high half.
    pub base_hi: u32,
    /// Size and flags.
    pub control: IndirectBufferControl,
}

word! {
    /// First word of COPY_DATA, `COPY_DATA` of linux `nvd.h` and `PACKET3_COPY_DATA` of mesa `sid.h`.
    CopyDataControl {
        /// `COPY_DATA_SRC_*`.
        pub u8, src_sel, set_src_sel: 3, 0;
        /// `COPY_DATA_DST_*`.
        pub u8, dst_sel, set_dst_sel: 11, 8;
        /// 64 bits instead of 32.
        pub count_sel, set_count_sel: 16;
        /// Waits until the write has landed.
        pub wr_confirm, set_wr_confirm: 20;
    }
}

/// COPY_DATA source: memory.
pub const COPY_DATA_SRC_MEMORY: u8 = 1;
/// COPY_DATA source: memory through TC L2.
pub const COPY_DATA_SRC_TC_L2: u8 = 2;
/// COPY_DATA source: the dwords in the packet.
pub const COPY_DATA_SRC_IMMEDIATE: u8 = 5;
/// COPY_DATA source: the GPU clock.
pub const COPY_DATA_SRC_GPU_CLOCK: u8 = 9;
/// COPY_DATA destination: memory through TC L2.
pub const COPY_DATA_DST_TC_L2: u8 = 2;
/// COPY_DATA destination: memory.
pub const COPY_DATA_DST_MEMORY: u8 = 5;

/// Body of COPY_DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CopyData {
    /// First word.
    pub control: CopyDataControl,
    /// Source address or immediate, low half.
    pub src_lo: u32,
    /// Source address or immediate, high half.
    pub src_hi: u32,
    /// Destination address, low half.
    pub dst_lo: u32,
    /// Destination address, high half.
    pub dst_hi: u32,
}

word! {
    /// First word of RELEASE_MEM: event and cache actions.
    ReleaseMemControl {
        /// Event.
        pub u8, event_type, set_event_type: 5, 0;
        /// 5 end of pipe, 6 shader done.
        pub u8, event_index, set_event_index: 11, 8;
        /// `GCR_*` bits.
        pub gcr_cntl, set_gcr_cntl: 24, 12;
    }
}

word! {
    /// Second word of RELEASE_MEM: the data to write, and the interrupt.
    ReleaseMemSelect {
        /// 0 memory controller, 1 TC L2.
        pub u8, dst_sel, set_dst_sel: 17, 16;
        /// 0 none, 1 interrupt without write, 2 interrupt after write confirm, 3 none, but the write is confirmed
        /// (`int_sel` of RELEASE_MEM in linux `kfd_pm4_headers_ai.h`).
        pub u8, int_sel, set_int_sel: 26, 24;
        /// 0 nothing, 1 32 bits, 2 64 bits, 3 the GPU clock.
        pub u8, data_sel, set_data_sel: 31, 29;
    }
}

/// Body of RELEASE_MEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ReleaseMem {
    /// Event and caches.
    pub control: ReleaseMemControl,
    /// Write and interrupt.
    pub select: ReleaseMemSelect,
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Data, low half.
    pub data_lo: u32,
    /// Data, high half.
    pub data_hi: u32,
    /// Comes back in the interrupt.
    pub int_ctxid: u32,
}

/// Body of ACQUIRE_MEM on gfx10 and gfx11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AcquireMem {
    /// `COHER_CNTL`.
    pub coher_cntl: u32,
    /// Size in units of 256 bytes, low part.
    pub coher_size: u32,
    /// Size, high part.
    pub coher_size_hi: u32,
    /// Base in units of 256 bytes, low part.
    pub coher_base_lo: u32,
    /// Base, high part.
    pub coher_base_hi: u32,
    /// Cycles between looks.
    pub poll_interval: u32,
    /// `GCR_CNTL`: cache actions, `PACKET3_ACQUIRE_MEM_GCR_CNTL_*`.
    pub gcr_cntl: u32,
}

word! {
    /// Only word of EVENT_WRITE without an address, `EVENT_TYPE` and `EVENT_INDEX` of linux `nvd.h`.
    EventWrite {
        /// Event, `VGT_EVENT_TYPE`.
        pub u8, event_type, set_event_type: 5, 0;
        /// Kind of event.
        pub u8, event_index, set_event_index: 11, 8;
    }
}

/// Event of EVENT_WRITE: later packets wait until the compute shaders of earlier ones have ended.
pub const CS_PARTIAL_FLUSH: u8 = 7;
/// Event of EVENT_WRITE with an address: writes counts of invocations (`SAMPLE_PIPELINESTAT` of mesa `sid.h`).
pub const SAMPLE_PIPELINESTAT: u8 = 30;

/// Body of EVENT_WRITE of an event that writes to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EventWriteMemory {
    /// The event.
    pub event: EventWrite,
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
}

/// Body of COND_EXEC on gfx9 and later, `PACKET3_COND_EXEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CondExec {
    /// Address of the condition, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Cache policy.
    pub control: u32,
    /// Dwords in bits 13:0 that are skipped when the condition is 0.
    pub exec_count: u32,
}

word! {
    /// First word of ATOMIC_MEM, linux `nvd.h` and `kfd_pm4_headers_ai.h`.
    AtomicMemControl {
        /// Operation, `TC_OP_ATOMIC_*`.
        pub u8, atomic, set_atomic: 6, 0;
        /// 0 once, 1 until the comparison holds.
        pub u8, command, set_command: 11, 8;
    }
}

/// ATOMIC_MEM command: until the comparison holds.
pub const ATOMIC_MEM_LOOP: u8 = 1;

/// Body of ATOMIC_MEM, `PACKET3_ATOMIC_MEM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AtomicMem {
    /// First word.
    pub control: AtomicMemControl,
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
    /// Cycles between looks.
    pub loop_interval: u32,
}

word! {
    /// First word of DMA_DATA, `PACKET3_DMA_DATA_*`.
    DmaDataControl {
        /// 0 and 3 memory, 1 GDS, 2 nowhere.
        pub u8, dst_sel, set_dst_sel: 21, 20;
        /// 0 and 3 memory, 1 GDS, 2 the data in the packet.
        pub u8, src_sel, set_src_sel: 30, 29;
        /// Later packets wait for it.
        pub cp_sync, set_cp_sync: 31;
    }
}

word! {
    /// Last word of DMA_DATA, `PACKET3_DMA_DATA_CMD_*`.
    DmaDataCommand {
        /// Bytes.
        pub byte_count, set_byte_count: 25, 0;
        /// The source is a register.
        pub sas, set_sas: 26;
        /// The destination is a register.
        pub das, set_das: 27;
        /// The source address does not move.
        pub saic, set_saic: 28;
        /// The destination address does not move.
        pub daic, set_daic: 29;
        /// The copy waits for earlier ones.
        pub raw_wait, set_raw_wait: 30;
    }
}

/// Body of DMA_DATA, `PACKET3_DMA_DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DmaData {
    /// First word.
    pub control: DmaDataControl,
    /// Source address, low half, or the data.
    pub src_lo: u32,
    /// Source address, high half.
    pub src_hi: u32,
    /// Destination address, low half.
    pub dst_lo: u32,
    /// Destination address, high half.
    pub dst_hi: u32,
    /// Size and more.
    pub command: DmaDataCommand,
}

const _: () = {
    assert!(size_of::<CondExec>() == 4 * 4);
    assert!(size_of::<AtomicMem>() == 8 * 4);
    assert!(size_of::<DmaData>() == 6 * 4);
    assert!(size_of::<EventWriteMemory>() == 3 * 4);
    assert!(size_of::<WriteData>() == 3 * 4);
    assert!(size_of::<WaitRegMem>() == 6 * 4);
    assert!(size_of::<WaitRegMem64>() == 8 * 4);
    assert!(size_of::<IndirectBuffer>() == 3 * 4);
    assert!(size_of::<CopyData>() == 5 * 4);
    assert!(size_of::<ReleaseMem>() == 7 * 4);
    assert!(size_of::<AcquireMem>() == 7 * 4);
};
