//! Ends by a signal: the summary of a process that can no longer write it.
//!
//! A handler may do next to nothing, so that a thread of the driver waits to write the summary for it. The handler of the
//! signal names the signal, wakes the thread and waits until the line is written, for a limited time: the thread that was hit
//! may hold what the other one needs.
#![expect(unsafe_code, reason = "sleeps on a word that a signal handler changes")]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::real::raw;
use crate::{gpu, summary};

/// Longest time a handler waits for the line, in steps of a millisecond.
const PATIENCE_MS: u32 = 2000;

/// The signal that ends the process; 0 while none does.
static SIGNAL: AtomicU32 = AtomicU32::new(0);
/// 0 without a thread that writes, 1 with one, 2 once it has written.
static WRITER: AtomicU32 = AtomicU32::new(NOBODY);

const NOBODY: u32 = 0;
const WAITS: u32 = 1;
const DONE: u32 = 2;

/// Starts the thread that writes, if a summary of the process is wanted.
pub(crate) fn watch() {
    if !summary::is_wanted() || WRITER.swap(WAITS, Ordering::AcqRel) != NOBODY {
        return;
    }
    let thread = std::thread::Builder::new().name("belfry-ending".into()).stack_size(256 << 10);
    if thread.spawn(write).is_err() {
        WRITER.store(NOBODY, Ordering::Release);
    }
}

/// Waits for a signal that ends the process.
fn write() {
    loop {
        let signal = SIGNAL.load(Ordering::Acquire);
        if signal != 0 {
            summary::write(summary::End::Signalled(signal as c_int));
            WRITER.store(DONE, Ordering::Release);
            return;
        }
        let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        // SAFETY: the word is static; without a timeout, the other arguments are not looked at.
        unsafe { raw::call(libc::SYS_futex, [SIGNAL.as_ptr() as usize, operation, 0, 0, 0, 0]) };
    }
}

/// In a handler, before the process is ended by this signal: has its summary written, once.
pub(crate) fn by(signal: c_int) {
    if gpu::own().is_none() || WRITER.load(Ordering::Acquire) != WAITS {
        return;
    }
    if SIGNAL.compare_exchange(0, signal as u32, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
        // SAFETY: the word is static.
        unsafe { raw::call(libc::SYS_futex, [SIGNAL.as_ptr() as usize, operation, 1, 0, 0, 0]) };
    }
    for _ in 0..PATIENCE_MS {
        if WRITER.load(Ordering::Acquire) != WAITS {
            return;
        }
        raw::sleep_us(1000);
    }
}

/// In a forked child, where the thread is not.
pub(crate) fn forget() {
    SIGNAL.store(0, Ordering::Release);
    WRITER.store(NOBODY, Ordering::Release);
}
