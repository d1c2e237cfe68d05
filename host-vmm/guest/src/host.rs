//! What a guest needs of whatever runs it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use belfry_device::Gpu;
use belfry_machine::snapshot::Saver;

use super::GuestError;

/// Bytes of a console that are kept at least: its end.
pub(super) const CONSOLE: u64 = 1 << 20;

/// The machine around a guest; dropping it ends the guest.
pub(super) trait Host: std::fmt::Debug {
    /// What it is, for messages.
    fn name(&self) -> &'static str;

    /// The device, when the guest has one.
    fn gpu(&self) -> Option<&Arc<Gpu>>;

    /// How the machine ended; none as long as it runs.
    fn ended(&mut self) -> Option<String>;

    /// The end of what the guest's kernel has written to its serial port.
    fn console(&self) -> Vec<u8>;

    /// Where keys for the guest's first serial port go, if it was configured with a terminal.
    fn keyboard(&self) -> Option<io::Result<UnixStream>>;

    /// What the machine itself has to say, a line each behind a newline.
    fn messages(&self) -> String;

    /// Fails where a part that is not the guest's has failed.
    fn check(&mut self) -> Result<(), GuestError>;

    /// From the start of the machine to the guest's first instruction, where that can be known.
    fn setup_time(&self) -> Option<Duration>;

    /// What saves the machine while it runs, where that can be done.
    fn saver(&self) -> Option<Arc<Saver>> {
        None
    }

    /// Wakes the machine up if it sleeps with its memory powered alone (S3), and answers whether it did; one without that state never
    /// does.
    fn wake(&mut self) -> Result<bool, GuestError> {
        Ok(false)
    }

    /// The guest has booted: what only the boot needed can go.
    fn booted(&self) {}

    /// Takes the machine apart, whether the guest has ended or not.
    fn stop(&mut self) -> Result<(), GuestError>;
}
