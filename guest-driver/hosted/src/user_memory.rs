//! Memory of programs, by address: a bad pointer is an error and no crash.
//!
//! | copier | when | effect of a bad pointer |
//! | --- | --- | --- |
//! | this thread, by one instruction | after [`catch_faults`] | the handler goes on after it ([`behind_fault`]) |
//! | the kernel (`process_vm_readv`) | without such a handler | the call fails |
//! | the kernel, through a pipe | where containers forbid those calls, as docker's do | the call fails |
//!
//! The first way costs no system call. All are safe even if other threads unmap the memory meanwhile, as no
//! code looks at the pointer before: the copy itself finds out.
#![expect(unsafe_code, reason = "reads and writes its own memory by address, in ways that survive a bad one")]

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use belfry_kfd_core::{Errno, Result};

/// End of user addresses.
pub(crate) const USER_END: u64 = 1 << 47;

/// Says whether a fault of the calling thread now would come to the handler; null without one.
static CATCHES: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Has arguments of calls copied without system calls, as a handler of SIGSEGV and SIGBUS asks [`behind_fault`] first.
/// `catches` says whether a fault of the calling thread would reach it: a blocked one ends the process.
pub fn catch_faults(catches: fn() -> bool) {
    CATCHES.store(catches as *mut (), Ordering::Release);
}

fn catches_faults() -> bool {
    let catches = CATCHES.load(Ordering::Acquire);
    // SAFETY: the stored value is a function of this type.
    !catches.is_null() && unsafe { std::mem::transmute::<*mut (), fn() -> bool>(catches)() }
}

// `rep movsb` is the only instruction that may fault. Interrupted by a fault, it has its counts in its registers, so
// that execution may go on after it: `rcx` is then the number of bytes not copied.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.belfry_user_copy,\"ax\",@progbits",
    ".hidden belfry_user_copy",
    ".hidden belfry_user_copy_faults",
    ".hidden belfry_user_copy_behind",
    ".globl belfry_user_copy",
    ".globl belfry_user_copy_faults",
    ".globl belfry_user_copy_behind",
    ".type belfry_user_copy,@function",
    "belfry_user_copy:",
    "mov rcx, rdx",
    "belfry_user_copy_faults:",
    "rep movsb",
    "belfry_user_copy_behind:",
    "mov rax, rcx",
    "ret",
    ".size belfry_user_copy, . - belfry_user_copy",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// Copies, and returns the number of bytes at the end that were not copied.
    fn belfry_user_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    static belfry_user_copy_faults: u8;
    static belfry_user_copy_behind: u8;
}

/// Address at which a thread goes on after a fault at `instruction`: just after it, if it is the one that
/// copies; `None` otherwise.
///
/// The kernel gives a handler of signals the instruction's address. May be called from a handler.
#[must_use]
pub fn behind_fault(instruction: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if instruction == &raw const belfry_user_copy_faults as usize {
        return Some(&raw const belfry_user_copy_behind as usize);
    }
    let _ = instruction;
    None
}

/// Copies on this thread.
#[cfg(target_arch = "x86_64")]
fn copy_here(local: *mut u8, len: usize, user: u64, write: bool) -> Result<()> {
    let end = user.checked_add(len as u64).filter(|&end| end <= USER_END);
    if end.is_none() {
        return Err(Errno::EFAULT);
    }
    let user = std::ptr::with_exposed_provenance_mut::<u8>(user as usize);
    let (to, from) = if write { (user, local) } else { (local, user) };
    // SAFETY: the local side is a live buffer of the caller's; the other one may be anything, as a fault ends the copy.
    match unsafe { belfry_user_copy(to, from, len) } {
        0 => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Copies between the driver and user memory.
pub(crate) fn copy_user(local: *mut u8, len: usize, user: u64, write: bool) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if catches_faults() {
        return copy_here(local, len, user, write);
    }
    copy_by_kernel(local, len, user, write)
}

/// Copies with the kernel's help.
fn copy_by_kernel(local: *mut u8, len: usize, user: u64, write: bool) -> Result<()> {
    /// True once the kernel has said that this process may not make these calls, not even for its own memory.
    static FORBIDDEN: AtomicBool = AtomicBool::new(false);
    if FORBIDDEN.load(Ordering::Relaxed) {
        return copy_through_pipe(local, len, user, write);
    }
    let mut done = 0;
    while done < len {
        // SAFETY: `done` is inside the local buffer.
        let here = libc::iovec { iov_base: unsafe { local.add(done) }.cast(), iov_len: len - done };
        let at = user.checked_add(done as u64).filter(|&at| at < USER_END).ok_or(Errno::EFAULT)?;
        let there = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len - done };
        // SAFETY: the kernel checks the remote side; the local side is a live buffer of the caller's.
        let count = unsafe {
            if write {
                libc::process_vm_writev(libc::getpid(), &raw const here, 1, &raw const there, 1, 0)
            } else {
                libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0)
            }
        };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            Ok(_) => return Err(Errno::EFAULT),
            Err(_) => match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EPERM | libc::ENOSYS) => {
                    FORBIDDEN.store(true, Ordering::Relaxed);
                    return copy_through_pipe(local, len, user, write);
                }
                _ => return Err(Errno::EFAULT),
            },
        }
    }
    Ok(())
}

