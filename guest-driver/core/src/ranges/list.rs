//! The ranges of a process: kept by address, divided where attributes differ, cut where memory goes
//! (`svm_range_add`, `svm_range_split` of `kfd_svm.c`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::svm::SvmAttribute;

use super::attributes::{Access, Attributes, Common};

/// Ranges of one process at most.
pub(crate) const MAX_RANGES: usize = 1 << 16;

/// One range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SvmRange {
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    /// All of it was mapped on the GPU (`mapped_to_gpu`).
    pub(crate) mapped: bool,
    /// Name of the node in whose VRAM pages of it may be, 0 for none (`actual_loc`).
    pub(crate) located: u32,
}

/// Growth by setting attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Bytes that belong to no range yet.
    pub(crate) bytes: u64,
    /// Ranges more than there are, at most.
    pub(crate) ranges: u64,
}

/// All ranges; they do not overlap. Addresses are multiples of the page size.
#[derive(Debug)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, SvmRange>,
    /// New ranges are divided at multiples of this, a power of two.
    piece: u64,
    /// Access to ranges for which none was set.
    access: Access,
}

impl Ranges {
    /// No ranges; new ones will be divided at multiples of `piece` bytes, a power of two.
    pub(crate) fn new(piece: u64) -> Self {
        Self { by_start: BTreeMap::new(), piece, access: Access::NONE }
    }

    /// Sets the access to new ranges for which none is set: GPUs that retry faults have it.
    pub(crate) fn set_default_access(&mut self, access: Access) {
        self.access = access;
    }

    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// The ranges that touch `range`, by address.
    pub(crate) fn touching(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &SvmRange)> + use<'_> {
        let first = self.by_start.range(..=range.start).next_back();
        let first =
            first.filter(|(_, before)| before.end > range.start).map_or(range.start, |(start, _)| *start);
        self.by_start.range(first..range.end.max(first)).map(|(start, range)| (*start, range))
    }

    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        self.touching(range).next().is_some()
    }

    /// Returns whether every byte of `range` is in a range with some property.
    pub(crate) fn all(&self, range: &Range<u64>, property: impl Fn(&SvmRange) -> bool) -> bool {
        let mut at = range.start;
        for (start, one) in self.touching(range) {
            if start > at || !property(one) {
                return false;
            }
            at = one.end;
        }
        at >= range.end
    }

    /// Returns what [`Ranges::set`] would add.
    pub(crate) fn growth(&self, range: &Range<u64>) -> Growth {
        // Two for the edges that divide ranges.
        let mut growth = Growth { bytes: 0, ranges: 2 };
        for gap in self.gaps(range) {
            growth.bytes += gap.end - gap.start;
            growth.ranges += (gap.end - gap.start) / self.piece + 2;
        }
        growth
    }

    fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (start, one) in self.touching(range) {
            if start > at {
                gaps.push(at..start);
            }
            at = one.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Sets attributes that were checked, and makes ranges where there are none; returns the ranges that this concerns.
    ///
    /// Mapped ranges that have the attributes already are left alone, and not divided.
    pub(crate) fn set(&mut self, range: &Range<u64>, list: &[SvmAttribute]) -> Vec<Range<u64>> {
        for gap in self.gaps(range) {
            let mut at = gap.start;
            while at < gap.end {
                let end = (at & !(self.piece - 1)).saturating_add(self.piece).min(gap.end);
                let attributes = self.unsaid();
                let new = SvmRange { end, attributes, mapped: false, located: 0 };
                self.by_start.insert(at, new);
                at = end;
            }
        }
        let concerned: Vec<Range<u64>> = self
            .touching(range)
            .filter(|(_, one)| !(one.mapped && one.attributes.have(list)))
            .map(|(start, one)| start.max(range.start)..one.end.min(range.end))
            .collect();
        for part in &concerned {
            self.divide(part.start);
            self.divide(part.end);
            if let Some(one) = self.by_start.get_mut(&part.start) {
                one.attributes.apply(list);
            }
        }
        concerned
    }

    /// Attributes of a range of which nothing was said.
    fn unsaid(&self) -> Attributes {
        Attributes { access: self.access, ..Attributes::default() }
    }

    /// Returns what the ranges that touch `range` have in common; of none, what a new one would have.
    pub(crate) fn common(&self, range: &Range<u64>) -> Common {
        Common::of(self.touching(range).map(|(_, one)| &one.attributes), &self.unsaid())
    }

    /// Says whether a range that begins at `start` is mapped.
    pub(crate) fn set_mapped(&mut self, start: u64, mapped: bool) {
        if let Some(one) = self.by_start.get_mut(&start) {
            one.mapped = mapped;
        }
    }

    /// Says of the ranges that lie in `range` in which node's VRAM pages of them are, 0 for none.
    pub(crate) fn set_located(&mut self, range: &Range<u64>, located: u32) {
        for (_, one) in self.by_start.range_mut(range.clone()).filter(|(_, one)| one.end <= range.end) {
            one.located = located;
        }
    }

    /// All ranges, by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SvmRange)> {
        self.by_start.iter().map(|(start, one)| (*start, one))
    }

    /// Removes what lies in `range`; returns how many bytes that were.
    pub(crate) fn remove(&mut self, range: &Range<u64>) -> u64 {
        self.divide(range.start);
        self.divide(range.end);
        let gone: Vec<Range<u64>> = self.touching(range).map(|(start, one)| start..one.end).collect();
        gone.iter().for_each(|one| {
            self.by_start.remove(&one.start);
        });
        gone.iter().map(|one| one.end - one.start).sum()
    }

    /// Makes an edge at an address inside of a range.
    fn divide(&mut self, at: u64) {
        if let Some((_, one)) = self.by_start.range_mut(..at).next_back()
            && one.end > at
        {
            let rest = *one;
            one.end = at;
            self.by_start.insert(at, rest);
        }
    }
}
