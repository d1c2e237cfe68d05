//! The BAR of the registers.

use belfry_abi::pci;

/// Size of the BAR of the registers, and where in it lies what is no register. The MSI-X table is at the same place on all chips.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegisterBar {
    /// Bytes.
    pub size: u64,
    /// Where the page with the flush of the host data path is until a driver moves it.
    pub hdp_remap: u64,
}

impl RegisterBar {
    /// That of the Navi chips.
    pub const NAVI: Self = Self { size: pci::REGISTER_BAR_SIZE, hdp_remap: pci::HDP_REMAP_OFFSET };

    /// Registers that it decodes.
    #[must_use]
    pub const fn registers(&self) -> u32 {
        (self.size / 4) as u32
    }
}
