//! Events of the guest's driver, in the trace of its GPU.

use belfry_channel::{Request, VERSION};

use super::super::console::Console;
use super::Guest;
use crate::error::GuestError;
use belfry_traces::driver::DriverEvents;

/// Largest number of events that wait in the driver, 40 bytes each: more than a guest has in the 50 ms after which
/// init takes them.
const ROOM: u32 = 1 << 17;

impl Guest {
    /// Sends events of the guest's driver, from now on, to the trace of its GPU; [`Self::driver_events`] ends that.
    /// The driver must be loaded.
    ///
    /// # Errors
    ///
    /// A guest without debugfs, or whose driver has no such file in it; a guest that is gone.
    pub fn record_driver(&mut self) -> Result<(), GuestError> {
        let during = "recording the driver's events";
        if self.version != VERSION {
            let text = "the guest was saved by another version of belfry".to_owned();
            return Err(GuestError::Refused { during, text, errno: 0, console: Console::default() });
        }
        self.driver = DriverEvents::default();
        self.request(during, &Request::TraceDriver { records: ROOM })
    }

    /// Takes the last events; returns the counts of all of them.
    ///
    /// # Errors
    ///
    /// A driver whose events could not be read to their end; a guest that is gone.
    pub fn driver_events(&mut self) -> Result<&DriverEvents, GuestError> {
        self.request("reading the driver's events", &Request::TraceDriver { records: 0 })?;
        Ok(&self.driver)
    }

    /// Records the bytes that init has read. They can come without a request, as from a guest that was saved while it
    /// recorded.
    pub(super) fn driver_said(&mut self, data: &[u8]) {
        let Some(gpu) = self.host.gpus().first() else { return };
        let tracer = gpu.tracer();
        if let (Some(sink), Some(now)) = (tracer.sink(), tracer.time()) {
            let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            self.driver.take(data, now, &mut |record| sink.record(record));
        }
    }
}
