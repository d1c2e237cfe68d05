//! Snapshots: the moment at which a run is saved, and several futures of one moment.
//!
//! | part | file |
//! | --- | --- |
//! | the moment at which a run is saved | `moment.rs` |
//! | the things that can be saved: a machine, or the GPU of a hosted program | `source.rs` |
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

/// Request to save a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnapshotOptions {
    /// The file.
    pub path: PathBuf,
    /// The moment.
    pub at: Moment,
}
