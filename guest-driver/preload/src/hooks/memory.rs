//! Memory: maps of the nodes, and changes to memory the GPU uses.

use std::ffi::{c_int, c_void};

use belfry_kfd_hosted::dmabuf::Descriptor;
use libc::off_t;

use crate::card;
use crate::gpu::{self, Gpu};
use crate::inside::{inside, is_inside};
use crate::node::{self, Which};
use crate::real::{next, raw, set_errno};
use crate::shared;

/// The GPU, if a change to a range concerns it. Allocates nothing: the caller may be an allocator.
fn concerned(address: *mut c_void, len: usize) -> Option<&'static Gpu> {
    if is_inside() {
        return None;
    }
    let gpu = gpu::running()?;
    inside(|| gpu.process.uses(address as usize, len)).then_some(gpu)
}

/// Makes a change to a range of memory after the driver was told of it, if it uses it.
fn changing<R>(address: *mut c_void, len: usize, change: impl Fn() -> R) -> R {
    match concerned(address, len) {
        // A range that wraps around is for the kernel to refuse.
        Some(gpu) => {
            let result = inside(|| gpu.process.replacing(address as usize, round(len), &change));
            // The last map of freed memory may have gone.
            card::publish();
            result.unwrap_or_else(|_| change())
        }
        None => change(),
    }
}

/// Changes the access to a range of memory. The driver is told before it loses access, and after it was given.
///
/// Memory that the GPU writes and that becomes read-only is pinned anew, which fails as it does with Linux.
fn protecting(address: *mut c_void, len: usize, prot: c_int, protect: impl Fn() -> c_int) -> c_int {
    if !is_pinned(address, len) {
        return protect();
    }
    let all = libc::PROT_READ | libc::PROT_WRITE;
    let Some(gpu) = concerned(address, len) else { return protect() };
    let (start, rounded) = (address as usize, round(len));
    if prot & all != all {
        return inside(|| gpu.process.protecting(start, rounded, &protect)).unwrap_or_else(|_| protect());
    }
    let result = protect();
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
        // SAFETY: with `MAP_FIXED`, the program says that what is there is its own to replace; else it is reserved.
        let mapped = unsafe { gpu.process.mmap(which.node(), place, len, prot, offset as u64) };
        let mapped = mapped.map_err(|errno| {
            if reserved.is_some() {
                // SAFETY: the reservation, which nobody knows of.
                unsafe { raw::munmap(address as usize, len) };
            }
            errno.raw()
        })?;
        if let Some((range, offset)) = gpu.process.doorbells_at(mapped as usize) {
            crate::doorbells::mapped(range, offset);
        }
        Ok(mapped)
    };
    match gpu::get().and_then(|gpu| inside(|| map(gpu))) {
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
        // SAFETY: with `MAP_FIXED`, the program says that what is there is its own to replace; else it is reserved.
        let mapped = unsafe { memory.map(place, len, prot, offset) };
        mapped.map_err(|errno| {
            if reserved {
                // SAFETY: the reservation, which nobody knows of.
                unsafe { raw::munmap(address as usize, len) };
            }
            errno.raw()
        })
    };
    let result = match (private, flags & libc::MAP_FIXED != 0) {
        // A copy of memory that the GPU writes would be of no use, and the driver of a kernel makes none.
        (true, _) => Err(libc::EINVAL),
        (false, true) => changing(address, len, || inside(map)),
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

macro_rules! maps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            address: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: off_t
        ) -> *mut c_void {
            if !is_inside() && let Some(which) = node::opened_node_of(fd) {
                return map_node(which, address, len, prot, flags, offset);
            }
            if flags & libc::MAP_ANONYMOUS == 0 && let Some(memory) = shared::find(fd) {
                return map_shared(&memory, address, len, prot, flags, offset);
            }
            let map = || next!(
                $name(address, len, prot, flags, fd, offset):
                fn(*mut c_void, usize, c_int, c_int, c_int, off_t) -> *mut c_void, else libc::MAP_FAILED
            );
            if flags & libc::MAP_FIXED != 0 { changing(address, len, map) } else { map() }
        }
    )*};
}

maps! { mmap mmap64 }

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, len: usize) -> c_int {
    changing(address, len, || next!(munmap(address, len): fn(*mut c_void, usize) -> c_int, else -1))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    len: usize,
    new_len: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    let remap = || {
        next!(
            mremap(address, len, new_len, flags, place):
            fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void, else libc::MAP_FAILED
        )
    };
    // What is grown in place goes on being used; what may move is told of first.
    let moves = flags & libc::MREMAP_MAYMOVE != 0 || new_len < len;
    if flags & libc::MREMAP_FIXED != 0 && concerned(place, new_len).is_some() {
        // The driver is told of one range at a time. It may have pinned the source anew before that is gone.
        if moves {
            changing(address, len, || ());
        }
        let result = changing(place, new_len, remap);
        if moves && result != libc::MAP_FAILED {
            changing(address, len, || ());
        }
        return result;
    }
    if moves { changing(address, len, remap) } else { remap() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, len: usize, prot: c_int) -> c_int {
    let protect = || next!(mprotect(address, len, prot): fn(*mut c_void, usize, c_int) -> c_int, else -1);
    protecting(address, len, prot, protect)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pkey_mprotect(address: *mut c_void, len: usize, prot: c_int, key: c_int) -> c_int {
    let protect = || {
        next!(
            pkey_mprotect(address, len, prot, key): fn(*mut c_void, usize, c_int, c_int) -> c_int, else -1
        )
    };
    protecting(address, len, prot, protect)
}

/// Whether the GPU reaches the program's own memory in a range; maps of nodes may be protected as one likes.
fn is_pinned(address: *mut c_void, len: usize) -> bool {
    !is_inside()
        && gpu::running().is_some_and(|gpu| {
            inside(|| gpu.hosted.pins_in(address as u64..(address as u64).saturating_add(len as u64)))
        })
}