/// Copies with the kernel's help, by calls that every process may make: into a pipe, and out of it.
fn copy_through_pipe(local: *mut u8, len: usize, user: u64, write: bool) -> Result<()> {
    /// Bytes that a pipe takes at once.
    const CHUNK: usize = 4096;
    let (mut from, mut into) = std::io::pipe().map_err(|_| Errno::ENOMEM)?;
    let mut done = 0;
    while done < len {
        let count = (len - done).min(CHUNK);
        // SAFETY: `done` and `count` are inside the local buffer, which is the caller's and live.
        let here = unsafe { std::slice::from_raw_parts_mut(local.add(done), count) };
        let at = user.checked_add(done as u64).filter(|&at| at < USER_END).ok_or(Errno::EFAULT)?;
        let there = at as *mut libc::c_void;
        // SAFETY: the kernel checks the address; the descriptors are those of the pipe, which is empty and as large as a chunk.
        let moved = unsafe {
            if write {
                into.write_all(here).map_err(|_| Errno::EFAULT)?;
                libc::read(from.as_raw_fd(), there, count)
            } else {
                libc::write(into.as_raw_fd(), there, count)
            }
        };
        // A part that was moved ends at a page that is not there.
        if usize::try_from(moved) != Ok(count) {
            return Err(Errno::EFAULT);
        }
        if !write {
            from.read_exact(here).map_err(|_| Errno::EFAULT)?;
        }
        done += count;
    }
    Ok(())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::mapping;

    /// A handler like that of `belfry exec`, without its other work.
    extern "C" fn skip(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives a handler with SA_SIGINFO its context.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let at = &mut registers[libc::REG_RIP as usize];
        match behind_fault(*at as usize) {
            Some(behind) => *at = behind as i64,
            // SAFETY: ends the process, as a fault of anything else has to.
            None => unsafe { libc::abort() },
        }
    }

    #[test]
    fn bad_pointers_are_errors_by_each_way() {
        // SAFETY: all zeros are a value of the structure; the handler touches nothing but the faulting thread's registers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = skip as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            for signal in [libc::SIGSEGV, libc::SIGBUS] {
                assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
            }
        }
        // A page that may be written, one that may be read, and one that is not there.
        // SAFETY: a new mapping at a place the kernel chooses, changed inside itself.
        let base = unsafe {
            let base = mapping::zeroed(None, 3 * 4096, libc::PROT_READ | libc::PROT_WRITE).unwrap();
            mapping::protect(base + 4096, 4096, libc::PROT_READ).unwrap();
            mapping::protect(base + 2 * 4096, 4096, libc::PROT_NONE).unwrap();
            base as u64
        };
        type Copy = fn(*mut u8, usize, u64, bool) -> Result<()>;
        for copy in [copy_here as Copy, copy_by_kernel, copy_through_pipe] {
            let mut local = [7u8; 64];
            let mut try_it = |user: u64, write: bool| copy(local.as_mut_ptr(), 64, user, write);
            assert_eq!(try_it(base, true), Ok(()));
            assert_eq!(try_it(base + 4096, false), Ok(()));
            assert_eq!(try_it(base + 4096, true), Err(Errno::EFAULT));
            for (at, write) in
                [(base + 2 * 4096 - 32, false), (base + 4096 - 32, true), (base + 2 * 4096, false)]
            {
                assert_eq!(try_it(at, write), Err(Errno::EFAULT), "{at:#x}");
            }
            for at in [0, 8, USER_END - 8, USER_END, 1 << 63, u64::MAX - 8] {
                assert_eq!(try_it(at, false), Err(Errno::EFAULT), "{at:#x}");
            }
            assert_eq!(try_it(base, false), Ok(()));
            assert_eq!(local, [7; 64]);
        }
        assert_eq!(behind_fault(copy_here as *const () as usize), None);
    }
}
