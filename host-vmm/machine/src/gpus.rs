//! The GPUs of a machine that has at least one.

use belfry_device::GpuConfig;
use belfry_device::memory::MAX_PEERS;

/// Most GPUs of a machine: as many as reach each other.
pub const MAX_GPUS: usize = MAX_PEERS;

/// Configurations of the GPUs. Tools that look at one GPU take the first one.
#[derive(Clone, Debug, Default)]
pub struct Gpus {
    /// The first one.
    pub first: GpuConfig,
    /// The others, in the order in which the guest finds them.
    pub others: Vec<GpuConfig>,
}

impl Gpus {
    /// Returns all of them.
    #[must_use]
    pub fn all(&self) -> Vec<GpuConfig> {
        std::iter::once(&self.first).chain(&self.others).cloned().collect()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }
}

impl From<GpuConfig> for Gpus {
    fn from(first: GpuConfig) -> Self {
        Self { first, others: Vec::new() }
    }
}
