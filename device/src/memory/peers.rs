//! Other devices, as this device reaches them: their VRAM over the fabric, and their BARs by addresses on the bus.
//!
//! A peer's memory stays mapped as long as this memory has it: [`Memory::set_peer`] waits for the slices that may use the
//! old one, as [`Memory::changed`] does for guest memory.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_lock::{RwLock, rank};
use vm_memory::MmapRegion;

use super::{Aperture, Memory, OwnPlace, Physical};
use crate::record::{Journal, PeerOf};

/// Most devices of a fabric: as many as `MC_VM_XGMI_LFB_CNTL` counts.
pub const MAX_PEERS: usize = 8;

/// A number that no device of a fabric has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no device of a fabric has number {0}: the highest is {last}", last = MAX_PEERS - 1)]
pub struct NoSuchPeer(pub u8);

/// The BARs of a device, for other devices that reach them over the bus.
///
/// # Safety
///
/// Memory that [`find`](Self::find) returns is mapped, readable and writable, as long as the object lives, and is only ever
/// accessed through atomics.
pub(crate) unsafe trait BusBars: Send + Sync {
    /// Returns the offset in VRAM of an address on the bus, if VRAM answers there.
    fn vram_offset(&self, address: u64) -> Option<u64>;

    /// Returns the place of an address on the bus, if doorbells or the page of flushes answer there, and whether it is the doorbells.
    fn find(&self, address: u64) -> Option<(OwnPlace, bool)>;

    /// Another device may store to doorbells from now on: has the device look at them, the first time. Takes the lock of its wake-up alone.
    fn doorbells_are_reached(&self);

    /// Returns true if queues of the device have work.
    fn is_busy(&self) -> bool;

    /// Has the device look at its doorbells, if others have reached them. Takes the same lock.
    fn nudge(&self);
}

/// A device as others reach it.
#[derive(Clone)]
pub struct Peer {
    vram: Arc<MmapRegion>,
    bars: Option<Arc<dyn BusBars>>,
    /// The record that it is in, and its number there.
    recorded: Option<(Arc<Journal>, u8)>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("vram", &self.vram.size()).field("bars", &self.bars.is_some()).finish()
    }
}

impl From<Arc<MmapRegion>> for Peer {
    /// A device whose VRAM is on the fabric alone.
    fn from(vram: Arc<MmapRegion>) -> Self {
        Self { vram, bars: None, recorded: None }
    }
}

impl Peer {
    /// A device whose BARs are on the bus, too.
    pub(crate) fn with_bars(self, bars: Arc<dyn BusBars>) -> Self {
        Self { bars: Some(bars), ..self }
    }

    /// A device of a record, with its number there.
    pub(crate) fn of_record(self, recorded: Option<(Arc<Journal>, u8)>) -> Self {
        Self { recorded, ..self }
    }

    /// Returns which device of a record it is, if it is one.
    pub(crate) fn in_record(&self, journal: &Arc<Journal>) -> Option<PeerOf> {
        let (own, device) = self.recorded.as_ref()?;
        Arc::ptr_eq(own, journal).then_some(PeerOf { device: *device, bars: self.bars.is_some() })
    }

    /// Returns the place of an address on the bus, and the BARs if it is in the doorbells. It is mapped as long as this device has the peer.
    fn on_bus(&self, address: u64) -> Option<(OwnPlace, Option<&Arc<dyn BusBars>>)> {
        let bars = self.bars.as_ref()?;
        let Some(before) = bars.vram_offset(address) else {
            let (place, are_doorbells) = bars.find(address)?;
            return Some((place, are_doorbells.then_some(bars)));
        };
        let after = (self.vram.size() as u64).checked_sub(before).filter(|&after| after > 0)?;
        Some((OwnPlace { host: self.vram.as_ptr().wrapping_add(before as usize), before, after }, None))
    }
}

/// The other devices, by number. The device's own number has none.
#[derive(Debug, Default)]
pub(super) struct Peers {
    list: RwLock<[Option<Peer>; MAX_PEERS], rank::Peers>,
    /// True once there is one.
    any: AtomicBool,
    /// True once one of them is on the bus: nearly all devices are alone, and look at each address of system memory here.
    on_bus: AtomicBool,
}

