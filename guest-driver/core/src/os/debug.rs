//! Debuggers, as the operating system knows them.

use super::ProcessKey;
use crate::errno::Result;

/// A process that a debugger has named.
pub trait Target: Send + Sync {
    /// Returns its address space.
    fn key(&self) -> ProcessKey;

    /// Returns whether the calling thread traces it (`ptrace`).
    fn is_traced(&self) -> bool;

    /// From now on the driver hears of the end of its address space by [`crate::Kfd::exit`], until this is dropped.
    ///
    /// # Errors
    ///
    /// `ESRCH` when it is gone already, `ENOMEM`.
    fn hold(&self) -> Result<()>;
}

/// An open file of a debugger; dropping it gives the file back.
pub trait EventFile: Send + Sync {
    /// Writes a byte to it. It may be lost where there is no room: then the debugger has enough to read.
    fn notify(&self);
}
