//! Mirrored pages that the GPU's page tables lead to, by address.
//!
//! A mirror may be longer than what is still used of it: ranges are cut where memory goes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::os::{Os, PAGE_SIZE, UserMirror, UserPage};
use crate::vm::Vm;

/// Pages of the program, mirrored.
pub(crate) struct Mirrored<O: Os> {
    pub(crate) mirror: O::Mirror,
    /// Address of the first page.
    pub(crate) va: u64,
    /// Number of the device that was asked to look them up: pages in VRAM are in its own.
    pub(crate) device: u32,
}

impl<O: Os> Mirrored<O> {
    fn range(&self) -> Range<u64> {
        self.va..self.va + self.mirror.count() as u64 * PAGE_SIZE
    }

    /// Returns the place of the page at `va`, which is one of its own.
    pub(crate) fn page(&self, va: u64) -> UserPage {
        self.mirror.page(((va - self.va) / PAGE_SIZE) as usize)
    }
}

/// A part of the address space that the GPU's page tables have.
pub(crate) struct Part<O: Os> {
    pub(crate) end: u64,
    pub(crate) mirrored: Arc<Mirrored<O>>,
    /// The program's memory has changed since: no queue runs until it is mapped anew.
    pub(crate) stale: bool,
}

impl<O: Os> Clone for Part<O> {
    fn clone(&self) -> Self {
        Self { end: self.end, mirrored: self.mirrored.clone(), stale: self.stale }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// All parts; they do not overlap.
pub(crate) struct Mapped<O: Os> {
    by_start: BTreeMap<u64, Part<O>>,
}

impl<O: Os> Mapped<O> {
    pub(crate) fn new() -> Self {
        Self { by_start: BTreeMap::new() }
    }

    /// Takes what lies in `range` out.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> Vec<(u64, Part<O>)> {
        self.divide(range.start);
        self.divide(range.end);
        let starts: Vec<u64> = self.by_start.range(range.clone()).map(|(start, _)| *start).collect();
        starts
            .into_iter()
            .filter_map(|start| self.by_start.remove(&start).map(|part| (start, part)))
            .collect()
    }

    /// Clears the page tables of all parts; the caller flushes.
    pub(crate) fn unmap_from(&self, vm: &mut Vm<O>) {
        for (start, part) in &self.by_start {
            vm.unmap(*start, part.end - start);
        }
    }

    /// Puts a part in, where there is none.
    pub(crate) fn insert(&mut self, start: u64, part: Part<O>) {
        self.by_start.insert(start, part);
    }

    fn divide(&mut self, at: u64) {
        if let Some((_, part)) = self.by_start.range_mut(..at).next_back()
            && part.end > at
        {
            let rest = part.clone();
            part.end = at;
            self.by_start.insert(at, rest);
        }
    }

    /// Marks the parts stale that touch a range, and those whose mirrors do if the mirrors are not good any more; returns them.
    pub(crate) fn spoil(&mut self, range: &Range<u64>, mirrors_stay: bool) -> Vec<Range<u64>> {
        let touches = |start: u64, part: &Part<O>| {
            overlap(&(start..part.end), range) || !mirrors_stay && overlap(&part.mirrored.range(), range)
        };
        let touched = self.by_start.iter_mut().filter(|(start, part)| touches(**start, part));
        touched
            .map(|(start, part)| {
                part.stale = true;
                *start..part.end
            })
            .collect()
    }

    /// The parts that are stale.
    pub(crate) fn stale(&self) -> Vec<Range<u64>> {
        self.by_start.iter().filter(|(_, part)| part.stale).map(|(start, part)| *start..part.end).collect()
    }
}
