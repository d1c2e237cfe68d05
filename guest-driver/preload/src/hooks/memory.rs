//! Memory: maps of the nodes, and changes to memory the GPU uses.

use std::ffi::{c_int, c_void};

use belfry_kfd_hosted::dmabuf::Descriptor;
use libc::off_t;

use crate::card;
use crate::gpu::{self, Gpu};
use crate::inside::{inside, is_inside};
use crate::node::{self, Which};
use crate::opening;
use crate::real::{Next, answer, raw, set_errno, through};
use crate::shared;

/// Way in which a call has come here, and goes on.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// By a function of the C library, which this library's replaces.
    Function(&'static Next),
    /// As a system call, by `syscall`.
    System,
}

/// The part that makes a change in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The function that this library's replaces.
    Library,
    /// The kernel, entered from here.
    Kernel,
}

impl Way {
    /// Part that makes a change which does not concern the driver. The driver's own calls pass by functions
    /// that a program may have put in place of the C library's.
    fn by(self) -> By {
        if matches!(self, Self::Function(_)) && !is_inside() { By::Library } else { By::Kernel }
    }

    /// Tells if the program has patched the function. Such a function is to be called, and may call anything.
    fn is_patched(self) -> bool {
        matches!(self, Self::Function(function) if function.is_patched())
    }
}

/// The GPU, if a change to a range concerns it. Allocates nothing: the caller may be an allocator.
fn concerned(address: *mut c_void, len: usize) -> Option<&'static Gpu> {
    if is_inside() {
        return None;
    }
    let gpu = gpu::running()?;
    inside(|| gpu.process.uses(address as usize, len)).then_some(gpu)
}

/// Makes a change to a range of memory after the driver was told of it, if it uses it.
///
/// The driver holds its locks while the kernel makes the change. A function that the program has patched is not called there:
/// the driver is told before, and once more afterwards, as it may have pinned the memory anew. Mostly such a function makes its
/// system call by `syscall`, so that the change comes here once more.
fn changing<R>(way: Way, address: *mut c_void, len: usize, change: impl Fn(By) -> R) -> R {
    let Some(gpu) = concerned(address, len) else { return change(way.by()) };
    let (start, rounded) = (address as usize, round(len));
    let result = if way.is_patched() {
        let tell = || inside(|| gpu.process.replacing(start, rounded, || ()));
        tell().and_then(|()| {
            let result = change(By::Library);
            tell().map(|()| result)
        })
    } else {
        inside(|| gpu.process.replacing(start, rounded, || change(By::Kernel)))
    };
    // The last map of freed memory may have gone.
    card::publish();
    // A range that wraps around is for the kernel to refuse.
    result.unwrap_or_else(|_| change(way.by()))
}

/// Changes the access to a range of memory. The driver is told before it loses access, and after it was given.
///
/// Memory that the GPU writes and that becomes read-only is pinned anew, which fails as it does with Linux.
fn protecting(
    way: Way,
    address: *mut c_void,
    len: usize,
    prot: c_int,
    protect: impl Fn(By) -> c_int,
) -> c_int {
    if !is_pinned(address, len) {
        return protect(way.by());
    }
    let all = libc::PROT_READ | libc::PROT_WRITE;
    let Some(gpu) = concerned(address, len) else { return protect(way.by()) };
    let (start, rounded) = (address as usize, round(len));
    if prot & all != all && !way.is_patched() {
        let result = inside(|| gpu.process.protecting(start, rounded, || protect(By::Kernel)));
        return result.unwrap_or_else(|_| protect(way.by()));
    }
    if prot & all != all {
        // As in `changing`.
        let tell = |result: c_int| inside(|| gpu.process.protecting(start, rounded, || result));
        let result = tell(0).map(|_| protect(way.by())).and_then(tell);
        return result.unwrap_or_else(|_| protect(way.by()));
    }
    let result = protect(way.by());
    if result == 0 {
        inside(|| gpu.process.permitted(start, rounded));
    }
    result
}

/// To whole pages, as the kernel does.
fn round(len: usize) -> usize {
    len.checked_next_multiple_of(4096).unwrap_or(len)
}

