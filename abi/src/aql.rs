//! AQL: the 64-byte packets of user-mode queues, and the queue structure around them.
//!
//! Sources: `hsa.h` (`hsa_kernel_dispatch_packet_t`, `hsa_barrier_and_packet_t`, `hsa_packet_header_t`),
//! `amd_hsa_queue.h` (`amd_queue_t`), ROCr `amd_aql_pm4_ib` packet, `hsa_ext_amd.h` (`hsa_amd_barrier_value_packet_t`).

use bitfield::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of every AQL packet.
pub const AQL_PACKET_SIZE: u64 = 64;

bitfield! {
    /// First 16 bits of a packet, `hsa_packet_header_t`.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct PacketHeader(u16);
    impl Debug;
    u8, type_bits, set_type_bits: 7, 0;
    /// The packet starts when all earlier packets of the queue have completed.
    pub barrier, set_barrier: 8;
    /// Acquire fence: 0 none, 1 agent, 2 system.
    pub u8, acquire_scope, set_acquire_scope: 10, 9;
    /// Release fence: 0 none, 1 agent, 2 system.
    pub u8, release_scope, set_release_scope: 12, 11;
}

impl PacketHeader {
    /// The header with these raw bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// A header of a packet type with barrier bit and fence scopes.
    #[must_use]
    pub const fn new(packet_type: PacketType, barrier: bool, acquire: u8, release: u8) -> Self {
        let fences = ((acquire & 3) as u16) << 9 | ((release & 3) as u16) << 11;
        Self(packet_type.0 as u16 | (barrier as u16) << 8 | fences)
    }

    /// Type of the packet.
    #[must_use]
    pub const fn packet_type(self) -> PacketType {
        PacketType((self.0 & 0xff) as u8)
    }
}

/// Packet type, `hsa_packet_type_t`; any value may come from a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketType(pub u8);

impl PacketType {
    /// `HSA_PACKET_TYPE_VENDOR_SPECIFIC`.
    pub const VENDOR_SPECIFIC: Self = Self(0);
    /// `HSA_PACKET_TYPE_INVALID`: the slot belongs to the producer.
    pub const INVALID: Self = Self(1);
    /// `HSA_PACKET_TYPE_KERNEL_DISPATCH`.
    pub const KERNEL_DISPATCH: Self = Self(2);
    /// `HSA_PACKET_TYPE_BARRIER_AND`.
    pub const BARRIER_AND: Self = Self(3);
    /// `HSA_PACKET_TYPE_AGENT_DISPATCH`.
    pub const AGENT_DISPATCH: Self = Self(4);
    /// `HSA_PACKET_TYPE_BARRIER_OR`.
    pub const BARRIER_OR: Self = Self(5);
}

/// `HSA_FENCE_SCOPE_NONE`.
pub const FENCE_SCOPE_NONE: u8 = 0;
/// `HSA_FENCE_SCOPE_AGENT`.
pub const FENCE_SCOPE_AGENT: u8 = 1;
/// `HSA_FENCE_SCOPE_SYSTEM`.
pub const FENCE_SCOPE_SYSTEM: u8 = 2;

/// Kernel dispatch packet, `hsa_kernel_dispatch_packet_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct KernelDispatchPacket {
    /// [`PacketHeader`].
    pub header: u16,
    /// Bits 1:0 are the number of grid dimensions (`HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS`).
    pub setup: u16,
    /// Work-items of a workgroup, x.
    pub workgroup_size_x: u16,
    /// Work-items of a workgroup, y.
    pub workgroup_size_y: u16,
    /// Work-items of a workgroup, z.
    pub workgroup_size_z: u16,
    /// Reserved, zero.
    pub reserved0: u16,
    /// Work-items of the grid, x.
    pub grid_size_x: u32,
    /// Work-items of the grid, y.
    pub grid_size_y: u32,
    /// Work-items of the grid, z.
    pub grid_size_z: u32,
    /// Bytes of private memory per work-item.
    pub private_segment_size: u32,
    /// Bytes of group memory per workgroup.
    pub group_segment_size: u32,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the kernel arguments.
    pub kernarg_address: u64,
    /// Reserved, zero.
    pub reserved2: u64,
    /// Signal decremented at completion; 0 for none.
    pub completion_signal: u64,
}

