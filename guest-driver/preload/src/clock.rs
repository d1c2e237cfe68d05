//! The kernel's clocks, for this library alone.
//!
//! A program may have a `clock_gettime` of its own, or one of another library that is loaded before it (libfaketime), which
//! tells other times. Rust's library waits until a time that it computes from that function, and the kernel compares it with
//! its own clock: a wait of a millisecond would last as long as the clocks differ. So this library has functions of these
//! names that no other one sees, and the linker gives them to all of its code.
#![expect(unsafe_code, reason = "takes the C library's place for this library")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::real::{answer, raw};

core::arch::global_asm!(
    ".globl clock_gettime",
    ".hidden clock_gettime",
    ".type clock_gettime, @function",
    "clock_gettime:",
    "jmp {gettime}",
    ".size clock_gettime, . - clock_gettime",
    ".globl clock_nanosleep",
    ".hidden clock_nanosleep",
    ".type clock_nanosleep, @function",
    "clock_nanosleep:",
    "jmp {sleep}",
    ".size clock_nanosleep, . - clock_nanosleep",
    gettime = sym gettime,
    sleep = sym sleep,
);

/// The C library's function, which makes no system call where the kernel has a page for that.
static QUICK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Looks the C library's own function up, past all that have its name. Until then, and under C libraries without it, clocks
/// are read by system calls.
pub(crate) fn find() {
    // SAFETY: the names are C strings; the library is one that is loaded already, and stays.
    let found = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            return;
        }
        // The version that it has on x86-64 (glibc `time/Versions`).
        dlvsym(library, c"clock_gettime".as_ptr(), c"GLIBC_2.17".as_ptr())
    };
    QUICK.store(found, Ordering::Relaxed);
}

/// # Safety
///
/// As for `clock_gettime`.
unsafe extern "C" fn gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let quick = QUICK.load(Ordering::Relaxed);
    if quick.is_null() {
        // SAFETY: the caller's contract.
        let result =
            unsafe { raw::call(libc::SYS_clock_gettime, [clock as usize, time as usize, 0, 0, 0, 0]) };
        return answer(result) as c_int;
    }
    // SAFETY: it is the C library's function of this type; the arguments are the caller's.
    unsafe {
        let quick: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int =
            std::mem::transmute(quick);
        quick(clock, time)
    }
}

/// Sleeps; returns an errno, as `clock_nanosleep` does.
///
/// # Safety
///
/// As for `clock_nanosleep`.
unsafe extern "C" fn sleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    let arguments = [clock as usize, flags as usize, time as usize, left as usize, 0, 0];
    // SAFETY: the caller's contract.
    -unsafe { raw::call(libc::SYS_clock_nanosleep, arguments) } as c_int
}
