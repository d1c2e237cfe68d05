//! Address space of this process, reserved before buffer objects are placed in it.
#![expect(unsafe_code, reason = "mmap and munmap are foreign calls")]

use std::ptr::NonNull;

use crate::transport::Errno;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// A range of anonymous address space, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    addr: NonNull<u8>,
    len: usize,
}

// SAFETY: a reservation is a range of addresses; what happens to the memory there is its user's affair.
unsafe impl Send for Reservation {}
// SAFETY: as above; it has no interior state.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes (a multiple of the page size) at a multiple of `align`; readable and writable zero
    /// pages when `accessible`, no access otherwise.
    pub(crate) fn new(len: usize, align: usize, accessible: bool) -> Result<Self, Errno> {
        let align = align.max(PAGE);
        let total = len.checked_add(align - PAGE).ok_or(Errno(libc::ENOMEM))?;
        let prot = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        let flags =
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if accessible { 0 } else { libc::MAP_NORESERVE };
        // SAFETY: a new anonymous map at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), total, prot, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start: *mut u8 = start.cast();
        let head = start.align_offset(align);
        let tail = total - head - len;
        // SAFETY: head and tail are page-multiple parts of the fresh map that nothing uses.
        unsafe {
            if head > 0 {
                libc::munmap(start.cast(), head);
            }
            if tail > 0 {
                libc::munmap(start.add(head + len).cast(), tail);
            }
        }
        // SAFETY: `head + len <= total`, so the pointer stays inside the map and is not null.
        let addr = unsafe { NonNull::new_unchecked(start.add(head)) };
        if accessible {
            // A forked child must not share pages the GPU writes: copy-on-write would take them from the parent.
            // SAFETY: advice on a range this process owns; failure changes nothing.
            unsafe { libc::madvise(addr.as_ptr().cast(), len, libc::MADV_DONTFORK) };
        }
        Ok(Self { addr, len })
    }

    pub(crate) fn addr(&self) -> NonNull<u8> {
        self.addr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Reservation {
    /// Gives the range up without unmapping it: somebody else has, and it may already be another's.
    pub(crate) fn forget(&mut self) {
        self.len = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: the range was reserved by `new` and its owner is done with it.
        unsafe { libc::munmap(self.addr.as_ptr().cast(), self.len) };
    }
}
