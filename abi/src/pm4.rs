//! PM4 type-3 packets: the contents of the KIQ, of PM4 compute queues and of the vendor packets of AQL
//! queues.
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
    /// Predicated, on graphics engines; reserved on compute queues.
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
    /// Writes shader registers with what is in memory.
    LOAD_SH_REG_INDEX = 0x63;
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
    /// Writes shader registers, some of them within the limits that the kernel has set.
    SET_SH_REG_INDEX = 0x9b;
    /// Resources that the queue manager may use.
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
    /// Writes shader registers, each with its number (gfx12; mesa `sid.h`).
    SET_SH_REG_PAIRS = 0xba;
    /// Writes user configuration registers, each with its number (gfx12; mesa `sid.h`).
    SET_UCONFIG_REG_PAIRS = 0xbe;
}

mod compute;
mod hws;
mod memory;
mod queues;

pub use compute::{
    COMPUTE_REGISTERS, COMPUTE_REGISTERS_FIRST, ComputeRegister, DispatchDirect, DispatchIndirect,
    DispatchInitiator, LoadShRegIndex, LoadShRegTarget, SH_REG_INDEX_CU_MASK, SH_REG_START, SetShReg,
};
pub use hws::{
    AcquireMemGfx9, HwsMapQueuesControl, MapProcess, MapProcessControl, MapProcessResources, PredExec,
    RunList, RunListControl,
};
pub use memory::{
    ATOMIC_MEM_LOOP, AcquireMem, AtomicMem, AtomicMemControl, COPY_DATA_DST_MEMORY, COPY_DATA_DST_TC_L2,
    COPY_DATA_SRC_GPU_CLOCK, COPY_DATA_SRC_IMMEDIATE, COPY_DATA_SRC_MEMORY, COPY_DATA_SRC_TC_L2,
    CS_PARTIAL_FLUSH, CondExec, CopyData, CopyDataControl, DmaData, DmaDataCommand, DmaDataControl,
    EventWrite, EventWriteMemory, IndirectBuffer, IndirectBufferControl, ReleaseMem, ReleaseMemControl,
    ReleaseMemSelect, SAMPLE_PIPELINESTAT, WRITE_DATA_DST_GL2, WRITE_DATA_DST_MEMORY,
    WRITE_DATA_DST_MEMORY_SYNC, WRITE_DATA_DST_REGISTER, WaitRegMem, WaitRegMem64, WaitRegMemControl,
    WriteData, WriteDataControl,
};
pub use queues::{
    InvalidateTlbsControl, MapQueues, MapQueuesControl, QueryStatus, QueryStatusControl, SetResources,
    SetResourcesControl, UnmapQueues, UnmapQueuesControl,
};

const _: () = {
    assert!(Pm4Header::type3(Opcode::INDIRECT_BUFFER, 3).bits() == 0xc002_3f00);
    assert!(Pm4Header::type3(Opcode::ACQUIRE_MEM, 7).bits() == 0xc006_5800);
};
