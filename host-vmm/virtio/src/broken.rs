//! Mistakes of drivers.

/// Mistake of a driver after which the device cannot go on.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub(crate) String);
