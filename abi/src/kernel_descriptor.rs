//! The 64-byte kernel descriptor a dispatch packet points at.
//!
//! Source: LLVM `llvm/Support/AMDHSAKernelDescriptor.h` (`kernel_descriptor_t`, `COMPUTE_PGM_RSRC*`,
//! `KERNEL_CODE_PROPERTY_*`), described in LLVM's AMDGPUUsage, "Kernel Descriptor".

use bitfield::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of a kernel descriptor in bytes.
pub const KERNEL_DESCRIPTOR_ALIGN: u64 = 64;
/// Alignment of a kernel's first instruction in bytes.
pub const KERNEL_CODE_ENTRY_ALIGN: u64 = 256;

/// Kernel descriptor, `kernel_descriptor_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct KernelDescriptor {
    /// Bytes of group memory the kernel declares.
    pub group_segment_fixed_size: u32,
    /// Bytes of private memory per work-item the kernel declares.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments.
    pub kernarg_size: u32,
    /// Reserved, zero.
    pub reserved0: [u8; 4],
    /// First instruction, in bytes from this descriptor.
    pub kernel_code_entry_byte_offset: i64,
    /// Reserved, zero.
    pub reserved1: [u8; 20],
    /// [`ComputePgmRsrc3`].
    pub compute_pgm_rsrc3: ComputePgmRsrc3,
    /// [`ComputePgmRsrc1`].
    pub compute_pgm_rsrc1: ComputePgmRsrc1,
    /// [`ComputePgmRsrc2`].
    pub compute_pgm_rsrc2: ComputePgmRsrc2,
    /// [`KernelCodeProperties`].
    pub kernel_code_properties: KernelCodeProperties,
    /// Kernel arguments preloaded into SGPRs on gfx90a and gfx940, [`KernargPreload`]; zero on others.
    pub kernarg_preload: u16,
    /// Reserved, zero.
    pub reserved3: [u8; 4],
}

bitfield! {
    /// `COMPUTE_PGM_RSRC1` of gfx10 and gfx11.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ComputePgmRsrc1(u32);
    impl Debug;
    /// VGPRs per work-item in granules, minus one; a granule is 8 in wave32 and 4 in wave64.
    pub granulated_workitem_vgpr_count, set_granulated_workitem_vgpr_count: 5, 0;
    /// Zero on gfx10 and later: every wave has all SGPRs.
    pub granulated_wavefront_sgpr_count, set_granulated_wavefront_sgpr_count: 9, 6;
    /// Wave priority.
    pub priority, set_priority: 11, 10;
    /// FLOAT_MODE: rounding of f32 (1:0), of f16 and f64 (3:2), denormals of f32 (5:4), of f16 and f64 (7:6).
    pub float_mode, set_float_mode: 19, 12;
    /// Privileged wave.
    pub priv_, set_priv: 20;
    /// `ENABLE_DX10_CLAMP`.
    pub enable_dx10_clamp, set_enable_dx10_clamp: 21;
    /// Debug mode.
    pub debug_mode, set_debug_mode: 22;
    /// `ENABLE_IEEE_MODE`.
    pub enable_ieee_mode, set_enable_ieee_mode: 23;
    /// `FP16_OVFL`.
    pub fp16_ovfl, set_fp16_ovfl: 26;
    /// Workgroups run in work-group-processor mode.
    pub wgp_mode, set_wgp_mode: 29;
    /// `MEM_ORDERED`.
    pub mem_ordered, set_mem_ordered: 30;
    /// `FWD_PROGRESS`.
    pub fwd_progress, set_fwd_progress: 31;
}

bitfield! {
    /// `COMPUTE_PGM_RSRC2` of gfx10 to gfx12.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ComputePgmRsrc2(u32);
    impl Debug;
    /// `ENABLE_PRIVATE_SEGMENT`: FLAT_SCRATCH is set up.
    pub enable_private_segment, set_enable_private_segment: 0;
    /// SGPRs preloaded by the packet processor.
    pub user_sgpr_count, set_user_sgpr_count: 5, 1;
    /// `ENABLE_DYNAMIC_VGPR` of gfx12, where the next one was: waves allocate vector registers while they run.
    pub enable_dynamic_vgpr, set_enable_dynamic_vgpr: 6;
    /// `ENABLE_TRAP_HANDLER`.
    pub enable_trap_handler, set_enable_trap_handler: 6;
    /// `ENABLE_SGPR_WORKGROUP_ID_X`.
    pub enable_sgpr_workgroup_id_x, set_enable_sgpr_workgroup_id_x: 7;
    /// `ENABLE_SGPR_WORKGROUP_ID_Y`.
    pub enable_sgpr_workgroup_id_y, set_enable_sgpr_workgroup_id_y: 8;
    /// `ENABLE_SGPR_WORKGROUP_ID_Z`.
    pub enable_sgpr_workgroup_id_z, set_enable_sgpr_workgroup_id_z: 9;
    /// `ENABLE_SGPR_WORKGROUP_INFO`.
    pub enable_sgpr_workgroup_info, set_enable_sgpr_workgroup_info: 10;
    /// `ENABLE_VGPR_WORKITEM_ID`: 0 x, 1 x and y, 2 x, y and z.
    pub enable_vgpr_workitem_id, set_enable_vgpr_workitem_id: 12, 11;
    /// `GRANULATED_LDS_SIZE`: zero in descriptors, the packet processor fills it in.
    pub granulated_lds_size, set_granulated_lds_size: 23, 15;
    /// Exceptions enabled, `ENABLE_EXCEPTION_*`.
    pub enable_exceptions, set_enable_exceptions: 30, 24;
}

