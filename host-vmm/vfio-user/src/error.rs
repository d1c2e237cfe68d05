//! Errors of a server and of its device.

use std::io;
use std::path::PathBuf;

/// Errors of the server itself; mistakes of a client are answered and logged, and the server goes on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket's path exists already.
    #[error("{0} exists already; is another server running? Remove it if not")]
    Exists(PathBuf),
    /// The socket could not be made.
    #[error("cannot listen on {path}: {source}")]
    Listen {
        /// The socket's path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Waiting for clients failed.
    #[error("cannot wait for a client: {0}")]
    Accept(io::Error),
    /// The device could not be made ready for the next client.
    #[error("cannot make the device ready for the next client: {0}")]
    Renew(#[source] Box<SetupError>),
}

/// Reason why the device could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no shared memory for VRAM or doorbells.
    #[error("cannot get {size} bytes of shared memory for {what}: {source}")]
    Memory {
        /// `VRAM` or `doorbells`.
        what: &'static str,
        /// Bytes asked for.
        size: u64,
        /// Why it failed.
        source: io::Error,
    },
    /// Interrupts need asynchronous I/O to reach a client's eventfds without ever waiting for it.
    #[error("cannot set up asynchronous I/O, which signals eventfds (see /proc/sys/fs/aio-max-nr): {0}")]
    Interrupts(#[source] io::Error),
    /// The device refused its configuration or resources.
    #[error(transparent)]
    Device(#[from] belfry_device::Error),
    /// More devices than reach each other.
    #[error(transparent)]
    Peers(#[from] belfry_device::memory::NoSuchPeer),
    /// The server could not start.
    #[error(transparent)]
    Server(#[from] ServerError),
}
