//! A worker's cache of translations.

use super::watch::Watches;
use super::{Access, Fault, FaultKind, Mmu, Watch};

const PAGE_BITS: u32 = 12;
/// Bytes of the unit the TLB caches.
pub(crate) const PAGE_SIZE: u64 = 1 << PAGE_BITS;
const NO_PAGE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Page number readable through this entry, or `NO_PAGE`.
    pub(crate) read: u64,
    /// Page number writable through this entry, or `NO_PAGE`.
    pub(crate) write: u64,
    /// Host address minus GPU virtual address.
    pub(crate) delta: u64,
}

/// Contiguous memory around a page: elements of several pages need one look-up if they are all in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// GPU virtual address. A span is within one block of [`Span::MAX`] bytes.
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Span {
    /// Distances within a span are positive as words of 32 bits, and no span is on both sides of a multiple of 4 GiB.
    const MAX: u64 = 1 << 30;

    fn of_page(page: u64) -> Span {
        Span { start: page << PAGE_BITS, len: PAGE_SIZE }
    }
}

/// A stretch of memory that one translation covered, as far as whole pages of it go.
#[derive(Clone, Copy, Debug)]
struct Range {
    first_page: u64,
    /// 0: nothing.
    pages: u64,
    delta: u64,
    writable: bool,
}

impl Range {
    /// Returns the span of the range that can be reached from one of its pages.
    fn span(&self, page: u64) -> Span {
        let pages = Span::MAX / PAGE_SIZE;
        let block = page - page % pages;
        let first = self.first_page.max(block);
        let end = (self.first_page + self.pages).min(block + pages);
        Span { start: first << PAGE_BITS, len: (end - first) << PAGE_BITS }
    }
}

/// Ranges kept; each serves the first access to each of its pages.
const RANGES: usize = 16;
const NO_RANGE: Range = Range { first_page: 0, pages: 0, delta: 0, writable: false };

const EMPTY: Entry = Entry { read: NO_PAGE, write: NO_PAGE, delta: 0 };

/// A worker's cache of translations, dropped when the address space's generation changes.
///
/// Single pages come first, direct-mapped and hashed; then a few ranges as large as the mappings that they came from
/// (fragments of 64 KiB, 2 MiB and more), so that walking memory does not mean walking its page tables.
#[derive(Debug)]
pub struct Tlb {
    pub(crate) entries: Box<[Entry; Tlb::ENTRIES]>,
    /// Span of memory around the page of each entry.
    pub(crate) spans: Box<[Span; Tlb::ENTRIES]>,
    ranges: [Range; RANGES],
    /// Range to be replaced next.
    oldest: usize,
    owner: (u64, u64),
    misses: u64,
    /// Values that scalar loads have read for the launch at hand, if they are kept.
    pub(crate) known: Known,
    /// Watched addresses; their pages are never cached.
    watches: Option<Box<Watches>>,
    /// True if a copy of the memory is kept: [`Mapping::mirrored`](super::Mapping::mirrored).
    pub(crate) mirrored: bool,
}

/// Values that scalar loads of a launch's code have read, and the addresses that they were read from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The code, and the launch; zeros if there are none.
    pub(crate) of: (u64, u64),
    /// True if the loads have succeeded.
    pub(crate) is_there: bool,
    pub(crate) bases: [u64; Known::BASES],
    pub(crate) values: [u32; Known::VALUES],
}

impl Known {
    pub(crate) const BASES: usize = 2;
    pub(crate) const VALUES: usize = 32;
}

impl Default for Tlb {
    fn default() -> Self {
        Self::new()
    }
}

impl Tlb {
    /// Single pages it has, a power of two.
    pub(crate) const ENTRIES: usize = 1024;

