//! The interrupt rings, for tools that inspect the device.

use belfry_abi::ih::{ENTRY_SIZE, IhEntry};

use super::ih_ring::IhRing;
use super::{Interrupts, RETRY_RING};
use crate::vm::AddressSpace;

/// One ring.
#[derive(Clone, Debug)]
pub(crate) struct SeenIhRing {
    pub(crate) number: u8,
    pub(crate) enabled: bool,
    pub(crate) base: u64,
    /// Bytes of the ring; 0 for a size that no ring has.
    pub(crate) size: u32,
    pub(crate) rptr: u32,
    pub(crate) wptr: u32,
    pub(crate) overflow: bool,
    /// True if the next entry interrupts.
    pub(crate) armed: bool,
    /// Entries, oldest first: offset, true if the driver has still to read it, and the entry.
    pub(crate) entries: Vec<(u32, bool, IhEntry)>,
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
