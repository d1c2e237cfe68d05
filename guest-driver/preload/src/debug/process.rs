//! Facts about processes from `/proc` and sockets.
#![expect(unsafe_code, reason = "asks a socket, and reads memory by way of the kernel")]

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use belfry_kfd_hosted::prepared::DEBUGGABLE_VARIABLE;

use crate::real::raw;

/// A number in `/proc/PID/status`.
fn status(pid: u32, name: &str) -> Option<u32> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name)
}

fn field(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// The process whose child it is.
pub(super) fn parent(pid: u32) -> Option<u32> {
    status(pid, "PPid")
}

/// The thread that traces the first thread of a process.
pub(super) fn tracer(pid: u32) -> Option<u32> {
    status(pid, "TracerPid").filter(|&tracer| tracer != 0)
}

/// Returns true if a thread of process `debugger` traces the first thread of process `pid`.
pub(super) fn traces(debugger: u32, pid: u32) -> bool {
    tracer(pid).is_some_and(|thread| Path::new(&format!("/proc/{debugger}/task/{thread}")).exists())
}

/// Returns true if there is such a process, which has not ended.
pub(super) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Returns true if a process was started with `--debuggable`; `None` if this user may not know, or if the
/// process is ending.
pub(super) fn is_debuggable(pid: u32) -> Option<bool> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    // Of one that ends meanwhile, there is a part or nothing.
    if environment.last() != Some(&0) || !lives(pid) {
        return None;
    }
    Some(environment.split(|&byte| byte == 0).any(|line| {
        line.strip_prefix(DEBUGGABLE_VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    }))
}

/// Process and user at the other end of a socket.
pub(super) fn peer(socket: &UnixStream) -> Option<(u32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is this function's own and as long as it says.
    let result = unsafe {
        let at = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut size)
    };
    (result == 0 && peer.pid > 0).then_some((peer.pid as u32, peer.uid))
}

/// The user of this process.
pub(super) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Copies between this process's memory and a buffer, with the kernel's help: a bad pointer is an error and no crash.
fn copy(number: libc::c_long, buffer: *mut u8, len: usize, at: u64) -> Result<(), i32> {
    if len == 0 {
        return Ok(());
    }
    let local = libc::iovec { iov_base: buffer.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len };
    let arguments =
        [raw::getpid() as usize, (&raw const local) as usize, 1, (&raw const remote) as usize, 1, 0];
    // SAFETY: the kernel checks the remote side; the local side is a live buffer of the caller's.
    let count = unsafe { raw::call(number, arguments) };
    match count {
        // Containers may forbid these calls.
        forbidden if [-libc::EPERM, -libc::ENOSYS].map(|errno| errno as isize).contains(&forbidden) => {
            copy_through_pipe(number == libc::SYS_process_vm_writev, buffer, len, at)
        }
        count if usize::try_from(count) == Ok(len) => Ok(()),
        _ => Err(libc::EFAULT),
    }
}

/// Copies as [`copy`] does, by calls that every process may make: into a pipe, and out of it.
fn copy_through_pipe(into_program: bool, buffer: *mut u8, len: usize, at: u64) -> Result<(), i32> {
    /// Bytes that a pipe takes at once.
    const CHUNK: usize = 4096;
    let mut ends = [0i32; 2];
    // SAFETY: the call fills the two numbers.
    if unsafe {
        raw::call(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0, 0])
    } != 0
    {
        return Err(libc::ENOMEM);
    }
    let buffer = buffer as usize;
    let (from, to) = if into_program { (buffer, at as usize) } else { (at as usize, buffer) };
    let all = (0..len).step_by(CHUNK).all(|done| {
        let count = (len - done).min(CHUNK);
        let move_part = |number: libc::c_long, end: i32, side: usize| {
            let arguments = [end as usize, side.wrapping_add(done), count, 0, 0, 0];
            // SAFETY: the kernel checks the program's side; the other one is a live buffer of the caller's of `len` bytes.
            usize::try_from(unsafe { raw::call(number, arguments) }) == Ok(count)
        };
        move_part(libc::SYS_write, ends[1], from) && move_part(libc::SYS_read, ends[0], to)
    });
    for end in ends {
        // SAFETY: closes what this function opened.
        unsafe { raw::call(libc::SYS_close, [end as usize, 0, 0, 0, 0, 0]) };
    }
    if all { Ok(()) } else { Err(libc::EFAULT) }
}

/// Reads memory of the program.
pub(crate) fn read(buffer: &mut [u8], at: u64) -> Result<(), i32> {
    copy(libc::SYS_process_vm_readv, buffer.as_mut_ptr(), buffer.len(), at)
}

/// Writes it.
pub(super) fn write(buffer: &[u8], at: u64) -> Result<(), i32> {
    copy(libc::SYS_process_vm_writev, buffer.as_ptr().cast_mut(), buffer.len(), at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_lines_of_their_name() {
        let text = "Name:\tTracerPid: 7\nPid:\t12\nPPid:\t34\nTracerPid:\t0\n";
        assert_eq!(field(text, "PPid"), Some(34));
        assert_eq!(field(text, "TracerPid"), Some(0));
        assert_eq!(field(text, "Uid"), None);
    }

    #[test]
    fn this_process_lives_is_nobodys_debugger_and_was_not_started_so() {
        let me = std::process::id();
        assert!(lives(me) && !traces(me, me));
        assert_eq!((is_debuggable(me), is_debuggable(u32::MAX >> 1)), (Some(false), None));
        assert!(!lives(u32::MAX >> 1));
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one), Some((me, user())));
    }

    #[test]
    fn bad_pointers_are_errors() {
        let mut word = [0; 8];
        let value = 7u64;
        assert_eq!(read(&mut word, (&raw const value) as u64), Ok(()));
        assert_eq!(u64::from_ne_bytes(word), 7);
        assert_eq!(read(&mut word, 8), Err(libc::EFAULT));
        assert_eq!(write(&word, 8), Err(libc::EFAULT));
        assert_eq!(write(&[], 8), Ok(()));
    }

    #[test]
    fn pipes_carry_what_the_kernel_may_not_copy_at_once() {
        let mut there = vec![0u8; 3 * 4096 + 5];
        let here: Vec<u8> = (0..there.len()).map(|at| at as u8).collect();
        let at = there.as_mut_ptr() as u64;
        let from = here.as_ptr().cast_mut();
        assert_eq!(copy_through_pipe(true, from, here.len(), at), Ok(()));
        assert_eq!(there, here);
        let mut back = vec![0u8; here.len()];
        assert_eq!(copy_through_pipe(false, back.as_mut_ptr(), back.len(), at), Ok(()));
        assert_eq!(back, here);
        for into_program in [true, false] {
            assert_eq!(copy_through_pipe(into_program, back.as_mut_ptr(), 8, 8), Err(libc::EFAULT));
        }
        assert_eq!(back, here);
    }
}
