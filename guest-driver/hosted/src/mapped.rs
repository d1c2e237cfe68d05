//! What is mapped in this process: by asking the kernel about a range, or by reading the whole list where it cannot answer.
#![expect(unsafe_code, reason = "an ioctl of procfs")]

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;

/// `struct procmap_query` (linux/fs.h, Linux 6.11).
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<ProcmapQuery>() == 104);

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong = 3 << 30 | 104 << 16 | (b'f' as libc::c_ulong) << 8 | 17;
/// `PROCMAP_QUERY_VMA_READABLE` and `PROCMAP_QUERY_VMA_WRITABLE`, of queries and answers alike.
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// Whether every page of a range is mapped readable, and writable if asked.
pub(crate) fn is_mapped(start: u64, end: u64, writable: bool) -> bool {
    let Ok(maps) = File::open("/proc/self/maps") else { return false };
    let mut at = start;
    while at < end {
        match query(&maps, at) {
            Ok(Some((to, flags))) => {
                if flags & READABLE == 0 || writable && flags & WRITABLE == 0 {
                    return false;
                }
                at = to;
            }
            Ok(None) => return false,
            Err(()) => return is_listed(maps, start, end, writable),
        }
    }
    true
}

/// The end and the access of the mapping at an address, if there is one; fails on kernels without the query.
fn query(maps: &File, address: u64) -> Result<Option<(u64, u64)>, ()> {
    let mut query = ProcmapQuery { size: 104, query_addr: address, ..ProcmapQuery::default() };
    // SAFETY: the structure has the size it says, and the kernel writes no more than that.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if result == 0 {
        return Ok(Some((query.vma_end, query.vma_flags)));
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => Ok(None),
        _ => Err(()),
    }
}

/// The same by the list of all mappings.
fn is_listed(maps: File, start: u64, end: u64, writable: bool) -> bool {
    let mut at = start;
    for line in BufReader::new(maps).lines().map_while(Result::ok) {
        let Some((range, rest)) = line.split_once(' ') else { return false };
        let Some((from, to)) = range.split_once('-') else { return false };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) else {
            return false;
        };
        if to <= at {
            continue;
        }
        let access = rest.as_bytes();
        if from > at || access.first() != Some(&b'r') || (writable && access.get(1) != Some(&b'w')) {
            return false;
        }
        at = to;
        if at >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages: writable, read-only, and none.
    fn pages() -> (u64, [u64; 3]) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place the kernel chooses, changed inside itself.
        let base = unsafe {
            let base =
                libc::mmap(std::ptr::null_mut(), 3 * 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::mprotect(base.add(4096), 4096, libc::PROT_READ);
            libc::munmap(base.add(8192), 4096);
            base as u64
        };
        (base, [base, base + 4096, base + 8192])
    }

    #[test]
    fn ranges_are_judged_alike_by_query_and_by_list() {
        let (base, [writable, read_only, hole]) = pages();
        for (start, end, write, expected) in [
            (writable, read_only, true, true),
            (writable, hole, false, true),
            (writable, hole, true, false),
            (read_only, hole, true, false),
            (writable, hole + 4096, false, false),
            (hole, hole + 4096, false, false),
        ] {
            let range = format!("{:#x}..{:#x} write={write}", start - base, end - base);
            assert_eq!(is_mapped(start, end, write), expected, "{range}");
            let maps = File::open("/proc/self/maps").unwrap();
            assert_eq!(is_listed(maps, start, end, write), expected, "{range}, by list");
        }
        // SAFETY: this test's own mapping.
        unsafe { libc::munmap(base as *mut libc::c_void, 2 * 4096) };
    }
}
