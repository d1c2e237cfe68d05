//! Requests a driver must refuse: wrong sizes, pointers, ids and handles, straight at the device file.

#![expect(unsafe_code, reason = "raw ioctls are the point: the runtime would not send these")]

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd as _, RawFd};

use anyhow::{Result, ensure};

/// A request and Linux's answer to it.
struct Case {
    what: &'static str,
    request: u32,
    /// The argument structure, as 32-bit words.
    words: &'static [u32],
    errno: i32,
}

/// An `_IOWR` command of the KFD node.
const fn command(nr: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'K' as u32) << 8 | nr
}

/// The 88-byte form of `CREATE_QUEUE`, all zero but for the type (word 10).
const AQL_QUEUE_ON_GPU_0: [u32; 22] = {
    let mut words = [0; 22];
    words[10] = 2;
    words
};

const CASES: &[Case] = &[
    Case { what: "a number past the table", request: command(0x70, 8), words: &[0; 2], errno: libc::ENOTTY },
    Case { what: "number 0", request: command(0, 8), words: &[0; 2], errno: libc::ENOTTY },
    Case { what: "an unknown queue", request: command(0x03, 8), words: &[77, 0], errno: libc::EINVAL },
    Case { what: "an unknown event", request: command(0x0a, 8), words: &[77, 0], errno: libc::EINVAL },
    Case {
        what: "a queue on no GPU",
        request: command(0x02, 88),
        words: &AQL_QUEUE_ON_GPU_0,
        errno: libc::EINVAL,
    },
    Case {
        what: "an address space of no file",
        request: command(0x15, 8),
        words: &[u32::MAX, 1],
        errno: libc::EINVAL,
    },
    Case {
        what: "memory on no GPU",
        request: command(0x16, 40),
        words: &[0, 0, 4096, 0, 0, 0, 0, 0, 1, 1],
        errno: libc::EINVAL,
    },
    Case { what: "an unknown buffer", request: command(0x17, 8), words: &[9, 9], errno: libc::EINVAL },
    Case { what: "a map on no device", request: command(0x18, 24), words: &[0; 6], errno: libc::EINVAL },
    Case {
        what: "too many events",
        request: command(0x0c, 24),
        words: &[0, 0, 5000, 0, 0, 0],
        errno: libc::ENOMEM,
    },
    Case {
        what: "a register of the debugger",
        request: command(0x0d, 8),
        words: &[0; 2],
        errno: libc::EPERM,
    },
    Case {
        what: "a structure shorter than its fields",
        request: command(0x16, 4),
        words: &[0],
        errno: libc::EINVAL,
    },
];

/// `AMDKFD_IOC_GET_VERSION`.
const GET_VERSION: u32 = 2 << 30 | 8 << 16 | (b'K' as u32) << 8 | 0x01;

/// Issues a request and returns its error number, 0 for success.
fn request(fd: RawFd, request: u32, argument: *mut u32) -> i32 {
    // SAFETY: `argument` is either a buffer of the caller's that is as long as the request says, or an address nothing
    // is mapped at, which the kernel refuses.
    let result = unsafe { libc::ioctl(fd, request.into(), argument) };
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

/// Sends every bad request and checks the answer; then a good one.
///
/// # Errors
///
/// When an answer is not Linux's.
pub fn run(out: &mut dyn Write) -> Result<()> {
    let file = File::options().read(true).write(true).open("/dev/kfd")?;
    let fd = file.as_raw_fd();
    for case in CASES {
        let mut words = case.words.to_vec();
        let errno = request(fd, case.request, words.as_mut_ptr());
        ensure!(errno == case.errno, "{}: answered {errno} instead of {}", case.what, case.errno);
    }
    for address in [0usize, 8, 0xffff_8000_0000_0000] {
        let errno = request(fd, GET_VERSION, std::ptr::without_provenance_mut(address));
        ensure!(errno == libc::EFAULT, "an argument at {address:#x}: answered {errno} instead of EFAULT");
    }
    // A caller that knows only the first field gets only that one.
    let mut words = [0u32, 0x5555_5555];
    let short = 2 << 30 | 4 << 16 | (b'K' as u32) << 8 | 0x01;
    ensure!(request(fd, short, words.as_mut_ptr()) == 0, "a short GET_VERSION was refused");
    ensure!(words == [1, 0x5555_5555], "a short GET_VERSION wrote {words:x?}");
    ensure!(
        in_child(|| request(fd, GET_VERSION, [0u32; 2].as_mut_ptr())) == libc::EBADF,
        "another process may use the file"
    );
    ensure!(
        request(fd, GET_VERSION, words.as_mut_ptr()) == 0,
        "a good request was refused after the bad ones"
    );
    writeln!(out, "bad-ioctls: {} requests refused as Linux refuses them", CASES.len() + 4)?;
    Ok(())
}

/// Runs `body` in a forked child and returns its result, 0 to 255.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: this program has one thread here, and the child only makes a system call and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = body();
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    libc::WEXITSTATUS(status)
}
