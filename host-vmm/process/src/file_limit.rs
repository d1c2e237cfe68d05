//! Files that may not grow (`ulimit -f`, `setrlimit(2)`).
//!
//! A write beyond the limit raises `SIGXFSZ`, which ends the process. Where the signal is caught, the write fails with `EFBIG` and
//! is reported like any other that fails.
#![expect(unsafe_code, reason = "a signal handler is installed")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

extern "C" fn nothing(_: libc::c_int) {}

/// Makes writes beyond the limit fail. Programs that this process becomes or starts have the signal as before: a handler is not
/// handed on, as ignoring it would be.
///
/// # Errors
///
/// The system call's.
pub fn catch() -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null action changes nothing; the other pointer is to a `sigaction` of this frame.
    if unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and filled it in.
    if unsafe { before.assume_init() }.sa_sigaction != libc::SIG_DFL {
        return Ok(());
    }
    // SAFETY: all zeros are a valid `sigaction`: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is of this frame, and its handler does nothing.
    match unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
