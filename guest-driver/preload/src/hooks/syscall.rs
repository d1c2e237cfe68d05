//! `syscall`: with a number that has to do with the GPU, it is what the function of that name is.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::inside::is_inside;
use crate::real::{next, set_errno};
use crate::{gpu, summary};

type Strings = *const *const c_char;

unsafe extern "C" {
    fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int;
    fn execveat(directory: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
}

/// The call by the function that is hooked, if there is one.
///
/// # Safety
///
/// The arguments are those of the system call.
unsafe fn by_function(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Option<c_long> {
    let fd = a as c_int;
    let flag_e = e as c_int;
    // SAFETY: the arguments of a system call are those of its function, here in the same order.
    let result = unsafe {
        match number {
            libc::SYS_open => libc::open(a as *const _, b as c_int, c as c_uint),
            libc::SYS_creat => libc::creat(a as *const _, b as libc::mode_t),
            libc::SYS_openat => libc::openat(fd, b as *const _, c as c_int, d as c_uint),
            libc::SYS_openat2 => {
                // What `resolve` asks for is about links and mounts, of which the way to ours has none.
                let how =
                    (c as *const libc::open_how).as_ref().filter(|_| d >= size_of::<libc::open_how>())?;
                let mut buffer = crate::path::Buffer::new();
                if !buffer.resolve(fd, b as *const _).ours {
                    return None;
                }
                libc::openat(fd, b as *const _, how.flags as c_int, how.mode as c_uint)
            }
            libc::SYS_close => libc::close(fd),
            libc::SYS_close_range => close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_dup2 => libc::dup2(fd, b as c_int),
            libc::SYS_dup3 => libc::dup3(fd, b as c_int, c as c_int),
            libc::SYS_ioctl => libc::ioctl(fd, b as c_ulong, c as *mut c_void),
            libc::SYS_stat => libc::stat(a as *const _, b as *mut _),
            libc::SYS_lstat => libc::lstat(a as *const _, b as *mut _),
            libc::SYS_fstat => libc::fstat(fd, b as *mut _),
            libc::SYS_newfstatat => libc::fstatat(fd, b as *const _, c as *mut _, d as c_int),
            libc::SYS_statx => libc::statx(fd, b as *const _, c as c_int, d as c_uint, e as *mut _),
            libc::SYS_access => libc::access(a as *const _, b as c_int),
            libc::SYS_faccessat => libc::faccessat(fd, b as *const _, c as c_int, 0),
            libc::SYS_faccessat2 => libc::faccessat(fd, b as *const _, c as c_int, d as c_int),
            libc::SYS_readlink => return Some(libc::readlink(a as *const _, b as *mut _, c) as c_long),
            libc::SYS_readlinkat => {
                return Some(libc::readlinkat(fd, b as *const _, c as *mut _, d) as c_long);
            }
            libc::SYS_getcwd => {
                // The system call gives a length.
                let result = libc::getcwd(a as *mut c_char, b);
                return Some(if result.is_null() { -1 } else { libc::strlen(result) as c_long + 1 });
            }
            libc::SYS_chdir => libc::chdir(a as *const _),
            libc::SYS_fchdir => libc::fchdir(fd),
            libc::SYS_truncate => libc::truncate(a as *const _, b as libc::off_t),
            libc::SYS_mmap => {
                let (prot, flags) = (c as c_int, d as c_int);
                return Some(libc::mmap(a as *mut c_void, b, prot, flags, flag_e, f as libc::off_t) as c_long);
            }
            libc::SYS_lseek => return Some(libc::lseek(fd, b as libc::off_t, c as c_int)),
            libc::SYS_munmap => libc::munmap(a as *mut c_void, b),
            libc::SYS_mprotect => libc::mprotect(a as *mut c_void, b, c as c_int),
            libc::SYS_mremap => {
                return Some(libc::mremap(a as *mut c_void, b, c, d as c_int, e as *mut c_void) as c_long);
            }
            libc::SYS_execve => execve(a as *const _, b as Strings, c as Strings),
            libc::SYS_execveat => execveat(fd, b as *const _, c as Strings, d as Strings, flag_e),
            _ => return None,
        }
    };
    Some(result.into())
}

/// Whether a call makes a process with memory of its own.
fn forks(number: c_long, flags: usize, arguments: *const u64) -> bool {
    let flags = match number {
        libc::SYS_fork => 0,
        libc::SYS_clone => flags as u64,
        // SAFETY: the program gives `struct clone_args`, whose first field is the flags, or null.
        libc::SYS_clone3 => unsafe { arguments.as_ref() }.copied().unwrap_or(0),
        _ => return false,
    };
    flags & libc::CLONE_VM as u64 == 0
}

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
        if number == libc::SYS_exit_group {
            summary::write(summary::End::Exited);
        }
        // SAFETY: the program's arguments.
        if let Some(result) = unsafe { by_function(number, [a, b, c, d, e, f]) } {
            return result;
        }
    }
    let result = next!(
        syscall(number, a, b, c, d, e, f):
        fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long, else -1
    );
    if result == 0 && forks(number, a, a as *const u64) {
        gpu::forget();
    }
    result
}

/// The C library's functions behind `fork` that run no fork handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    let pid = next!(_Fork(): fn() -> libc::pid_t, else {
        set_errno(libc::ENOSYS);
        -1
    });
    if pid == 0 {
        gpu::forget();
    }
    pid
}
