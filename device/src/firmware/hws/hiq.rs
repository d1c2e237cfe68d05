//! The HIQ of each partition: the cores that have been told of it, and its hardware queue there.

use belfry_abi::doorbell::DoorbellIndex;

use super::HwsScheduler;
use crate::firmware::rings::{KernelRings, MappedBy, NewRing};
use crate::guest_error::GuestError;
use crate::queue::{HqdId, Partition};
use crate::vm::AddressSpace;

impl HwsScheduler {
    /// Returns the HIQ of a partition that has a core of this one, and the HIQ's hardware queue.
    pub(super) fn hiq_of(&self, partition: Partition) -> Option<(Partition, HqdId)> {
        self.hiqs.iter().find(|(other, _)| other.overlaps(partition)).copied()
    }

    /// Returns the HIQ that a core has been told of: its partition and its hardware queue.
    pub(super) fn hiq(&self, xcc: u8) -> Option<(Partition, HqdId)> {
        self.hiq_of(Partition { first: xcc, count: 1 })
    }

    /// Loads the HIQ on a core. All cores of a partition have it on the same hardware queue; only the first core's ring
    /// is read.
    pub(super) fn map_hiq(&mut self, space: &AddressSpace, new: &NewRing) -> Result<(), GuestError> {
        let (xcc, id) = new.at;
        let partition = self.ports.partitions.of(xcc).ok_or(GuestError::HwsPartition)?;
        let known = self.hiq_of(partition);
        if known.is_some_and(|known| known != (partition, id)) || self.rings.has(new.at) {
            return Err(GuestError::HwsRing);
        }
        let hqd = KernelRings::load(&self.ports, space, new, MappedBy::Packet)?;
        if known.is_none() {
            self.hiqs.push((partition, id));
        }
        if xcc == partition.first {
            self.rings.begin(&self.ports, space, new.at, &hqd)?;
        }
        Ok(())
    }

    pub(super) fn unmap_hiq(&mut self, xcc: u8, doorbell: DoorbellIndex) -> Result<(), GuestError> {
        let (partition, id) = self.hiq(xcc).ok_or(GuestError::UnmapQueuesUnknown)?;
        let own = self.ports.hqds.hqd_of(xcc, id, |hqd| hqd.is_active() && hqd.doorbell() == doorbell);
        if !own {
            return Err(GuestError::UnmapQueuesUnknown);
        }
        self.rings.unmap(&self.ports, (xcc, id));
        if xcc == partition.first {
            self.hiqs.retain(|&(other, _)| other != partition);
        }
        Ok(())
    }
}