/// Maps a node.
fn map_node(
    which: Which,
    address: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    offset: off_t,
) -> *mut c_void {
    let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let place = fixed.then_some(address as usize);
    let map = |gpu: &'static Gpu| {
        let reserved = if flags & libc::MAP_FIXED_NOREPLACE != 0 {
            Some(raw::mmap_free(address as usize, len, libc::PROT_NONE)?)
        } else {
            None
        };
        // SAFETY: with `MAP_FIXED`, the program vouches that the map there is its own to replace; else it is reserved.
        let mapped = unsafe { gpu.process.mmap(which.node(), place, len, prot, offset as u64) };
        let mapped = mapped.map_err(|errno| {
            if reserved.is_some() {
                // SAFETY: the reservation, which no other code knows of.
                unsafe { raw::munmap(address as usize, len) };
            }
            errno.raw()
        })?;
        if let Some((range, owner, offset)) = gpu.process.doorbells_at(mapped as usize) {
            crate::doorbells::mapped(range, &owner, offset);
        }
        Ok(mapped)
    };
    match opening::get().and_then(|gpu| inside(|| map(gpu))) {
        Ok(mapped) => mapped.cast(),
        Err(errno) => {
            set_errno(errno);
            libc::MAP_FAILED
        }
    }
}

/// Maps memory that processes share.
fn map_shared(
    memory: &Descriptor,
    address: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    offset: off_t,
) -> *mut c_void {
    let private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let place = (flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0).then_some(address as usize);
    let map = || {
        let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
        let reserved = flags & libc::MAP_FIXED_NOREPLACE != 0;
        if reserved {
            raw::mmap_free(address as usize, len, libc::PROT_NONE)?;
        }
        // SAFETY: with `MAP_FIXED`, the program vouches that the map there is its own to replace; else it is reserved.
        let mapped = unsafe { memory.map(place, len, prot, offset) };
        mapped.map_err(|errno| {
            if reserved {
                // SAFETY: the reservation, which no other code knows of.
                unsafe { raw::munmap(address as usize, len) };
            }
            errno.raw()
        })
    };
    let result = match (private, flags & libc::MAP_FIXED != 0) {
        // A copy of memory that the GPU writes would be of no use, and the driver of a kernel makes none.
        (true, _) => Err(libc::EINVAL),
        (false, true) => changing(Way::System, address, len, |_| inside(map)),
        (false, false) => inside(map),
    };
    match result {
        Ok(mapped) => mapped.cast(),
        Err(errno) => {
            set_errno(errno);
            libc::MAP_FAILED
        }
    }
}

/// `mmap`.
///
/// # Safety
///
/// As for `mmap`; with [`By::Library`], `map` calls the function of `way`.
pub(super) unsafe fn map(
    way: Way,
    (address, len): (*mut c_void, usize),
    (prot, flags): (c_int, c_int),
    (fd, offset): (c_int, off_t),
) -> *mut c_void {
    if !is_inside()
        && let Some(which) = node::opened_node_of(fd)
    {
        return map_node(which, address, len, prot, flags, offset);
    }
    if flags & libc::MAP_ANONYMOUS == 0
        && let Some(memory) = shared::find(fd)
    {
        return map_shared(&memory, address, len, prot, flags, offset);
    }
    let map = |by: By| match (by, way) {
        (By::Library, Way::Function(function)) => through!(
            function, (address, len, prot, flags, fd, offset):
            fn(*mut c_void, usize, c_int, c_int, c_int, off_t) -> *mut c_void, else libc::MAP_FAILED
        ),
        _ => {
            let how = [address as usize, len, prot as usize, flags as usize, fd as usize, offset as usize];
            // SAFETY: the program's arguments, or the driver's.
            answer(unsafe { raw::call(libc::SYS_mmap, how) }) as *mut c_void
        }
    };
    if flags & libc::MAP_FIXED != 0 { changing(way, address, len, map) } else { map(way.by()) }
}

macro_rules! maps {
    ($($name:ident $function:ident $text:literal)*) => {$(
        static $function: Next = Next::new($text);

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            address: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: off_t
        ) -> *mut c_void {
            // SAFETY: the program's arguments.
            unsafe { map(Way::Function(&$function), (address, len), (prot, flags), (fd, offset)) }
        }
    )*};
}

