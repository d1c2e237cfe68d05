//! Whether a thread is at work for the driver or the device: its calls of the C library are then not for this library.

use std::cell::Cell;

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

/// Runs `work` as the driver's or the device's.
pub(crate) fn inside<R>(work: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave;
    work()
}
