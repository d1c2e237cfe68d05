//! Errors of making or using a hosted GPU.

use belfry_kfd_core::Errno;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused memory or a thread.
    #[error("{what}: {source}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operation.
        source: std::io::Error,
    },
    /// The configuration or the memory given is not one the device accepts.
    #[error("the device cannot be made: {0}")]
    Device(#[from] belfry_device::Error),
    /// The driver did not accept the device; its log says why.
    #[error("the driver does not bind to the device: {0}")]
    Probe(Errno),
    /// The driver refused to open.
    #[error("the driver cannot be opened: {0}")]
    Open(Errno),
    /// A machine without a GPU was asked for.
    #[error("a machine has at least one GPU")]
    NoGpu,
    /// More GPUs were asked for than a machine has.
    #[error("{0} GPUs in one machine: at most {most} reach each other", most = belfry_device::memory::MAX_PEERS)]
    TooManyGpus(usize),
    /// Several GPUs were asked for of which one explores schedules.
    #[error("schedules are explored in a machine with one GPU only")]
    OneGpuOnly,
    /// The driver is not loaded.
    #[error("no driver is loaded")]
    NotLoaded,
}

impl Error {
    pub(crate) fn last_os(what: &'static str) -> Self {
        Self::System { what, source: std::io::Error::last_os_error() }
    }
}
