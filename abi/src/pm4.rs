//! PM4 type-3 packets: what the KIQ and the vendor packets of AQL queues carry.
//!
//! A packet is a header dword and `count + 1` body dwords; the structures here are bodies. Sources: linux `nvd.h`
//! (`PACKET3_*`), `gfx_v11_0.c` (`gfx11_kiq_*`), `kfd_pm4_opcodes.h`.

use bitfield::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitfield! {
    /// Header of a PM4 packet, `PACKET3(op, n)`.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct Pm4Header(u32);
    impl Debug;
    /// Predicated.
    pub predicate, set_predicate: 0;
    /// Compute shader type.
    pub shader_type, set_shader_type: 1;
    u8, opcode_bits, set_opcode_bits: 15, 8;
    /// Body dwords minus one.
    pub u16, count, set_count: 29, 16;
    /// 3 for the packets of this module, 2 for a single filler dword.
    pub u8, packet_type, set_packet_type: 31, 30;
}

impl Pm4Header {
    /// A type-3 header with `body` body dwords, 1 to 16384.
    #[must_use]
    pub const fn type3(opcode: Opcode, body: u32) -> Self {
        Self(3 << 30 | (body.wrapping_sub(1) & 0x3fff) << 16 | (opcode.0 as u32) << 8)
    }

    /// The header with these raw bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Operation of a type-3 packet.
    #[must_use]
    pub const fn opcode(self) -> Opcode {
        Opcode((self.0 >> 8) as u8)
    }

    /// Body dwords that follow. A NOP whose count has all bits set has none, a type-2 packet neither.
    #[must_use]
    pub const fn body_dwords(self) -> u32 {
        let count = self.0 >> 16 & 0x3fff;
        let lone_nop = self.opcode().0 == Opcode::NOP.0 && count == 0x3fff;
        if self.0 >> 30 == 2 || lone_nop { 0 } else { count + 1 }
    }
}

/// One-dword filler, `CP_PACKET2`.
pub const PACKET2: u32 = 0x8000_0000;

/// Operation of a type-3 packet; any value may come from a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Name in linux `nvd.h` without `PACKET3_`, if it is one of those known here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// Does nothing; the body is skipped.
    NOP = 0x10;
    /// Base addresses of indirect commands.
    SET_BASE = 0x11;
    /// Resets context registers.
    CLEAR_STATE = 0x12;
    /// Starts a dispatch of a PM4 queue.
    DISPATCH_DIRECT = 0x15;
    /// Starts a dispatch whose size is in memory.
    DISPATCH_INDIRECT = 0x16;
    /// Atomic operation on memory.
    ATOMIC_MEM = 0x1e;
    /// Read-modify-write of a register.
    REG_RMW = 0x21;
    /// Skips dwords on a condition in memory.
    COND_EXEC = 0x22;
    /// Predicates the following packets.
    PRED_EXEC = 0x23;
    /// Context control.
    CONTEXT_CONTROL = 0x28;
    /// Writes data to memory or a register.
    WRITE_DATA = 0x37;
    /// Memory semaphore.
    MEM_SEMAPHORE = 0x39;
    /// Waits for memory or a register.
    WAIT_REG_MEM = 0x3c;
    /// Continues in another buffer.
    INDIRECT_BUFFER = 0x3f;
    /// Copies between memory, registers and counters.
    COPY_DATA = 0x40;
    /// The prefetch parser waits for the engine.
    PFP_SYNC_ME = 0x42;
    /// Raises a pipeline event.
    EVENT_WRITE = 0x46;
    /// End-of-pipe event: flush, write, interrupt.
    RELEASE_MEM = 0x49;
    /// Preamble marker.
    PREAMBLE_CNTL = 0x4a;
    /// CP DMA.
    DMA_DATA = 0x50;
    /// Invalidates caches.
    ACQUIRE_MEM = 0x58;
    /// Writes context registers.
    SET_CONTEXT_REG = 0x69;
    /// Writes shader registers.
    SET_SH_REG = 0x76;
    /// Writes user configuration registers.
    SET_UCONFIG_REG = 0x79;
    /// Switches double buffers.
    SWITCH_BUFFER = 0x8b;
    /// Frame marker.
    FRAME_CONTROL = 0x90;
    /// Waits for 64 bits of memory.
    WAIT_REG_MEM64 = 0x93;
    /// Invalidates TLBs of a PASID.
    INVALIDATE_TLBS = 0x98;
    /// What the queue manager may use.
    SET_RESOURCES = 0xa0;
    /// Process of the following queues (gfx9).
    MAP_PROCESS = 0xa1;
    /// Loads an MQD into a hardware queue.
    MAP_QUEUES = 0xa2;
    /// Takes queues off their hardware slots.
    UNMAP_QUEUES = 0xa3;
    /// Writes a fence after earlier packets.
    QUERY_STATUS = 0xa4;
    /// A list of processes and queues (gfx9).
    RUN_LIST = 0xa5;
}

