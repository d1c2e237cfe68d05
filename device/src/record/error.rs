//! Reasons why a record cannot be replayed.

use std::io;

/// Reasons why a record cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes do not begin like a record.
    #[error("this is no record of a device")]
    Magic,
    /// The bytes are of another version of the format.
    #[error(
        "the record has version {found}, this program replays {expected}: replay it with the program that recorded it"
    )]
    Version {
        /// Version of the record.
        found: u32,
        /// Version of this program.
        expected: u32,
    },
    /// The record was made by another release of the program.
    #[error(
        "belfry {found} has made the record, and this is {expected}: replay it with the program that recorded it"
    )]
    Program {
        /// Release that recorded.
        found: String,
        /// This release.
        expected: &'static str,
    },
    /// The device of the record cannot be made.
    #[error("the record is of a device that cannot be: {0}")]
    Config(String),
    /// The record ends before the recorded run did.
    #[error(
        "the record ends after {at} bytes, before the device's end: the run was killed, or could not write any more; \
         --until replays the part that there is"
    )]
    Short {
        /// Bytes that the record has.
        at: u64,
    },
    /// A part of the record was changed after it was written.
    #[error("the record is damaged: {what}, at byte {at} or behind it, is not as it was written")]
    Damaged {
        /// Offset in the file after which the damage is.
        at: u64,
        /// Part that is damaged.
        what: &'static str,
    },
    /// There are bytes after the end of the record.
    #[error("the record is damaged: there is something behind its end")]
    Trailing,
    /// Reading the record has failed.
    #[error("the record cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The device has behaved differently than in the record.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// The device was made, but not in a way that can be replayed.
    #[error("the device cannot be replayed: {0}")]
    Device(String),
    /// The replay has passed an event already.
    #[error("the replay is behind {0} already")]
    Behind(String),
    /// The record has no such event.
    #[error("the record ends before {0}")]
    NoEvent(String),
}

/// The first difference of a replay from its record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the replay differs from the record in operation {operation} ({during}), after {events} events:\n  expected {expected}\n  \
     got {got}"
)]
pub struct Divergence {
    /// Number of the operation, from 1 on: a turn of the device, or a call of the host's.
    pub operation: u64,
    /// Operation during which they differ.
    pub during: String,
    /// Events before it.
    pub events: u64,
    /// Entry of the record.
    pub expected: String,
    /// Entry of the replay.
    pub got: String,
}
