//! What there can be none left of.

/// What a process can have of a GPU until there is none left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// VRAM.
    Vram,
    /// System memory of the driver, which the GPU reaches.
    System,
    /// A doorbell for a queue.
    Doorbell,
}
