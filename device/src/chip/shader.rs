//! Sizes of compute units, and the first state of their waves.

use belfry_isa::inst::WaveSize;
use belfry_isa::wave::Wave;

use super::Topology;

/// Most SIMDs of a [processor](ShaderRules::cus) that the engine has room for.
pub(crate) const MAX_SIMDS: usize = 4;
/// Most compute units of a processor.
pub(crate) const MAX_CUS: usize = 2;
/// Most waves of a SIMD.
pub(crate) const MAX_WAVE_SLOTS: u32 = 16;
/// Most workgroups of a processor.
pub(crate) const MAX_GROUPS: u32 = 32;

/// See [`ShaderRules::set_ttmps`]. Numbers are passed one by one or in pairs: an array would be in memory.
pub(crate) type SetTtmps = fn(&mut Wave, x: u32, yz: (u32, u32), wave_and_packet: (u32, u32), scratch: bool);

/// Compute units of a generation. A processor is a work group processor, or a compute unit on chips without
/// work group processors.
#[derive(Clone, Copy, Debug)]
pub struct ShaderRules {
    /// First of the two bits of `SH_MEM_CONFIG.ALIGNMENT_MODE`.
    pub alignment_mode: u32,
    /// Bit `SH_MEM_CONFIG.RETRY_DISABLE`. Waves of a process without it wait for pages that they do not have
    /// (XNACK). 0 on chips where waves never wait.
    pub retry_disable: u32,
    /// Bits of `s_waitcnt` that count stores as well; all of them are set if the instruction does not wait
    /// for stores. 0 on chips where stores have a counter of their own.
    pub store_waits: u32,
    /// Layout of the control stacks of preempted queues.
    pub stack: StackForm,
    /// True if stores stay in a cache of one XCD until that cache is written back.
    pub keeps_stores: bool,
    /// Waves a SIMD holds.
    pub wave_slots: u32,
    /// Vector registers of a SIMD, in rows of [`row_lanes`](Self::row_lanes) lanes.
    pub vgpr_rows: u32,
    /// Unit of the allocation of vector registers, in rows.
    pub vgpr_granule: u32,
    /// Lanes of a row.
    pub row_lanes: u32,
    /// Compute units of a processor.
    pub cus: usize,
    /// SIMDs of a compute unit.
    pub simds_per_cu: usize,
    /// Bytes of LDS of a compute unit, which is also the most a workgroup can have.
    pub lds: u32,
    /// Unit of the allocation of LDS in bytes.
    pub lds_granule: u32,
    /// Workgroups a processor holds.
    pub groups: u32,
    /// Computes the bits of `HW_ID1` and `HW_ID2` for the place of a wave.
    pub place_ids: fn(WavePlace) -> [u32; 2],
    /// Computes the bits of `HW_ID1` and `HW_ID2` for the queue of a wave.
    pub queue_ids: fn(QueuePlace) -> [u32; 2],
    /// Computes the workgroup information SGPR of a wave from its number and the waves of its workgroup.
    pub workgroup_info: fn(wave: u32, waves: u32) -> u32,
    /// Sets the trap temporaries of a wave that starts, if its process has a trap handler or the chip has
    /// [identifiers](super::KernelRules::workgroup_id_sgprs) there. Arguments: the workgroup's identifier,
    /// the wave's number in the workgroup with the place of its packet in the ring, and whether it has
    /// scratch memory.
    pub set_ttmps: SetTtmps,
    /// Trap temporaries of [`ShaderRules::set_ttmps`]: the one with the workgroup's X, and the one that
    /// differs from wave to wave of a workgroup.
    pub ttmp_places: [u8; 2],
    /// Computes the second of these from the wave's number and its packet, and from whether the launch has
    /// scratch memory.
    pub wave_ttmp: fn((u32, u32), bool) -> u32,
    /// Reads the workgroup's identifier from a wave's trap temporaries.
    pub workgroup_of: fn(&Wave) -> [u32; 3],
    /// Returns the enabled compute units of a processor, one bit each.
    pub enabled_cus: fn(&CuMask, WavePlace) -> u32,
    /// Decodes `COMPUTE_TMPRING_SIZE`.
    pub tmp_ring: fn(u32) -> TmpRing,
    /// Returns the number of parts of the chip with `COMPUTE_TMPRING_SIZE.WAVES` waves with scratch memory
    /// each.
    pub scratch_parts: fn(&Topology) -> u32,
    /// True if the packet processor knows a second scratch memory of a queue, and takes memory back
    /// (`AMD_QUEUE_CAPS_CP_ASYNC_RECLAIM`).
    pub scratch_reclaim: bool,
    /// Bytes of the unit in which a wave's scratch memory is allocated.
    pub scratch_granule: u64,
}

/// The layout of a control stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackForm {
    /// Layout of gfx9 with accumulation registers (gfx90a and on).
    Gfx9,
    /// Layout of gfx11.
    Gfx11,
}

/// The compute units that waves of a queue may use: a register for each shader engine
/// (`COMPUTE_STATIC_THREAD_MGMT_SE0` and on), one graphics core after the other, in the chip's layout.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct CuMask(pub [u32; MAX_ENGINES]);

/// Most shader engines of all graphics cores.
pub const MAX_ENGINES: usize = 32;

impl CuMask {
    /// All compute units.
    pub const ALL: CuMask = CuMask([u32::MAX; MAX_ENGINES]);

    /// No compute unit.
    pub const NONE: CuMask = CuMask([0; MAX_ENGINES]);
}

/// Place of a wave.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WavePlace {
    /// Graphics core.
    pub xcc: u32,
    /// Shader engine of the core.
    pub engine: u32,
    /// Shader array of the engine.
    pub array: u32,
    /// Processor of the array.
    pub processor: u32,
    /// SIMD of the processor.
    pub simd: u32,
    /// Slot of the SIMD.
    pub slot: u32,
    /// Workgroup of the processor.
    pub group: u32,
}

/// Hardware queue and VM context of a wave.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueuePlace {
    /// Micro engine.
    pub me: u8,
    /// Pipe of the micro engine.
    pub pipe: u8,
    /// Queue of the pipe.
    pub queue: u8,
    /// VM context.
    pub vmid: u8,
}

/// Scratch memory of a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TmpRing {
    /// Waves of each part of the chip ([`ShaderRules::scratch_parts`]) that may have scratch memory; 0 for none.
    pub waves: u32,
    /// Bytes of each.
    pub wave_bytes: u64,
}

impl ShaderRules {
    /// SIMDs of a processor.
    #[must_use]
    pub const fn simds(&self) -> usize {
        self.cus * self.simds_per_cu
    }

    /// Rows of vector registers that a wave of `size` with `count` registers occupies. A register that the
    /// halves of a wave64 share is one row of 32 lanes.
    #[must_use]
    pub fn allocated_vgprs(&self, size: WaveSize, count: u16, shared: u16) -> u32 {
        let lanes = match size {
            WaveSize::Wave32 => u32::from(count) * 32,
            WaveSize::Wave64 => u32::from(count) * 64 + u32::from(shared) * 32,
        };
        lanes.div_ceil(self.row_lanes).next_multiple_of(self.vgpr_granule).max(self.vgpr_granule)
    }

    /// Returns true if the engine has room for such processors.
    pub(super) const fn fits_engine(&self) -> bool {
        self.cus >= 1
            && self.cus <= MAX_CUS
            && self.simds() <= MAX_SIMDS
            && self.wave_slots <= MAX_WAVE_SLOTS
            && self.groups <= MAX_GROUPS
            && self.lds <= belfry_isa::exec::MAX_LDS_SIZE
    }
}
