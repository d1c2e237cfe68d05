//! Blocks of memory that a thread has just used, for packet processors and copy engines.
//!
//! These return to the same few pages with every packet: the ring, the queue's own structure, a kernel's
//! descriptor, a signal. An entry holds for one generation of an address space and of the memory underneath,
//! like an entry of a worker's TLB. Absent pages have no entry.

use std::cell::Cell;

use belfry_isa::mem::Access;

use super::walk::Rights;

/// Sets of entries. A page has one of them.
const SETS: usize = 64;
/// Entries of a set: two pages of one set do not drive each other out.
const WAYS: usize = 2;

/// Key of a block: the address space, and its [generation](belfry_isa::mem::Mmu::generation).
pub(super) type Known = (u64, u64);

/// Memory at consecutive addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    /// First virtual address, and its address on the host.
    pub(super) va: u64,
    pub(super) host: *mut u8,
    /// Bytes from both addresses on.
    pub(super) len: u64,
    pub(super) rights: Rights,
}

type Entry = Cell<Option<(Known, Recent)>>;

thread_local! {
    static RECENT: [[Entry; WAYS]; SETS] = const { [const { [const { Cell::new(None) }; WAYS] }; SETS] };
}

/// The set of a page.
fn set(context: u64, va: u64) -> usize {
    ((va >> 12 ^ va >> 18 ^ va >> 24 ^ context) % SETS as u64) as usize
}

/// The memory from `va` on, if this thread has used its page in this generation and it allows the access.
#[inline]
pub(super) fn get(known: Known, va: u64, access: Access) -> Option<Recent> {
    RECENT.with(|all| {
        all[set(known.0, va)].iter().find_map(|entry| {
            let (whose, recent) = entry.get()?;
            let offset = va.wrapping_sub(recent.va);
            let holds = whose == known && offset < recent.len && recent.rights.allow(access);
            let (host, len) = (recent.host.wrapping_add(offset as usize), recent.len.wrapping_sub(offset));
            holds.then_some(Recent { va, host, len, ..recent })
        })
    })
}

/// Remembers a block of memory, in the set of the page at `va`.
pub(super) fn put(known: Known, va: u64, recent: Recent) {
    RECENT.with(|all| {
        let [first, second] = &all[set(known.0, va)];
        let is_same = first.get().is_some_and(|(whose, before)| whose.0 == known.0 && before.va == recent.va);
        if !is_same {
            second.set(first.get());
        }
        first.set(Some((known, recent)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_that_meet_in_a_set_are_both_known() {
        let known = (u64::MAX, 1);
        let rights = Rights { readable: true, writable: false, executable: false };
        let page =
            |va: u64| Recent { va, host: std::ptr::without_provenance_mut(va as usize), len: 4096, rights };
        let pages: Vec<u64> =
            (1..).map(|page| page << 12).filter(|va| set(known.0, *va) == 5).take(3).collect();
        let at =
            |va: u64| get(known, va + 16, Access::Read).map(|found| (found.host.addr() as u64, found.len));
        for _ in 0..3 {
            pages[..2].iter().for_each(|va| put(known, *va, page(*va)));
            // Another use of the newest page drives nothing out.
            put(known, pages[1], page(pages[1]));
            pages[..2].iter().for_each(|va| assert_eq!(at(*va), Some((va + 16, 4080))));
        }
        put(known, pages[2], page(pages[2]));
        assert_eq!(
            [at(pages[0]).is_some(), at(pages[1]).is_some(), at(pages[2]).is_some()],
            [false, true, true]
        );
        assert!(get((known.0, 2), pages[1], Access::Read).is_none(), "another generation");
        assert!(get((1, 1), pages[1], Access::Read).is_none(), "another space");
        assert!(get(known, pages[1], Access::Write).is_none() && at(pages[1] + 4096).is_none());
    }
}
