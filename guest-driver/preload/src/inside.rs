//! Whether a thread is at work for the driver or the device: its calls of the C library are then not for this library.

use std::cell::Cell;

use crate::real::raw;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static DEVICE: Cell<bool> = const { Cell::new(false) };
}

/// Whether calls of this thread are the driver's or the device's.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Whether this thread is one of the driver or the device.
pub(crate) fn is_device_thread() -> bool {
    DEVICE.get()
}

/// Makes this thread one of the driver or the device, for as long as it lives.
pub(crate) fn become_device_thread() {
    DEVICE.set(true);
    DEPTH.set(1);
}

/// Runs `work` as the driver's or the device's, without signals: a handler might never come back, and leave locks held.
///
/// Faults are not put off; `work` touches the program's memory by way of the kernel alone.
pub(crate) fn inside<R>(work: impl FnOnce() -> R) -> R {
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
    let mask = (DEPTH.get() == 0).then(|| set_mask(!FAULTS));
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave(mask);
    work()
}

/// Signals, as the kernel has them: bit 0 is signal 1.
type Mask = u64;

/// Signals that a fault of the thread itself raises: blocked ones would end the process on the spot.
const FAULTS: Mask = 1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGTRAP - 1);

/// Blocks these signals and no others; those that were blocked before.
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
