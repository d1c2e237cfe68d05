//! Parts that `alloc` and `core` need of a kernel: a heap and a panic handler.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{self, Write};
use core::panic::PanicInfo;

use crate::ffi;

/// The kernel's heap (`kvmalloc`).
struct KernelHeap;

/// Alignment in bytes that `kvmalloc` gives any size.
const MIN_ALIGN: usize = 8;
/// Largest alignment in bytes that it gives: larger requests come from whole pages.
const MAX_ALIGN: usize = 4096;

/// Returns the size to ask for so that the result is aligned: a power of two is aligned to itself, up to a page.
fn aligned_size(layout: Layout) -> Option<usize> {
    match layout.align() {
        ..=MIN_ALIGN => Some(layout.size()),
        align @ ..=MAX_ALIGN => layout.size().max(align).checked_next_power_of_two(),
        _ => None,
    }
}

fn allocate(layout: Layout, zeroed: bool) -> *mut u8 {
    // SAFETY: os_alloc takes any size and returns null when there is no memory.
    aligned_size(layout).map_or(core::ptr::null_mut(), |size| unsafe { ffi::os_alloc(size, zeroed) })
}

// SAFETY: os_alloc returns unique memory of at least the asked size, aligned as `aligned_size` arranges, and os_free
// takes exactly such memory.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocate(layout, true)
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the caller passes a pointer that `allocate` returned.
        unsafe { ffi::os_free(memory) }
    }
}

#[global_allocator]
static HEAP: KernelHeap = KernelHeap;

/// A line of text on the stack; text that does not fit is cut.
pub(crate) struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    /// Formats a line.
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Line {
        let mut line = Line { bytes: [0; 256], len: 0 };
        // A line that is cut is still worth logging.
        let _ = line.write_fmt(text);
        line
    }

    /// Returns the text that was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or(&mut []);
        let count = s.len().min(room.len());
        for (to, from) in room.iter_mut().zip(s.as_bytes()) {
            *to = *from;
        }
        self.len += count;
        if count == s.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let line = Line::new(format_args!("{info}"));
    let text = line.as_bytes();
    // SAFETY: the slice is valid for the call, which does not return.
    unsafe { ffi::os_panic(text.as_ptr(), text.len()) }
}
