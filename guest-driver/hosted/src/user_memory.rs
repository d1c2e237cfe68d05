//! Memory of programs, by address.
#![expect(
    unsafe_code,
    reason = "reads and writes its own memory by address, through the kernel, which checks it"
)]

use belfry_kfd_core::{Errno, Result};

/// End of user addresses.
pub(crate) const USER_END: u64 = 1 << 47;

/// Copies between the driver and user memory with the kernel's help, so that a bad pointer is an error and no crash.
pub(crate) fn copy_user(local: *mut u8, len: usize, user: u64, write: bool) -> Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: `done` is inside the local buffer.
        let local = libc::iovec { iov_base: unsafe { local.add(done) }.cast(), iov_len: len - done };
        let user = user.checked_add(done as u64).filter(|&user| user < USER_END).ok_or(Errno::EFAULT)?;
        let remote = libc::iovec { iov_base: user as *mut libc::c_void, iov_len: len - done };
        // SAFETY: the kernel checks the remote side; the local side is a live buffer of the caller's.
        let count = unsafe {
            if write {
                libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
            } else {
                libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
            }
        };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => return Err(Errno::EFAULT),
        }
    }
    Ok(())
}
