//! State of a function's interrupts.

/// The state of a function's interrupts, from its command register and its capabilities.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InterruptControl {
    /// MSI-X is switched on: messages go through the table.
    pub msix_enabled: bool,
    /// MSI-X masks every vector.
    pub msix_masked: bool,
    /// MSI is switched on.
    pub msi_enabled: bool,
    /// The command register keeps the pin released.
    pub intx_disabled: bool,
}

/// A message: its address and its data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Message {
    /// The address in memory space.
    pub address: u64,
    /// The value.
    pub data: u32,
}
