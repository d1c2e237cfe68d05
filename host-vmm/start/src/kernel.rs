//! System calls, without the C library.

use core::arch::asm;
use core::mem::MaybeUninit;

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const CLOSE: usize = 3;
const STAT: usize = 4;
const RT_SIGACTION: usize = 13;
const RT_SIGPROCMASK: usize = 14;
const ACCESS: usize = 21;
const EXECVE: usize = 59;
const SYSINFO: usize = 99;
const GETEUID: usize = 107;
const SCHED_GETAFFINITY: usize = 204;

/// No such file.
pub(crate) const ENOENT: isize = -2;
/// Not allowed.
pub(crate) const EACCES: isize = -13;
/// A directory of the path is none.
pub(crate) const ENOTDIR: isize = -20;

/// A system call of up to four arguments; below zero, the error's number.
///
/// # Safety
///
/// The arguments are as the call demands.
unsafe fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result;
    // SAFETY: the kernel changes `rax`, `rcx`, `r11` and memory that the caller vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Reads the beginning of a file. Returns the number of bytes, or an error.
///
/// # Safety
///
/// `path` ends with a zero byte; `size` bytes from `to` can be written.
pub(crate) unsafe fn read_file(path: *const u8, to: *mut u8, size: usize) -> isize {
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the path is the caller's, the descriptor this function's own.
    unsafe {
        let file = call(OPEN, path as usize, O_CLOEXEC, 0, 0);
        if file < 0 {
            return file;
        }
        let mut have = 0;
        while have < size {
            let more = call(READ, file as usize, to as usize + have, size - have, 0);
            if more <= 0 {
                if more < 0 {
                    have = more as usize;
                }
                break;
            }
            have += more as usize;
        }
        call(CLOSE, file as usize, 0, 0, 0);
        have as isize
    }
}

/// Writes to standard error, as far as it takes it.
///
/// # Safety
///
/// `size` bytes from `text` can be read.
pub(crate) unsafe fn say(text: *const u8, size: usize) {
    // SAFETY: the caller's.
    unsafe { call(WRITE, 2, text as usize, size, 0) };
}

/// Checks that a path is there (`mode` 0), or may be executed (1): zero, or an error.
///
/// # Safety
///
/// `path` ends with a zero byte.
pub(crate) unsafe fn access(path: *const u8, mode: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { call(ACCESS, path as usize, mode, 0, 0) }
}

/// Device, inode, size and last change of a file (`struct stat` of x86-64).
///
/// # Safety
///
/// `path` ends with a zero byte.
pub(crate) unsafe fn identity(path: *const u8) -> Option<crate::record::Identity> {
    // Not zeroed: that would be a call of `memset`.
    let mut stat = MaybeUninit::<[u64; 18]>::uninit();
    let words: *const u64 = stat.as_ptr().cast();
    // SAFETY: the structure has 144 bytes, and is written where the call succeeds.
    unsafe {
        if call(STAT, path as usize, stat.as_mut_ptr() as usize, 0, 0) < 0 {
            return None;
        }
        Some([*words, *words.add(1), *words.add(6), *words.add(11), *words.add(12)])
    }
}

/// Tells whether a folder is this user's, and no other user may write to it: the library that programs are started with is there.
///
/// # Safety
///
/// `path` ends with a zero byte.
pub(crate) unsafe fn is_own(path: *const u8) -> bool {
    const OTHERS_WRITE: u64 = 0o022;
    let mut stat = MaybeUninit::<[u64; 18]>::uninit();
    let words: *const u64 = stat.as_ptr().cast();
    // SAFETY: as above. The fourth word is the mode and, in its upper half, the user.
    unsafe {
        if call(STAT, path as usize, stat.as_mut_ptr() as usize, 0, 0) < 0 {
            return false;
        }
        let mode_and_user = *words.add(3);
        mode_and_user >> 32 == call(GETEUID, 0, 0, 0, 0) as u64 && mode_and_user & OTHERS_WRITE == 0
    }
}

/// Bytes of memory that the machine has (`struct sysinfo`).
pub(crate) fn memory() -> Option<u64> {
    let mut info = MaybeUninit::<[u64; 14]>::uninit();
    let words: *const u64 = info.as_ptr().cast();
    // SAFETY: the structure has 112 bytes, and is written where the call succeeds.
    unsafe {
        if call(SYSINFO, info.as_mut_ptr() as usize, 0, 0, 0) < 0 {
            return None;
        }
        // `totalram` is the fifth word; `mem_unit` is the lower half of the last.
        Some((*words.add(4)).wrapping_mul(*words.add(13) & 0xffff_ffff))
    }
}

/// Reads the set of processors that this process may use. Returns its size in bytes, or an error.
///
/// # Safety
///
/// `size` bytes from `to` can be written.
pub(crate) unsafe fn processors(to: *mut u8, size: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { call(SCHED_GETAFFINITY, 0, size, to as usize, 0) }
}

/// Blocks no signal, and gives `SIGPIPE` its default action, as the standard library does for programs that it
/// executes.
pub(crate) fn plain_signals() {
    const SIGPIPE: usize = 13;
    const SIG_SETMASK: usize = 2;
    // Handler (SIG_DFL), flags, restorer, mask; the mask of signals.
    let (action, none) = ([0u64; 4], 0u64);
    // SAFETY: both are read alone.
    unsafe {
        call(RT_SIGACTION, SIGPIPE, (&raw const action) as usize, 0, 8);
        call(RT_SIGPROCMASK, SIG_SETMASK, (&raw const none) as usize, 0, 8);
    }
}

/// Becomes a program; returns only when that fails.
///
/// # Safety
///
/// The three are as `execve` has them.
pub(crate) unsafe fn execute(path: *const u8, arguments: *const *const u8, environment: *const *const u8) {
    // SAFETY: the caller's.
    unsafe { call(EXECVE, path as usize, arguments as usize, environment as usize, 0) };
}
