//! The interrupt rings, for tools that inspect the device.

use belfry_abi::ih::{ENTRY_SIZE, IhEntry};

use super::ih_ring::IhRing;
use super::{Interrupts, RETRY_RING};
use crate::vm::AddressSpace;

/// One ring.
#[derive(Clone, Debug)]
pub struct SeenIhRing {
    /// Its number.
    pub number: u8,
    /// True if entries are taken.
    pub enabled: bool,
    /// Address of the first entry, in VMID 0.
    pub base: u64,
    /// Bytes of the ring; 0 for a size that no ring has.
    pub size: u32,
    /// Offset at which the driver reads next.
    pub rptr: u32,
    /// Offset at which the device writes next.
    pub wptr: u32,
    /// True if entries were lost.
    pub overflow: bool,
    /// True if the next entry interrupts.
    pub armed: bool,
    /// Entries, oldest first: offset, true if the driver has still to read it, and the entry.
    pub entries: Vec<(u32, bool, IhEntry)>,
}

impl IhRing {
    fn seen(&self, number: u8, space: Option<&AddressSpace>, most: u32) -> SeenIhRing {
        let size = self.size().unwrap_or(0);
        let base = self.base();
        let unread = self.wptr.wrapping_sub(self.rptr) & size.wrapping_sub(1);
        let entries = if self.is_on() { most.min(size / ENTRY_SIZE) } else { 0 };
        let entries = (1..=entries).rev().filter_map(|back| {
            let at = self.wptr.wrapping_sub(back * ENTRY_SIZE) & size.wrapping_sub(1);
            let entry: IhEntry = space?.read(base.checked_add(at.into())?).ok()?;
            // Offsets that were never written are left out.
            (entry != IhEntry::default()).then_some((at, back * ENTRY_SIZE <= unread, entry))
        });
        SeenIhRing {
            number,
            enabled: self.is_on(),
            base,
            size,
            rptr: self.rptr,
            wptr: self.wptr,
            overflow: self.overflow,
            armed: self.armed,
            entries: entries.collect(),
        }
    }
}

impl Interrupts {
    /// Returns the rings, with at most this many of the last entries of each.
    pub(crate) fn seen(&self, space: Option<&AddressSpace>, most: u32) -> Vec<SeenIhRing> {
        let state = self.lock();
        let mut rings = vec![state.ring.seen(0, space, most)];
        rings.extend(state.retry.as_ref().map(|retry| retry.ring.seen(RETRY_RING, space, most)));
        rings
    }
}
