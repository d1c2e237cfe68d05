//! Programs that run in a guest, as the host knows them.

use std::time::Duration;

/// Source of a program's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + the signal's number for a killed program; 127 when it could not be started.
    pub status: i32,
    /// Guest time it ran.
    pub elapsed: Duration,
}

/// Number of a program that runs in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(pub(crate) u32);
