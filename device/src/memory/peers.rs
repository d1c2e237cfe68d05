//! VRAM of other devices, as this device reaches it over the fabric.
//!
//! A peer's region stays mapped as long as this memory has it: [`Memory::set_peer`] waits for the slices that may use the
//! old one, as [`Memory::changed`] does for guest memory.

use std::sync::{Arc, PoisonError};

use vm_memory::MmapRegion;

use super::Memory;
use crate::lock::{RwLock, rank};

/// Most devices of a fabric: as many as `MC_VM_XGMI_LFB_CNTL` counts.
pub const MAX_PEERS: usize = 8;

/// A number that no device of a fabric has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no device of a fabric has number {0}: the highest is {last}", last = MAX_PEERS - 1)]
pub struct NoSuchPeer(pub u8);

/// The other devices' VRAM, by number. The device's own number has none.
#[derive(Debug, Default)]
pub(super) struct Peers(RwLock<[Option<Arc<MmapRegion>>; MAX_PEERS], rank::Peers>);

impl Peers {
    /// Returns host address and bytes of a peer's VRAM, if there is such a peer.
    pub(super) fn region(&self, number: u8) -> Option<(*mut u8, u64)> {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let region = peers.get(usize::from(number))?.as_ref()?;
        Some((region.as_ptr(), region.size() as u64))
    }

    fn replace(&self, number: u8, region: Option<Arc<MmapRegion>>) -> Option<Arc<MmapRegion>> {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        peers.get_mut(usize::from(number)).and_then(|peer| std::mem::replace(peer, region))
    }
}

impl Memory {
    /// The device's own VRAM, for [`Memory::set_peer`] of other devices.
    #[must_use]
    pub fn vram(&self) -> Arc<MmapRegion> {
        Arc::clone(&self.vram)
    }

    /// Sets the VRAM of another device of the fabric, or takes it away. Returns when no engine uses the one before any
    /// more. Accesses to a peer that is not there are bus faults, as of memory that is not there.
    ///
    /// # Errors
    ///
    /// A number that no device of a fabric has.
    pub fn set_peer(&self, number: u8, vram: Option<Arc<MmapRegion>>) -> Result<(), NoSuchPeer> {
        if usize::from(number) >= MAX_PEERS {
            return Err(NoSuchPeer(number));
        }
        let before = self.quiesced(|| self.peers.replace(number, vram));
        drop(before);
        Ok(())
    }
}
