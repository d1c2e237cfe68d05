//! Physical memory: the device's VRAM and the guest's RAM, by location.
//!
//! VRAM is one region for the life of the device. Guest RAM is a map the host may replace; the engines keep using the
//! map they know until [`Memory::changed`] is called, which switches to the new one and returns when no
//! thread uses the old one any more. A host pointer into guest RAM is therefore only ever held inside a
//! [`Slice`].
//!
//! The old map may be the last owner of its regions, because a host forgets a range before it tells the
//! device. The device keeps the old map until all slices that may use it are over, and only then unmaps it.

#![expect(unsafe_code, reason = "turns mapped regions into blocks of racy memory")]

mod access;
mod hive;
mod host_path;
mod links;
mod mirror;
#[cfg(test)]
mod mirror_tests;
mod nowhere;
mod own;
mod peers;
mod physical;
mod quiescence;
#[cfg(test)]
mod quiescence_tests;
mod save;
mod values;

/// The parts that `quiescence.rs` is made of; under a model, others stand in for them.
mod sync {
    pub(super) use std::sync::PoisonError;
    pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    pub(super) use belfry_lock::Condvar;
    use belfry_lock::rank;

    pub(super) type TurnMutex<T> = belfry_lock::Mutex<T, rank::QuiescenceTurn>;
    pub(super) type Mutex<T> = belfry_lock::Mutex<T, rank::QuiescenceLeft>;
}

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use belfry_isa::mem::Access;
use belfry_lock::{Mutex, rank};
use vm_memory::{
    Address, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryBackend, GuestMemoryMmap,
    GuestMemoryRegion, MemoryRegionAddress, MmapRegion,
};

use crate::record::Journal;

pub(crate) use access::Block;
pub use hive::Hive;
pub use host_path::FlushPage;
pub(crate) use host_path::Unflushed;
pub use links::Links;
pub(crate) use mirror::{Changes, Mirror};
use own::Own;
pub(crate) use own::{OwnPages, OwnPlace};
pub(crate) use peers::BusBars;
use peers::Peers;
pub use peers::{MAX_PEERS, NoSuchPeer, Peer};
pub use physical::{Aperture, Physical};
use quiescence::Inside;
pub(crate) use quiescence::Quiescence;
pub(crate) use save::SavedVram;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Guest RAM: a map that the host may replace.
pub type SystemMemory = GuestMemoryAtomic<GuestMemoryMmap>;

/// Reasons for refusing a physical access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No memory answers at (all of) the location.
    #[error("no memory at {location:x?} for {len} bytes")]
    OutOfRange {
        /// First byte without memory.
        location: Physical,
        /// Bytes wanted from there.
        len: u64,
    },
    /// An atomic access must be naturally aligned.
    #[error("atomic access of {len} bytes at {location:x?} is misaligned")]
    Misaligned {
        /// The location.
        location: Physical,
        /// Bytes of the access.
        len: u64,
    },
}

/// VRAM and guest RAM.
#[derive(Debug)]
pub struct Memory {
    vram: Arc<MmapRegion>,
    /// Other devices.
    peers: Peers,
    /// Place among devices whose VRAM is one range of addresses.
    hive: Option<Hive>,
    /// The map that the host replaces.
    source: SystemMemory,
    /// The map that the engines use: follows `source` in `changed` only.
    active: SystemMemory,
    generation: AtomicU64,
    quiescence: Quiescence,
    /// Counters of address spaces, which count slices of the space and of this memory.
    counters: Mutex<Vec<Weak<Quiescence>>, rank::SliceCounters>,
    /// The copy that the device works on, while it is recorded or a record is replayed.
    mirror: Option<Mirror>,
    /// The page by which programs flush the host data path, beside the register.
    flush_page: host_path::Programs,
    /// The device's own pages, which hide the host's memory at their addresses.
    own: Own,
}

