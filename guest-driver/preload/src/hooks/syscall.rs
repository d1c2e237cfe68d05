//! `syscall`: with a number that has to do with the GPU, it does what the function of that name does.
//!
//! All of them end in a system call of this library's own. A function that a program has put in place of the C
//! library's calls `syscall` to do its work: it would be called again.
//!
//! Paths need room on the stack, of which callers with other numbers may have little: functions with a path buffer are
//! not inlined.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr::null_mut;

use crate::hooks::memory::{self, Way};
use crate::hooks::{directory, exec, files, ioctl, links, process, stat};
use crate::inside::is_inside;
use crate::program_file::examine;
use crate::real::{answer, next, raw, set_errno};
use crate::{fork, summary};

/// The arguments of a system call.
type Arguments = [usize; 6];

/// The system call as it is, as `syscall` gives its result.
///
/// # Safety
///
/// The arguments are the program's.
unsafe fn kernel(number: c_long, arguments: Arguments) -> c_long {
    // SAFETY: the caller's contract.
    answer(unsafe { raw::call(number, arguments) }) as c_long
}

/// Makes a system call whose result is an `int`.
///
/// # Safety
///
/// As for [`kernel`].
unsafe fn small(number: c_long, arguments: Arguments) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { kernel(number, arguments) as c_int }
}

/// A call with a path, or about a file.
///
/// # Safety
///
/// The arguments are those of the system call.
#[inline(never)]
unsafe fn about_files(number: c_long, [a, b, c, d, e, f]: Arguments) -> Option<c_long> {
    let fd = a as c_int;
    let here = libc::AT_FDCWD;
    // The path is the first argument, or the second one after a descriptor.
    let (first, second) = (a as *const c_char, b as *const c_char);
    // SAFETY: the arguments are the caller's, with a path in place of the program's.
    let with_first = |path: *const c_char| unsafe { small(number, [path as usize, b, c, d, e, f]) };
    // SAFETY: as above.
    let with_second = |path: *const c_char| unsafe { small(number, [a, path as usize, c, d, e, f]) };
    // SAFETY: as above.
    let as_it_is = || unsafe { small(number, [a, b, c, d, e, f]) };
    // SAFETY: paths are C strings or null, and structures those that each call takes.
    let result = unsafe {
        match number {
            libc::SYS_open => files::open_by(here, first, b as c_int, |path, flags| {
                small(number, [path as usize, flags as usize, c, 0, 0, 0])
            }),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                files::open_by(here, first, flags, |path, flags| {
                    small(libc::SYS_open, [path as usize, flags as usize, b, 0, 0, 0])
                })
            }
            libc::SYS_openat => files::open_by(fd, second, c as c_int, |path, flags| {
                small(number, [a, path as usize, flags as usize, d, 0, 0])
            }),
            libc::SYS_openat2 => {
                // The flags in `resolve` are about links and mounts, of which the way to ours has none.
                let how =
                    (c as *const libc::open_how).as_ref().filter(|_| d >= size_of::<libc::open_how>())?;
                let mut buffer = crate::path::Buffer::new();
                if !buffer.resolve(fd, second).ours {
                    return None;
                }
                files::open_by(fd, second, how.flags as c_int, |path, flags| {
                    let mode = how.mode as usize;
                    small(libc::SYS_openat, [a, path as usize, flags as usize, mode, 0, 0])
                })
            }
            libc::SYS_ioctl => ioctl::ioctl_by(fd, b as c_ulong, c as *mut c_void, as_it_is),
            libc::SYS_stat | libc::SYS_lstat => stat::stat_by(here, first, b as *mut _, with_first),
            libc::SYS_fstat => stat::disguised(as_it_is(), b as *mut _),
            libc::SYS_newfstatat => stat::stat_by(fd, second, c as *mut _, with_second),
            libc::SYS_statx => stat::statx_by(fd, second, e as *mut _, with_second),
            libc::SYS_statfs => directory::statfs_by(first, b as *mut _, with_first),
            libc::SYS_fstatfs => directory::fstatfs_by(fd, b as *mut _, as_it_is),
            libc::SYS_access => files::access_by(here, first, b as c_int, with_first),
            libc::SYS_faccessat | libc::SYS_faccessat2 => {
                files::access_by(fd, second, c as c_int, with_second)
            }
            libc::SYS_chdir => links::chdir_by(first, with_first),
            libc::SYS_fchdir => {
                let result = as_it_is();
                crate::cwd::changed();
                result
            }
            libc::SYS_truncate => files::truncate_by(first, with_first),
            libc::SYS_inotify_add_watch => directory::path_by(here, second, with_second),
            libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_listxattr | libc::SYS_llistxattr => {
                directory::path_by(here, first, with_first)
            }
            _ => return None,
        }
    };
    Some(result.into())
}