    /// Factor of the hash that gives a page its entry: 2^32 by the golden ratio. The low 32 bits of a page's number
    /// are multiplied by it, and the highest bits of the product are the number of the entry. Pages that follow each
    /// other are spread evenly, and streams a power of two apart share no entries with each other's next pages. A
    /// hash of shifts and exclusive ors let buffers of 4 MiB side by side share them.
    pub(crate) const MIX: u32 = 0x9e37_79b1;
    /// Number of bits that the product is shifted right by.
    pub(crate) const MIX_SHIFT: u8 = 32 - Tlb::ENTRIES.trailing_zeros() as u8;

    /// An empty TLB.
    pub fn new() -> Self {
        Tlb {
            entries: Box::new([EMPTY; Tlb::ENTRIES]),
            spans: Box::new([Span { start: 0, len: PAGE_SIZE }; Tlb::ENTRIES]),
            ranges: [NO_RANGE; RANGES],
            oldest: 0,
            owner: (0, 0),
            misses: 0,
            known: Known::default(),
            watches: None,
            mirrored: false,
        }
    }

    /// Translations that were not cached, since creation.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Forgets every translation.
    pub fn clear(&mut self) {
        self.entries.fill(EMPTY);
        self.ranges = [NO_RANGE; RANGES];
        self.known = Known::default();
    }

    /// Watches these addresses from now on.
    pub fn set_watches(&mut self, list: Option<[Option<Watch>; 4]>) {
        if list != self.watches.as_ref().map(|watches| watches.list) {
            self.clear();
            self.watches = list.map(|list| Box::new(Watches { list, met: 0 }));
        }
    }

    /// The watches that were met since the last call, a bit for each.
    pub fn take_met(&mut self) -> u8 {
        self.watches.as_mut().map_or(0, |watches| core::mem::take(&mut watches.met))
    }

