//! A device that was restored from a snapshot and has no host. It finishes the work that was in flight; no new work comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_abi::pci;
use vm_memory::MmapRegion;

use super::{Gpu, Resources, SavedGpu, SnapshotError, Stepped};
use crate::config::GpuConfig;
use crate::error::Error;
use crate::interrupt::InterruptSink;
use crate::memory::SystemMemory;
use crate::shader::RunningWaves;
use crate::time::TimeSource;

/// Time of the device that passes while nothing moves, before work in flight counts as waiting for the host.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time of the device between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// A sink that drops all interrupts. A device without a host has nowhere to send them.
pub(super) struct DropsInterrupts;

impl InterruptSink for DropsInterrupts {
    fn raise(&self, _vector: u16) {}
}

/// States in which a device without a host stops.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rest {
    /// Nothing is in flight: queues are idle, no wave is left.
    Idle,
    /// All remaining work waits for an action of its host.
    Waiting(RunningWaves),
    /// The time limit was over before the device came to rest.
    Late(RunningWaves),
}

impl Gpu {
    /// Makes a device that goes on at the point where another one was saved, without a host.
    /// [`Gpu::run_to_rest`] does all of its work on the thread that calls it, in a time of its own, so that
    /// each run is equal. VRAM and system memory are as they were saved.
    ///
    /// # Errors
    ///
    /// As [`Gpu::restore`].
    pub fn restore_alone(
        saved: &SavedGpu,
        config: GpuConfig,
        vram: MmapRegion,
        system: SystemMemory,
    ) -> Result<Arc<Self>, SnapshotError> {
        let doorbells = MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize);
        let doorbells = doorbells.map_err(|error| Error::Memory(error.to_string()))?;
        let resources = Resources { vram, doorbells, system, interrupts: Arc::new(DropsInterrupts) };
        let config = GpuConfig { time: TimeSource::manual(), workers: 1, ..config };
        let gpu = Self::restore(saved, config, resources)?;
        gpu.work_on_caller();
        Ok(gpu)
    }

    /// Lets a device that was [restored alone](Self::restore_alone) go on until nothing is in flight any
    /// more, or nothing moves, or `limit` of the host's time has passed.
    pub fn run_to_rest(&self, limit: Duration) -> Rest {
        self.resume();
        let begun = Instant::now();
        let mut still = Duration::ZERO;
        let running = || self.running_waves(usize::from(u8::MAX)).unwrap_or_default();
        loop {
            if begun.elapsed() > limit {
                return Rest::Late(running());
            }
            match self.step_explored() {
                Stepped::Busy => still = Duration::ZERO,
                Stepped::Idle(_) if !self.is_in_flight() => return Rest::Idle,
                Stepped::Idle(_) if still > PATIENCE => return Rest::Waiting(running()),
                Stepped::Idle(left) => {
                    let passes = left.map_or(LOOK, |left| left.min(LOOK)).max(Duration::from_micros(1));
                    still += passes;
                    self.config.time.advance(passes);
                }
            }
        }
    }

    /// Returns true if there is a wave, or a queue has work that is not completed.
    fn is_in_flight(&self) -> bool {
        let waves = self.running_waves(0).unwrap_or_default();
        waves.waves > 0 || waves.workgroups_left > 0 || self.doorbells.any_busy()
    }
}
