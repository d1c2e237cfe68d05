//! The interface between a guest and the machine that runs it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use belfry_device::Gpu;
use belfry_machine::snapshot::Saver;

use crate::error::GuestError;

/// Bytes of a console's end that are kept at least.
pub(super) const CONSOLE: u64 = 1 << 20;

/// The machine around a guest; dropping it ends the guest.
pub(super) trait Host: std::fmt::Debug {
    /// Returns the machine's name, for messages.
    fn name(&self) -> &'static str;

    /// Returns the GPUs, in the order in which the guest finds them.
    fn gpus(&self) -> &[Arc<Gpu>];

    /// Returns the end of the machine in words; `None` as long as it runs.
    fn ended(&mut self) -> Option<String>;

    /// Returns the end of the guest kernel's output on its serial port.
    fn console(&self) -> Vec<u8>;

    /// Returns a stream for keys to the guest's first serial port, if it was configured with a terminal.
    fn keyboard(&self) -> Option<io::Result<UnixStream>>;

    /// Returns the machine's own messages, each on a line of its own after a newline.
    fn messages(&self) -> String;

    /// Fails if a part outside of the guest has failed.
    fn check(&mut self) -> Result<(), GuestError>;

    /// Returns the time from the machine's start to the guest's first instruction, if it is known.
    fn setup_time(&self) -> Option<Duration>;

    /// Returns the saver of the running machine, if it can be saved.
    fn saver(&self) -> Option<Arc<Saver>> {
        None
    }

    /// Wakes the machine up if it sleeps in S3, in which only its memory has power; returns true if it did. A machine
    /// without that state never does.
    fn wake(&mut self) -> Result<bool, GuestError> {
        Ok(false)
    }

    /// Removes files that only the boot needed: the guest has booted.
    fn booted(&self) {}

    /// Takes the machine apart, even if the guest has not ended.
    fn stop(&mut self) -> Result<(), GuestError>;
}