    /// Returns true if any address is watched.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watches.is_some()
    }

    /// Returns true if the [`Mmu`] has to do atomics.
    #[inline(always)]
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirrored
    }

    /// Returns true if there is a watch in the page of `va`.
    #[cold]
    pub(crate) fn watches_page(&self, va: u64) -> bool {
        self.watches.as_ref().is_some_and(|watches| watches.touch_page(va))
    }

    /// Drops translations that belong to another address space or an older generation.
    pub(crate) fn synchronise(&mut self, mmu: &dyn Mmu) {
        let owner = (mmu.context(), mmu.generation());
        if owner != self.owner {
            self.clear();
            self.owner = owner;
        }
    }

    /// Host address of `va`, good to the end of its page.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, mmu: &dyn Mmu, va: u64, access: Access) -> Result<*mut u8, Fault> {
        let page = va >> PAGE_BITS;
        let entry = &self.entries[slot(page)];
        let tag = if access.is_write() { entry.write } else { entry.read };
        if tag == page && !matches!(access, Access::Execute) {
            return Ok(host_pointer(va.wrapping_add(entry.delta)));
        }
        self.fill(mmu, va, access)
    }

    /// As [`Tlb::lookup`] for more than a word; fails in a page with watched words, which are looked up one by one.
    #[inline(always)]
    pub(crate) fn lookup_block(&mut self, mmu: &dyn Mmu, va: u64, access: Access) -> Result<*mut u8, Fault> {
        let page = va >> PAGE_BITS;
        let entry = &self.entries[slot(page)];
        let tag = if access.is_write() { entry.write } else { entry.read };
        if tag == page {
            return Ok(host_pointer(va.wrapping_add(entry.delta)));
        }
        self.fill_block(mmu, va, access)
    }

    #[cold]
    #[inline(never)]
    fn fill_block(&mut self, mmu: &dyn Mmu, va: u64, access: Access) -> Result<*mut u8, Fault> {
        if self.watches_page(va) {
            return Err(Fault::new(va, access, FaultKind::Bus));
        }
        self.fill(mmu, va, access)
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, mmu: &dyn Mmu, va: u64, access: Access) -> Result<*mut u8, Fault> {
        let page = va >> PAGE_BITS;
        let needs_write = access.is_write();
        let watched = self.watches_page(va);
        if !watched
            && !matches!(access, Access::Execute)
            && let Some(range) = self.ranges.iter().find(|range| {
                page.wrapping_sub(range.first_page) < range.pages && (range.writable || !needs_write)
            })
        {
            let write = if range.writable { page } else { NO_PAGE };
            // Other pages of it may be watched.
            let span = if self.watches.is_some() { Span::of_page(page) } else { range.span(page) };
            self.entries[slot(page)] = Entry { read: page, write, delta: range.delta };
            self.spans[slot(page)] = span;
            return Ok(host_pointer(va.wrapping_add(range.delta)));
        }
        self.misses += 1;
        let mapping = mmu.translate(va, access)?;
        self.mirrored = mapping.mirrored;
        if mapping.mirrored {
            // The copy of this page may have become newer than what is cached of others.
            self.synchronise(mmu);
        }
        let start = page << PAGE_BITS;
        let allowed = match access {
            Access::Read => true,
            Access::Write | Access::Atomic => mapping.writable,
            Access::Execute => mapping.executable,
        };
        // A mapping that does not cover the whole page would let later accesses to that page run past its end.
        let last = mapping.len.checked_sub(1).and_then(|last| mapping.va.checked_add(last));
        let covers = mapping.va <= start && last.is_some_and(|last| last >= start | (PAGE_SIZE - 1));
        if !allowed || !covers {
            let kind = if allowed { FaultKind::Bus } else { FaultKind::refusal(access) };
            return Err(Fault::new(va, access, kind));
        }
        let delta = (mapping.host as u64).wrapping_sub(mapping.va);
        // Instruction fetch may be allowed where loads are not: such a mapping serves this access alone.
        if matches!(access, Access::Execute) {
            return Ok(host_pointer(va.wrapping_add(delta)));
        }
        if watched {
            if let Some(watches) = &mut self.watches {
                watches.look(va, access);
            }
            return Ok(host_pointer(va.wrapping_add(delta)));
        }
        if mapping.alone {
            return Ok(host_pointer(va.wrapping_add(delta)));
        }
        let first_page = mapping.va.div_ceil(PAGE_SIZE);
        let end = mapping.va.saturating_add(mapping.len) / PAGE_SIZE;
        let mut span = Span::of_page(page);
        if end > first_page + 1 && !mapping.mirrored {
            let range = Range { first_page, pages: end - first_page, delta, writable: mapping.writable };
            if self.watches.is_none() {
                span = range.span(page);
            }
            self.ranges[self.oldest] = range;
            self.oldest = (self.oldest + 1) % RANGES;
        }
        let write = if mapping.writable && !mapping.mirrored { page } else { NO_PAGE };
        self.entries[slot(page)] = Entry { read: page, write, delta };
        self.spans[slot(page)] = span;
        Ok(host_pointer(va.wrapping_add(delta)))
    }
}

#[inline(always)]
fn slot(page: u64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the higher bits of a page's number have no part in it"
    )]
    let mixed = (page as u32).wrapping_mul(Tlb::MIX);
    // Within the table, which the compiler sees.
    (mixed >> Tlb::MIX_SHIFT) as usize & (Tlb::ENTRIES - 1)
}

#[inline(always)]
fn host_pointer(address: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_use_at_a_time_have_entries_of_their_own() {
        let shared = |pages: &[u64]| {
            let mut uses = [0; Tlb::ENTRIES];
            pages.iter().for_each(|&page| uses[slot(page)] += 1);
            uses.into_iter().filter(|&uses| uses > 1).count()
        };
        let first = 0x7_f123_4567;
        let buffer: Vec<u64> = (first..first + 600).collect();
        assert_eq!(shared(&buffer), 0, "pages in a row");
        // Forty rows of a page each, and those of two more buffers behind the first one.
        for distance in (6..27).map(|bit| 1 << bit) {
            let pages: Vec<u64> =
                (0..3).flat_map(|buffer| (0..40).map(move |row| first + buffer * distance + row)).collect();
            assert!(shared(&pages) <= 10, "{distance} pages apart: {}", shared(&pages));
        }
    }
}
