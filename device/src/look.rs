//! The live device's parts as plain data, and the switches that halt it, for tools that are crates of their own.
//!
//! Each answer is of one moment. Queues and waves are read while the firmware's lock is held; waves stand still between
//! two instructions for that long.

use std::sync::Arc;
use std::time::Duration;

use belfry_isa::exec::Lds;
use belfry_isa::wave::Wave;

use crate::device::Gpu;
pub use crate::doorbell::SeenDoorbell;
pub use crate::firmware::{SeenPackets, SeenQueue, SeenRing};
pub use crate::interrupt::SeenIhRing;
pub use crate::regs::SeenRegister;
use crate::shader::StepError;
pub use crate::shader::{SeenDispatch, SeenWave, Steps};
pub use crate::stops::{AccessRange, BreakOn, Stops, WaveKey, Why};
use crate::vm::AddressSpace;

/// Reasons why a device is not looked at, or not changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LookError {
    /// The device has ended.
    #[error("the device is stopped")]
    Stopped,
    /// The device runs.
    #[error("the device runs")]
    NotHalted,
    /// There is no such wave.
    #[error("no such wave is on the GPU")]
    NoWave,
    /// The queue of the wave is held, or off the compute units.
    #[error("the queue of the wave may not run now")]
    Held,
}

/// A look at a live device.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    gpu: &'a Gpu,
}

impl<'a> Look<'a> {
    /// Looks at a device.
    #[must_use]
    pub fn of(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }

    /// Returns the device.
    #[must_use]
    pub fn gpu(&self) -> &'a Gpu {
        self.gpu
    }

    /// Returns the age of the device.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.gpu.clock.now()
    }

    /// Returns the kernel's address space, VMID 0, if it has one.
    #[must_use]
    pub fn kernel_space(&self) -> Option<Arc<AddressSpace>> {
        self.gpu.contexts.space(0)
    }

    /// Returns all queues.
    ///
    /// # Errors
    ///
    /// [`LookError::Stopped`].
    pub fn queues(&self) -> Result<Vec<SeenQueue>, LookError> {
        self.gpu.runner.between_passes(|firmware| firmware.queues()).ok_or(LookError::Stopped)
    }

    /// Calls `dispatches` for each dispatch that is not done, then `waves` for its waves.
    ///
    /// # Errors
    ///
    /// [`LookError::Stopped`].
    pub fn waves(
        &self,
        dispatches: &mut dyn FnMut(&SeenDispatch<'_>),
        waves: &mut dyn FnMut(&SeenWave<'_>),
    ) -> Result<(), LookError> {
        let looked = self.gpu.runner.between_passes(|_| self.gpu.shader.look(dispatches, waves));
        looked.ok_or(LookError::Stopped)
    }

    /// Returns all registers with a model, as a driver would read them now. None of this counts as an access.
    #[must_use]
    pub fn registers(&self) -> Vec<SeenRegister> {
        self.gpu.registers.seen()
    }

    /// Returns the name and the absolute dword index of a register by its name; of the first instance, if there are several.
    #[must_use]
    pub fn register(&self, name: &str) -> Option<(String, u32)> {
        self.gpu.registers.named(name)
    }

    /// Returns the doorbells that have an owner.
    #[must_use]
    pub fn doorbells(&self) -> Vec<SeenDoorbell> {
        self.gpu.doorbells.seen()
    }

    /// Returns the interrupt rings, with at most this many of the last entries of each.
    #[must_use]
    pub fn interrupts(&self, most: u32) -> Vec<SeenIhRing> {
        self.gpu.interrupts.seen(self.kernel_space().as_deref(), most)
    }

    /// Returns the switch that halts the device, and its breakpoints.
    #[must_use]
    pub fn stops(&self) -> &'a Arc<Stops> {
        self.gpu.shader.stops()
    }

    /// Waits until everything that was told to halt stands still.
    ///
    /// # Errors
    ///
    /// [`LookError::Stopped`].
    pub fn settle(&self) -> Result<(), LookError> {
        let still = self.gpu.runner.between_passes(|_| drop(self.gpu.shader.hold()));
        still.ok_or(LookError::Stopped)
    }

    /// Lets a halted device go on; returns true if it was halted.
    pub fn proceed(&self) -> bool {
        let was = self.stops().proceed();
        self.look_again();
        was
    }

    /// Lets the packet go on in front of which a client has looked for code, unless the device is halted for another
    /// reason by now.
    pub fn looked(&self) {
        if self.stops().looked() {
            self.look_again();
        }
    }

    /// Wakes the threads of the device, so that they look if they may go on.
    fn look_again(&self) {
        self.gpu.shader.look_again();
        self.gpu.runner.look_again();
    }

    /// Runs a wave of a halted device, or its workgroup, on the caller's thread.
    ///
    /// # Errors
    ///
    /// All of [`LookError`].
    pub fn step(&self, wave: WaveKey, steps: Steps) -> Result<(), LookError> {
        self.halted(|| {
            self.gpu.shader.step(wave, steps).map_err(|error| match error {
                StepError::NoWave => LookError::NoWave,
                StepError::Held => LookError::Held,
            })
        })?;
        self.stops().moved(wave);
        Ok(())
    }

    /// Calls `change` with a wave of a halted device, which stands between two instructions, and with its workgroup's LDS.
    ///
    /// # Errors
    ///
    /// All of [`LookError`] but [`LookError::Held`].
    pub fn alter(&self, wave: WaveKey, change: &mut dyn FnMut(&mut Wave, &mut Lds)) -> Result<(), LookError> {
        self.halted(|| if self.gpu.shader.alter(wave, change) { Ok(()) } else { Err(LookError::NoWave) })
    }

    /// Does something with a halted device, between two passes of the firmware.
    fn halted(&self, what: impl FnOnce() -> Result<(), LookError>) -> Result<(), LookError> {
        let done = self
            .gpu
            .runner
            .between_passes(|_| if self.stops().is_halted() { what() } else { Err(LookError::NotHalted) });
        done.ok_or(LookError::Stopped)?
    }
}
