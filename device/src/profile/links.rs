//! Bytes that go over the links of a device to other devices.
//!
//! These are the bytes of profiled kernels, by vector instructions, and of SDMA packets, each counted by the device that moves them.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_isa::exec::{Place, Touch};
use belfry_isa::mem::Access;
use serde::{Deserialize, Serialize};

use crate::memory::MAX_PEERS;

/// Ways in which a device moves bytes over a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moved {
    /// Loads of kernels from the other one's memory.
    Loaded,
    /// Stores of kernels to it.
    Stored,
    /// Atomics of kernels in it.
    Changed,
    /// SDMA from it.
    CopiedFrom,
    /// SDMA to it.
    CopiedTo,
}

/// Number of ways.
const WAYS: usize = 5;

impl From<Access> for Moved {
    fn from(access: Access) -> Self {
        match access {
            Access::Read | Access::Execute => Self::Loaded,
            Access::Write => Self::Stored,
            Access::Atomic => Self::Changed,
        }
    }
}

/// Bytes that a device has moved between itself and the memory of another one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct LinkBytes {
    /// Number of the other one in the machine.
    pub peer: u8,
    /// Loads of kernels.
    pub loaded: u64,
    /// Stores of kernels.
    pub stored: u64,
    /// Atomics of kernels: each word once.
    pub changed: u64,
    /// SDMA from there.
    pub copied_from: u64,
    /// SDMA to there.
    pub copied_to: u64,
}

impl LinkBytes {
    /// Bytes that came from the other one.
    #[must_use]
    pub fn from_peer(&self) -> u64 {
        self.loaded.saturating_add(self.copied_from)
    }

    /// Bytes that went to the other one.
    #[must_use]
    pub fn to_peer(&self) -> u64 {
        self.stored.saturating_add(self.changed).saturating_add(self.copied_to)
    }
}

/// Counters of a device's links, by the numbers of the other devices.
#[derive(Debug)]
pub struct LinkCounters([[AtomicU64; WAYS]; MAX_PEERS]);

impl Default for LinkCounters {
    fn default() -> Self {
        Self(from_fn(|_| from_fn(|_| AtomicU64::new(0))))
    }
}

impl LinkCounters {
    /// Counts bytes; numbers that no device has are left out.
    pub(crate) fn add(&self, peer: u8, moved: Moved, bytes: u64) {
        if let Some(link) = self.0.get(usize::from(peer)) {
            link[moved as usize].fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the bytes of a link until now.
    pub(crate) fn of(&self, peer: u8) -> LinkBytes {
        let link = self.0.get(usize::from(peer));
        let bytes = |moved: Moved| link.map_or(0, |link| link[moved as usize].load(Ordering::Relaxed));
        LinkBytes {
            peer,
            loaded: bytes(Moved::Loaded),
            stored: bytes(Moved::Stored),
            changed: bytes(Moved::Changed),
            copied_from: bytes(Moved::CopiedFrom),
            copied_to: bytes(Moved::CopiedTo),
        }
    }

    /// Returns the links that bytes went over.
    #[must_use]
    pub fn report(&self) -> Vec<LinkBytes> {
        let all = (0..MAX_PEERS as u8).map(|peer| self.of(peer));
        all.filter(|link| link.from_peer() > 0 || link.to_peer() > 0).collect()
    }
}

/// Finds the other device whose memory is at an address.
pub(crate) type Reach = dyn Fn(u64) -> Option<u8> + Send + Sync;

/// Bytes of one turn of a wave by link, which are added to the counters at its end.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Devices at the pages that the turn has touched.
    pages: std::collections::HashMap<u64, Option<u8>>,
    bytes: [[u64; WAYS]; MAX_PEERS],
}

impl Turn {
    /// Bytes of a page, the least that all page tables map.
    const PAGE: u64 = 4096;

    /// Counts the accesses of an instruction.
    pub(super) fn count(&mut self, touches: &[Touch], reach: &Reach) {
        for touch in touches {
            let Place::Global(va) = touch.place else { continue };
            let peer = *self.pages.entry(va / Self::PAGE).or_insert_with(|| reach(va));
            if let Some(link) = peer.and_then(|peer| self.bytes.get_mut(usize::from(peer))) {
                link[Moved::from(touch.access) as usize] += u64::from(touch.bytes);
            }
        }
    }

    /// Adds the turn to the counters, and forgets it: pages may be others' from now on.
    pub(super) fn end(&mut self, links: &LinkCounters) {
        if self.pages.is_empty() {
            return;
        }
        self.pages.clear();
        for (all, turn) in links.0.iter().zip(&mut self.bytes) {
            for (sum, bytes) in all.iter().zip(turn).filter(|(_, bytes)| **bytes > 0) {
                sum.fetch_add(std::mem::take(bytes), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(va: u64, bytes: u32, access: Access) -> Touch {
        Touch { lane: 0, place: Place::Global(va), bytes, access, replaces: false }
    }

    #[test]
    fn bytes_of_a_turn_are_counted_for_the_device_of_their_page_and_by_their_way() {
        let links = LinkCounters::default();
        let mut turn = Turn::default();
        let reach = |va: u64| match va / Turn::PAGE {
            1 => Some(3),
            2 => Some(7),
            3 => Some(u8::MAX),
            _ => None,
        };
        let touches = [
            touch(0x1000, 4, Access::Read),
            touch(0x1ffc, 4, Access::Write),
            touch(0x2000, 8, Access::Atomic),
            touch(0x2010, 16, Access::Read),
            // Own memory, memory of no device, and LDS.
            touch(0x5000, 4, Access::Write),
            touch(0x3000, 4, Access::Write),
            Touch { place: Place::Lds(0x1000), ..touch(0, 4, Access::Write) },
        ];
        turn.count(&touches, &reach);
        assert_eq!(links.report(), []);
        turn.end(&links);
        turn.end(&links);
        links.add(7, Moved::CopiedTo, 100);
        links.add(u8::MAX, Moved::CopiedTo, 100);
        let three = LinkBytes { peer: 3, loaded: 4, stored: 4, ..LinkBytes::default() };
        let seven = LinkBytes { peer: 7, loaded: 16, changed: 8, copied_to: 100, ..LinkBytes::default() };
        assert_eq!(links.report(), [three, seven]);
        assert_eq!((seven.from_peer(), seven.to_peer()), (16, 108));
    }

    #[test]
    fn pages_are_looked_up_anew_in_each_turn() {
        let links = LinkCounters::default();
        let mut turn = Turn::default();
        for peer in [1, 2] {
            turn.count(&[touch(0x1000, 4, Access::Write); 3], &move |_| Some(peer));
            turn.end(&links);
        }
        let stored: Vec<_> = links.report().iter().map(|link| (link.peer, link.stored)).collect();
        assert_eq!(stored, [(1, 12), (2, 12)]);
    }
}
