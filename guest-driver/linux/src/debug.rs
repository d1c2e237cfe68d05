//! Debuggers: processes that they name, and their descriptors.

use core::ptr::NonNull;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{EventFile, ProcessKey, Target};

use crate::ffi;
use crate::results::{check, created};

/// A process that a debugger has named.
pub(crate) struct DebugTarget(NonNull<ffi::OsTarget>);

// SAFETY: os_target_* may be called from any thread.
unsafe impl Send for DebugTarget {}
// SAFETY: as above; the core holds a target once, before it shares it.
unsafe impl Sync for DebugTarget {}

impl DebugTarget {
    /// The process with this identity in the caller's namespace.
    pub(crate) fn get(dev: *mut ffi::OsDevice, pid: u32) -> Result<DebugTarget> {
        // SAFETY: `dev` lives as long as the core and `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_target_get(dev, pid, out) }).map(DebugTarget)
    }
}

impl Target for DebugTarget {
    fn key(&self) -> ProcessKey {
        // SAFETY: the target lives as long as self.
        ProcessKey(unsafe { ffi::os_target_key(self.0.as_ptr()) })
    }

    fn is_traced(&self) -> bool {
        // SAFETY: as above.
        unsafe { ffi::os_target_is_traced(self.0.as_ptr()) }
    }

    fn hold(&self) -> Result<()> {
        // SAFETY: as above; the core calls it in an ioctl of the debugger.
        check(unsafe { ffi::os_target_hold(self.0.as_ptr()) })
    }
}

impl Drop for DebugTarget {
    fn drop(&mut self) {
        // SAFETY: made by os_target_get and dropped once.
        unsafe { ffi::os_target_put(self.0.as_ptr()) }
    }
}

/// A reference to a debugger's open file.
pub(crate) struct DebugFile(NonNull<ffi::OsEventFile>);

// SAFETY: os_event_file_* may be called from any thread.
unsafe impl Send for DebugFile {}
// SAFETY: as above.
unsafe impl Sync for DebugFile {}

impl DebugFile {
    /// Takes a reference to the file of a descriptor of the calling process.
    pub(crate) fn get(fd: i32) -> Result<DebugFile> {
        // SAFETY: takes a number.
        NonNull::new(unsafe { ffi::os_event_file_get(fd) }).map(DebugFile).ok_or(Errno::EBADF)
    }
}

impl EventFile for DebugFile {
    fn notify(&self) {
        // SAFETY: the file lives as long as self.
        unsafe { ffi::os_event_file_notify(self.0.as_ptr()) }
    }
}

impl Drop for DebugFile {
    fn drop(&mut self) {
        // SAFETY: made by os_event_file_get and dropped once.
        unsafe { ffi::os_event_file_put(self.0.as_ptr()) }
    }
}
