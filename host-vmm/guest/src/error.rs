//! What can go wrong with a guest.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use belfry_image::{CacheError, ImageError};
use belfry_machine::{DiskError, KvmError};
use belfry_vfio_user::{ServerError, SetupError};

use super::console::Console;
use super::network::NetworkError;

/// What can go wrong with a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest's parts could not be had.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The device or its server could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Belfry's own machine could not be made, or failed.
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// A disk's image cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// There is no network for the guest, or no more.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Belfry's own machine never writes to a disk's image.
    #[error("Belfry's own machine never writes to the image of a disk; QEMU does")]
    NoKeptDisks,
    /// The guest was configured without a disk with a system.
    #[error("this guest has no disk with a system of its own")]
    NoSystem,
    /// QEMU could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or socket on the host failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The guest's kernel gave up.
    #[error("the guest's kernel panicked while {during}: {line}{console}")]
    Panic {
        /// What was being waited for.
        during: &'static str,
        /// The panic's first line.
        line: String,
        /// End of the console.
        console: Console,
    },
    /// The machine ended by itself.
    #[error("{machine} ended while {during} {how}{console}")]
    Ended {
        /// What it is: QEMU, or Belfry's own machine.
        machine: &'static str,
        /// What was being waited for.
        during: &'static str,
        /// How it ended, and its own messages.
        how: String,
        /// End of the console.
        console: Console,
    },
    /// Something took too long.
    #[error("no end within {limit:?} while {during}{console}")]
    Timeout {
        /// What was being waited for.
        during: &'static str,
        /// How long.
        limit: Duration,
        /// End of the console.
        console: Console,
    },
    /// The guest refused a request.
    #[error("{during}: {text}{console}")]
    Refused {
        /// What was asked.
        during: &'static str,
        /// The guest's words.
        text: String,
        /// The errno behind it, or 0.
        errno: i32,
        /// End of the kernel's log where it matters.
        console: Console,
    },
    /// The guest said something that makes no sense here.
    #[error("the guest's init broke the protocol while {during}: {what}")]
    Protocol {
        /// What was being waited for.
        during: &'static str,
        /// What came.
        what: String,
    },
    /// A snapshot with nothing kept for who goes on with its guest.
    #[error("the snapshot does not say what its guest does")]
    NotKept,
    /// The guest was configured without a terminal.
    #[error("this guest has no terminal")]
    NoTerminal,
    /// The user ended the machine.
    #[error("Ctrl-A x ended the guest")]
    Quit,
    /// The server for the device ended.
    #[error("the vfio-user server ended: {0}")]
    Server(#[from] ServerError),
}
