//! The device asleep: its queues are off, its registers may be lost, and accesses wait.

use super::{Device, Kept};
use crate::errno::{Errno, Result};
use crate::os::Os;

impl<O: Os> Device<O> {
    /// Returns whether it sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        self.hw.is_asleep()
    }

    /// Lets go of a device that sleeps: it is being removed, and no thread waits for it to wake up.
    pub(crate) fn leave_asleep(&self) {
        if self.is_asleep() {
            self.hw.detach();
        }
    }

    /// Takes all queues of all processes off the device.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EIO` when the device is beyond repair, `EBUSY` when it sleeps already, `ETIME` when it hangs.
    pub(crate) fn evict_all(&self) -> Result<()> {
        let mut scheduler = self.scheduler.lock();
        if self.wedged() {
            return Err(Errno::EIO);
        }
        scheduler.as_mut().ok_or(Errno::ENODEV)?.suspend()
    }

    /// Stops interrupts and translations, and has accesses wait from now on.
    pub(crate) fn fall_asleep(&self) {
        // No thread is in the middle of a request, of a look at the interrupt ring or of an invalidation.
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

    /// Lets accesses through and starts the device anew, with the queues that the scheduler has kept; returns the epoch, and how the
    /// start went.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal.
    pub(crate) fn wake_up(&self) -> Result<(u64, Result<()>)> {
        self.hw.wake();
        let mut scheduler = self.scheduler.lock();
        let scheduler = scheduler.as_mut().ok_or(Errno::ENODEV)?;
        Ok((self.epoch(), self.start_with(scheduler, Kept::resume)))
    }
}