bitfield! {
    /// `COMPUTE_PGM_RSRC3` of gfx10 and gfx11.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ComputePgmRsrc3(u32);
    impl Debug;
    /// Shared VGPRs of wave64 in granules of 8.
    pub shared_vgpr_count, set_shared_vgpr_count: 3, 0;
    /// Instruction prefetch hint.
    pub inst_pref_size, set_inst_pref_size: 9, 4;
    /// `TRAP_ON_START`.
    pub trap_on_start, set_trap_on_start: 10;
    /// `TRAP_ON_END`.
    pub trap_on_end, set_trap_on_end: 11;
    /// `IMAGE_OP`.
    pub image_op, set_image_op: 31;
}

bitfield! {
    /// `COMPUTE_PGM_RSRC3` of gfx90a and gfx940.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct ComputePgmRsrc3Gfx90a(u32);
    impl Debug;
    /// `ACCUM_OFFSET`: the accumulation registers begin at register 4 * n + 4 of the wave's own.
    pub accum_offset, set_accum_offset: 5, 0;
    /// `TG_SPLIT`: waves of a workgroup may be on several compute units.
    pub tg_split, set_tg_split: 16;
}

bitfield! {
    /// `kernarg_preload` of gfx90a and gfx940: kernel arguments that a wave finds in its user SGPRs, after
    /// the others. If there are any, the wave starts [`KERNARG_PRELOAD_ENTRY`] bytes after the kernel's
    /// entry.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct KernargPreload(u16);
    impl Debug;
    /// `KERNARG_PRELOAD_SPEC_LENGTH`: dwords.
    pub length, set_length: 6, 0;
    /// `KERNARG_PRELOAD_SPEC_OFFSET`: the first one's place in the arguments, in dwords.
    pub offset, set_offset: 15, 7;
}

/// Bytes from a kernel's entry to the code for waves that find arguments in SGPRs; before it is code that loads them
/// (LLVM AMDGPUUsage, "Preloaded Kernel Arguments").
pub const KERNARG_PRELOAD_ENTRY: u64 = 256;

bitfield! {
    /// `kernel_code_properties`: which user SGPRs are set up, in this order.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct KernelCodeProperties(u16);
    impl Debug;
    /// Four SGPRs: buffer descriptor of scratch memory.
    pub enable_sgpr_private_segment_buffer, set_enable_sgpr_private_segment_buffer: 0;
    /// Two SGPRs: address of the dispatch packet.
    pub enable_sgpr_dispatch_ptr, set_enable_sgpr_dispatch_ptr: 1;
    /// Two SGPRs: address of the `amd_queue_t`.
    pub enable_sgpr_queue_ptr, set_enable_sgpr_queue_ptr: 2;
    /// Two SGPRs: address of the kernel arguments.
    pub enable_sgpr_kernarg_segment_ptr, set_enable_sgpr_kernarg_segment_ptr: 3;
    /// Two SGPRs: index of the packet.
    pub enable_sgpr_dispatch_id, set_enable_sgpr_dispatch_id: 4;
    /// Two SGPRs: scratch base of the queue and bytes per lane.
    pub enable_sgpr_flat_scratch_init, set_enable_sgpr_flat_scratch_init: 5;
    /// One SGPR: bytes of private memory per work-item.
    pub enable_sgpr_private_segment_size, set_enable_sgpr_private_segment_size: 6;
    /// Reserved, zero.
    pub reserved0, set_reserved0: 9, 7;
    /// `ENABLE_WAVEFRONT_SIZE32`.
    pub enable_wavefront_size32, set_enable_wavefront_size32: 10;
    /// `USES_DYNAMIC_STACK`.
    pub uses_dynamic_stack, set_uses_dynamic_stack: 11;
    /// Reserved, zero.
    pub reserved1, set_reserved1: 15, 12;
}

macro_rules! raw_bits {
    ($($name:ident: $raw:ty),*) => { $(
        impl $name {
            /// The value with these raw bits.
            #[must_use]
            pub const fn from_bits(bits: $raw) -> Self {
                Self(bits)
            }

            /// The raw bits.
            #[must_use]
            pub const fn bits(self) -> $raw {
                self.0
            }
        }
    )* };
}
raw_bits!(
    ComputePgmRsrc1: u32, ComputePgmRsrc2: u32, ComputePgmRsrc3: u32, ComputePgmRsrc3Gfx90a: u32,
    KernelCodeProperties: u16, KernargPreload: u16
);

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<KernelDescriptor>() == 64);
    assert!(offset_of!(KernelDescriptor, kernel_code_entry_byte_offset) == 16);
    assert!(offset_of!(KernelDescriptor, compute_pgm_rsrc3) == 44);
    assert!(offset_of!(KernelDescriptor, compute_pgm_rsrc1) == 48);
    assert!(offset_of!(KernelDescriptor, compute_pgm_rsrc2) == 52);
    assert!(offset_of!(KernelDescriptor, kernel_code_properties) == 56);
    assert!(offset_of!(KernelDescriptor, kernarg_preload) == 58);
};
