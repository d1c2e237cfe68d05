//! Scratch memory: the private segments of work-items, given to a queue as one buffer divided by wave slots.

use std::sync::Arc;

use belfry_abi::aql::{AmdQueue, TmpringSize};

use super::QueueError;
use crate::generation::Generation;
use crate::memory::{Allocation, HostAccess, MemoryKind};
use crate::opened::GpuInner;
use crate::topology::Agent;

/// Most lanes of a workgroup, all of which must be able to hold scratch at once.
const MAX_WORKGROUP: u64 = 1024;
/// A kernel may ask for this many bytes per lane; WAVESIZE cannot express more than 8 MiB per wave anyway.
const MAX_PRIVATE: u64 = 128 << 10;
/// Most waves that WAVES can say.
const MOST_WAVES: u64 = 0xfff;
/// Scratch above this size is divided among fewer waves instead.
const COMFORTABLE: u64 = 32 << 20;

/// The scratch memory of one queue.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Bytes one wave has.
    wave_bytes: u64,
    _backing: Option<Allocation>,
}

/// Amount of scratch memory to allocate for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    wave_bytes: u64,
    waves_per_engine: u64,
    /// Shader engines of each graphics core.
    engines: u64,
    xccs: u64,
}

impl Plan {
    fn waves(self) -> u64 {
        self.waves_per_engine * self.engines * self.xccs
    }

    fn bytes(self) -> u64 {
        self.wave_bytes * self.waves()
    }

    /// `COMPUTE_TMPRING_SIZE`. Generations have `WAVESIZE` in other units, `WAVES` in 11:0 and `WAVESIZE` from 12 on in common.
    fn tmpring(self, generation: &Generation) -> TmpringSize {
        let each = if generation.scratch_waves_of_core { self.engines } else { 1 };
        let mut tmpring = TmpringSize::from_bits(0);
        tmpring.set_waves((self.waves_per_engine * each) as u32);
        tmpring.set_wavesize((self.wave_bytes / generation.scratch_unit) as u32);
        tmpring
    }
}

/// Bytes of scratch a wave needs for `private` bytes per lane.
fn wave_bytes(private: u32, wavefront: u32, unit: u64) -> Result<u64, QueueError> {
    if u64::from(private) > MAX_PRIVATE {
        return Err(QueueError::PrivateSegment { bytes: private, limit: MAX_PRIVATE as u32 });
    }
    Ok((u64::from(private) * u64::from(wavefront)).next_multiple_of(unit))
}

/// All waves the GPU can hold, or fewer when that would be a lot of memory, but at least a workgroup per engine.
fn plan(agent: &Agent, wave_bytes: u64, wavefront: u32) -> Plan {
    let xccs = u64::from(agent.xccs.max(1));
    let engines = (u64::from(agent.shader_engines()) / xccs).max(1);
    let slots = u64::from(agent.compute_units()) * u64::from(agent.max_scratch_waves_per_cu.max(32));
    let least = MAX_WORKGROUP / u64::from(wavefront);
    let comfortable = COMFORTABLE / wave_bytes.max(1) / engines / xccs;
    let most = if Generation::of(agent).scratch_waves_of_core { MOST_WAVES / engines } else { MOST_WAVES };
    let waves_per_engine = slots.div_ceil(engines * xccs).min(comfortable).max(least).min(most);
    Plan { wave_bytes, waves_per_engine, engines, xccs }
}

impl Scratch {
    /// True if a kernel can start with the scratch there is.
    pub(super) fn suffices(&self, gpu: &GpuInner, private: u32, wavefront: u32) -> Result<bool, QueueError> {
        let unit = Generation::of(&gpu.agent).scratch_unit;
        Ok(wave_bytes(private, wavefront, unit)? <= self.wave_bytes)
    }

    /// Allocates more and writes it into the queue structure. The queue must be idle.
    pub(super) fn grow(
        &mut self,
        gpu: &Arc<GpuInner>,
        queue: &Allocation,
        private: u32,
        wavefront: u32,
    ) -> Result<(), QueueError> {
        let generation = Generation::of(&gpu.agent);
        let wave_bytes = wave_bytes(private, wavefront, generation.scratch_unit)?;
        let mut plan = plan(&gpu.agent, wave_bytes, wavefront);
        let least = MAX_WORKGROUP / u64::from(wavefront);
        // The old memory goes first: nothing uses it, and the new may only fit in its place.
        *self = Self::default();
        let backing = loop {
            let (kfd, gpus) = (&gpu.process.kfd, [gpu.agent.gpu_id]);
            let result =
                Allocation::new(kfd, &gpus, MemoryKind::Vram, HostAccess::None, plan.bytes() as usize);
            match result {
                Ok(backing) => break backing,
                Err(error) if plan.waves_per_engine <= least => return Err(error.into()),
                Err(_) => plan.waves_per_engine = (plan.waves_per_engine / 2).max(least),
            }
        };
        let tmpring = plan.tmpring(generation);
        let address = backing.address();
        let lane_bytes = (plan.wave_bytes / 64) as u32;
        macro_rules! set {
            ($field:ident, $value:expr) => {
                queue.write(std::mem::offset_of!(AmdQueue, $field), &$value)
            };
        }
        set!(scratch_backing_memory_location, address);
        set!(scratch_backing_memory_byte_size, plan.bytes());
        set!(scratch_wave64_lane_byte_size, lane_bytes);
        set!(
            scratch_resource_descriptor,
            [address as u32, (address >> 32) as u32, (plan.bytes() / plan.xccs) as u32, 0u32]
        );
        set!(compute_tmpring_size, tmpring.bits());
        *self = Self { wave_bytes: plan.wave_bytes, _backing: Some(backing) };
        log::debug!("scratch: {} bytes for each of {} waves", plan.wave_bytes, plan.waves());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_has_its_lanes_in_units_of_its_generation() {
        assert_eq!(wave_bytes(132, 32, 256).unwrap(), 4352);
        assert_eq!(wave_bytes(4, 64, 256).unwrap(), 256);
        assert_eq!(wave_bytes(4, 64, 1024).unwrap(), 1024);
        assert!(matches!(wave_bytes(1 << 20, 32, 256), Err(QueueError::PrivateSegment { .. })));
    }

    #[test]
    fn waves_are_counted_as_the_generation_counts_them() {
        let agent = |gfx_version, xccs| Agent {
            gfx_version,
            simds: 64 * xccs,
            simds_per_cu: 4,
            arrays: 4 * xccs,
            arrays_per_engine: 1,
            max_scratch_waves_per_cu: 32,
            xccs,
            ..Agent::default()
        };
        let of = |agent: &Agent| {
            let plan = plan(agent, 1024, 64);
            let tmpring = plan.tmpring(Generation::of(agent));
            (tmpring.waves(), tmpring.wavesize(), plan.bytes())
        };
        // 16 compute units of 32 waves in four engines: WAVES is of an engine on gfx11, of a graphics core on gfx9.
        assert_eq!(of(&agent(110_000, 1)), (128, 4, 512 << 10));
        assert_eq!(of(&agent(90_402, 1)), (512, 1, 512 << 10));
        assert_eq!(of(&agent(90_402, 8)), (512, 1, 8 * (512 << 10)));
    }
}
