//! A page-table walk level by level, and the addresses that a physical page is mapped at, for tools that inspect the device.
//!
//! Neither counts as a walk of the device.

use std::sync::atomic::Ordering;

use belfry_abi::gpuvm::{LEVEL_BITS, PAGE_SHIFT};
use belfry_isa::mem::Access;

use super::{AddressSpace, Root, RootKind};
use crate::chip::{Entry, Table};
use crate::memory::{Aperture, Memory, Physical, Slice};

/// One entry that a walk has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// 0 is the last one, the table of pages.
    pub level: u32,
    /// Number of the entry in its table.
    pub index: u64,
    /// Location of the entry.
    pub at: Physical,
    /// The entry; `None` where no memory answers.
    pub bits: Option<u64>,
    /// The entry, decoded.
    pub entry: Entry,
    /// log2 of the bytes that an entry of this level covers.
    pub shift: u32,
}

/// A block of addresses that leads to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// First address.
    pub va: u64,
    /// Bytes.
    pub len: u64,
}

/// Most entries that a search reads.
const MAX_ENTRIES: u64 = 1 << 22;
/// Most addresses that a search returns.
const MAX_FOUND: usize = 64;

fn load(memory: &Memory, slice: &Slice<'_>, at: Physical) -> Option<u64> {
    Some(memory.block(slice, at, Access::Read)?.atomic_u64()?.load(Ordering::Acquire))
}

impl Root {
    /// Entries of a table of a level.
    fn entries(&self, level: u32) -> u64 {
        match level {
            _ if level == self.depth => (self.end.saturating_sub(self.start) >> self.level_shift(level)) + 1,
            0 => 1 << self.block_size,
            _ => 1 << LEVEL_BITS,
        }
    }
}

impl AddressSpace {
    /// The entries that lead to an address, from the root on; none if the tables do not cover the address.
    #[must_use]
    pub fn levels(&self, va: u64) -> Vec<Level> {
        let slice = self.memory.enter();
        let mut levels = Vec::new();
        let root = &self.root;
        if let RootKind::Vmid0 { fb_start, fb_end, .. } = root.kind
            && (fb_start..=fb_end).contains(&va)
        {
            return levels;
        }
        let Some(offset) = root.offset_of(va) else { return levels };
        let mut table = root.format.root(root.base);
        for level in (0..=root.depth).rev() {
            let shift = root.level_shift(level);
            let index =
                offset >> shift & if level == root.depth { u64::MAX } else { root.entries(level) - 1 };
            let Some(at) = self.memory.placed(table.at).checked_add(index << 3) else { return levels };
            let bits = load(&self.memory, &slice, at);
            let entry = bits.map_or(Entry::Absent, |bits| root.format.entry(bits, level));
            levels.push(Level { level, index, at, bits, entry, shift });
            match entry {
                Entry::Table(next) => table = next,
                Entry::Absent | Entry::Page(_) | Entry::NotResident | Entry::Unmodelled => break,
            }
        }
        levels
    }

    /// The addresses that a physical page is mapped at, and whether all tables were searched.
    #[must_use]
    pub fn addresses_of(&self, page: Physical) -> (Vec<Found>, bool) {
        let mut search = Search { space: self, page, found: Vec::new(), left: MAX_ENTRIES };
        let root = &self.root;
        if let (
            RootKind::Vmid0 { fb_start, fb_end, fb_offset },
            Physical { aperture: Aperture::Local, offset: at },
        ) = (root.kind, page)
            && let Some(va) = at.checked_sub(fb_offset).and_then(|at| fb_start.checked_add(at))
            && va <= fb_end
        {
            search.found.push(Found { va, len: 1 << PAGE_SHIFT });
        }
        let whole =
            root.start > root.end || search.table(root.format.root(root.base), root.depth, root.start);
        (search.found, whole)
    }
}

struct Search<'a> {
    space: &'a AddressSpace,
    page: Physical,
    found: Vec<Found>,
    left: u64,
}

impl Search<'_> {
    /// Searches a table whose first entry is for `first`; returns false if it gave up.
    fn table(&mut self, table: Table, level: u32, first: u64) -> bool {
        let root = *self.space.root();
        let shift = root.level_shift(level);
        for index in 0..root.entries(level) {
            if self.left == 0 || self.found.len() >= MAX_FOUND {
                return false;
            }
            self.left -= 1;
            let Some(at) = self.space.memory.placed(table.at).checked_add(index << 3) else { return true };
            // The slice is short, so that no thread waits for it for long.
            let bits = {
                let slice = self.space.memory.enter();
                load(&self.space.memory, &slice, at)
            };
            let Some(bits) = bits else { return true };
            let va = first.wrapping_add(index << shift);
            match root.format.entry(bits, level) {
                Entry::Page(page) => self.page(self.space.memory.placed(page.at), va, 1 << shift),
                Entry::Table(next) if level != 0 => {
                    if !self.table(next, level - 1, va) {
                        return false;
                    }
                }
                Entry::Table(_) | Entry::Absent | Entry::NotResident | Entry::Unmodelled => {}
            }
        }
        true
    }

    fn page(&mut self, page: Physical, va: u64, len: u64) {
        if page.aperture != self.page.aperture {
            return;
        }
        let (from, wanted) = (page.offset & !(len - 1), self.page.offset);
        if (from..from.saturating_add(len)).contains(&wanted) {
            self.found.push(Found { va: va.wrapping_add(wanted - from), len: 1 << PAGE_SHIFT });
        }
    }
}
