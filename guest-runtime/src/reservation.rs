//! Address space of this process, reserved before buffer objects are placed in it.
#![expect(unsafe_code, reason = "mmap and munmap are foreign calls")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::transport::Errno;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Addresses that are asked for, from the first one on; after the last one, the kernel chooses. A program
/// that allocates the same things in the same order gets the same addresses, wherever its other maps are.
const WANTED: core::ops::Range<usize> = 0x2000_0000_0000..0x4000_0000_0000;

/// Address to ask for next.
static NEXT: AtomicUsize = AtomicUsize::new(WANTED.start);

/// The next address to ask for; null, which is any, when there are no more.
fn wanted(len: usize, align: usize) -> *mut libc::c_void {
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        let end = next.checked_next_multiple_of(align)?.checked_add(len)?;
        (end <= WANTED.end).then_some(end)
    });
    let start = taken.ok().and_then(|next| next.checked_next_multiple_of(align)).unwrap_or(0);
    std::ptr::without_provenance_mut(start)
}

/// A range of anonymous address space, followed by a page that cannot be accessed; unmapped on drop.
///
/// Overruns of the processor end at that page, and those of the GPU as well: no buffer object is ever there.
#[derive(Debug)]
pub(crate) struct Reservation {
    addr: NonNull<u8>,
    len: usize,
    /// True if other code has unmapped the range, which may have another owner by now.
    forgotten: bool,
}

// SAFETY: a reservation is a range of addresses; its user answers for the memory there.
unsafe impl Send for Reservation {}
// SAFETY: as above; it has no interior state.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes (a multiple of the page size) at a multiple of `align`; readable and writable zero
    /// pages when `accessible`, no access otherwise.
    pub(crate) fn new(len: usize, align: usize, accessible: bool) -> Result<Self, Errno> {
        let align = align.max(PAGE);
        let kept = len.checked_add(PAGE).ok_or(Errno(libc::ENOMEM))?;
        let total = kept.checked_add(align - PAGE).ok_or(Errno(libc::ENOMEM))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous map; the address is a wish, which the kernel grants where nothing is.
        let start = unsafe { libc::mmap(wanted(total, align), total, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start: *mut u8 = start.cast();
        let head = start.align_offset(align);
        let tail = total - head - kept;
        // SAFETY: head and tail are page-multiple parts of the fresh map that nothing uses.
        unsafe {
            if head > 0 {
                libc::munmap(start.cast(), head);
            }
            if tail > 0 {
                libc::munmap(start.add(head + kept).cast(), tail);
            }
        }
        // SAFETY: `head + kept <= total`, so the pointer stays inside the map and is not null.
        let addr = unsafe { NonNull::new_unchecked(start.add(head)) };
        let range = Self { addr, len, forgotten: false };
        if accessible {
            // SAFETY: the range is this value's own. A forked child must not share pages the GPU writes:
            // copy-on-write would take them from the parent. That is advice, whose failure changes nothing.
            unsafe {
                if libc::mprotect(addr.as_ptr().cast(), len, libc::PROT_READ | libc::PROT_WRITE) < 0 {
                    return Err(Errno::last());
                }
                libc::madvise(addr.as_ptr().cast(), len, libc::MADV_DONTFORK);
            }
        }
        Ok(range)
    }

    pub(crate) fn addr(&self) -> NonNull<u8> {
        self.addr
    }

    /// Bytes of the range, without the page after it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the range up without unmapping it: other code has done that.
    pub(crate) fn forget(&mut self) {
        self.forgotten = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let start = if self.forgotten { self.len } else { 0 };
        // SAFETY: range and page were reserved by `new`, and their owner is done with them; a range that was
        // unmapped before is left out.
        unsafe { libc::munmap(self.addr.as_ptr().add(start).cast(), self.len + PAGE - start) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_apart() {
        for align in [PAGE, 2 << 20] {
            let ranges: Vec<Reservation> =
                (0..4).map(|_| Reservation::new(3 * PAGE, align, false).unwrap()).collect();
            for range in &ranges {
                let start = range.addr().as_ptr().addr();
                assert!(start.is_multiple_of(align));
                for other in &ranges {
                    let other = other.addr().as_ptr().addr();
                    assert!(
                        other == start || other.abs_diff(start) >= 4 * PAGE,
                        "no page between two ranges"
                    );
                }
            }
        }
        assert_eq!(Reservation::new(usize::MAX - PAGE, PAGE, false).unwrap_err(), Errno(libc::ENOMEM));
    }
}
