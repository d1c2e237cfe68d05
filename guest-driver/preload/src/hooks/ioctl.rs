//! Calls of the driver.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use crate::inside::{inside, is_inside};
use crate::real::{errno, next, set_errno};
use crate::{gpu, node};

/// Types of the ioctls of KFD and of DRM (`AMDKFD_IOCTL_BASE`, `DRM_IOCTL_BASE`).
const KFD: u8 = b'K';
const DRM: u8 = b'd';

/// The answer of the driver, if the descriptor is one of its nodes.
fn answer(fd: c_int, request: c_ulong, argument: *mut c_void) -> Option<Result<c_int, c_int>> {
    if !matches!((request >> 8) as u8, KFD | DRM) || is_inside() {
        return None;
    }
    // Descriptors from before an `exec` are known as well.
    let which = node::node_of(fd)?;
    Some(gpu::get().and_then(|gpu| {
        inside(|| gpu.process.ioctl(which.node(), request as u32, argument)).map_err(|errno| errno.raw())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    match answer(fd, request, argument) {
        Some(Ok(value)) => value,
        Some(Err(errno)) => {
            set_errno(errno);
            -1
        }
        None => next!(ioctl(fd, request, argument): fn(c_int, c_ulong, *mut c_void) -> c_int, else -1),
    }
}

/// `syscall` with the numbers that have to do with the GPU is what the function of that name is.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if !is_inside() {
        // SAFETY: the arguments are those of the system call, which are those of its function.
        unsafe {
            match number {
                libc::SYS_open => return libc::open(a as *const _, b as c_int, c as libc::mode_t).into(),
                libc::SYS_openat => {
                    return libc::openat(a as c_int, b as *const _, c as c_int, d as libc::mode_t).into();
                }
                libc::SYS_ioctl => return ioctl(a as c_int, b as c_ulong, c as *mut c_void).into(),
                libc::SYS_mmap => {
                    let (prot, flags, fd) = (c as c_int, d as c_int, e as c_int);
                    return libc::mmap(a as *mut c_void, b, prot, flags, fd, f as libc::off_t) as c_long;
                }
                libc::SYS_munmap => return libc::munmap(a as *mut c_void, b).into(),
                libc::SYS_access => return libc::access(a as *const _, b as c_int).into(),
                libc::SYS_exit_group => crate::summary::write(),
                _ => {}
            }
        }
    }
    let before = errno();
    let result = next!(
        syscall(number, a, b, c, d, e, f):
        fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long, else -1
    );
    if result != -1 {
        set_errno(before);
    }
    result
}
