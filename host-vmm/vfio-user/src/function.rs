//! A PCI function, as a server sees it.

use crate::error::SetupError;
use crate::regions::Regions;

/// A PCI function behind a server; implemented by the GPU, and by stand-ins in tests.
pub trait Function: Send + Sync {
    /// Reads configuration space.
    fn config_read(&self, offset: usize, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&self, offset: usize, data: &[u8]);
    /// Reads a BAR.
    ///
    /// # Errors
    ///
    /// An errno for the client.
    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> Result<(), i32>;
    /// Writes a BAR.
    ///
    /// # Errors
    ///
    /// An errno for the client.
    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> Result<(), i32>;
    /// Takes a new memory map of the guest; returns when the old one is no longer used.
    fn memory_changed(&self);
    /// Resets the device: the system was reset.
    fn reset(&self);
    /// Returns the device to its power-on state after the client has gone, with none of its data left. The regions
    /// get other memory than the client may still have mapped.
    ///
    /// # Errors
    ///
    /// Other memory cannot be had.
    fn client_left(&self, regions: &mut Regions) -> Result<(), SetupError>;
}
