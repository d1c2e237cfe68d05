//! Rows of vector registers that are in registers of the processor, and rows that memory does not have yet.

use core::ops::Range;

use crate::tier1::x86::asm::{Assembler, At, Gpr, Operand, Zmm};
use crate::tier1::x86::encoding::{VMOVUPS_LOAD, VMOVUPS_STORE};

/// Address of the wave's rows in memory.
pub(crate) const ROWS: Gpr = Gpr::Rbp;

/// Registers that no row is in; a row takes two.
pub(crate) const TEMPORARIES: u8 = 4;

/// Registers that rows are in.
const PLACES: usize = 32 - TEMPORARIES as usize;

/// Rows that are in registers at a time.
pub(crate) const CAPACITY: usize = PLACES / 2;

/// Rows of which sixteen lanes are in registers at a time.
pub(crate) const SIXTEENS: usize = PLACES;

/// Half of a row in memory.
pub(crate) fn in_memory(row: u32, chunk: u8) -> At {
    At(ROWS, row as i32 * 128 + i32::from(chunk) * 64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    row: u32,
    dirty: bool,
}

/// A row's place: two registers, or the one that has the sixteen lanes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    first: u8,
    both: bool,
}

impl Pair {
    /// The register with sixteen lanes of the row.
    pub(crate) fn chunk(self, chunk: u8) -> Zmm {
        Zmm(self.first + if self.both { chunk } else { 0 })
    }
}

/// The rows in registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    places: [Option<Place>; PLACES],
    /// Places that the element at hand uses.
    locked: u32,
    /// The only sixteen lanes of rows that are at hand.
    only: Option<u8>,
}

impl Rows {
    /// With nothing in it, for one sixteen of each row, or for all of it.
    pub(crate) fn of_lanes(sixteen: Option<u8>) -> Rows {
        Rows { only: sixteen, ..Rows::default() }
    }

    fn capacity(&self) -> usize {
        if self.only.is_some() { SIXTEENS } else { CAPACITY }
    }

    fn pair(&self, at: usize) -> Pair {
        let both = self.only.is_none();
        Pair { first: TEMPORARIES + at as u8 * if both { 2 } else { 1 }, both }
    }

    fn chunks(&self) -> Range<u8> {
        self.only.map_or(0..2, |chunk| chunk..chunk + 1)
    }

    /// Begins another element: the rows that the last one used may go.
    pub(crate) fn unlock(&mut self) {
        self.locked = 0;
    }

    fn find(&self, row: u32) -> Option<usize> {
        self.places.iter().position(|place| place.is_some_and(|place| place.row == row))
    }

    /// The row, loaded if need be; `next_use` tells which row is needed last.
    pub(crate) fn load(&mut self, a: &mut Assembler, row: u32, next_use: impl Fn(u32) -> u32) -> Pair {
        if let Some(at) = self.find(row) {
            self.locked |= 1 << at;
            return self.pair(at);
        }
        let pair = self.take(a, row, next_use);
        self.fill(a, pair, row);
        a.filled += 1;
        pair
    }

    /// Returns a place for a row that is to be written, with its old content if only some lanes will be.
    pub(crate) fn define(
        &mut self,
        a: &mut Assembler,
        row: u32,
        keep: bool,
        next_use: impl Fn(u32) -> u32,
    ) -> Pair {
        let pair = if keep {
            self.load(a, row, next_use)
        } else if let Some(at) = self.find(row) {
            self.locked |= 1 << at;
            self.pair(at)
        } else {
            self.take(a, row, next_use)
        };
        if let Some(place) = self.places.iter_mut().flatten().find(|place| place.row == row) {
            place.dirty = true;
        }
        pair
    }

    fn fill(&self, a: &mut Assembler, pair: Pair, row: u32) {
        for chunk in self.chunks() {
            a.evex(VMOVUPS_LOAD, pair.chunk(chunk), Zmm(0), Operand::Memory(in_memory(row, chunk)));
        }
    }

    fn take(&mut self, a: &mut Assembler, row: u32, next_use: impl Fn(u32) -> u32) -> Pair {
        let capacity = self.capacity();
        let free = self.places[..capacity].iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            let unlocked = (0..capacity).filter(|at| self.locked >> at & 1 == 0);
            let furthest =
                unlocked.max_by_key(|&at| self.places[at].map_or(u32::MAX, |place| next_use(place.row)));
            furthest.expect("an element uses fewer rows than there are places")
        });
        if let Some(old) = self.places[at] {
            self.store(a, at, old);
        }
        self.places[at] = Some(Place { row, dirty: false });
        self.locked |= 1 << at;
        self.pair(at)
    }

    /// Loads rows that stay for all of a loop; as one of its rounds writes them, memory counts as out of date.
    pub(crate) fn hold(&mut self, a: &mut Assembler, rows: &[u32]) {
        for &row in rows {
            self.load(a, row, |_| 0);
        }
        for place in self.places.iter_mut().flatten() {
            place.dirty = true;
        }
    }

    /// Brings memory up to date; everything stays where it is.
    pub(crate) fn write_back(&self, a: &mut Assembler) {
        for (at, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                self.store(a, at, *place);
            }
        }
    }

    /// Brings memory up to date as far as these rows go.
    pub(crate) fn bring_to_memory(&mut self, a: &mut Assembler, rows: &[u32]) {
        for at in 0..self.places.len() {
            if let Some(place) = self.places[at].filter(|place| place.dirty && rows.contains(&place.row)) {
                self.store(a, at, place);
                self.places[at] = Some(Place { dirty: false, ..place });
            }
        }
    }

    /// Stores some rows as far as memory is out of date, and keeps in mind that it was.
    pub(crate) fn copy_to_memory(&self, a: &mut Assembler, rows: &[u32]) {
        for (at, place) in self.places.iter().enumerate() {
            if let Some(place) = place.filter(|place| rows.contains(&place.row)) {
                self.store(a, at, place);
            }
        }
    }

    /// Forgets rows that memory has something else of.
    pub(crate) fn forget(&mut self, rows: &[u32]) {
        for place in &mut self.places {
            *place = place.filter(|place| !rows.contains(&place.row));
        }
    }

    /// Returns true if memory is up to date.
    pub(crate) fn is_clean(&self) -> bool {
        !self.places.iter().flatten().any(|place| place.dirty)
    }

    /// Brings memory up to date and forgets everything.
    pub(crate) fn flush(&mut self, a: &mut Assembler) {
        self.write_back(a);
        *self = Rows { only: self.only, ..Rows::default() };
    }

    /// Loads everything anew.
    pub(crate) fn reload(&self, a: &mut Assembler) {
        for (at, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                self.fill(a, self.pair(at), place.row);
            }
        }
    }

    fn store(&self, a: &mut Assembler, at: usize, place: Place) {
        let pair = self.pair(at);
        if place.dirty {
            a.stored.push(place.row);
        }
        for chunk in self.chunks().filter(|_| place.dirty) {
            a.evex(VMOVUPS_STORE, pair.chunk(chunk), Zmm(0), Operand::Memory(in_memory(place.row, chunk)));
        }
    }
}
