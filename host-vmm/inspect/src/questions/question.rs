//! Reasons why a question has no answer.

use belfry_tools::inspect::{Hex, InspectError as DeviceError, NoWaveId, UnknownForm};

/// Reason why a machine was not saved, in words for the client that asked for it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct NotSaved(pub String);

/// Reasons why a question has no answer; the texts are for clients.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The line has no words.
    #[error("no question; `help` lists them")]
    Empty,
    /// The first word is no question, or its arguments are others.
    #[error("{0:?} is no question; `help` lists them")]
    Unknown(String),
    /// The arguments have another form than this one.
    #[error("{0}")]
    Form(&'static str),
    /// A number is none, or too large.
    #[error("{0:?} is no number that fits there")]
    Number(String),
    /// A line is none.
    #[error("{0:?} is no line")]
    Line(String),
    /// A wave has no such name.
    #[error(transparent)]
    WaveId(#[from] NoWaveId),
    /// Memory is not decoded in that form.
    #[error(transparent)]
    MemoryAs(#[from] UnknownForm),
    /// A kind of packets begins with another engine.
    #[error("{0} is none of PM4 and SDMA")]
    Engine(String),
    /// The engine has no packets of that name.
    #[error("{name} is none of {known}")]
    Packet {
        /// The name.
        name: String,
        /// All names that the engine has.
        known: String,
    },
    /// The range is empty, or ends after the last address.
    #[error("there are no {length} bytes at {first:#x}")]
    Range {
        /// The first address.
        first: u64,
        /// Number of bytes.
        length: u64,
    },
    /// No code is on the GPU, or can come, that belongs to a source line.
    #[error("no code {known} to be of {place}; {why}")]
    NoCode {
        /// `on the GPU is known` or `is known`.
        known: &'static str,
        /// The source line.
        place: String,
        /// Reason, in words.
        why: &'static str,
    },
    /// An address has no source line.
    #[error("no source line is known for {0}")]
    NoLine(Hex),
    /// The device has no answer.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The thread that waits for code could not be started.
    #[error("no thread can look for code: {0}")]
    Thread(String),
    /// The answer could not be written as JSON.
    #[error("{0}")]
    Json(String),
    /// The run cannot be saved.
    #[error("only runs of --mode kvm without a guest channel and of --mode hosted can be saved")]
    NoSaver,
    /// The path of the file depends on a directory that only the client knows.
    #[error("{0} is no absolute path")]
    Relative(String),
    /// The run was not saved.
    #[error(transparent)]
    NotSaved(#[from] NotSaved),
}
