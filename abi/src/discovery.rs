//! The IP discovery table of MI300X: its differences from the Navi chips.
//!
//! Source: linux `drivers/gpu/drm/amd/include/discovery.h`. Everything is little endian and packed. The
//! header of the table of blocks (`ip_discovery_header`) has version 4; a byte after its 16 dies says whether
//! the bases of segments have 64 bits (`base_addr_64_bit`). Entries (`ip_v4`) have the fields of version 3.
//! An instance of the graphics core has the number of its physical XCC; all SDMA engines have the hardware id
//! of the first one.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `ip_discovery_header.version` of a table whose bases may have 64 bits.
pub const VERSION_4: u16 = 4;
/// Byte of `ip_discovery_header` with [`BASE_ADDR_64_BIT`].
pub const FLAGS_OFFSET: usize = 78;
/// Bases of segments have 64 bits.
pub const BASE_ADDR_64_BIT: u8 = 1 << 0;

/// Version of [`GcInfoV21`], major and minor.
pub const GC_INFO_V2_1: [u16; 2] = [2, 1];

/// Units of each XCC's graphics core, after the 12 bytes of `gpu_info_header`: `struct gc_info_v2_1`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GcInfoV21 {
    /// Shader engines.
    pub gc_num_se: u32,
    /// Compute units of an array, fused off ones included (`CC_GC_SHADER_ARRAY_CONFIG`).
    pub gc_num_cu_per_sh: u32,
    /// Arrays of a shader engine.
    pub gc_num_sh_per_se: u32,
    /// Render back ends of a shader engine.
    pub gc_num_rb_per_se: u32,
    /// Channels of the L2 cache.
    pub gc_num_tccs: u32,
    /// Registers.
    pub gc_num_gprs: u32,
    /// Threads of geometry shaders.
    pub gc_num_max_gs_thds: u32,
    /// Entries of a table for geometry shaders.
    pub gc_gs_table_depth: u32,
    /// Entries of a buffer of primitives.
    pub gc_gsprim_buff_depth: u32,
    /// Entries of the parameter cache.
    pub gc_parameter_cache_depth: u32,
    /// Off-chip LDS buffers are double.
    pub gc_double_offchip_lds_buffer: u32,
    /// Lanes of a wave.
    pub gc_wave_size: u32,
    /// Waves of a SIMD.
    pub gc_max_waves_per_simd: u32,
    /// Waves of a compute unit with scratch memory.
    pub gc_max_scratch_slots_per_cu: u32,
    /// Group memory of a compute unit in KiB.
    pub gc_lds_size: u32,
    /// Scan converters of a shader engine.
    pub gc_num_sc_per_se: u32,
    /// Packers of a scan converter.
    pub gc_num_packer_per_sc: u32,
    /// Vector caches of an array.
    pub gc_num_tcp_per_sh: u32,
    /// Vector cache of a compute unit in KiB.
    pub gc_tcp_size_per_cu: u32,
    /// Ports to the fabric.
    pub gc_num_sdp_interface: u32,
    /// Compute units that share scalar and instruction caches.
    pub gc_num_cu_per_sqc: u32,
    /// Instruction cache in KiB.
    pub gc_instruction_cache_size_per_sqc: u32,
    /// Scalar cache in KiB.
    pub gc_scalar_data_cache_size_per_sqc: u32,
    /// L2 cache of an XCC in KiB.
    pub gc_tcc_size: u32,
}

const _: () = {
    assert!(size_of::<GcInfoV21>() == 24 * 4);
    assert!(offset_of!(GcInfoV21, gc_num_tcp_per_sh) == 17 * 4);
};
