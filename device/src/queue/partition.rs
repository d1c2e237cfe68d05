//! Partitions: the graphics cores (XCCs) that run a queue together, as the cores' own registers define them.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::partition::ComputePartition;
use belfry_abi::regs::Register as _;
use belfry_abi::regs::gfx9::gc::CP_HYP_XCP_CTL;

use crate::save::{Broken, check};

/// Neighbouring graphics cores that run queues together.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
pub(crate) struct Partition {
    /// First core.
    pub(crate) first: u8,
    /// Number of cores.
    pub(crate) count: u8,
}

impl Partition {
    /// The only core of chips that have one.
    pub(crate) const ONE: Self = Self { first: 0, count: 1 };

    /// Returns its cores.
    pub(crate) fn xccs(self) -> Range<u8> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns true if a core is in the partition.
    pub(crate) fn has(self, xcc: u8) -> bool {
        self.xccs().contains(&xcc)
    }

    /// Returns true if a core is in both partitions.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.first < other.xccs().end && other.first < self.xccs().end
    }

    /// Checks that a chip of this many cores has the partition.
    pub(crate) fn check(self, xccs: u8) -> Result<(), Broken> {
        let fits = u32::from(self.first) + u32::from(self.count) <= u32::from(xccs);
        check("partition", u32::from(self.first) << 8 | u32::from(self.count), fits && self.count != 0)
    }
}

/// `CP_HYP_XCP_CTL` of each core.
pub(crate) struct Partitions {
    places: Box<[AtomicU32]>,
    /// Cores of each partition after reset.
    after_reset: u32,
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.places.len() as u8).map(|xcc| self.of(xcc))).finish()
    }
}

impl Partitions {
    /// Makes this many cores, which after reset are partitioned by `mode`.
    pub(crate) fn new(xccs: u8, mode: ComputePartition) -> Self {
        let xccs = u32::from(xccs.max(1));
        let after_reset = xccs / mode.partitions(xccs).unwrap_or(1);
        let places = (0..xccs).map(|_| AtomicU32::new(0)).collect();
        let partitions = Self { places, after_reset };
        (0..xccs as u8).for_each(|xcc| partitions.reset(xcc));
        partitions
    }

    /// Returns the storage of a core's register; of the first core's if the number does not exist.
    pub(crate) fn kept(&self, xcc: u8) -> &AtomicU32 {
        &self.places[usize::from(xcc) % self.places.len()]
    }

    /// Returns the value of a core's register.
    pub(crate) fn place(&self, xcc: u8) -> CP_HYP_XCP_CTL {
        CP_HYP_XCP_CTL::from_bits(self.kept(xcc).load(Ordering::Acquire))
    }

    /// Writes a core's register: the fields that it has are kept.
    pub(crate) fn write(&self, xcc: u8, value: u32) {
        let written = CP_HYP_XCP_CTL::from_bits(value);
        let mut kept = CP_HYP_XCP_CTL(0);
        kept.set_virtual_xcc_id(written.virtual_xcc_id());
        kept.set_num_xcc_in_xcp(written.num_xcc_in_xcp());
        self.kept(xcc).store(kept.bits(), Ordering::Release);
    }

    /// Sets a core's register to its value after reset.
    pub(crate) fn reset(&self, xcc: u8) {
        let mut place = CP_HYP_XCP_CTL(0);
        place.set_num_xcc_in_xcp(self.after_reset);
        place.set_virtual_xcc_id(u32::from(xcc) % self.after_reset);
        self.write(xcc, place.bits());
    }

    /// Returns the partition of a core; `None` if the registers of its cores do not agree.
    pub(crate) fn of(&self, xcc: u8) -> Option<Partition> {
        let place = self.place(xcc);
        let count = u8::try_from(place.num_xcc_in_xcp()).ok()?;
        let first = xcc.checked_sub(place.virtual_xcc_id() as u8)?;
        let partition = Partition { first, count };
        let agrees = |core: u8| {
            let place = self.place(core);
            place.num_xcc_in_xcp() == u32::from(count) && place.virtual_xcc_id() == u32::from(core - first)
        };
        let exists = usize::from(first) + usize::from(count) <= self.places.len();
        (exists && partition.has(xcc) && partition.xccs().all(agrees)).then_some(partition)
    }

    /// Returns the mode by which the cores are partitioned; `None` if it has no name.
    pub(crate) fn mode(&self) -> Option<ComputePartition> {
        let xccs = self.places.len() as u8;
        let size = self.of(0)?.count;
        let alike = |xcc: u8| self.of(xcc).is_some_and(|partition| partition.count == size);
        (0..xccs).all(alike).then(|| ComputePartition::of(xccs.into(), size.into()))?
    }

    /// Returns the modes by which they can be partitioned.
    pub(crate) fn available(&self) -> impl Iterator<Item = ComputePartition> {
        ComputePartition::available(self.places.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(partitions: &Partitions, xcc: u8, count: u32, number: u32) {
        let mut place = CP_HYP_XCP_CTL(0);
        place.set_num_xcc_in_xcp(count);
        place.set_virtual_xcc_id(number);
        partitions.write(xcc, place.bits());
    }

    #[test]
    fn cores_are_shared_out_as_their_registers_say_together() {
        let partitions = Partitions::new(4, ComputePartition::Spx);
        assert_eq!(partitions.of(3), Some(Partition { first: 0, count: 4 }));
        assert_eq!(partitions.mode(), Some(ComputePartition::Spx));
        (0..4).for_each(|xcc| write(&partitions, xcc, 2, u32::from(xcc) % 2));
        assert_eq!(partitions.of(2), Some(Partition { first: 2, count: 2 }));
        assert_eq!(partitions.of(3), partitions.of(2));
        assert_eq!(partitions.mode(), Some(ComputePartition::Dpx));
        // The last core has no value yet, or nonsense.
        write(&partitions, 3, 1, 0);
        assert_eq!((partitions.of(2), partitions.mode()), (None, None));
        assert_eq!(partitions.of(3), Some(Partition { first: 3, count: 1 }));
        for (count, number) in [(0, 0), (15, 3), (2, 7), (1, 1)] {
            write(&partitions, 3, count, number);
            assert_eq!(partitions.of(3), None, "{count} {number}");
        }
        (0..4).for_each(|xcc| partitions.reset(xcc));
        assert_eq!(partitions.mode(), Some(ComputePartition::Spx));
    }

    #[test]
    fn partitions_meet_where_they_have_a_core_in_common() {
        let partition = |first, count| Partition { first, count };
        assert!(partition(0, 4).overlaps(partition(3, 1)) && partition(3, 1).overlaps(partition(0, 4)));
        assert!(!partition(0, 2).overlaps(partition(2, 2)));
        assert!(partition(4, 4).check(8).is_ok());
        assert!(partition(4, 5).check(8).is_err() && partition(4, 0).check(8).is_err());
    }
}
