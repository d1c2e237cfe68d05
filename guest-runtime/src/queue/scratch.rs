//! Scratch memory: the private segments of work-items, given to a queue as one buffer divided by wave slots.

use std::sync::Arc;

use belfry_abi::aql::{AmdQueue, TMPRING_WAVESIZE_UNIT, TmpringSize};

use super::QueueError;
use crate::gpu::GpuInner;
use crate::memory::{Allocation, HostAccess, MemoryKind};

/// Most lanes of a workgroup, all of which must be able to hold scratch at once.
const MAX_WORKGROUP: u64 = 1024;
/// A kernel may ask for this many bytes per lane; WAVESIZE cannot express more than 8 MiB per wave anyway.
const MAX_PRIVATE: u64 = 128 << 10;
/// Scratch above this size is divided among fewer waves instead.
const COMFORTABLE: u64 = 32 << 20;

/// The scratch memory of one queue.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Bytes one wave has.
    wave_bytes: u64,
    _backing: Option<Allocation>,
}

/// How much scratch to allocate for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    wave_bytes: u64,
    waves_per_engine: u64,
    engines: u64,
}

impl Plan {
    fn bytes(self) -> u64 {
        self.wave_bytes * self.waves_per_engine * self.engines
    }
}

/// Bytes of scratch a wave needs for `private` bytes per lane.
fn wave_bytes(private: u32, wavefront: u32) -> Result<u64, QueueError> {
    if u64::from(private) > MAX_PRIVATE {
        return Err(QueueError::PrivateSegment { bytes: private, limit: MAX_PRIVATE as u32 });
    }
    Ok((u64::from(private) * u64::from(wavefront)).next_multiple_of(TMPRING_WAVESIZE_UNIT))
}

/// All waves the GPU can hold, or fewer when that would be a lot of memory, but at least a workgroup per engine.
fn plan(gpu: &GpuInner, wave_bytes: u64, wavefront: u32) -> Plan {
    let engines = u64::from(gpu.agent.shader_engines());
    let slots = u64::from(gpu.agent.compute_units()) * u64::from(gpu.agent.max_scratch_waves_per_cu.max(32));
    let least = MAX_WORKGROUP / u64::from(wavefront);
    let comfortable = COMFORTABLE / wave_bytes.max(1) / engines;
    let waves_per_engine = slots.div_ceil(engines).min(comfortable).max(least).min(0xfff);
    Plan { wave_bytes, waves_per_engine, engines }
}

impl Scratch {
    /// True if a kernel can start with the scratch there is.
    pub(super) fn suffices(&self, private: u32, wavefront: u32) -> Result<bool, QueueError> {
        Ok(wave_bytes(private, wavefront)? <= self.wave_bytes)
    }

    /// Allocates more and writes it into the queue structure. The queue must be idle.
    pub(super) fn grow(
        &mut self,
        gpu: &Arc<GpuInner>,
        queue: &Allocation,
        private: u32,
        wavefront: u32,
    ) -> Result<(), QueueError> {
        let mut plan = plan(gpu, wave_bytes(private, wavefront)?, wavefront);
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
        let mut tmpring = TmpringSize::from_bits(0);
        tmpring.set_waves(plan.waves_per_engine as u32);
        tmpring.set_wavesize((plan.wave_bytes / TMPRING_WAVESIZE_UNIT) as u32);
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
            [address as u32, (address >> 32) as u32, plan.bytes() as u32, 0u32]
        );
        set!(compute_tmpring_size, tmpring.bits());
        *self = Self { wave_bytes: plan.wave_bytes, _backing: Some(backing) };
        log::debug!(
            "scratch: {} bytes for each of {} waves",
            plan.wave_bytes,
            plan.waves_per_engine * plan.engines
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_has_its_lanes_in_units_of_256_bytes() {
        assert_eq!(wave_bytes(132, 32).unwrap(), 4352);
        assert_eq!(wave_bytes(4, 64).unwrap(), 256);
        assert!(matches!(wave_bytes(1 << 20, 32), Err(QueueError::PrivateSegment { .. })));
    }
}