impl Peers {
    /// Returns host address and bytes of a peer's VRAM, if there is such a peer.
    pub(super) fn region(&self, number: u8) -> Option<(*mut u8, u64)> {
        let peers = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let region = &peers.get(usize::from(number))?.as_ref()?.vram;
        Some((region.as_ptr(), region.size() as u64))
    }

    /// Returns the place of an address on the bus, if a peer answers there.
    pub(super) fn on_bus(&self, address: u64) -> Option<OwnPlace> {
        if !self.on_bus.load(Ordering::Acquire) {
            return None;
        }
        let peers = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let (place, bars) = peers.iter().flatten().find_map(|peer| peer.on_bus(address))?;
        if let Some(bars) = bars.cloned() {
            // The lock of the wake-up comes before that of the list.
            drop(peers);
            bars.doorbells_are_reached();
        }
        Some(place)
    }

    /// Returns the number of the peer whose VRAM has an address on the bus, and the offset there.
    pub(super) fn vram_at(&self, address: u64) -> Option<(u8, u64)> {
        if !self.on_bus.load(Ordering::Acquire) {
            return None;
        }
        let peers = self.list.read().unwrap_or_else(PoisonError::into_inner);
        (0..).zip(peers.iter()).find_map(|(number, peer)| {
            let offset = peer.as_ref()?.bars.as_ref()?.vram_offset(address)?;
            Some((number, offset))
        })
    }

    /// Returns the BARs of all peers that are on the bus.
    fn bars(&self) -> [Option<Arc<dyn BusBars>>; MAX_PEERS] {
        if !self.on_bus.load(Ordering::Acquire) {
            return Default::default();
        }
        let peers = self.list.read().unwrap_or_else(PoisonError::into_inner);
        peers.each_ref().map(|peer| peer.as_ref().and_then(|peer| peer.bars.clone()))
    }

    fn replace(&self, number: u8, new: Option<Peer>) -> Option<Peer> {
        if let Some(peer) = &new {
            self.any.store(true, Ordering::Release);
            if peer.bars.is_some() {
                self.on_bus.store(true, Ordering::Release);
            }
        }
        let mut peers = self.list.write().unwrap_or_else(PoisonError::into_inner);
        peers.get_mut(usize::from(number)).and_then(|peer| std::mem::replace(peer, new))
    }
}

impl Memory {
    /// The device's own VRAM, for [`Memory::set_peer`] of other devices.
    #[must_use]
    pub fn vram(&self) -> Arc<MmapRegion> {
        Arc::clone(&self.vram)
    }

    /// Returns the number of the device whose VRAM a place is, if that is another one.
    pub(crate) fn peer_at(&self, place: Physical) -> Option<u8> {
        match place.aperture {
            Aperture::Local | Aperture::Nowhere => None,
            Aperture::Peer(number) => Some(number),
            Aperture::System => self.peers.vram_at(place.offset).map(|(number, _)| number),
        }
    }

    /// Returns true if there are other devices, on the fabric or on the bus.
    pub(crate) fn has_peers(&self) -> bool {
        self.peers.any.load(Ordering::Acquire)
    }

    /// Returns true if queues of any other device of the machine have work, which may store to doorbells of this one.
    pub(crate) fn peers_are_busy(&self) -> bool {
        self.peers.bars().iter().flatten().any(|peer| peer.is_busy())
    }

    /// Has the other devices look at their doorbells, where others have reached them: this one may have stored there.
    pub(crate) fn nudge_peers(&self) {
        self.peers.bars().iter().flatten().for_each(|peer| peer.nudge());
    }

    /// Sets another device of the machine, or takes it away. Returns when no engine uses the one before any more. Accesses to
    /// a peer that is not there are bus faults, as of memory that is not there.
    ///
    /// # Errors
    ///
    /// A number that no device of a fabric has.
    pub fn set_peer(&self, number: u8, peer: Option<Peer>) -> Result<(), NoSuchPeer> {
        if usize::from(number) >= MAX_PEERS {
            return Err(NoSuchPeer(number));
        }
        let before = self.quiesced(|| self.peers.replace(number, peer));
        drop(before);
        Ok(())
    }
}
