//! `--inspect` and `belfry inspect`: a running GPU, looked at over a local socket.
//!
//! | part | file |
//! | --- | --- |
//! | where sockets are, and which there are | `places.rs` |
//! | the socket of a GPU, and its clients | `server.rs` |
//! | all that looks at a GPU: this, and GDB | `onlookers.rs` |
//! | the side that asks | `client.rs` |
//!
//! The terminal's user interface is the binary's.
//!
//! A client sends a line of JSON, `{"query": "waves"}`, and gets one, `{"answer": ...}` or `{"error": "..."}`.

mod client;
mod onlookers;
mod places;
mod server;

use std::io;
use std::path::PathBuf;

pub use client::Client;
pub use onlookers::Onlookers;
pub use places::{Running, folder, gdb_socket_of, only, running, socket_of};
pub use server::{Save, Server};

pub use crate::questions::{HELP, NotSaved, QuestionError, answer, answer_with, look_for_code};

use serde::{Deserialize, Serialize};

use crate::gdb::{GdbAddress, GdbError};
use crate::symbols::SymbolError;

/// The longest question in bytes, its end included.
pub const MAX_QUESTION: usize = 4096;
/// The longest answer in bytes.
pub const MAX_ANSWER: usize = 32 << 20;

/// Ways in which a GPU can be looked at.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct InspectOptions {
    /// True if there is a socket for `belfry inspect`.
    pub socket: bool,
    /// Address at which GDB can connect, if it can.
    pub gdb: Option<GdbAddress>,
    /// Files of code objects with their debug information, or folders of such files.
    pub symbols: Vec<PathBuf>,
    /// Breakpoints from the start, in the words of the question `break`.
    pub breaks: Vec<String>,
    /// Number of the GPU among those of its machine.
    #[serde(default)]
    pub gpu: usize,
}

/// Options for a process of `belfry exec`, which gets them in its environment.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct AskedOfProcess {
    /// The folder of sockets, as the process finds it.
    pub folder: PathBuf,
    /// Ways in which the GPU can be looked at.
    pub options: InspectOptions,
}

/// Why a GPU cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The folder of sockets is not this user's alone.
    #[error("{path} is not a folder that this user alone can enter: {why}; remove it")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Reason why it is refused.
        why: &'static str,
    },
    /// A socket or its folder failed.
    #[error("{path}: {source}")]
    Socket {
        /// The socket, or the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The thread could not be started.
    #[error("the thread of the inspector cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// GDB cannot connect.
    #[error(transparent)]
    Gdb(#[from] GdbError),
    /// There are no such symbols.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// No such process.
    #[error("process {0} has no GPU that can be inspected; start it with --inspect")]
    NoProcess(u32),
    /// No process at all.
    #[error("no process of this user has a GPU that can be inspected; start one with --inspect")]
    None,
    /// Too many processes.
    #[error("which one? {0}")]
    Several(String),
    /// The GPU's process has refused.
    #[error("{0}")]
    Refused(String),
    /// A breakpoint from the start is none.
    #[error("--break {0:?}: {1}")]
    Break(String, #[source] QuestionError),
    /// The connection was closed.
    #[error("the process has ended, or wants no more of this client")]
    Ended,
    /// The GPU's process has answered in a form that this program does not know.
    #[error("the process does not answer as this version of belfry does")]
    Foreign,
    /// The user interface has nowhere to be.
    #[error(
        "the inspector needs a terminal, and standard input or output is none; --json QUERY answers a question, --list tells which processes \
         there are"
    )]
    NoTerminal,
    /// The terminal failed.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[source] io::Error),
}
