//! Memory that code is executed from: written first, then made executable, never both.

#![expect(unsafe_code, reason = "maps memory and makes it executable")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Most bytes of code that a process has at a time; beyond that, code stays in tier 0.
const LIMIT: usize = 256 << 20;

/// Bytes of code that the process has.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Part of the bytes of code that a process may have.
#[derive(Debug)]
struct Share(usize);

impl Share {
    fn of(bytes: usize) -> Option<Share> {
        let add = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= LIMIT);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Share(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Code that can be executed and not changed.
#[derive(Debug)]
pub(crate) struct CodeMemory {
    start: NonNull<u8>,
    size: usize,
    _share: Share,
}

// SAFETY: the memory is never written after it was made, and no other value refers to this mapping.
unsafe impl Send for CodeMemory {}
// SAFETY: as above.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Memory with this code; `None` where the system gives none, or none that may be executed.
    pub(crate) fn new(code: &[u8]) -> Option<CodeMemory> {
        if code.is_empty() {
            return None;
        }
        let size = code.len().next_multiple_of(4096);
        let share = Share::of(size)?;
        // SAFETY: maps new memory, wherever there is room.
        let start = unsafe {
            mmap_anonymous(core::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let memory = CodeMemory { start: NonNull::new(start.ok()?.cast())?, size, _share: share };
        // SAFETY: the mapping is this function's own, writable, and at least as long as the code.
        let made = unsafe {
            core::ptr::copy_nonoverlapping(code.as_ptr(), memory.start.as_ptr(), code.len());
            mprotect(memory.start.as_ptr().cast(), size, MprotectFlags::READ | MprotectFlags::EXEC)
        };
        made.ok()?;
        Some(memory)
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.size
    }

    /// Address of a byte of it.
    pub(crate) fn at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.size);
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no thread executes it: a thread that does
        // borrows the region which owns the value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.size) };
    }
}
