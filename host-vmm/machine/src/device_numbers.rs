//! Numbers of devices on the root bus.

/// The GPU's device number.
pub(crate) const GPU_DEVICE: u8 = 1;
/// The guest channel's device number.
pub(crate) const CHANNEL_DEVICE: u8 = 2;
