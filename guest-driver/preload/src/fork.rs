//! Forks of this process: state that its child must not find as it was.
//!
//! A fork copies the memory at a moment of other threads' choosing, and none of these threads. So nothing of this library has a
//! thread wait for another one before the GPU has started, but for the allocator, which is held during a fork, and the start
//! itself, which a child forgets.
#![expect(unsafe_code, reason = "has the C library call functions")]

use crate::alloc::ALLOCATOR;
use crate::{card, companion, cwd, debug, doorbells, ending, gpu, onlookers, opening, unmapped};

/// Has the C library say when the process forks. Called when it begins, so that no fork can be under way.
pub(crate) fn register() {
    // SAFETY: the functions stay as long as the process, as this library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
}

extern "C" fn before() {
    ALLOCATOR.hold();
}

extern "C" fn after_in_parent() {
    ALLOCATOR.release();
}

extern "C" fn after_in_child() {
    ALLOCATOR.release();
    forget();
}

/// Makes a child by a call that runs no fork handlers: `fork` returns 0 there.
#[cfg(not(test))]
pub(crate) fn quietly<R>(fork: impl FnOnce() -> R, is_child: impl FnOnce(&R) -> bool) -> R {
    before();
    let result = fork();
    if is_child(&result) {
        after_in_child();
    } else {
        after_in_parent();
    }
    result
}

/// In a forked child the threads are not there, and neither is the memory: it starts anew.
fn forget() {
    cwd::changed();
    if !gpu::has_to_forget() {
        return;
    }
    ALLOCATOR.forget();
    companion::forget();
    debug::forget();
    gpu::forget();
    opening::forget();
    onlookers::forget();
    doorbells::forget();
    ending::forget();
    unmapped::forget();
    card::forget();
}