macro_rules! words {
    ($($name:ident),*) => { $(
        impl $name {
            /// The word with these raw bits.
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The raw bits.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }
        }
    )* };
}
words!(
    MapQueuesControl,
    UnmapQueuesControl,
    QueryStatusControl,
    SetResourcesControl,
    WriteDataControl,
    WaitRegMemControl
);
words!(IndirectBufferControl, CopyDataControl, ReleaseMemControl, ReleaseMemSelect, InvalidateTlbsControl);

bitfield! {
    /// First word of SET_RESOURCES.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct SetResourcesControl(u32);
    impl Debug;
    /// VMIDs the queue manager owns.
    pub u16, vmid_mask, set_vmid_mask: 15, 0;
    /// Unmap latency.
    pub u8, unmap_latency, set_unmap_latency: 23, 16;
    /// 0 KIQ, 1 HIQ, 2 no HIQ.
    pub u8, queue_type, set_queue_type: 31, 29;
}

/// Body of SET_RESOURCES, `PACKET3_SET_RESOURCES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetResources {
    /// First word.
    pub control: SetResourcesControl,
    /// Queues the manager owns, low half.
    pub queue_mask_lo: u32,
    /// Queues the manager owns, high half.
    pub queue_mask_hi: u32,
    /// Global wave sync resources, low half.
    pub gws_mask_lo: u32,
    /// Global wave sync resources, high half.
    pub gws_mask_hi: u32,
    /// Ordered append counters.
    pub oac_mask: u32,
    /// Global data share heap.
    pub gds_heap: u32,
}

bitfield! {
    /// First word of MAP_QUEUES.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct MapQueuesControl(u32);
    impl Debug;
    /// 0: the slot given here; 1: any free slot.
    pub u8, queue_sel, set_queue_sel: 5, 4;
    /// VM context.
    pub u8, vmid, set_vmid: 11, 8;
    /// Queue of the pipe.
    pub u8, queue, set_queue: 15, 13;
    /// Pipe of the micro engine.
    pub u8, pipe, set_pipe: 17, 16;
    /// 0 graphics, 1 compute, 2 MES.
    pub u8, me, set_me: 20, 18;
    /// Queue type.
    pub u8, queue_type, set_queue_type: 23, 21;
    /// Allocation format.
    pub u8, alloc_format, set_alloc_format: 25, 24;
    /// 0 compute, 2 and 3 SDMA, 4 graphics, 5 MES.
    pub u8, engine_sel, set_engine_sel: 28, 26;
    /// Queues in this packet.
    pub u8, num_queues, set_num_queues: 31, 29;
}

/// Body of MAP_QUEUES for one queue, `PACKET3_MAP_QUEUES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapQueues {
    /// First word.
    pub control: MapQueuesControl,
    /// Doorbell offset in dwords in bits 27:2, `CHECK_DISABLE` in bit 1.
    pub doorbell: u32,
    /// MQD address, low half.
    pub mqd_addr_lo: u32,
    /// MQD address, high half.
    pub mqd_addr_hi: u32,
    /// Write pointer address, low half.
    pub wptr_addr_lo: u32,
    /// Write pointer address, high half.
    pub wptr_addr_hi: u32,
}

bitfield! {
    /// First word of UNMAP_QUEUES.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct UnmapQueuesControl(u32);
    impl Debug;
    /// 0 preempt, 1 reset, 2 disable the process's queues, 3 preempt without unmapping.
    pub u8, action, set_action: 1, 0;
    /// 0 by doorbell, 1 by PASID, 2 all, 3 all but static ones.
    pub u8, queue_sel, set_queue_sel: 5, 4;
    /// 0 compute, 2 and 3 SDMA, 4 graphics, 5 MES.
    pub u8, engine_sel, set_engine_sel: 28, 26;
    /// Queues in this packet.
    pub u8, num_queues, set_num_queues: 31, 29;
}

/// Body of UNMAP_QUEUES, `PACKET3_UNMAP_QUEUES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UnmapQueues {
    /// First word.
    pub control: UnmapQueuesControl,
    /// PASID, or the first doorbell offset in bits 27:2.
    pub doorbell0_or_pasid: u32,
    /// Second doorbell offset, or the ring write pointer of `PREEMPT_QUEUES_NO_UNMAP`.
    pub doorbell1: u32,
    /// Third doorbell offset.
    pub doorbell2: u32,
    /// Fourth doorbell offset.
    pub doorbell3: u32,
}

bitfield! {
    /// First word of QUERY_STATUS.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct QueryStatusControl(u32);
    impl Debug;
    /// Comes back in the interrupt.
    pub context_id, set_context_id: 27, 0;
    /// 0 none, 1 after completion, 2 queue status.
    pub u8, interrupt_sel, set_interrupt_sel: 29, 28;
    /// 0 interrupt only, 1 fence only immediate, 2 fence only after write ack, 3 fence waits for write ack and interrupts.
    pub u8, command, set_command: 31, 30;
}

