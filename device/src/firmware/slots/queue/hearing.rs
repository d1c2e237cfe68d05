//! The hearing of a queue: a fault may keep it from noticing its doorbell.

use std::time::Duration;

use super::{Activity, Life, Queue};
use crate::doorbell::Heard;
use crate::firmware::Ports;

/// A queue that does not hear its doorbell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deaf {
    /// Until it rings again.
    Lost,
    /// Until this time of the device.
    Until(Duration),
}

impl Queue {
    /// Takes note of the doorbell. Returns true if the queue goes on; while it has work, it does so by its write
    /// pointer.
    pub(super) fn hears(&mut self, ports: &Ports) -> bool {
        let sleeps = matches!(self.life, Life::Mapped { activity: Activity::Idle, .. });
        match ports.watch.look(self.doorbell, sleeps) {
            Heard::Nothing => {}
            Heard::Ring => {
                self.deaf = None;
                if let Life::Mapped { engine, .. } = &mut self.life
                    && ports.tools.sanitizer().is_some()
                {
                    engine.rung(ports.doorbells.load(self.doorbell.offset()));
                }
            }
            Heard::Lost => self.deaf = Some(Deaf::Lost),
            Heard::Late(until) => self.deaf = Some(Deaf::Until(until)),
        }
        if let Some(Deaf::Until(until)) = self.deaf
            && ports.tools.is_over(until)
        {
            self.deaf = None;
        }
        !sleeps || self.deaf.is_none()
    }

    /// Returns true if the doorbell was rung and a fault hides that from the queue.
    pub(super) fn is_deaf(&self, ports: &Ports) -> bool {
        match self.deaf {
            None => false,
            Some(Deaf::Lost) => !ports.doorbells.is_rung(self.doorbell),
            Some(Deaf::Until(until)) => !ports.tools.is_over(until),
        }
    }
}
