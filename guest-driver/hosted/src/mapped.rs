//! Mappings of this process: found by asking the kernel about a range, or by reading the whole list if the
//! kernel cannot answer.
#![expect(unsafe_code, reason = "an ioctl of procfs")]

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;

use belfry_kfd_core::os::UserArea;

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

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    end: u64,
    readable: bool,
    writable: bool,
    /// Device and number of the file it is of; the number is 0 where there is none.
    file: (u32, u32, u64),
}

/// Finds the program's mapping at an address; `None` if nothing is mapped there, or the same file as at one
/// of `devices`.
pub(crate) fn area(address: u64, devices: &[u64]) -> Option<UserArea> {
    let found = mapping(address)?;
    let is_device = |at: &u64| mapping(*at).is_some_and(|device| device.file == found.file);
    if found.file.2 != 0 && devices.iter().any(is_device) {
        return None;
    }
    Some(UserArea { end: found.end, writable: found.writable, file: found.file.2 != 0 })
}

/// The mapping at an address.
fn mapping(address: u64) -> Option<Mapping> {
    let maps = File::open("/proc/self/maps").ok()?;
    match query(&maps, address) {
        Ok(found) => found,
        Err(()) => listed(maps).find(|(start, one)| (*start..one.end).contains(&address)).map(|(_, one)| one),
    }
}

/// Returns true if every page of a range is mapped readable, and writable if asked.
pub(crate) fn is_mapped(start: u64, end: u64, writable: bool) -> bool {
    let Ok(maps) = File::open("/proc/self/maps") else { return false };
    let mut at = start;
    while at < end {
        match query(&maps, at) {
            Ok(Some(one)) => {
                if !one.readable || writable && !one.writable {
                    return false;
                }
                at = one.end;
            }
            Ok(None) => return false,
            Err(()) => return is_listed(maps, start, end, writable),
        }
    }
    true
}

/// The mapping at an address, if there is one; fails on kernels without the query.
fn query(maps: &File, address: u64) -> Result<Option<Mapping>, ()> {
    let mut query = ProcmapQuery { size: 104, query_addr: address, ..ProcmapQuery::default() };
    // SAFETY: the structure has the size it says, and the kernel writes no more than that.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if result == 0 {
        return Ok(Some(Mapping {
            end: query.vma_end,
            readable: query.vma_flags & READABLE != 0,
            writable: query.vma_flags & WRITABLE != 0,
            file: (query.dev_major, query.dev_minor, query.inode),
        }));
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => Ok(None),
        _ => Err(()),
    }
}

/// All mappings, with their first addresses.
fn listed(maps: File) -> impl Iterator<Item = (u64, Mapping)> {
    BufReader::new(maps).lines().map_while(Result::ok).filter_map(|line| parse(&line))
}

/// A line of the list: range, access, offset, device, number of the file.
fn parse(line: &str) -> Option<(u64, Mapping)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let access = words.next()?.as_bytes();
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let hex = |text| u32::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        end: u64::from_str_radix(to, 16).ok()?,
        readable: access.first() == Some(&b'r'),
        writable: access.get(1) == Some(&b'w'),
        file: (hex(major)?, hex(minor)?, words.next()?.parse().ok()?),
    };
    Some((u64::from_str_radix(from, 16).ok()?, mapping))
}

/// Does the work of [`is_mapped`] by the list of all mappings.
fn is_listed(maps: File, start: u64, end: u64, writable: bool) -> bool {
    let mut at = start;
    for (from, one) in listed(maps) {
        if one.end <= at {
            continue;
        }
        if from > at || !one.readable || (writable && !one.writable) {
            return false;
        }
        at = one.end;
        if at >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages at `place`: writable, read-only, and none.
    ///
    /// The kernel chooses places from the other end of the address space, so that no other thread's mapping fills the hole.
    fn pages(place: usize) -> (u64, [u64; 3]) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping where nothing is, changed inside itself.
        let base = unsafe {
            let place = std::ptr::without_provenance_mut(place);
            let base = libc::mmap(place, 3 * 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::mprotect(base.add(4096), 4096, libc::PROT_READ);
            libc::munmap(base.add(8192), 4096);
            base as u64
        };
        (base, [base, base + 4096, base + 8192])
    }

    #[test]
    fn ranges_are_judged_alike_by_query_and_by_list() {
        let (base, [writable, read_only, hole]) = pages(0x20_0000_0000);
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

    #[test]
    fn areas_are_what_both_ways_find_and_device_memory_is_none() {
        let (base, [writable, read_only, hole]) = pages(0x30_0000_0000);
        for (at, expected) in [
            (writable, Some(UserArea { end: read_only, writable: true, file: false })),
            (read_only + 8, Some(UserArea { end: hole, writable: false, file: false })),
            (hole, None),
        ] {
            assert_eq!(area(at, &[]), expected, "{:#x}", at - base);
            let maps = File::open("/proc/self/maps").unwrap();
            let found = listed(maps).find(|(start, one)| (*start..one.end).contains(&at)).map(|(_, one)| one);
            assert_eq!(found, mapping(at), "{:#x}, by list", at - base);
        }
        // Memory of no file is like no other; a file is the same wherever it is mapped.
        assert!(area(writable, &[read_only]).is_some());
        let memory = crate::shared::Shared::new(c"a device", 2 * 4096).unwrap();
        let other = crate::shared::Shared::new(c"a file", 4096).unwrap();
        // SAFETY: a new mapping at a place the kernel chooses.
        let again = unsafe { memory.duplicate((4096, 4096), None, libc::PROT_READ) }.unwrap() as u64;
        assert!(area(again, &[other.address(), writable]).is_some());
        assert_eq!(area(again, &[other.address(), memory.address()]), None);
        // SAFETY: this test's own mappings.
        unsafe {
            libc::munmap(again as *mut libc::c_void, 4096);
            libc::munmap(base as *mut libc::c_void, 2 * 4096);
        }
    }
}