/// A call whose result is a length, a place or an address.
///
/// # Safety
///
/// The arguments are those of the system call.
#[inline(never)]
unsafe fn of_length(number: c_long, [a, b, c, d, e, f]: Arguments) -> Option<c_long> {
    let fd = a as c_int;
    let at = a as *mut c_void;
    // SAFETY: paths are C strings or null, buffers as long as they say, and ranges the program's.
    Some(unsafe {
        match number {
            libc::SYS_readlink => {
                let read = |path: *const c_char, to: *mut c_char, len: usize| {
                    kernel(number, [path as usize, to as usize, len, 0, 0, 0]) as isize
                };
                links::read_link_by(libc::AT_FDCWD, a as *const _, (b as *mut _, c), read) as c_long
            }
            libc::SYS_readlinkat => {
                let read = |path: *const c_char, to: *mut c_char, len: usize| {
                    kernel(number, [a, path as usize, to as usize, len, 0, 0]) as isize
                };
                links::read_link_by(fd, b as *const _, (c as *mut _, d), read) as c_long
            }
            libc::SYS_getcwd => {
                let read = |to: *mut c_char, len: usize| {
                    if kernel(number, [to as usize, len, 0, 0, 0, 0]) < 0 { null_mut() } else { to }
                };
                let result = links::cwd_by(a as *mut c_char, b, read);
                // The system call gives a length.
                if result.is_null() { -1 } else { libc::strlen(result) as c_long + 1 }
            }
            libc::SYS_getdents64 => {
                directory::entries_by(b as *mut u8, || kernel(number, [a, b, c, 0, 0, 0]))
            }
            libc::SYS_lseek => {
                let seek = || kernel(number, [a, b, c, 0, 0, 0]);
                files::seek_by(fd, b as libc::off_t, c as c_int, seek)
            }
            libc::SYS_mmap => {
                let (access, file) = ((c as c_int, d as c_int), (e as c_int, f as libc::off_t));
                memory::map(Way::System, (at, b), access, file) as c_long
            }
            libc::SYS_mremap => {
                memory::remap(Way::System, (at, b), c, d as c_int, e as *mut c_void) as c_long
            }
            _ => return None,
        }
    })
}

/// A call about memory, descriptors or programs.
///
/// # Safety
///
/// The arguments are those of the system call.
#[inline(never)]
unsafe fn about_the_process(number: c_long, [a, b, c, d, e, f]: Arguments) -> Option<c_long> {
    let fd = a as c_int;
    let at = a as *mut c_void;
    // SAFETY: the arguments are the caller's.
    let as_it_is = || unsafe { small(number, [a, b, c, d, e, f]) };
    // SAFETY: ranges are the program's, and lists end with null.
    let result = unsafe {
        match number {
            libc::SYS_munmap => memory::unmap(Way::System, at, b),
            libc::SYS_mprotect => memory::protect(Way::System, (at, b), c as c_int, None),
            libc::SYS_pkey_mprotect => memory::protect(Way::System, (at, b), c as c_int, Some(d as c_int)),
            libc::SYS_close => process::close_by(fd, as_it_is),
            libc::SYS_close_range => process::close_around(a as c_uint, b as c_uint, |first, last| {
                small(number, [first as usize, last as usize, c, 0, 0, 0])
            }),
            libc::SYS_dup2 | libc::SYS_dup3 => {
                crate::userfault::make_way(b as c_int);
                as_it_is()
            }
            libc::SYS_execve => {
                examine(a as *const _, false);
                exec::exec_by(c as *const _, |envp| small(number, [a, b, envp as usize, 0, 0, 0]))
            }
            libc::SYS_execveat => {
                examine(b as *const _, false);
                exec::exec_by(d as *const _, |envp| small(number, [a, b, c, envp as usize, e, 0]))
            }
            _ => return None,
        }
    };
    Some(result.into())
}

/// The call as the function does it that is hooked, if there is one.
///
/// # Safety
///
/// The arguments are those of the system call.
unsafe fn by_function(number: c_long, arguments: Arguments) -> Option<c_long> {
    // SAFETY: the caller's contract.
    unsafe {
        about_files(number, arguments)
            .or_else(|| of_length(number, arguments))
            .or_else(|| about_the_process(number, arguments))
    }
}

/// Returns true if a call makes a process with memory of its own.
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
    // SAFETY: as above.
    let call = || unsafe { kernel(number, [a, b, c, d, e, f]) };
    if forks(number, a, a as *const u64) { fork::quietly(call, |&pid| pid == 0) } else { call() }
}

/// The C library's function under `fork` that runs no fork handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    let call = || {
        next!(_Fork(): fn() -> libc::pid_t, else {
            set_errno(libc::ENOSYS);
            -1
        })
    };
    fork::quietly(call, |&pid| pid == 0)
}