/// A span of work during which host pointers into guest RAM stay valid.
#[derive(Debug)]
pub struct Slice<'a> {
    inside: Inside<'a>,
}

impl Slice<'_> {
    /// Returns true if a thread waits for the end of this slice.
    pub(crate) fn is_awaited(&self) -> bool {
        self.inside.is_awaited()
    }
}

impl Memory {
    /// Memory made of a VRAM region and a guest RAM map.
    #[must_use]
    pub fn new(vram: MmapRegion, system: SystemMemory) -> Memory {
        let active = GuestMemoryAtomic::from(system.memory().into_inner());
        Memory {
            vram: Arc::new(vram),
            peers: Peers::default(),
            hive: None,
            source: system,
            active,
            generation: AtomicU64::new(1),
            quiescence: Quiescence::default(),
            counters: Mutex::default(),
            mirror: None,
            flush_page: host_path::Programs::default(),
            own: Own::default(),
        }
    }

    /// Puts a copy in front of this memory, which the device works on. Changes by processors go into a
    /// journal, or come from it.
    pub(crate) fn mirrored(self, journal: Arc<Journal>) -> Memory {
        let vram = self.vram_size();
        Memory { mirror: Some(Mirror::new(journal, vram)), ..self }
    }

    /// Turns on notes about unflushed writes of processors to VRAM, if memory is mirrored.
    pub(crate) fn with_host_path(mut self) -> Memory {
        self.mirror = self.mirror.map(Mirror::with_host_path);
        self
    }

    /// Sets the pages on the bus that are the device's own.
    pub(crate) fn set_own(&self, pages: Arc<dyn OwnPages>) {
        self.own.set(pages);
    }

    /// Pages of VRAM that may hold something: one byte for each page, with bit 0 set if it may.
    fn resident_vram(&self) -> Vec<u8> {
        let size = self.vram.size();
        let mut pages = vec![0; size.div_ceil(PAGE as usize)];
        // SAFETY: the region is mapped for `size` bytes as long as `self` lives, and `pages` has a byte for
        // each of its pages (mincore(2)).
        if unsafe { libc::mincore(self.vram.as_ptr().cast(), size, pages.as_mut_ptr()) } != 0 {
            pages.fill(1);
        }
        pages
    }

