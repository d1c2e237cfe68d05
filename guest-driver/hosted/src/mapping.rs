//! Mappings of this process, made and changed by system calls of this crate's own.
//!
//! Programs put functions of their own in place of the C library's `mmap` and its like, to hear of memory that comes
//! and goes (UCX, Open MPI). The driver's own memory does not concern them, and such a function may need the driver.
#![expect(unsafe_code, reason = "changes mappings")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};

/// `PROT_*` bits.
fn access(prot: i32) -> ProtFlags {
    ProtFlags::from_bits_retain(prot.cast_unsigned())
}

/// Flags of all new mappings, and the address that is asked for.
fn place(at: Option<usize>) -> (*mut std::ffi::c_void, MapFlags) {
    match at {
        Some(at) => (with_exposed_provenance_mut(at), MapFlags::NORESERVE | MapFlags::FIXED),
        None => (null_mut(), MapFlags::NORESERVE),
    }
}

/// Maps private zeroed memory, at an address that the kernel chooses or in place of the map at `at`; its address.
///
/// # Safety
///
/// The caller may replace what is mapped at `at`.
pub(crate) unsafe fn zeroed(at: Option<usize>, len: usize, prot: i32) -> io::Result<usize> {
    let (at, flags) = place(at);
    // SAFETY: the caller's contract.
    let made = unsafe { mm::mmap_anonymous(at, len, access(prot), flags | MapFlags::PRIVATE) }?;
    Ok(made as usize)
}

/// Maps a part of a file, shared; its address.
///
/// # Safety
///
/// As for [`zeroed`]; `fd` is open.
pub(crate) unsafe fn shared(
    at: Option<usize>,
    len: usize,
    prot: i32,
    (fd, offset): (i32, u64),
) -> io::Result<usize> {
    let (at, flags) = place(at);
    // SAFETY: the caller's contract.
    let made = unsafe {
        mm::mmap(at, len, access(prot), flags | MapFlags::SHARED, BorrowedFd::borrow_raw(fd), offset)
    }?;
    Ok(made as usize)
}

/// Maps the pages of a shared mapping once more; the new address.
///
/// # Safety
///
/// As for [`zeroed`]; `from` is in a shared mapping, and so are `len` bytes from there.
pub(crate) unsafe fn again(from: usize, len: usize, at: Option<usize>) -> io::Result<usize> {
    let from = with_exposed_provenance_mut(from);
    // SAFETY: the caller's contract. An old length of 0 leaves the source as it is (mremap(2)).
    let made = unsafe {
        match at {
            Some(at) => {
                let at = with_exposed_provenance_mut(at);
                mm::mremap_fixed(from, 0, len, MremapFlags::MAYMOVE, at)
            }
            None => mm::mremap(from, 0, len, MremapFlags::MAYMOVE),
        }
    }?;
    Ok(made as usize)
}

/// Unmaps.
///
/// # Safety
///
/// Nothing uses the range afterwards.
pub(crate) unsafe fn unmap(at: usize, len: usize) -> io::Result<()> {
    // SAFETY: the caller's contract.
    Ok(unsafe { mm::munmap(with_exposed_provenance_mut(at), len) }?)
}

/// Changes the access to a range.
///
/// # Safety
///
/// Nothing accesses the range in a way that it no longer allows.
pub(crate) unsafe fn protect(at: usize, len: usize, prot: i32) -> io::Result<()> {
    let access = MprotectFlags::from_bits_retain(prot.cast_unsigned());
    // SAFETY: the caller's contract.
    Ok(unsafe { mm::mprotect(with_exposed_provenance_mut(at), len, access) }?)
}

/// Keeps a range out of forked children and of dumps.
pub(crate) fn keep_private(at: usize, len: usize) {
    for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
        // SAFETY: neither advice changes what this process finds in its memory.
        let _ = unsafe { mm::madvise(with_exposed_provenance_mut(at), len, advice) };
    }
}

/// Gives the pages of a range of shared memory back, which then reads as zeros. Returns true if that could be done.
///
/// # Safety
///
/// The range is the caller's to clear.
pub(crate) unsafe fn punch(at: usize, len: usize) -> bool {
    // SAFETY: the caller's contract.
    unsafe { mm::madvise(with_exposed_provenance_mut(at), len, Advice::LinuxRemove) }.is_ok()
}