/// Body of QUERY_STATUS, `PACKET3_QUERY_STATUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryStatus {
    /// First word.
    pub control: QueryStatusControl,
    /// PASID, or doorbell offset in bits 27:2 and engine in bits 28:25.
    pub doorbell_or_pasid: u32,
    /// Fence address, low half.
    pub addr_lo: u32,
    /// Fence address, high half.
    pub addr_hi: u32,
    /// Fence value, low half.
    pub data_lo: u32,
    /// Fence value, high half.
    pub data_hi: u32,
}

bitfield! {
    /// Only word of INVALIDATE_TLBS.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct InvalidateTlbsControl(u32);
    impl Debug;
    /// 1: by PASID.
    pub u8, dst_sel, set_dst_sel: 3, 0;
    /// All hubs.
    pub all_hub, set_all_hub: 4;
    /// Process.
    pub pasid, set_pasid: 20, 5;
    /// Flush type.
    pub u8, flush_type, set_flush_type: 30, 29;
}

bitfield! {
    /// First word of WRITE_DATA.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct WriteDataControl(u32);
    impl Debug;
    /// `WRITE_DATA_DST_*`.
    pub u8, dst_sel, set_dst_sel: 11, 8;
    /// Every dword goes to the same address.
    pub one_addr, set_one_addr: 16;
    /// Waits until the write has landed.
    pub wr_confirm, set_wr_confirm: 20;
    /// Engine.
    pub u8, engine_sel, set_engine_sel: 31, 30;
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

bitfield! {
    /// First word of WAIT_REG_MEM.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct WaitRegMemControl(u32);
    impl Debug;
    /// 0 always, 1 <, 2 <=, 3 ==, 4 !=, 5 >=, 6 >.
    pub u8, function, set_function: 2, 0;
    /// 0 register, 1 memory.
    pub u8, mem_space, set_mem_space: 5, 4;
    /// 0 wait, 1 write then wait for another register.
    pub u8, operation, set_operation: 7, 6;
    /// Engine.
    pub u8, engine, set_engine: 9, 8;
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

bitfield! {
    /// Third word of INDIRECT_BUFFER.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct IndirectBufferControl(u32);
    impl Debug;
    /// Dwords in the buffer.
    pub size, set_size: 19, 0;
    /// Replaces the current buffer instead of returning to it.
    pub chain, set_chain: 20;
    /// The packet takes effect.
    pub valid, set_valid: 23;
    /// VM context.
    pub u8, vmid, set_vmid: 27, 24;
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

bitfield! {
    /// First word of COPY_DATA, `COPY_DATA` of linux `nvd.h` and `PACKET3_COPY_DATA` of mesa `sid.h`.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct CopyDataControl(u32);
    impl Debug;
    /// `COPY_DATA_SRC_*`.
    pub u8, src_sel, set_src_sel: 3, 0;
    /// `COPY_DATA_DST_*`.
    pub u8, dst_sel, set_dst_sel: 11, 8;
    /// 64 bits instead of 32.
    pub count_sel, set_count_sel: 16;
    /// Waits until the write has landed.
    pub wr_confirm, set_wr_confirm: 20;
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

bitfield! {
    /// First word of RELEASE_MEM: event and cache actions.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ReleaseMemControl(u32);
    impl Debug;
    /// Event.
    pub u8, event_type, set_event_type: 5, 0;
    /// 5 end of pipe, 6 shader done.
    pub u8, event_index, set_event_index: 11, 8;
    /// `GCR_*` bits.
    pub gcr_cntl, set_gcr_cntl: 24, 12;
}

bitfield! {
    /// Second word of RELEASE_MEM: what to write and whether to interrupt.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ReleaseMemSelect(u32);
    impl Debug;
    /// 0 memory controller, 1 TC L2.
    pub u8, dst_sel, set_dst_sel: 17, 16;
    /// 0 none, 1 interrupt without write, 2 after write confirm, 3 write and interrupt without confirm.
    pub u8, int_sel, set_int_sel: 26, 24;
    /// 0 nothing, 1 32 bits, 2 64 bits, 3 the GPU clock.
    pub u8, data_sel, set_data_sel: 31, 29;
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

const _: () = {
    assert!(size_of::<SetResources>() == 7 * 4);
    assert!(size_of::<MapQueues>() == 6 * 4);
    assert!(size_of::<UnmapQueues>() == 5 * 4);
    assert!(size_of::<QueryStatus>() == 6 * 4);
    assert!(size_of::<WriteData>() == 3 * 4);
    assert!(size_of::<WaitRegMem>() == 6 * 4);
    assert!(size_of::<IndirectBuffer>() == 3 * 4);
    assert!(size_of::<CopyData>() == 5 * 4);
    assert!(size_of::<ReleaseMem>() == 7 * 4);
    assert!(size_of::<AcquireMem>() == 7 * 4);
    assert!(Pm4Header::type3(Opcode::INDIRECT_BUFFER, 3).bits() == 0xc002_3f00);
    assert!(Pm4Header::type3(Opcode::ACQUIRE_MEM, 7).bits() == 0xc006_5800);
};
