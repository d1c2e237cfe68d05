//! The last accesses to each byte.

use std::collections::HashMap;

use smallvec::SmallVec;

/// Most records of a dword; the oldest is given up first.
const MAX_RECORDS: usize = 8;
/// Dwords of a page.
const PAGE_DWORDS: usize = 1024;
/// Most pages of global memory that are checked: their records take about a gigabyte if most dwords have two.
const MAX_PAGES: usize = 16 << 10;

/// Kind of an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Does {
    Reads,
    Writes,
    Updates,
}

/// An earlier access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Number of the wave in its dispatch, and its time at the access.
    pub(super) wave: u32,
    pub(super) time: u32,
    /// Number of the instruction.
    pub(super) at: u32,
    /// Bytes of the dword.
    pub(super) mask: u8,
    pub(super) lane: u8,
    pub(super) does: Does,
    /// True if the access bypassed the caches.
    pub(super) through: bool,
}

/// The accesses of a dword.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell(SmallVec<[Record; 2]>);

impl Cell {
    /// Finds an access of these bytes by another wave that `now` must not meet unordered; `ordered` returns
    /// true if an access is known to be over. Reads may meet updates if that is `allowed`.
    pub(super) fn conflict(
        &self,
        now: &Record,
        allowed: bool,
        ordered: impl Fn(&Record) -> bool,
    ) -> Option<Record> {
        let clash = |before: &&Record| {
            let both = match (before.does, now.does) {
                (Does::Reads, Does::Reads) | (Does::Updates, Does::Updates) => false,
                (Does::Reads, Does::Updates) | (Does::Updates, Does::Reads) => !allowed,
                (Does::Writes, _) | (_, Does::Writes) => true,
            };
            both && before.mask & now.mask != 0 && before.wave != now.wave && !ordered(before)
        };
        self.0.iter().find(clash).copied()
    }

    /// The last access that changed any of these bytes.
    pub(super) fn last_change(&self, mask: u8) -> Option<Record> {
        self.0.iter().rev().find(|record| record.does != Does::Reads && record.mask & mask != 0).copied()
    }

    /// Mask of the bytes that have been written.
    pub(super) fn written(&self) -> u8 {
        self.0.iter().filter(|record| record.does != Does::Reads).fold(0, |mask, record| mask | record.mask)
    }

    /// Adds an access, in place of the accesses that it makes needless.
    pub(super) fn add(&mut self, now: Record) {
        let within = |record: &Record| record.mask & !now.mask == 0;
        match now.does {
            Does::Writes => self.0.retain(|record| !within(record)),
            Does::Updates => self.0.retain(|record| record.does == Does::Reads || !within(record)),
            Does::Reads => self
                .0
                .retain(|record| record.does != Does::Reads || record.wave != now.wave || !within(record)),
        }
        if self.0.len() == MAX_RECORDS {
            let oldest_read = self.0.iter().position(|record| record.does == Does::Reads);
            self.0.remove(oldest_read.unwrap_or(0));
        }
        self.0.push(now);
    }
}

/// The accesses of global memory.
#[derive(Debug, Default)]
pub(super) struct Pages(HashMap<u64, Box<[Cell]>>);

impl Pages {
    /// The records of a dword; `None` if there are too many pages.
    pub(super) fn dword(&mut self, dword: u64) -> Option<&mut Cell> {
        let (page, index) = (dword / PAGE_DWORDS as u64, dword % PAGE_DWORDS as u64);
        if !self.0.contains_key(&page) {
            if self.0.len() == MAX_PAGES {
                return None;
            }
            self.0.insert(page, vec![Cell::default(); PAGE_DWORDS].into());
        }
        self.0.get_mut(&page)?.get_mut(usize::try_from(index).ok()?)
    }
}

/// The dwords of some bytes, with the bytes of each as a mask.
pub(super) fn dwords(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u8)> {
    let end = address.saturating_add(u64::from(bytes));
    (address / 4..end.div_ceil(4)).map(move |dword| {
        let mask = (0..4).filter(|byte| (address..end).contains(&(dword * 4 + byte)));
        (dword, mask.fold(0, |mask, byte| mask | 1 << byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(wave: u32, mask: u8, does: Does) -> Record {
        Record { wave, time: 1, at: 0, mask, lane: 0, does, through: false }
    }

    #[test]
    fn bytes_are_dwords_with_masks() {
        let of = |address, bytes| dwords(address, bytes).collect::<Vec<_>>();
        assert_eq!(of(0, 4), [(0, 15)]);
        assert_eq!(of(3, 2), [(0, 8), (1, 1)]);
        assert_eq!(of(8, 8), [(2, 15), (3, 15)]);
        assert_eq!(of(5, 1), [(1, 2)]);
    }

    #[test]
    fn a_write_meets_reads_and_writes_of_its_own_bytes() {
        let mut cell = Cell::default();
        cell.add(record(1, 0b0011, Does::Writes));
        cell.add(record(2, 0b1100, Does::Reads));
        let unordered = |_: &Record| false;
        let meets = |cell: &Cell, wave, mask, does| {
            cell.conflict(&record(wave, mask, does), false, unordered).map(|other| other.wave)
        };
        assert_eq!(meets(&cell, 3, 0b0001, Does::Reads), Some(1));
        assert_eq!(meets(&cell, 3, 0b0100, Does::Reads), None);
        assert_eq!(meets(&cell, 3, 0b0100, Does::Writes), Some(2));
        assert_eq!(meets(&cell, 2, 0b1100, Does::Writes), None, "a wave is in order with itself");
        assert!(cell.conflict(&record(3, 15, Does::Writes), false, |_| true).is_none());
        assert_eq!(cell.written(), 0b0011);
        cell.add(record(3, 0b1111, Does::Writes));
        assert_eq!(meets(&cell, 4, 0b1111, Does::Reads), Some(3));
        assert_eq!(cell.0.len(), 1);
    }

    #[test]
    fn updates_do_not_meet_updates() {
        let mut cell = Cell::default();
        cell.add(record(1, 15, Does::Updates));
        assert!(cell.conflict(&record(2, 15, Does::Updates), false, |_| false).is_none());
        assert!(cell.conflict(&record(2, 15, Does::Reads), false, |_| false).is_some());
        assert!(cell.conflict(&record(2, 15, Does::Reads), true, |_| false).is_none());
        assert!(cell.conflict(&record(2, 15, Does::Writes), true, |_| false).is_some());
    }

    #[test]
    fn records_are_bounded() {
        let mut cell = Cell::default();
        cell.add(record(99, 15, Does::Writes));
        (0..100).for_each(|wave| cell.add(record(wave, 15, Does::Reads)));
        assert_eq!(cell.0.len(), MAX_RECORDS);
        assert_eq!(cell.last_change(1).map(|record| record.wave), Some(99));
    }
}
