//! A device whose schedule is explored: it works only when it is called, on the calling thread.

use std::sync::Arc;
use std::time::Duration;

use super::{Gpu, Resources};
use crate::config::GpuConfig;
use crate::error::Error;
use crate::firmware::Turn;
use crate::time::Clock;

/// Time of the device that a step takes.
const STEP: Duration = Duration::from_micros(1);

/// Result of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stepped {
    /// There may be more to do.
    Busy,
    /// Nothing to do, until the device is told of something, or until this time has passed.
    Idle(Option<Duration>),
}

impl Gpu {
    /// A device that is explored.
    pub(super) fn new_explored(config: GpuConfig, resources: Resources) -> Result<Arc<Self>, Error> {
        let config = GpuConfig { deterministic: config.deterministic.or(Some(0)), ..config };
        let clock = Clock::new(&config.time);
        let gpu = Self::assemble(config, resources, clock, None)?;
        gpu.place_tables();
        gpu.work_on_caller();
        Ok(Arc::new(gpu))
    }

    /// Serves everything once, and takes one turn at waves, which lasts until the [schedule](crate::explore)
    /// lets others go on. For a device that has an [explorer](GpuConfig::explorer), or [is
    /// alone](Gpu::restore_alone); its manual time passes.
    pub fn step_explored(&self) -> Stepped {
        self.config.time.advance(STEP);
        self.wake.clear();
        let turn = self.runner.pass_until();
        let turned = self.shader.turn();
        if self.tools.may_strike() {
            self.interrupts.raise_late();
        }
        match turn {
            _ if turned || self.wake.is_woken() => Stepped::Busy,
            Turn::Now => Stepped::Busy,
            Turn::After(left) => Stepped::Idle(Some(left)),
            Turn::WhenWoken => Stepped::Idle(None),
        }
    }

    /// Returns true if the device was told of something since its last step.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        self.wake.is_woken()
    }
}
