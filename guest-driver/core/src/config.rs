//! The device as found: its sizes, and the blocks of its discovery table.

use alloc::vec::Vec;

use belfry_abi::regs::Ip;

/// One instance of an IP block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The die it is on.
    pub die: u8,
    /// Its kind.
    pub ip: Ip,
    /// Number among its kind.
    pub instance: u8,
    /// Major, minor, revision.
    pub version: (u8, u8, u8),
    /// Set for a block that is fused off.
    pub harvested: bool,
    /// Begins of its segments of registers, in dwords.
    pub bases: Vec<u32>,
}

/// Place of a GPU in a hive, whose VRAM is one range of addresses (`struct amdgpu_xgmi`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hive {
    /// Number of the hive among those of the machine; 0 where nothing tells them apart.
    pub id: u32,
    /// Its number: which segment of the range is its own.
    pub node: u32,
    /// GPUs of the hive.
    pub nodes: u32,
    /// Bytes of a segment.
    pub segment: u64,
}

/// Name of the hive of GPUs without a PSP that names one (`amdgpu_xgmi_add_device`). Further hives have the names that follow.
pub const HIVE_ID: u64 = 16;

impl Hive {
    /// Returns the name of the hive.
    #[must_use]
    pub fn name(&self) -> u64 {
        HIVE_ID + u64::from(self.id)
    }

    /// Returns the address of the first byte of its VRAM in the range (`vram_base_offset`).
    #[must_use]
    pub fn base(&self) -> u64 {
        self.segment * u64::from(self.node)
    }
}

/// The device as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// IP version of the graphics core: major, minor, revision.
    pub gc_version: (u8, u8, u8),
    /// VRAM in bytes.
    pub vram_size: u64,
    /// First address of VRAM in VMID 0.
    pub fb_start: u64,
    /// Place of the VRAM among that of other GPUs, which are a hive with this one.
    pub hive: Option<Hive>,
    /// Graphics cores (XCCs), which work as one.
    pub xccs: u32,
    /// Shader engines of a graphics core.
    pub shader_engines: u32,
    /// Shader arrays of each shader engine.
    pub arrays_per_engine: u32,
    /// Most compute units of one shader array.
    pub cus_per_array: u32,
    /// Compute units that are not fused off, of all graphics cores.
    pub cus: u32,
    /// Compute units of each graphics core, shader engine and array, one bit each, in this order.
    pub cu_bitmap: Vec<u32>,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Waves of a SIMD.
    pub waves_per_simd: u32,
    /// Scratch slots of a compute unit.
    pub scratch_slots_per_cu: u32,
    /// Local data share in KiB.
    pub lds_kib: u32,
    /// Vector data cache of a compute unit in KiB.
    pub l1_kib: u32,
    /// Compute units that share an instruction cache and a scalar data cache.
    pub cus_per_sqc: u32,
    /// Instruction cache that they share, in KiB.
    pub instruction_cache_kib: u32,
    /// Scalar data cache that they share, in KiB.
    pub scalar_cache_kib: u32,
    /// Cache of a shader array in KiB.
    pub gl1_kib: u32,
    /// Last-level cache of the graphics core in KiB.
    pub l2_kib: u32,
    /// Parts of that cache, each with a channel of memory (`gc_num_gl2c`, `gc_num_tccs`).
    pub l2_channels: u32,
    /// SDMA engines.
    pub sdma_engines: u32,
    /// `GB_ADDR_CONFIG`.
    pub gb_addr_config: u32,
    /// Every block of the table.
    pub blocks: Vec<Block>,
}
