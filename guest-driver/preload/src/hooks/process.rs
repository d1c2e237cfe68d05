//! Threads, descriptors and ends of processes.

use std::ffi::{c_int, c_uint, c_void};

use crate::real::{next, set_errno};
use crate::thread_kind::{Kind, become_thread_of, child_kind, is_inside};
use crate::{summary, userfault};

type Routine = extern "C" fn(*mut c_void) -> *mut c_void;
/// Arguments that a thread of the driver or the device begins with.
type Start = (Routine, *mut c_void, Kind);

/// A thread of the driver or the device: it takes none of the program's signals, and its calls are not the program's.
extern "C" fn device_thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: the pointer is the box of `pthread_create`, given to this thread alone.
    let (routine, argument, kind) = unsafe { start.cast::<Start>().read() };
    become_thread_of(kind);
    // SAFETY: as above; no other code has it any more.
    drop(unsafe { Box::from_raw(start.cast::<Start>()) });
    routine(argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let create = |routine: Routine, argument: *mut c_void| {
        next!(
            pthread_create(thread, attributes, routine, argument):
            fn(*mut c_void, *const c_void, Routine, *mut c_void) -> c_int, else libc::EAGAIN
        )
    };
    if !is_inside() {
        return create(routine, argument);
    }
    let start: *mut Start = Box::into_raw(Box::new((routine, argument, child_kind())));
    // The thread inherits the mask of this one, which has signals blocked.
    let result = create(device_thread, start.cast());
    if result != 0 {
        // SAFETY: no thread was made that would take it.
        drop(unsafe { Box::from_raw(start) });
    }
    result
}

/// Closes a descriptor. Those of this library are not open, as far as the program is concerned.
pub(super) fn close_by(fd: c_int, close: impl FnOnce() -> c_int) -> c_int {
    if userfault::is_ours(fd) && !is_inside() {
        set_errno(libc::EBADF);
        return -1;
    }
    close()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    close_by(fd, || next!(close(fd): fn(c_int) -> c_int, else -1))
}

/// Closes the descriptors between those of this library.
pub(super) fn close_around(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    let mut from = first;
    let mut ours = [0; 2];
    let mut count = 0;
    for fd in userfault::descriptors() {
        if let (Ok(fd), Some(slot)) = (c_uint::try_from(fd), ours.get_mut(count)) {
            *slot = fd;
            count += 1;
        }
    }
    ours[..count].sort_unstable();
    for &fd in &ours[..count] {
        if fd < from || fd > last {
            continue;
        }
        if fd > from && close(from, fd - 1) != 0 {
            return -1;
        }
        from = fd + 1;
    }
    if from <= last { close(from, last) } else { 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    close_around(
        first,
        last,
        |first, last| next!(close_range(first, last, flags): fn(c_uint, c_uint, c_int) -> c_int, else -1),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    close_around(
        first.max(0) as c_uint,
        c_uint::MAX,
        |first, last| next!(close_range(first, last, 0): fn(c_uint, c_uint, c_int) -> c_int, else -1),
    );
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    userfault::make_way(to);
    next!(dup2(from, to): fn(c_int, c_int) -> c_int, else -1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    userfault::make_way(to);
    next!(dup3(from, to, flags): fn(c_int, c_int, c_int) -> c_int, else -1)
}

/// Ends that no function registered with `atexit` hears of.
macro_rules! ends {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(status: c_int) -> ! {
            if !is_inside() {
                summary::write(summary::End::Exited);
            }
            next!($name(status): fn(c_int) -> (), else ());
            std::process::abort()
        }
    )*};
}

ends! { _exit _Exit quick_exit }
