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

pub use crate::error::SnapshotError;
pub use belfry_snapshot::{FileError, Head, Kind, Section};
pub use belfry_virtio::saved::StateError;
pub use hosted::{Alone, HostedPages, HostedSaver, HostedSnapshot};
pub use read::Snapshot;
pub use saver::{Saved, Saver};
pub(super) use saver::{SavedFunction, SavedPart, Whole};
