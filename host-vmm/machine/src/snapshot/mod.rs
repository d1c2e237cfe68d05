//! A whole machine in a file, and machines that go on from it.
//!
//! | part | file |
//! | --- | --- |
//! | the format of the file, and what is refused of it | `file.rs` |
//! | the machine's state as plain values | `state.rs`, its paravirtual devices `virtio_state.rs` |
//! | memory on its way into the file | `memory.rs` |
//! | saving a machine that runs | `saver.rs` |
//! | one read from a file | `read.rs` |
//! | the device of a hosted program, saved and going on alone | `hosted.rs`, its state `hosted_state.rs` |

mod file;
mod hosted;
mod hosted_state;
mod memory;
mod read;
mod saver;
mod state;
mod virtio_state;

use std::io;
use std::path::PathBuf;

pub use file::{FileError, Head, Kind, Section};
pub use hosted::{Alone, HostedPages, HostedSaver, HostedSnapshot};
pub(super) use memory::Piece;
pub use read::Snapshot;
pub use saver::{Saved, Saver};
pub(super) use saver::{SavedFunction, SavedPart, Whole};
pub use state::StateError;
pub(super) use state::{SavedBoard, SavedCmos, SavedMachine, SavedSerial, SavedVcpu};
pub(super) use virtio_state::{SavedBlock, SavedChain, SavedConsole, SavedDevice, SavedQueue, SavedVirtio};

use belfry_device::SnapshotError as DeviceError;

/// Why a machine cannot be saved, or none can be made of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It has something whose state is elsewhere.
    #[error("the machine cannot be saved, as it has {0}; a machine without can")]
    Refused(&'static str),
    /// It is in the middle of something that does not end.
    #[error(
        "the machine cannot be saved: its guest channel was in the middle of a request for {0:?}; the run goes on"
    )]
    Busy(std::time::Duration),
    /// It has ended.
    #[error("the machine cannot be saved: it has ended")]
    Ended,
    /// The file cannot be written.
    #[error("cannot write the snapshot {path}: {source}; the run goes on without it")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// KVM does not say what a processor or a controller is.
    #[error("cannot save {what}: {source}")]
    Kvm {
        /// What part.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The device cannot be saved.
    #[error("the GPU cannot be saved: {0}")]
    Device(#[source] DeviceError),
    /// The file is no snapshot that can be used.
    #[error("{path} cannot be resumed: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// Its memory cannot be mapped.
    #[error("the memory of {path} cannot be mapped: {source}")]
    Map {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The machine in it is none.
    #[error("{path} cannot be resumed: {source}")]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        source: StateError,
    },
    /// The device in it is none.
    #[error("{path} cannot be resumed: {source}")]
    Gpu {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DeviceError,
    },
    /// It is of a machine with processors that this host does not have.
    #[error(
        "the snapshot is of a host whose processors differ in CPUID leaf {leaf:#x}: resume it on the host that wrote it"
    )]
    Processor {
        /// The first leaf that differs.
        leaf: u32,
    },
    /// It is to have what a snapshot cannot have.
    #[error("a machine that is resumed has no {0}")]
    NotResumed(&'static str),
    /// It has other devices than what is to go on.
    #[error("the snapshot is of a machine with other devices: {0}")]
    Devices(&'static str),
    /// A device in it is none.
    #[error("a device of the snapshot cannot be resumed: {0}")]
    Virtio(#[from] StateError),
}
