//! Resources that can be used up.

/// Resources of a GPU that processes can use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// VRAM.
    Vram,
    /// System memory of the driver, which the GPU reaches.
    System,
    /// A doorbell for a queue.
    Doorbell,
}