    /// Returns true if the device works on a copy.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirror.is_some()
    }

    /// The copy that the device works on.
    pub(crate) fn mirror(&self) -> Option<&Mirror> {
        self.mirror.as_ref()
    }

    /// Bytes of VRAM.
    #[must_use]
    pub fn vram_size(&self) -> u64 {
        self.vram.size() as u64
    }

    /// Begins a slice: until it is dropped, [`Memory::changed`] does not return and no pointer goes stale.
    ///
    /// Slices are short (a few thousand wave instructions, or one packet). Do not call [`Memory::changed`] inside one.
    #[must_use]
    pub fn enter(&self) -> Slice<'_> {
        Slice { inside: self.quiescence.enter() }
    }

    /// Makes a counter for the slices that an address space [begins](Self::slice): [`Memory::changed`] waits
    /// for them, too.
    pub(crate) fn counter(&self) -> Arc<Quiescence> {
        let counter = Arc::default();
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.retain(|counter| counter.strong_count() > 0);
        counters.push(Arc::downgrade(&counter));
        counter
    }

    /// Begins a slice as [`Memory::enter`] does, for an address space that has a [counter](Self::counter) of
    /// this memory. Only that counter counts it: to count it twice would cost twice as much.
    pub(crate) fn slice<'a>(&self, counter: &'a Quiescence) -> Slice<'a> {
        Slice { inside: counter.enter() }
    }

    /// Changes whenever a pointer obtained earlier may have become stale.
    #[must_use]
    pub fn generation(&self) -> u64 {
        let copies = self.mirror.as_ref().map_or(0, Mirror::epoch);
        // Both numbers only grow.
        self.generation.load(Ordering::SeqCst).wrapping_add(copies)
    }

    /// Switches to the guest RAM map that the host has installed; returns when no engine uses the old one,
    /// and then drops it.
    pub fn changed(&self) {
        self.flush();
        let old = self.quiesced(|| {
            let old = self.active.memory().into_inner();
            let map: Arc<GuestMemoryMmap> = self.source.memory().into_inner();
            // Only `changed` writes `active`, one call at a time: a poisoned lock cannot have left it half-written.
            if let Some(mirror) = self.mirror.as_ref() {
                mirror.set_ranges(ranges(&map));
            }
            let lock = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            lock.replace(GuestMemoryMmap::clone(&map));
            old
        });
        // Regions that are in no other map are unmapped here: every slice that has seen them is over.
        drop(old);
    }

    /// Changes what pointers lead to, and returns when every slice is over that may have one from before.
    fn quiesced<R>(&self, change: impl FnOnce() -> R) -> R {
        let changed = self.quiescence.wait_after(|| {
            let changed = change();
            self.generation.fetch_add(1, Ordering::SeqCst);
            changed
        });
        // An address space made from now on finds the change.
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for counter in counters.iter().filter_map(Weak::upgrade) {
            counter.wait_after(|| ());
        }
        changed
    }

    /// Host address of a location and how many bytes are contiguous from there.
    ///
    /// The pointer is valid until the end of the [`Slice`] the caller holds; dereferencing it is the caller's `unsafe`.
    #[must_use]
    pub fn host_pointer(&self, slice: &Slice<'_>, location: Physical) -> Option<(*mut u8, u64)> {
        self.block(slice, location, Access::Write).map(|block| (block.host(), block.len()))
    }

    /// The host mapping that contains a location: (bytes before it, host address, bytes from it on).
    pub(crate) fn surroundings(
        &self,
        slice: &Slice<'_>,
        location: Physical,
        access: Access,
    ) -> Option<(u64, *mut u8, u64)> {
        if self.is_mirrored() && location.aperture != Aperture::Nowhere {
            let block = self.block(slice, location, access)?;
            return Some((location.offset % PAGE, block.host(), block.len()));
        }
        let Physical { aperture, offset } = location;
        let before = match aperture {
            Aperture::Local | Aperture::Peer(_) => offset,
            Aperture::Nowhere => {
                let block = nowhere::block(offset, access)?;
                return Some((offset, block.host(), block.len()));
            }
            Aperture::System => match self.on_bus(offset) {
                Some(OwnPlace { before, .. }) => before,
                None => {
                    let map = self.active.memory();
                    map.to_region_addr(GuestAddress(offset))?.1.raw_value()
                }
            },
        };
        self.find(location).map(|block| (before, block.host(), block.len()))
    }

    /// A block at a location, as long as memory is contiguous from there. It is valid for the duration of a
    /// slice and for this access; if memory is mirrored, only until the next call on this memory.
    #[inline]
    pub(crate) fn block<'a>(
        &self,
        _slice: &'a Slice<'_>,
        location: Physical,
        access: Access,
    ) -> Option<Block<'a>> {
        match &self.mirror {
            _ if location.aperture == Aperture::Nowhere => nowhere::block(location.offset, access),
            None => self.find(location),
            Some(mirror) => mirror.block(self.in_copy(location), access, |page| self.find(page)),
        }
    }

    /// Atomically replaces a naturally aligned word of `size` bytes (4 or 8) in mirrored memory and in its
    /// copy; returns the value before.
    pub(crate) fn update_mirrored(
        &self,
        _slice: &Slice<'_>,
        location: Physical,
        size: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Option<u64> {
        let mirror = self.mirror.as_ref()?;
        if location.aperture == Aperture::Nowhere {
            return Some(0);
        }
        mirror.update((self.in_copy(location), size), update, |page| self.find(page))
    }

    /// Writes all of the device's stores to memory, if it works on a copy.
    pub(crate) fn flush(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.flush(|page| self.find(page));
        }
    }

    /// The ranges of guest memory that the host has installed: first address and bytes, lowest first.
    pub(crate) fn installed(&self) -> Vec<(u64, u64)> {
        ranges(&self.source.memory())
    }

    /// Copies bytes out of VRAM as the host's processors see it.
    pub(crate) fn read_shared(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let block = self.shared(offset, out.len())?;
        block.read(out);
        Ok(())
    }

    /// Copies bytes into VRAM as the host's processors do.
    pub(crate) fn write_shared(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let block = self.shared(offset, data.len())?;
        block.write(data);
        Ok(())
    }

    fn shared(&self, offset: u64, len: usize) -> Result<Block<'_>, Error> {
        let location = Physical::local(offset);
        let block = self.find(location).filter(|block| block.len() >= len as u64);
        block.ok_or(Error::OutOfRange { location, len: len as u64 })
    }

    fn find<'a>(&self, Physical { aperture, offset }: Physical) -> Option<Block<'a>> {
        let (base, size) = match aperture {
            Aperture::Local => (self.vram.as_ptr(), self.vram_size()),
            Aperture::Peer(number) => self.peers.region(number)?,
            Aperture::System => return self.find_system(offset),
            // Which page it is depends on the access.
            Aperture::Nowhere => return None,
        };
        let left = size.checked_sub(offset).filter(|&left| left > 0)?;
        // In range: `left` is positive. `as usize` is lossless, the region exists on this host.
        let host = base.wrapping_add(offset as usize);
        // SAFETY: the region is `left` bytes long from `offset` on; no code makes references to its bytes. The device's
        // own lives as long as `self`. A peer's is dropped in `set_peer` after every slice that began before it was
        // taken away has ended. Callers tie the block to a slice of this memory.
        Some(unsafe { Block::new(host, left) })
    }

    /// The place of an address on the bus that is no system memory: a device answers there.
    fn on_bus(&self, address: u64) -> Option<OwnPlace> {
        self.own.find(address).or_else(|| self.peers.on_bus(address))
    }

    /// The place of a location in the copy: VRAM of another device is one place, on the fabric and on the bus.
    fn in_copy(&self, location: Physical) -> Physical {
        if location.aperture != Aperture::System {
            return location;
        }
        if let Some((peer, offset)) = self.peers.vram_at(location.offset) {
            return Physical::peer(peer, offset);
        }
        // Devices learn here, in a replay as well, that their doorbells are reached: not under the lock of the copy.
        let _ = self.on_bus(location.offset);
        location
    }

    fn find_system<'a>(&self, address: u64) -> Option<Block<'a>> {
        if let Some(OwnPlace { host, after, .. }) = self.on_bus(address) {
            // SAFETY: these are pages of the device's own or of a peer, which are mapped for `after` bytes as long as `self`
            // has them, and which are never referenced. A peer is dropped as above.
            return Some(unsafe { Block::new(host, after) });
        }
        let map = self.active.memory();
        let (region, offset) = map.to_region_addr(GuestAddress(address))?;
        let left = region.len().checked_sub(offset.raw_value()).filter(|&left| left > 0)?;
        let host = region.get_host_address(MemoryRegionAddress(offset.raw_value())).ok()?;
        // SAFETY: the region is mapped for `left` bytes at `host`. It is part of the active map, which is only dropped
        // in `changed` after every slice that began before the switch has ended; callers hold one.
        Some(unsafe { Block::new(host, left) })
    }
}

/// The ranges of a map: first address and bytes, lowest first.
fn ranges(map: &GuestMemoryMmap) -> Vec<(u64, u64)> {
    map.iter().map(|region| (region.start_addr().raw_value(), region.len())).collect()
}

#[cfg(test)]
pub(crate) mod tests;
