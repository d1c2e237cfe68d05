//! Signal actions: those of faults go through the bridge.

use std::ffi::c_int;

use libc::sighandler_t;

use crate::bridge;
use crate::real::next;

macro_rules! actions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction
        ) -> c_int {
            if bridge::is_kept(signal) {
                // SAFETY: the program's pointers are those that `sigaction` takes.
                unsafe { bridge::exchange(signal, new, old) }
            } else {
                bridge::real_sigaction(signal, new, old)
            }
        }
    )*};
}

actions! { sigaction __sigaction }

macro_rules! signals {
    ($(fn $name:ident, $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            if !bridge::is_kept(signal) {
                return next!(
                    $name(signal, handler): fn(c_int, sighandler_t) -> sighandler_t, else libc::SIG_ERR
                );
            }
            // SAFETY: all zeros are a value of the structure, and the pointers are this function's own.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut old: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = handler;
                new.sa_flags = $flags;
                bridge::exchange(signal, &raw const new, &raw mut old);
                old.sa_sigaction
            }
        }
    )*};
}

signals! {
    fn signal, libc::SA_RESTART;
    fn bsd_signal, libc::SA_RESTART;
    fn sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
    fn __sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
}
