//! Checkpoints of a replay: the whole device at some of the places that the replay has passed.
//!
//! A replay has the device alone, so that a checkpoint is a [snapshot](super::super::save) of it, the copy of
//! memory, and the place in the record. The memory of a checkpoint is the pages that have changed since the
//! one before. A checkpoint that is dropped leaves its pages to the next one.

use std::collections::BTreeMap;

use crate::memory::{Changes, Mirror};
use crate::record::Place;

/// Most checkpoints.
const MOST: usize = 48;
/// Operations before the first checkpoint, and between two at least.
const APART: u64 = 16;
/// A new checkpoint comes after this part of all operations until then, so that there are few of them in long
/// records.
const PART: u64 = 64;

/// One checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) place: Place,
    /// Bytes of a snapshot of the device without VRAM.
    pub(super) device: Vec<u8>,
    /// Number of queues of each doorbell, by which jobs are numbered.
    pub(super) epochs: BTreeMap<u32, u16>,
    /// Pages of memory that have changed since the checkpoint before.
    pub(super) pages: Changes,
    /// Ranges of guest memory.
    pub(super) ranges: Vec<(u64, u64)>,
}

impl Checkpoint {
    fn size(&self) -> u64 {
        self.device.len() as u64 + self.pages.size()
    }
}

/// All checkpoints of a replay, the earliest first.
#[derive(Debug)]
pub(super) struct Checkpoints {
    kept: Vec<Checkpoint>,
    /// Most bytes of all checkpoints.
    limit: u64,
    /// True if not even one checkpoint has room.
    given_up: bool,
}

impl Checkpoints {
    pub(super) fn new(limit: u64) -> Self {
        Self { kept: Vec::new(), limit, given_up: false }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if a checkpoint is due after this number of operations.
    pub(super) fn is_due(&self, operations: u64) -> bool {
        let last = self.kept.last().map_or(0, |last| last.place.operations);
        !self.given_up && operations >= last.saturating_add((operations / PART).max(APART))
    }

    /// Adds a checkpoint after all others, and drops others if there are too many.
    pub(super) fn add(&mut self, checkpoint: Checkpoint) {
        self.kept.push(checkpoint);
        while self.kept.len() > MOST || self.size() > self.limit {
            let Some(at) = self.least_missed() else {
                // Its memory alone is too much, and does not become less.
                self.clear();
                self.given_up = true;
                return;
            };
            let gone = self.kept.remove(at);
            self.kept[at].pages.add_earlier(gone.pages);
        }
    }

    fn size(&self) -> u64 {
        self.kept.iter().map(Checkpoint::size).sum()
    }

    /// The checkpoint whose absence leaves the smallest gap in relation to its distance from the end, as
    /// users mostly go back a short way. Never the last one.
    fn least_missed(&self) -> Option<usize> {
        let operations = |at: usize| u128::from(self.kept[at].place.operations);
        let last = self.kept.len().checked_sub(1)?;
        let gap = |at: usize| operations(at + 1) - at.checked_sub(1).map_or(0, operations);
        let back = |at: usize| operations(last) - operations(at);
        (0..last).min_by(|&one, &other| (gap(one) * back(other)).cmp(&(gap(other) * back(one))))
    }

    /// Drops all checkpoints that are not before an event, and returns the place of the last one left.
    pub(super) fn go_back(&mut self, event: u64) -> Option<&Place> {
        self.kept.truncate(self.kept.partition_point(|checkpoint| checkpoint.place.events < event));
        self.kept.last().map(|last| &last.place)
    }

    /// Drops all checkpoints.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// The last checkpoint.
    pub(super) fn last(&self) -> Option<&Checkpoint> {
        self.kept.last()
    }

    /// Puts the memory of the last checkpoint together.
    pub(super) fn put_memory(&self, mirror: &Mirror) {
        let ranges = self.last().map_or(&[][..], |last| &last.ranges);
        mirror.put(self.kept.iter().map(|checkpoint| &checkpoint.pages), ranges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(operations: u64, bytes: usize) -> Checkpoint {
        Checkpoint {
            place: Place::of(operations, operations * 10),
            device: vec![0; bytes],
            epochs: BTreeMap::new(),
            pages: Changes::default(),
            ranges: Vec::new(),
        }
    }

    fn operations(checkpoints: &Checkpoints) -> Vec<u64> {
        checkpoints.kept.iter().map(|checkpoint| checkpoint.place.operations).collect()
    }

    #[test]
    fn checkpoints_are_bounded_and_closer_together_the_later_they_are() {
        let mut checkpoints = Checkpoints::new(u64::MAX);
        for operation in 0..1_000_000 {
            if checkpoints.is_due(operation) {
                checkpoints.add(at(operation, 1));
                assert!(checkpoints.len() <= MOST);
            }
        }
        let kept = operations(&checkpoints);
        let gaps: Vec<u64> = kept.windows(2).map(|two| two[1] - two[0]).collect();
        let last = 1_000_000 - kept[kept.len() - 1];
        assert!(last <= 1_000_000 / PART, "{kept:?}");
        assert!(gaps[gaps.len() - 1] <= 1_000_000 / PART, "{gaps:?}");
        // No gap is larger than a part of the way back.
        for (gap, &later) in gaps.iter().zip(&kept[1..]) {
            assert!(*gap <= (1_000_000 - later) / 4 + 1_000_000 / PART, "{later}: {gaps:?}");
        }
    }

    #[test]
    fn checkpoints_have_no_more_than_their_bytes() {
        let mut checkpoints = Checkpoints::new(10_000);
        for operation in (0..100).map(|at| at * 1000) {
            checkpoints.add(at(operation, 1500));
            assert!(checkpoints.size() <= 10_000 && checkpoints.len() > 0);
        }
        assert_eq!(operations(&checkpoints).last(), Some(&99_000));
        checkpoints.add(at(100_000, 10_001));
        assert_eq!(checkpoints.len(), 0);
        assert!(!checkpoints.is_due(u64::MAX), "not even one has room");
    }

    #[test]
    fn who_goes_back_finds_the_last_one_before_the_event() {
        let mut checkpoints = Checkpoints::new(u64::MAX);
        (1..=5).for_each(|operation| checkpoints.add(at(operation, 1)));
        assert_eq!(checkpoints.go_back(31).map(|place| place.events), Some(30));
        assert_eq!(operations(&checkpoints), [1, 2, 3], "what is later is done again");
        assert_eq!(checkpoints.go_back(30).map(|place| place.events), Some(20));
        assert!(checkpoints.go_back(10).is_none());
        assert_eq!(checkpoints.len(), 0);
    }
}
