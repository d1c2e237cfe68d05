//! Errors of a guest.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use belfry_image::{CacheError, ImageError};
use belfry_machine::{DiskError, KvmError};
use belfry_vfio_user::{ServerError, SetupError};

use super::console::Console;
use super::network::NetworkError;

/// Errors of a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest's parts are not available.
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
    /// The guest's network could not be started, or has ended.
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
        /// Step that failed.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The guest's kernel gave up.
    #[error("the guest's kernel panicked while {during}: {line}{console}")]
    Panic {
        /// Step that was waited for.
        during: &'static str,
        /// The panic's first line.
        line: String,
        /// End of the console.
        console: Console,
    },
    /// The machine ended by itself.
    #[error("{machine} ended while {during} {how}{console}")]
    Ended {
        /// Name of the machine: QEMU, or Belfry's own machine.
        machine: &'static str,
        /// Step that was waited for.
        during: &'static str,
        /// End of the machine, in words, and its own messages.
        how: String,
        /// End of the console.
        console: Console,
    },
    /// A step took too long.
    #[error("no end within {limit:?} while {during}{console}")]
    Timeout {
        /// Step that was waited for.
        during: &'static str,
        /// Time limit.
        limit: Duration,
        /// End of the console.
        console: Console,
    },
    /// The guest refused a request.
    #[error("{during}: {text}{console}")]
    Refused {
        /// Request.
        during: &'static str,
        /// The guest's words.
        text: String,
        /// The errno of the refusal, or 0.
        errno: i32,
        /// End of the kernel's log, if it matters.
        console: Console,
    },
    /// The guest's init sent a message that makes no sense here.
    #[error("the guest's init broke the protocol while {during}: {what}")]
    Protocol {
        /// Step that was waited for.
        during: &'static str,
        /// Message that came.
        what: String,
    },
    /// The driver was loaded, and has not taken the GPU.
    #[error(
        "the kernel's own driver did not take GPU {gpu}, which has no render node of it; its last words:{log}"
    )]
    NotBound {
        /// Number of the GPU.
        gpu: usize,
        /// End of the kernel's log.
        log: Console,
    },
    /// A snapshot without a note for the program that goes on with its guest.
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

/// Makes the error of a host's file or socket; `what` names the step.
pub(crate) fn failed(what: &str) -> impl FnOnce(io::Error) -> GuestError + use<> {
    let what = what.to_owned();
    move |source| GuestError::Io { what, source }
}
