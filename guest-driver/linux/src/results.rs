//! Results of the shim's functions.

use core::ptr::NonNull;

use belfry_kfd_core::errno::{Errno, Result};

/// Turns 0 or a negative errno into a result.
pub(crate) fn check(result: i32) -> Result<()> {
    match result {
        0 => Ok(()),
        error => Err(Errno::from_raw(error.saturating_neg())),
    }
}

/// Calls a constructor of the shim, which fills in a pointer when it returns 0.
pub(crate) fn created<T>(make: impl FnOnce(*mut *mut T) -> i32) -> Result<NonNull<T>> {
    let mut out = core::ptr::null_mut();
    check(make(&mut out))?;
    NonNull::new(out).ok_or(Errno::EIO)
}
