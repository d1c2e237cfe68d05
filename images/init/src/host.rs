//! The host, as this process sees it.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use belfry_channel::{Event, send};

use crate::sys;

/// The host's end of the channel; frames of several threads do not mix.
#[derive(Clone)]
pub(crate) struct Host(Arc<Mutex<File>>);

impl Host {
    /// The host behind a port.
    pub(crate) fn new(port: File) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    /// Sends an event. Switches the guest off if the host does not listen any more.
    pub(crate) fn tell(&self, event: &Event) {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if send(&mut *port, event).is_err() {
            // The host does not listen any more.
            sys::power_off();
        }
    }
}