/// Barrier-and and barrier-or packets, `hsa_barrier_and_packet_t`, `hsa_barrier_or_packet_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct BarrierPacket {
    /// [`PacketHeader`].
    pub header: u16,
    /// Reserved, zero.
    pub reserved0: u16,
    /// Reserved, zero.
    pub reserved1: u32,
    /// Signals waited for; 0 entries are ignored.
    pub dep_signal: [u64; 5],
    /// Reserved, zero.
    pub reserved2: u64,
    /// Signal decremented at completion; 0 for none.
    pub completion_signal: u64,
}

/// Agent dispatch packet, `hsa_agent_dispatch_packet_t`; GPU queues do not accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AgentDispatchPacket {
    /// [`PacketHeader`].
    pub header: u16,
    /// Function to call.
    pub function: u16,
    /// Reserved, zero.
    pub reserved0: u32,
    /// GPU address that receives the result.
    pub return_address: u64,
    /// Arguments.
    pub arg: [u64; 4],
    /// Reserved, zero.
    pub reserved2: u64,
    /// Signal decremented at completion; 0 for none.
    pub completion_signal: u64,
}

/// AMD format of a vendor packet, byte 2 (`hsa_amd_packet_type8_t`, ROCr `AMD_AQL_FORMAT_PM4_IB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdFormat(pub u8);

impl AmdFormat {
    /// `AMD_AQL_FORMAT_PM4_IB`: an indirect buffer of PM4 packets.
    pub const PM4_IB: Self = Self(1);
    /// `HSA_AMD_PACKET_TYPE_BARRIER_VALUE`: waits for a comparison of one signal.
    pub const BARRIER_VALUE: Self = Self(2);
}

/// PM4 indirect-buffer vendor packet, ROCr `amd_aql_pm4_ib_packet_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Pm4IbPacket {
    /// [`PacketHeader`], type vendor specific.
    pub header: u16,
    /// [`AmdFormat`] in bits 7:0.
    pub amd_format: u16,
    /// PM4 header and three body dwords of an INDIRECT_BUFFER.
    pub ib_jump: [u32; 4],
    /// Dwords that remain in the packet, 10.
    pub dw_remain: u32,
    /// Reserved, zero.
    pub reserved: [u32; 8],
    /// Signal decremented at completion; 0 for none.
    pub completion_signal: u64,
}

/// Value of [`Pm4IbPacket::dw_remain`] on gfx9 and later.
pub const PM4_IB_DW_REMAIN: u32 = 0xa;

