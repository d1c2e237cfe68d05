//! Which pinned pages the GPU's page tables lead to, by address.
//!
//! A pin may be longer than what is still used of it: ranges are cut where memory goes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::os::{Os, PAGE_SIZE, UserPin};
use crate::vm::Vm;

/// Pages of the program, pinned.
pub(crate) struct Pinned<O: Os> {
    pub(super) pin: O::Pin,
    /// Address of the first page.
    pub(super) va: u64,
}

impl<O: Os> Pinned<O> {
    fn range(&self) -> Range<u64> {
        self.va..self.va + self.pin.count() as u64 * PAGE_SIZE
    }

    /// The bus address of the page at `va`, which is one of its own.
    pub(super) fn bus(&self, va: u64) -> u64 {
        self.pin.bus(((va - self.va) / PAGE_SIZE) as usize)
    }
}

/// A part of the address space that the GPU's page tables have.
pub(crate) struct Part<O: Os> {
    pub(crate) end: u64,
    pub(super) pinned: Arc<Pinned<O>>,
    /// The program's memory has changed since: no queue runs until it is mapped anew.
    pub(super) stale: bool,
}

impl<O: Os> Clone for Part<O> {
    fn clone(&self) -> Self {
        Self { end: self.end, pinned: self.pinned.clone(), stale: self.stale }
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
    pub(super) fn take(&mut self, range: &Range<u64>) -> Vec<(u64, Part<O>)> {
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
    pub(super) fn insert(&mut self, start: u64, part: Part<O>) {
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

    /// Marks the parts stale whose pins touch a range; returns them.
    pub(super) fn spoil(&mut self, range: &Range<u64>) -> Vec<Range<u64>> {
        let touched = self.by_start.iter_mut().filter(|(_, part)| overlap(&part.pinned.range(), range));
        touched
            .map(|(start, part)| {
                part.stale = true;
                *start..part.end
            })
            .collect()
    }

    /// The parts that are stale.
    pub(super) fn stale(&self) -> Vec<Range<u64>> {
        self.by_start.iter().filter(|(_, part)| part.stale).map(|(start, part)| *start..part.end).collect()
    }
}
