//! Memory of this library: never the program's allocator, which may be the one that is calling.
//!
//! In a program whose driver is in a companion (`companion.rs`), there are two heaps. The companion has one of them, so
//! that it never waits for a thread that a debugger has stopped. A block that one side frees of the other side's heap
//! is left in a list, without a lock, until that other side allocates again.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use dlmalloc::{Allocator, Dlmalloc};

use crate::real::raw;
use crate::thread_kind::is_companion_thread;

#[global_allocator]
pub(crate) static ALLOCATOR: Private = Private::new();

/// Pages from the kernel, without a detour through the hooked functions.
struct Pages;

// SAFETY: memory that is handed out was mapped for this and is not used otherwise.
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

/// Address space of the companion's heap: a block's address says whose it is.
struct Region;

/// Most and least address space that is asked for; of a process with a limit on that, an eighth of the limit.
const REGION: (usize, usize) = (64 << 30, 64 << 20);
/// Bytes that are made usable at a time.
const STEP: usize = 1 << 20;

/// Bounds of the region, zeros before there is one, and the end of the part in use.
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
/// Start of this process's part: the blocks before it belong to the process that this one was forked from.
static OWN: AtomicUsize = AtomicUsize::new(0);
/// There is a companion that has a heap of its own.
static DIVIDED: AtomicBool = AtomicBool::new(false);

// SAFETY: memory that is handed out is of the region, once, and is not used otherwise.
unsafe impl Allocator for Region {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        // Called with the heap's lock held.
        let at = USED.load(Ordering::Relaxed);
        let end = size.checked_next_multiple_of(STEP).and_then(|size| at.checked_add(size));
        let Some(end) = end.filter(|&end| end <= END.load(Ordering::Relaxed)) else {
            return (std::ptr::null_mut(), 0, 0);
        };
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: reserved for this heap, and not handed out yet.
        if unsafe { raw::call(libc::SYS_mprotect, [at, end - at, prot, 0, 0, 0]) } != 0 {
            return (std::ptr::null_mut(), 0, 0);
        }
        USED.store(end, Ordering::Relaxed);
        (at as *mut u8, end - at, 0)
    }

    fn remap(&self, _ptr: *mut u8, _old: usize, _new: usize, _can_move: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _ptr: *mut u8, _old: usize, _new: usize) -> bool {
        false
    }

    fn free(&self, _ptr: *mut u8, _size: usize) -> bool {
        false
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

/// Address space that the region may have, in bytes.
fn most() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is this function's own.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if asked != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return REGION.0;
    }
    let part = usize::try_from(limit.rlim_cur / 8).unwrap_or(REGION.0) & !(STEP - 1);
    part.clamp(REGION.1, REGION.0)
}

/// Returns true if a block is of the region.
fn is_in_region(block: *mut u8) -> bool {
    (BEGIN.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&(block as usize))
}

/// A heap with a lock.
struct Heap<A: Allocator> {
    held: AtomicBool,
    heap: UnsafeCell<Dlmalloc<A>>,
    /// Blocks that the other side has freed, each with the next one's address in it: none is smaller than a word.
    freed: AtomicPtr<u8>,
}

// SAFETY: the heap is only touched while the lock is held.
unsafe impl<A: Allocator> Sync for Heap<A> {}