/// Barrier-value vendor packet, `hsa_amd_barrier_value_packet_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct BarrierValuePacket {
    /// [`PacketHeader`], type vendor specific.
    pub header: u16,
    /// [`AmdFormat`] in bits 7:0.
    pub amd_format: u16,
    /// Reserved, zero.
    pub reserved0: u32,
    /// Signal waited for; 0 does not wait.
    pub signal: u64,
    /// Right side of the comparison.
    pub value: i64,
    /// Mask applied to the signal's value first.
    pub mask: i64,
    /// `HSA_SIGNAL_CONDITION_*`: 0 EQ, 1 NE, 2 LT, 3 GTE.
    pub cond: u32,
    /// Reserved, zero.
    pub reserved1: u32,
    /// Reserved, zero.
    pub reserved2: u64,
    /// Reserved, zero.
    pub reserved3: u64,
    /// Signal decremented at completion; 0 for none.
    pub completion_signal: u64,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<KernelDispatchPacket>() == 64);
    assert!(size_of::<BarrierPacket>() == 64);
    assert!(size_of::<AgentDispatchPacket>() == 64);
    assert!(size_of::<Pm4IbPacket>() == 64);
    assert!(size_of::<BarrierValuePacket>() == 64);
    assert!(offset_of!(KernelDispatchPacket, grid_size_x) == 12);
    assert!(offset_of!(KernelDispatchPacket, private_segment_size) == 24);
    assert!(offset_of!(KernelDispatchPacket, kernel_object) == 32);
    assert!(offset_of!(KernelDispatchPacket, completion_signal) == 56);
    assert!(offset_of!(BarrierPacket, dep_signal) == 8);
    assert!(offset_of!(BarrierPacket, completion_signal) == 56);
    assert!(offset_of!(AgentDispatchPacket, completion_signal) == 56);
    assert!(offset_of!(Pm4IbPacket, completion_signal) == 56);
    assert!(offset_of!(BarrierValuePacket, completion_signal) == 56);
    assert!(offset_of!(BarrierValuePacket, cond) == 32);
};

/// The queue structure that user space and packet processor share, `amd_queue_t` (version 2).
///
/// 256 bytes, 64-byte aligned. The packet processor finds it at
/// `rptr_report_addr - read_dispatch_id_field_base_byte_offset`. Source: `amd_hsa_queue.h`; the fields from `0xb8` on
/// are ROCr's `amd_queue_v2_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct AmdQueue {
    /// `hsa_queue_type32_t`.
    pub queue_type: u32,
    /// `hsa_queue_feature_t`.
    pub features: u32,
    /// Address of the ring.
    pub base_address: u64,
    /// Handle of the doorbell signal.
    pub doorbell_signal: u64,
    /// Packets in the ring.
    pub size: u32,
    /// Reserved.
    pub reserved1: u32,
    /// Identifier within the process.
    pub id: u64,
    /// `amd_queue_caps32_t`.
    pub caps: u32,
    /// Reserved.
    pub reserved2: [u32; 3],
    /// Packets reserved by producers so far.
    pub write_dispatch_id: u64,
    /// Bits 63:32 of the group aperture base.
    pub group_segment_aperture_base_hi: u32,
    /// Bits 63:32 of the private aperture base.
    pub private_segment_aperture_base_hi: u32,
    /// Highest compute unit.
    pub max_cu_id: u32,
    /// Highest wave slot.
    pub max_wave_id: u32,
    /// For legacy doorbells.
    pub max_legacy_doorbell_dispatch_id_plus_1: u64,
    /// For legacy doorbells.
    pub legacy_doorbell_lock: u32,
    /// Reserved.
    pub reserved3: [u32; 9],
    /// Packets consumed so far.
    pub read_dispatch_id: u64,
    /// Offset of `read_dispatch_id` in this structure.
    pub read_dispatch_id_field_base_byte_offset: u32,
    /// `COMPUTE_TMPRING_SIZE`, see [`TmpringSize`].
    pub compute_tmpring_size: u32,
    /// Buffer descriptor of scratch memory.
    pub scratch_resource_descriptor: [u32; 4],
    /// Address of scratch memory.
    pub scratch_backing_memory_location: u64,
    /// Bytes of scratch memory.
    pub scratch_backing_memory_byte_size: u64,
    /// Bytes of scratch of one lane of a wave64.
    pub scratch_wave64_lane_byte_size: u32,
    /// `AMD_QUEUE_PROPERTIES_*`.
    pub queue_properties: u32,
    /// Last dispatch that used the main scratch memory.
    pub scratch_max_use_index: u64,
    /// Signal the packet processor stores the reason for stopping into; 0 for none.
    pub queue_inactive_signal: u64,
    /// Last dispatch that used the alternate scratch memory.
    pub alt_scratch_max_use_index: u64,
    /// Buffer descriptor of the alternate scratch memory.
    pub alt_scratch_resource_descriptor: [u32; 4],
    /// Address of the alternate scratch memory.
    pub alt_scratch_backing_memory_location: u64,
    /// Largest dispatch the alternate scratch memory may serve.
    pub alt_scratch_dispatch_limit: [u32; 3],
    /// Bytes of alternate scratch of one lane of a wave64.
    pub alt_scratch_wave64_lane_byte_size: u32,
    /// `COMPUTE_TMPRING_SIZE` of the alternate scratch memory.
    pub alt_compute_tmpring_size: u32,
    /// Reserved.
    pub reserved4: u32,
}

