//! Memory of this library: never the program's allocator, which may be the one that is calling.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::{Allocator, Dlmalloc};

use crate::real::raw;

/// Pages from the kernel, without a detour through the hooked functions.
struct Pages;

// SAFETY: what is handed out was mapped for this and is not used otherwise.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        // SAFETY: a new mapping at a place the kernel chooses.
        match unsafe { raw::mmap_anonymous(size) } {
            Some(at) => (at, size, 0),
            None => (std::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _ptr: *mut u8, _old: usize, _new: usize, _can_move: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _ptr: *mut u8, _old: usize, _new: usize) -> bool {
        false
    }

    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        // SAFETY: the range came from `alloc` and is no longer used.
        unsafe { raw::munmap(ptr as usize, size) == 0 }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}

thread_local! {
    /// This thread holds the lock while the process forks.
    static FORKING: Cell<bool> = const { Cell::new(false) };
}

/// The allocator of this library.
pub(crate) struct Private {
    held: AtomicBool,
    heap: UnsafeCell<Dlmalloc<Pages>>,
}

// SAFETY: the heap is only touched while the lock is held.
unsafe impl Sync for Private {}

impl Private {
    pub(crate) const fn new() -> Self {
        Self { held: AtomicBool::new(false), heap: UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)) }
    }

    /// Takes the lock. It is never held for long, and across `fork` by the forking thread alone ([`Private::hold`]),
    /// which goes on allocating: other libraries have functions to be called at a fork as well.
    fn lock(&self) {
        if FORKING.get() {
            return;
        }
        let mut turns = 0u32;
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            turns += 1;
            if turns.is_multiple_of(64) {
                // SAFETY: gives up the processor and nothing else.
                unsafe { libc::sched_yield() };
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn unlock(&self) {
        if !FORKING.get() {
            self.held.store(false, Ordering::Release);
        }
    }

    /// Keeps all other threads out while the process forks, so that the child finds the heap whole.
    pub(crate) fn hold(&self) {
        self.lock();
        FORKING.set(true);
    }

    /// Undoes [`Private::hold`], in parent and child alike.
    pub(crate) fn release(&self) {
        FORKING.set(false);
        self.unlock();
    }

    /// In a child of a fork that was not announced: the thread that held the lock is not there.
    pub(crate) fn forget(&self) {
        self.held.store(false, Ordering::Release);
    }

    fn with<R>(&self, operation: impl FnOnce(&mut Dlmalloc<Pages>) -> R) -> R {
        self.lock();
        // SAFETY: the lock is held, so that this is the only reference.
        let result = operation(unsafe { &mut *self.heap.get() });
        self.unlock();
        result
    }
}

// SAFETY: dlmalloc keeps the contract of an allocator, under the lock.
unsafe impl GlobalAlloc for Private {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is the caller's, which is not empty.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the block is this allocator's, with this layout.
        self.with(|heap| unsafe { heap.free(ptr, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.with(|heap| unsafe { heap.realloc(ptr, layout.size(), layout.align(), size) })
    }
}
