//! Signalling an eventfd that its owner may have filled, and may have made blocking.
//!
//! A plain write to a full eventfd waits unless `O_NONBLOCK` is set. That flag belongs to the file description, and
//! the client that handed the eventfd over can change it at any moment. The kernel's own way to signal an eventfd
//! never waits: it stops at the largest count. Asynchronous I/O uses it for the completion of a request. So each
//! signal here is the completion of a read of one byte of memory, which is over when it is submitted.
#![expect(unsafe_code, reason = "io_setup, io_submit, io_getevents and io_destroy have no wrappers")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::PoisonError;

use belfry_lock::{Mutex, rank};
use rustix::fs::MemfdFlags;

/// `IOCB_CMD_PREAD` and `IOCB_FLAG_RESFD` (linux/aio_abi.h).
const PREAD: u16 = 0;
const FLAG_RESFD: u32 = 1;

/// `struct iocb` (linux/aio_abi.h) of a little-endian machine.
#[repr(C)]
#[derive(Debug, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// `struct io_event` (linux/aio_abi.h).
#[repr(C)]
#[derive(Debug, Default)]
struct Completion {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// Signals eventfds without ever waiting.
#[derive(Debug)]
pub(super) struct Signaller {
    /// The kernel's `aio_context_t`: an address it has chosen.
    context: Mutex<u64, rank::SignallerContext>,
    byte: OwnedFd,
}

impl Signaller {
    /// Takes a context for asynchronous I/O.
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has none, `EAGAIN` if `/proc/sys/fs/aio-max-nr` is used up.
    pub(super) fn new() -> io::Result<Self> {
        let byte = rustix::fs::memfd_create("byte", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&byte, 1)?;
        let mut context = 0u64;
        // SAFETY: the kernel writes the context into a variable of this frame.
        check(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) })?;
        Ok(Self { context: Mutex::new(context), byte })
    }

    /// Adds one to an eventfd, or leaves it at its largest count.
    ///
    /// # Errors
    /// `EINVAL` for a descriptor that is no eventfd.
    pub(super) fn signal(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        let mut data = 0u8;
        let mut request = Request {
            opcode: PREAD,
            file: self.byte.as_raw_fd().cast_unsigned(),
            buffer: (&raw mut data).expose_provenance() as u64,
            bytes: 1,
            flags: FLAG_RESFD,
            result_fd: event.as_raw_fd().cast_unsigned(),
            ..Request::default()
        };
        let mut requests = [&raw mut request];
        let mut completion = Completion::default();
        let context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the one request is in this frame, and so is the byte that it reads into. Memory is read when the
        // request is submitted, and the call below does not return before that is done.
        check(unsafe { libc::syscall(libc::SYS_io_submit, *context, 1, requests.as_mut_ptr()) })?;
        loop {
            // SAFETY: the kernel writes at most one completion, to this frame.
            let reaped = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    *context,
                    1,
                    1,
                    &raw mut completion,
                    ptr::null_mut::<libc::timespec>(),
                )
            };
            match check(reaped) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        let context = *self.context.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the context is this one's own, and nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    }
}

/// Returns true if a descriptor is an eventfd, as far as /proc shows.
pub(super) fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.map_or(true, |link| link.as_os_str() == "anon_inode:[eventfd]")
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd as _;

    #[test]
    fn full_eventfd_that_blocks_is_left_full() {
        let signaller = Signaller::new().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            signaller.signal(event.as_fd()).unwrap();
        }
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), u64::MAX);
        signaller.signal(event.as_fd()).unwrap();
        rustix::io::read(&event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    #[test]
    fn other_descriptors_are_refused() {
        let signaller = Signaller::new().unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        assert!(!is_eventfd(writer.as_fd()));
        assert_eq!(signaller.signal(writer.as_fd()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(is_eventfd(eventfd(0, EventfdFlags::CLOEXEC).unwrap().as_fd()));
    }
}
