//! Owners of threads, and of the calls that they make of the C library: the program, the driver or the device.

use std::cell::Cell;

use crate::file_limit;
use crate::real::raw;

/// Owner of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    /// The driver's or the device's, in the program.
    Device,
    /// The driver's or the device's, in a companion (`companion.rs`).
    Companion,
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static KIND: Cell<Kind> = const { Cell::new(Kind::Program) };
}

/// Returns true if calls of this thread are the driver's or the device's.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Returns true if this thread is one of the driver or the device.
pub(crate) fn is_device_thread() -> bool {
    KIND.get() != Kind::Program
}

/// Returns true if this thread is one of a companion.
pub(crate) fn is_companion_thread() -> bool {
    KIND.get() == Kind::Companion
}

/// Owner of a thread that this one starts for the driver or the device.
pub(crate) fn child_kind() -> Kind {
    match KIND.get() {
        Kind::Companion => Kind::Companion,
        Kind::Program | Kind::Device => Kind::Device,
    }
}

/// Makes this thread one of the driver or the device, for as long as it lives.
pub(crate) fn become_thread_of(kind: Kind) {
    KIND.set(kind);
    DEPTH.set(1);
    file_limit::block();
}

/// Runs `work` as the driver's or the device's on this thread, without signals; `work` has nothing to do with the driver.
pub(crate) fn inside_here<R>(work: impl FnOnce() -> R) -> R {
    struct Leave(Option<Mask>);
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            if let Some(mask) = self.0 {
                set_mask(mask);
            }
        }
    }
    // Within, and on threads of the device, signals are blocked already.
    let mask = (DEPTH.get() == 0).then(|| set_mask(!UNBLOCKED));
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave(mask);
    work()
}

/// Signals, as the kernel has them: bit 0 is signal 1.
type Mask = u64;

/// Signals that a fault of the thread itself raises: blocked ones would end the process on the spot. And the one by which the C
/// library has all threads change their user (`SIGSETXID`), which waits for each of them.
const UNBLOCKED: Mask = 1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (33 - 1);

/// Blocks these signals and no others. Returns the signals that were blocked before.
#[expect(unsafe_code, reason = "a system call")]
fn set_mask(mask: Mask) -> Mask {
    let mut before: Mask = 0;
    // SAFETY: both masks are this function's own and have the kernel's size.
    unsafe {
        let (new, old) = ((&raw const mask) as usize, (&raw mut before) as usize);
        raw::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, new, old, size_of::<Mask>(), 0, 0]);
    }
    before
}
