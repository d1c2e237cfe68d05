//! Calls of the driver and the device: where they are made, and what they make of the C library is not for this library.

use crate::companion;

pub(crate) use crate::thread_kind::{inside_here, is_companion_thread, is_device_thread, is_inside};

/// Runs `work` as the driver's or the device's, without signals: a handler might never come back, and leave locks held.
///
/// Faults are not put off; `work` touches the program's memory by way of the kernel alone.
///
/// If the driver has a companion, the companion runs `work` while this thread waits.
pub(crate) fn inside<R>(work: impl FnOnce() -> R) -> R {
    let elsewhere = !is_inside() && companion::serves();
    inside_here(|| if elsewhere { companion::run(work) } else { work() })
}