/// Offset of [`AmdQueue::write_dispatch_id`].
pub const QUEUE_WRITE_DISPATCH_ID_OFFSET: u64 = 0x38;
/// Offset of [`AmdQueue::read_dispatch_id`].
pub const QUEUE_READ_DISPATCH_ID_OFFSET: u64 = 0x80;
/// Offset of [`AmdQueue::queue_inactive_signal`].
pub const QUEUE_INACTIVE_SIGNAL_OFFSET: u64 = 0xc0;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<AmdQueue>() == 0x100);
    assert!(offset_of!(AmdQueue, caps) == 40);
    assert!(offset_of!(AmdQueue, write_dispatch_id) as u64 == QUEUE_WRITE_DISPATCH_ID_OFFSET);
    assert!(offset_of!(AmdQueue, group_segment_aperture_base_hi) == 0x40);
    assert!(offset_of!(AmdQueue, max_legacy_doorbell_dispatch_id_plus_1) == 0x50);
    assert!(offset_of!(AmdQueue, read_dispatch_id) as u64 == QUEUE_READ_DISPATCH_ID_OFFSET);
    assert!(offset_of!(AmdQueue, read_dispatch_id_field_base_byte_offset) == 0x88);
    assert!(offset_of!(AmdQueue, compute_tmpring_size) == 0x8c);
    assert!(offset_of!(AmdQueue, scratch_backing_memory_location) == 0xa0);
    assert!(offset_of!(AmdQueue, scratch_wave64_lane_byte_size) == 0xb0);
    assert!(offset_of!(AmdQueue, queue_properties) == 0xb4);
    assert!(offset_of!(AmdQueue, queue_inactive_signal) as u64 == QUEUE_INACTIVE_SIGNAL_OFFSET);
};

/// `AMD_QUEUE_CAPS_CP_ASYNC_RECLAIM`: the packet processor knows a second scratch memory, and that memory is taken back while the
/// queue runs. Source: ROCr `amd_hsa_queue.h`, as all of `amd_queue_v2_t`.
pub const QUEUE_CAPS_CP_ASYNC_RECLAIM: u32 = 1 << 0;
/// `AMD_QUEUE_CAPS_SW_ASYNC_RECLAIM`: the runtime does, and the structure is an `amd_queue_v2_t`.
pub const QUEUE_CAPS_SW_ASYNC_RECLAIM: u32 = 1 << 1;
/// Offset of `scratch_last_used_index` of `amd_queue_v2_t`, after [`AmdQueue`].
pub const QUEUE_LAST_USED_OFFSET: u64 = 0x100;
/// Bytes of one graphics core there: the last packet that used the main scratch memory, and the one that used the alternate.
pub const QUEUE_LAST_USED_STRIDE: u64 = 16;
/// Graphics cores there.
pub const QUEUE_LAST_USED_CORES: u64 = 128;

/// `AMD_QUEUE_PROPERTIES_ENABLE_TRAP_HANDLER`.
pub const QUEUE_PROPERTIES_ENABLE_TRAP_HANDLER: u32 = 1 << 0;
/// `AMD_QUEUE_PROPERTIES_IS_PTR64`.
pub const QUEUE_PROPERTIES_IS_PTR64: u32 = 1 << 1;
/// `AMD_QUEUE_PROPERTIES_ENABLE_PROFILING`: timestamps go into completion signals.
pub const QUEUE_PROPERTIES_ENABLE_PROFILING: u32 = 1 << 3;
/// `AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE`.
pub const QUEUE_PROPERTIES_USE_SCRATCH_ONCE: u32 = 1 << 4;

