//! A whole machine in a file, and machines that go on from it.
//!
//! | part | file |
//! | --- | --- |
//! | saving a machine that runs | `saver.rs` |
//! | a snapshot read from a file | `read.rs` |
//! | the device of a hosted program, saved and going on alone | `hosted.rs` |
//!
//! The format of the file and the state as plain values are those of `belfry_snapshot`.

mod hosted;
mod read;
mod saver;

use std::io;
use std::path::PathBuf;

pub use belfry_snapshot::{FileError, Head, Kind, Section};
pub use belfry_virtio::saved::StateError;
pub use hosted::{Alone, HostedPages, HostedSaver, HostedSnapshot};
pub use read::Snapshot;
pub use saver::{Saved, Saver};
pub(super) use saver::{SavedFunction, SavedPart, Whole};

use belfry_device::SnapshotError as DeviceError;

/// Reason why a machine cannot be saved, or none can be made of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The machine has a part whose state is outside of it.
    #[error("the machine cannot be saved, as it has {0}; a machine without can")]
    Refused(&'static str),
    /// A device of the machine has been in the middle of a request for too long.
    #[error(
        "the machine cannot be saved: its guest channel was in the middle of a request for {0:?}; the run goes on"
    )]
    Busy(std::time::Duration),
    /// The machine has ended.
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
    /// KVM does not return the state of a processor or a controller.
    #[error("cannot save {what}: {source}")]
    Kvm {
        /// Name of the part.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The device cannot be saved.
    #[error("the GPU cannot be saved: {0}")]
    Device(#[source] DeviceError),
    /// The file is no usable snapshot.
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
    /// The snapshot's values are those of no machine.
    #[error("{path} cannot be resumed: {source}")]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        source: StateError,
    },
    /// The snapshot's values are those of no device.
    #[error("{path} cannot be resumed: {source}")]
    Gpu {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DeviceError,
    },
    /// The snapshot is of a machine with processors that this host does not have.
    #[error(
        "the snapshot is of a host whose processors differ in CPUID leaf {leaf:#x}: resume it on the host that wrote it"
    )]
    Processor {
        /// The first leaf that differs.
        leaf: u32,
    },
    /// The configuration has a part that no resumed machine can have.
    #[error("a machine that is resumed has no {0}")]
    NotResumed(&'static str),
    /// The snapshot has other devices than the machine that is to go on.
    #[error("the snapshot is of a machine with other devices: {0}")]
    Devices(&'static str),
    /// The saved state of a device is that of no such device.
    #[error("a device of the snapshot cannot be resumed: {0}")]
    Virtio(#[from] StateError),
}
