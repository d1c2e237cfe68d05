//! Suspend and resume: the device is put to sleep under the queues of all processes, and they go on when it is back
//! (`kfd_device.c`, `kgd2kfd_suspend`, `kgd2kfd_resume`).
//!
//! | state | queues | accesses to the device |
//! | --- | --- | --- |
//! | runs | on the scheduler | reach it |
//! | [`Device::suspend`] | taken off, which saves their waves | reach it |
//! | sleeps | those that are added are kept, those that are removed forgotten | wait |
//! | [`Device::resume`] | handed to the scheduler again | reach it |
//!
//! The device may lose its registers while it sleeps, and keeps VRAM. A system freezes programs first; where others go on, their
//! calls wait as soon as they need the device.

use belfry_abi::kfd::smi::QueueEvictionTrigger;

use super::{Device, Kept};
use crate::errno::{Errno, Result};
use crate::hw::log;
use crate::os::{Clock, DriverEvent, Os};
use crate::process::Phase;

/// Passes over the interrupt ring before the device sleeps: no queue runs any more, and one is enough for what is in it.
const PASSES: usize = 4;

impl<O: Os> Device<O> {
    /// Takes all queues of all processes off the device, and lets it sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EIO` when the device is beyond repair, `EBUSY` when it sleeps already, `ETIME` when it hangs again after
    /// a reset.
    pub(crate) fn suspend(&self) -> Result<()> {
        let mut evicted = Err(Errno::ETIME);
        // Who hangs is gone with the first reset.
        for _ in 0..2 {
            let epoch = self.epoch();
            evicted = self.evict_all();
            self.recover_after(epoch, evicted);
            if evicted != Err(Errno::ETIME) {
                break;
            }
        }
        evicted?;
        self.note_eviction();
        for _ in 0..PASSES {
            if !self.interrupt() {
                break;
            }
        }
        {
            // Nobody is in the middle of a request, of a look at the interrupt ring or of an invalidation.
            let _scheduler = self.scheduler.lock();
            self.corrected_errors();
            let ih = self.ih.lock();
            let _engine = self.flush.lock();
            if let Some(ih) = ih.as_ref() {
                ih.stop();
            }
            self.gart.disable();
            self.hw.sleep();
        }
        log!(self.hw, Info, "the device is suspended");
        Ok(())
    }

    /// Starts the device anew, and has the queues go on. What was asked for meanwhile is done.
    ///
    /// A device that does not come back is reset, as one whose scheduler hangs: its queues are lost, and their processes are told.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EINVAL` when it does not sleep, `EIO` when it is beyond repair.
    pub(crate) fn resume(&self) -> Result<()> {
        if !self.hw.alive() {
            return Err(Errno::ENODEV);
        }
        if !self.is_asleep() {
            return Err(Errno::EINVAL);
        }
        self.hw.wake();
        let (epoch, started) = {
            let mut scheduler = self.scheduler.lock();
            let Some(scheduler) = scheduler.as_mut() else { return Err(Errno::ENODEV) };
            (self.epoch(), self.start_with(scheduler, Kept::resume))
        };
        if let Err(error) = started {
            log!(self.hw, Error, "the device does not come back from being suspended ({error})");
            if self.recover(epoch) {
                self.tell_reset();
            }
        } else {
            log!(self.hw, Info, "the device is resumed");
        }
        self.note_restoration();
        // Of what ended last, no interrupt may have told.
        self.look_at_all();
        if self.wedged() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Whether it sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        self.hw.is_asleep()
    }

    /// Lets go of a device that sleeps: it is being removed, and nobody waits for it to wake up.
    pub(crate) fn leave_asleep(&self) {
        if self.is_asleep() {
            self.hw.detach();
        }
    }

    fn evict_all(&self) -> Result<()> {
        let mut scheduler = self.scheduler.lock();
        if self.wedged() {
            return Err(Errno::EIO);
        }
        scheduler.as_mut().ok_or(Errno::ENODEV)?.suspend()
    }

    /// The queues of all processes leave the scheduler.
    fn note_eviction(&self) {
        for process in self.processes() {
            let task = {
                let mut state = process.state.lock();
                if state.phase != Phase::Alive {
                    continue;
                }
                self.trace(process.pasid, DriverEvent::Evicted);
                state.count_eviction(self.hw.os().clock_ns(Clock::Monotonic));
                state.task
            };
            if let Some(task) = task {
                self.smi.eviction(&self.nodes(), process.pasid, &task, QueueEvictionTrigger::Suspend);
            }
        }
    }

    /// They are back, but for those that something else keeps away.
    fn note_restoration(&self) {
        for process in self.processes() {
            let task = {
                let mut state = process.state.lock();
                if state.phase != Phase::Alive || state.svm.quiesced {
                    continue;
                }
                self.trace(process.pasid, DriverEvent::Restored);
                state.end_eviction(self.hw.os().clock_ns(Clock::Monotonic));
                state.task
            };
            if let Some(task) = task {
                self.smi.restore(&self.nodes(), process.pasid, &task);
            }
        }
    }
}
