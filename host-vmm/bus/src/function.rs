//! A PCI function on the root bus.

use std::fmt::Debug;

use belfry_pci::BarLayout;

use crate::bar::Bar;

/// A PCI function: function 0 of a device on the root bus.
///
/// Offsets and contents of accesses come from the guest: any width, any offset, also across the end of the structure.
pub trait Function: Debug + Send + Sync {
    /// Reads configuration space; bytes that do not exist read 0.
    fn config_read(&self, offset: usize, data: &mut [u8]);

    /// Writes configuration space. The bus reads command register and BARs afterwards, one write at a time.
    fn config_write(&self, offset: usize, data: &[u8]);

    /// Returns the memory BARs, in the order of their numbers.
    fn bars(&self) -> &[BarLayout];

    /// Reports the BARs that decode from now on, for memory that is mapped beside the bus; during the change,
    /// accesses may still arrive.
    fn place(&self, bars: &[Bar]);

    /// Reads from a BAR that decodes.
    fn read(&self, bar: u8, offset: u64, data: &mut [u8]);

    /// Writes to a BAR that decodes.
    fn write(&self, bar: u8, offset: u64, data: &[u8]);
}
