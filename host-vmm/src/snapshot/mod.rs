//! Snapshots: when a run is saved, and several futures of one moment.
//!
//! | part | file |
//! | --- | --- |
//! | the moment at which a run is saved | `moment.rs` |
//! | what is saved: a machine, or the GPU of a hosted program | `source.rs` |
//! | waiting for the moment, and saving | `taking.rs` |
//! | futures of a snapshot, each in a process of its own | `fork.rs` |
//!
//! The file itself is `belfry_machine::snapshot`'s.

mod fork;
mod moment;
mod source;
mod taking;

use std::path::PathBuf;

pub use fork::{ForkError, ForkOptions, Future, fork};
pub use moment::{Moment, MomentError};
pub use source::{Source, SourceError};
pub(crate) use taking::{Taking, Watch, describe};

/// That a run is to be saved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnapshotOptions {
    /// The file.
    pub path: PathBuf,
    /// When.
    pub at: Moment,
}
