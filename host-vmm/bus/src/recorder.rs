//! Interrupts that are recorded, for tests of functions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use belfry_pci::Message;

use crate::message::Interrupts;

/// Record of a function's interrupts.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    routes: Vec<Option<Message>>,
    raised: Vec<u16>,
    pin: bool,
}

impl Recorder {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the routes of all vectors.
    #[must_use]
    pub fn routes(&self) -> Vec<Option<Message>> {
        self.recorded().routes.clone()
    }

    /// Returns the vectors raised since the last call.
    #[must_use]
    pub fn raised(&self) -> Vec<u16> {
        std::mem::take(&mut self.recorded().raised)
    }

    /// Returns true if the pin is asserted.
    #[must_use]
    pub fn pin(&self) -> bool {
        self.recorded().pin
    }
}

impl Interrupts for Recorder {
    fn route(&self, messages: &[Option<Message>]) {
        self.recorded().routes = messages.to_vec();
    }

    fn raise(&self, vector: u16) {
        self.recorded().raised.push(vector);
    }

    fn set_pin(&self, asserted: bool) {
        self.recorded().pin = asserted;
    }
}