maps! { mmap MMAP c"mmap" mmap64 MMAP64 c"mmap64" }

/// `munmap`.
pub(super) fn unmap(way: Way, address: *mut c_void, len: usize) -> c_int {
    changing(way, address, len, |by| match (by, way) {
        (By::Library, Way::Function(function)) => {
            through!(function, (address, len): fn(*mut c_void, usize) -> c_int, else -1)
        }
        // SAFETY: the program's range, or the driver's.
        _ => answer(unsafe { raw::munmap(address as usize, len) }) as c_int,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, len: usize) -> c_int {
    static MUNMAP: Next = Next::new(c"munmap");
    unmap(Way::Function(&MUNMAP), address, len)
}

/// `mremap`.
pub(super) fn remap(
    way: Way,
    (address, len): (*mut c_void, usize),
    new_len: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    let remap = |by: By| match (by, way) {
        (By::Library, Way::Function(function)) => through!(
            function, (address, len, new_len, flags, place):
            fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void, else libc::MAP_FAILED
        ),
        _ => {
            let how = [address as usize, len, new_len, flags as usize, place as usize, 0];
            // SAFETY: the program's arguments, or the driver's.
            answer(unsafe { raw::call(libc::SYS_mremap, how) }) as *mut c_void
        }
    };
    // Memory that is grown in place goes on being used; the driver is told first of memory that may move.
    let moves = flags & libc::MREMAP_MAYMOVE != 0 || new_len < len;
    if flags & libc::MREMAP_FIXED != 0 && concerned(place, new_len).is_some() {
        // The driver is told of one range at a time. It may have pinned the source anew before the source is gone.
        if moves {
            changing(Way::System, address, len, |_| ());
        }
        let result = changing(way, place, new_len, remap);
        if moves && result != libc::MAP_FAILED {
            changing(Way::System, address, len, |_| ());
        }
        return result;
    }
    if moves { changing(way, address, len, remap) } else { remap(way.by()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    len: usize,
    new_len: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    static MREMAP: Next = Next::new(c"mremap");
    remap(Way::Function(&MREMAP), (address, len), new_len, flags, place)
}

/// `mprotect`, and with a key `pkey_mprotect`.
pub(super) fn protect(
    way: Way,
    (address, len): (*mut c_void, usize),
    prot: c_int,
    key: Option<c_int>,
) -> c_int {
    protecting(way, address, len, prot, |by| match (by, way, key) {
        (By::Library, Way::Function(function), None) => {
            through!(function, (address, len, prot): fn(*mut c_void, usize, c_int) -> c_int, else -1)
        }
        (By::Library, Way::Function(function), Some(key)) => through!(
            function, (address, len, prot, key): fn(*mut c_void, usize, c_int, c_int) -> c_int, else -1
        ),
        (_, _, key) => {
            let number = if key.is_some() { libc::SYS_pkey_mprotect } else { libc::SYS_mprotect };
            let how = [address as usize, len, prot as usize, key.unwrap_or(0) as usize, 0, 0];
            // SAFETY: the program's arguments, or the driver's.
            answer(unsafe { raw::call(number, how) }) as c_int
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, len: usize, prot: c_int) -> c_int {
    static MPROTECT: Next = Next::new(c"mprotect");
    protect(Way::Function(&MPROTECT), (address, len), prot, None)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pkey_mprotect(address: *mut c_void, len: usize, prot: c_int, key: c_int) -> c_int {
    static PKEY_MPROTECT: Next = Next::new(c"pkey_mprotect");
    protect(Way::Function(&PKEY_MPROTECT), (address, len), prot, Some(key))
}

/// Returns true if the GPU reaches the program's own memory in a range; maps of nodes may be protected as one
/// likes.
fn is_pinned(address: *mut c_void, len: usize) -> bool {
    !is_inside()
        && gpu::running().is_some_and(|gpu| {
            inside(|| {
                gpu.machine.first().pins_in(address as u64..(address as u64).saturating_add(len as u64))
            })
        })
}