impl<A: Allocator> Heap<A> {
    const fn new(pages: A) -> Self {
        Self {
            held: AtomicBool::new(false),
            heap: UnsafeCell::new(Dlmalloc::new_with_allocator(pages)),
            freed: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn lock(&self) {
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
        self.held.store(false, Ordering::Release);
    }

    /// Runs `operation`; `locked` says that this thread has the lock already.
    fn with<R>(&self, locked: bool, operation: impl FnOnce(&mut Dlmalloc<A>) -> R) -> R {
        if !locked {
            self.lock();
        }
        // SAFETY: the lock is held, so that this is the only reference.
        let heap = unsafe { &mut *self.heap.get() };
        if !self.freed.load(Ordering::Relaxed).is_null() {
            let mut block = self.freed.swap(std::ptr::null_mut(), Ordering::Acquire);
            while !block.is_null() {
                // SAFETY: `leave` has put it there, and no other code has it.
                unsafe {
                    let next = block.cast::<*mut u8>().read();
                    heap.c_free(block);
                    block = next;
                }
            }
        }
        let result = operation(heap);
        if !locked {
            self.unlock();
        }
        result
    }

    /// Leaves a block for this heap to free.
    ///
    /// # Safety
    ///
    /// The block is this heap's, and no code uses it any more.
    unsafe fn leave(&self, block: *mut u8) {
        let mut first = self.freed.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's contract; a block has room for a word, and its alignment.
            unsafe { block.cast::<*mut u8>().write(first) };
            match self.freed.compare_exchange_weak(first, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

thread_local! {
    /// This thread holds the lock while the process forks.
    static FORKING: Cell<bool> = const { Cell::new(false) };
}

/// The allocator of this library.
pub(crate) struct Private {
    program: Heap<Pages>,
    companion: Heap<Region>,
}

/// Returns true if the calling thread's heap is the companion's.
fn is_companions() -> bool {
    DIVIDED.load(Ordering::Relaxed) && is_companion_thread()
}

impl Private {
    pub(crate) const fn new() -> Self {
        Self { program: Heap::new(Pages), companion: Heap::new(Region) }
    }

    /// Gives a companion, which is about to be started, a heap of its own; `false` where there is no address space for it.
    pub(crate) fn divide(&self) -> bool {
        if BEGIN.load(Ordering::Relaxed) == 0 {
            let mut size = most();
            let at = loop {
                let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
                // SAFETY: a new mapping at a place the kernel chooses, which no code may touch yet.
                let at = unsafe {
                    raw::call(libc::SYS_mmap, [0, size, libc::PROT_NONE as usize, flags, usize::MAX, 0])
                };
                if at > 0 {
                    break at as usize;
                }
                size /= 2;
                if size < REGION.1 {
                    return false;
                }
            };
            USED.store(at, Ordering::Relaxed);
            OWN.store(at, Ordering::Relaxed);
            END.store(at + size, Ordering::Relaxed);
            BEGIN.store(at, Ordering::Relaxed);
        }
        DIVIDED.store(true, Ordering::Release);
        true
    }

    /// Keeps all other threads out while the process forks, so that the child finds the heap whole. It goes on allocating:
    /// other libraries have functions to be called at a fork as well.
    pub(crate) fn hold(&self) {
        self.program.lock();
        FORKING.set(true);
    }

    /// Undoes [`Private::hold`], in parent and child alike.
    pub(crate) fn release(&self) {
        FORKING.set(false);
        self.program.unlock();
    }

    /// In a child: the thread that held the lock is not there if the fork was not announced, and the companion never is. What
    /// that had stays as it was.
    pub(crate) fn forget(&self) {
        self.program.unlock();
        if DIVIDED.swap(false, Ordering::Relaxed) {
            OWN.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
            self.companion.unlock();
            self.companion.freed.store(std::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: the companion's threads are not in this process, so that none of them uses the heap.
            unsafe { *self.companion.heap.get() = Dlmalloc::new_with_allocator(Region) };
        }
    }
}

// SAFETY: dlmalloc keeps the contract of an allocator, under the lock; blocks go back to the heap that they are of.
unsafe impl GlobalAlloc for Private {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the layout is the caller's, which is not empty.
        unsafe {
            if is_companions() {
                self.companion.with(false, |heap| heap.malloc(size, align))
            } else {
                self.program.with(FORKING.get(), |heap| heap.malloc(size, align))
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            if is_companions() {
                self.companion.with(false, |heap| heap.calloc(size, align))
            } else {
                self.program.with(FORKING.get(), |heap| heap.calloc(size, align))
            }
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: the block is this allocator's, with this layout, and of the heap that its address says.
        unsafe {
            match (is_in_region(ptr), is_companions()) {
                (true, _) if (ptr as usize) < OWN.load(Ordering::Relaxed) => {}
                (true, true) => self.companion.with(false, |heap| heap.free(ptr, size, align)),
                (true, false) => self.companion.leave(ptr),
                (false, true) => self.program.leave(ptr),
                (false, false) => self.program.with(FORKING.get(), |heap| heap.free(ptr, size, align)),
            }
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (layout.size(), layout.align());
        let left = is_in_region(ptr) && (ptr as usize) < OWN.load(Ordering::Relaxed);
        // SAFETY: as above; the new layout is the old one with a size that the caller vouches for.
        unsafe {
            match (is_in_region(ptr), is_companions()) {
                (true, true) if !left => {
                    self.companion.with(false, |heap| heap.realloc(ptr, old, align, size))
                }
                (false, false) => {
                    self.program.with(FORKING.get(), |heap| heap.realloc(ptr, old, align, size))
                }
                _ => {
                    let moved = self.alloc(Layout::from_size_align_unchecked(size, align));
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(ptr, old.min(size));
                        self.dealloc(ptr, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides of one allocator, whose heaps are not those of other tests.
    #[test]
    fn what_the_other_side_frees_is_this_sides_again() {
        let heap: Heap<Pages> = Heap::new(Pages);
        // SAFETY: the blocks are used by this test alone.
        unsafe {
            let first = heap.with(false, |heap| heap.malloc(1, 1));
            let second = heap.with(false, |heap| heap.malloc(40, 8));
            heap.leave(first);
            heap.leave(second);
            assert_eq!(second.cast::<*mut u8>().read(), first);
            let again = heap.with(false, |heap| heap.malloc(1, 1));
            assert!(heap.freed.load(Ordering::Relaxed).is_null());
            assert!(again == first || again == second, "neither of the blocks was freed");
        }
    }
}