word! {
    /// `COMPUTE_TMPRING_SIZE` of gfx9: how many waves have how much scratch memory.
    ///
    /// Source: linux `gc_9_4_3_sh_mask.h`, `COMPUTE_TMPRING_SIZE__*`; `WAVESIZE` counts [`TMPRING_WAVESIZE_UNIT_GFX9`] bytes.
    TmpringSizeGfx9 {
        /// Waves of one XCC that may hold scratch memory.
        pub waves, set_waves: 11, 0;
        /// Scratch memory of one wave in units of 1 KiB.
        pub wavesize, set_wavesize: 24, 12;
    }
}

/// Bytes in a unit of [`TmpringSizeGfx9::wavesize`].
pub const TMPRING_WAVESIZE_UNIT_GFX9: u64 = 1024;

bitfield! {
    /// `COMPUTE_TMPRING_SIZE` of gfx11: how many waves have how much scratch memory.
    ///
    /// Source: linux `gc_11_0_0_sh_mask.h`, `COMPUTE_TMPRING_SIZE__*`; `WAVESIZE` counts 256 bytes.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct TmpringSize(u32);
    impl Debug;
    /// Waves per shader engine that may hold scratch memory.
    pub waves, set_waves: 11, 0;
    /// Scratch memory of one wave in units of 256 bytes.
    pub wavesize, set_wavesize: 26, 12;
}

impl TmpringSize {
    /// The register with these raw bits.
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

/// Bytes of one unit of [`TmpringSize::wavesize`] on gfx11.
pub const TMPRING_WAVESIZE_UNIT: u64 = 256;

/// Codes the packet processor stores into `queue_inactive_signal` when it stops a queue.
///
/// Source: ROCr `amd_aql_queue.cpp`, `AqlQueue::DynamicQueueEventsHandler` and `ExceptionHandler`.
pub mod inactive {
    /// A dispatch of wave64 needs more scratch memory than the queue has.
    pub const SCRATCH_NEEDED: u64 = 0x1;
    /// Added to [`SCRATCH_NEEDED`] for a dispatch of wave32.
    pub const SCRATCH_WAVE32: u64 = 0x400;
    /// The grid's dimensions are not valid.
    pub const DIM_INVALID: u64 = 0x2;
    /// More group memory than a workgroup can have.
    pub const GROUP_SEGMENT_INVALID: u64 = 0x4;
    /// The kernel object or its code is not valid.
    pub const CODE_INVALID: u64 = 0x8;
    /// The packet's format is not valid or not supported.
    pub const PACKET_FORMAT_INVALID: u64 = 0x20;
    /// The workgroup is too large.
    pub const WORKGROUP_SIZE_INVALID: u64 = 0x40;
    /// The kernel wants more registers than there are.
    pub const REGISTER_INVALID: u64 = 0x80;
    /// The vendor packet is not supported.
    pub const VENDOR_PACKET_UNSUPPORTED: u64 = 0x100;
    /// Scratch memory used once should be handed back.
    pub const SCRATCH_RECLAIM: u64 = 0x200;
    /// The queue was preempted and could not be saved or restored; the runtime takes an unknown code for an
    /// error.
    pub const PREEMPTION: u64 = 0x1000_0000;
    /// A wave accessed an address outside every aperture.
    pub const APERTURE_VIOLATION: u64 = 0x2000_0000;
    /// A wave ran into an instruction that does not exist.
    pub const ILLEGAL_INSTRUCTION: u64 = 0x4000_0000;
    /// A wave trapped.
    pub const TRAP: u64 = 0x8000_0000;
}
