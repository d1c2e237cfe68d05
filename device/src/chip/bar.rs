//! The BAR of the registers.

use belfry_abi::pci;

/// Size of the BAR of the registers, and the parts in it that are no registers. The MSI-X table is at one
/// place on all chips.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegisterBar {
    /// Bytes.
    pub size: u64,
    /// Offset in bytes of the page with the flush of the host data path, until a driver moves it.
    pub hdp_remap: u64,
}

impl RegisterBar {
    /// The BAR of the Navi chips.
    pub const NAVI: Self = Self { size: pci::REGISTER_BAR_SIZE, hdp_remap: pci::HDP_REMAP_OFFSET };

    /// Registers that it decodes.
    #[must_use]
    pub const fn registers(&self) -> u32 {
        (self.size / 4) as u32
    }
}
