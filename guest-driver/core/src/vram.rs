//! VRAM: a buddy allocator, and the memory it hands out.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::errno::{Errno, Result};
use crate::hw::Hw;
use crate::os::{AllocFlags, Backing, BoPage, LockRank, Os, PAGE_SIZE};
use crate::sync::Mutex;

/// Block sizes: 4 KiB to 16 GiB.
const ORDERS: usize = 23;

/// A contiguous piece of VRAM, page-aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Byte offset in VRAM.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u64,
}

/// Free blocks by size; every block of order `n` is `4096 << n` bytes and aligned to that.
struct Buddy {
    /// By order; on the heap, because the array is half a KiB.
    free: Vec<BTreeSet<u64>>,
    free_bytes: u64,
    size: u64,
}

impl Buddy {
    fn new(size: u64) -> Self {
        let mut buddy = Self {
            free: (0..ORDERS).map(|_| BTreeSet::new()).collect(),
            free_bytes: 0,
            size: size & !(PAGE_SIZE - 1),
        };
        buddy.release(0, buddy.size);
        buddy
    }

    const fn block(order: usize) -> u64 {
        PAGE_SIZE << order
    }

    /// Order of the largest block that fits `len`, which is at least a page.
    fn order_within(len: u64) -> usize {
        ((len / PAGE_SIZE).ilog2() as usize).min(ORDERS - 1)
    }

    /// Takes one block of exactly `order`, splitting a larger one.
    fn take(&mut self, order: usize) -> Option<u64> {
        let from = (order..ORDERS).find(|&larger| !self.free[larger].is_empty())?;
        let offset = self.free[from].pop_first()?;
        for split in (order..from).rev() {
            self.free[split].insert(offset + Self::block(split));
        }
        self.free_bytes -= Self::block(order);
        Some(offset)
    }

    /// Gives one block back, merging it with its free buddies.
    fn put(&mut self, mut offset: u64, mut order: usize) {
        self.free_bytes += Self::block(order);
        while order + 1 < ORDERS {
            if !self.free[order].remove(&(offset ^ Self::block(order))) {
                break;
            }
            offset &= !Self::block(order);
            order += 1;
        }
        self.free[order].insert(offset);
    }

    /// Gives a page-aligned range back.
    fn release(&mut self, mut offset: u64, mut len: u64) {
        while len >= PAGE_SIZE {
            let aligned =
                if offset == 0 { ORDERS - 1 } else { (offset / PAGE_SIZE).trailing_zeros() as usize };
            let order = aligned.min(Self::order_within(len));
            self.put(offset, order);
            offset += Self::block(order);
            len -= Self::block(order);
        }
    }

    fn allocate(&mut self, len: u64, contiguous: bool, extents: &mut Vec<Extent>) -> Result<()> {
        if len > self.free_bytes {
            return Err(Errno::ENOMEM);
        }
        let mut rest = len;
        if contiguous {
            let order = (len / PAGE_SIZE).next_power_of_two().ilog2() as usize;
            extents.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            let offset = if order < ORDERS { self.take(order) } else { None }.ok_or(Errno::ENOMEM)?;
            self.release(offset + len, Self::block(order) - len);
            extents.push(Extent { offset, len });
            return Ok(());
        }
        while rest > 0 {
            let mut order = Self::order_within(rest);
            let offset = loop {
                if extents.try_reserve(1).is_err() {
                    break None;
                }
                match self.take(order) {
                    Some(offset) => break Some(offset),
                    None if order == 0 => break None,
                    None => order -= 1,
                }
            };
            let Some(offset) = offset else {
                for extent in extents.drain(..) {
                    self.release(extent.offset, extent.len);
                }
                return Err(Errno::ENOMEM);
            };
            let len = Self::block(order);
            match extents.last_mut() {
                Some(last) if last.offset + last.len == offset => last.len += len,
                _ => extents.push(Extent { offset, len }),
            }
            rest -= len;
        }
        Ok(())
    }
}

/// All of VRAM the driver may give away.
pub(crate) struct Vram<O: Os> {
    hw: Arc<Hw<O>>,
    buddy: Mutex<O, Buddy>,
    size: u64,
}

impl<O: Os> Vram<O> {
    /// Takes the first `size` bytes.
    #[inline(never)]
    pub(crate) fn new(hw: Arc<Hw<O>>, size: u64) -> Result<Arc<Self>> {
        let buddy = Mutex::new(hw.os(), LockRank::Vram, Buddy::new(size))?;
        Ok(Arc::new(Self { hw, buddy, size }))
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.buddy.lock().free_bytes
    }

    /// Allocates zeroed memory of `len` bytes, a multiple of the page size.
    pub(crate) fn allocate(self: &Arc<Self>, len: u64, contiguous: bool) -> Result<VramMemory<O>> {
        if len == 0 || !len.is_multiple_of(PAGE_SIZE) || len > self.size {
            return Err(Errno::ENOMEM);
        }
        let mut extents = Vec::new();
        self.buddy.lock().allocate(len, contiguous, &mut extents)?;
        for extent in &extents {
            self.hw.vram_fill(extent.offset, extent.len, 0);
        }
        Ok(VramMemory { vram: self.clone(), extents, len, public: false, charge: None })
    }
}

/// Frames of programs' pages leave as much of VRAM free for page tables: this part of it, and no more than that.
const TABLES_PART: u64 = 16;
const TABLES_MOST: u64 = 8 << 20;

impl<O: Os> Vram<O> {
    /// Takes `count` pages for the operating system to give to programs, one by one and as they are; fewer when VRAM runs
    /// short.
    pub(crate) fn take_frames(&self, count: usize) -> Vec<u64> {
        let mut frames = Vec::new();
        if frames.try_reserve_exact(count).is_err() {
            return frames;
        }
        let kept = (self.size / TABLES_PART).min(TABLES_MOST);
        let mut buddy = self.buddy.lock();
        let room = buddy.free_bytes.saturating_sub(kept) / PAGE_SIZE;
        let mut extents = Vec::new();
        // Without room, or memory for the list, there are none.
        let _ = buddy.allocate((count as u64).min(room) * PAGE_SIZE, false, &mut extents);
        let pages = |extent: &Extent| (extent.offset..extent.offset + extent.len).step_by(PAGE_SIZE as usize);
        frames.extend(extents.iter().flat_map(pages));
        frames
    }

    /// Gives frames back: the byte offset and the length of each run.
    pub(crate) fn give_frames_back(&self, runs: impl IntoIterator<Item = (u64, u64)>) {
        let mut buddy = self.buddy.lock();
        runs.into_iter().for_each(|(offset, len)| buddy.release(offset, len));
    }
}

/// Memory in VRAM, given back when dropped.
pub(crate) struct VramMemory<O: Os> {
    vram: Arc<Vram<O>>,
    extents: Vec<Extent>,
    len: u64,
    /// Set for memory that was asked for so that the processor may map it.
    public: bool,
    /// Account that it counts for.
    charge: Option<VramCharge>,
}

/// Bytes of VRAM that count for an account until this is dropped.
pub(crate) struct VramCharge {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl VramCharge {
    /// Adds bytes to an account, as far as that stays within a limit.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(used: &Arc<AtomicU64>, bytes: u64, limit: u64) -> Result<Self> {
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        let added = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.map(|_| Self { used: used.clone(), bytes }).map_err(|_| Errno::ENOMEM)
    }
}

impl Drop for VramCharge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<O: Os> VramMemory<O> {
    /// The same, which tells others whether it was asked for as memory that the processor may map.
    pub(crate) fn with_public(mut self, public: bool) -> Self {
        self.public = public;
        self
    }

    /// The same, which counts for an account as long as it is there.
    pub(crate) fn charged(mut self, charge: Option<VramCharge>) -> Self {
        self.charge = charge;
        self
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// VRAM offset of the first byte.
    pub(crate) fn offset(&self) -> u64 {
        self.extents[0].offset
    }

    pub(crate) fn hw(&self) -> &Hw<O> {
        &self.vram.hw
    }
}

impl<O: Os> Backing for VramMemory<O> {
    fn size(&self) -> u64 {
        self.len
    }

    fn page(&self, index: u64) -> Option<BoPage> {
        if !self.vram.hw.alive() {
            return None;
        }
        let mut offset = index.checked_mul(PAGE_SIZE)?;
        for extent in &self.extents {
            if offset < extent.len {
                return Some(BoPage::Vram(extent.offset + offset));
            }
            offset -= extent.len;
        }
        None
    }

    fn flags(&self) -> AllocFlags {
        if self.public { AllocFlags::VRAM | AllocFlags::PUBLIC } else { AllocFlags::VRAM }
    }

    fn as_vram(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<O: Os> Drop for VramMemory<O> {
    fn drop(&mut self) {
        let mut buddy = self.vram.buddy.lock();
        for extent in &self.extents {
            buddy.release(extent.offset, extent.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn everything_comes_back_as_one_piece() {
        let mut buddy = Buddy::new(64 * MIB);
        let mut all = Vec::new();
        for len in [PAGE_SIZE, 3 * PAGE_SIZE, MIB, 5 * MIB + PAGE_SIZE, 17 * MIB] {
            let mut extents = Vec::new();
            buddy.allocate(len, false, &mut extents).unwrap();
            assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), len);
            all.push(extents);
        }
        for extents in all {
            for extent in extents {
                buddy.release(extent.offset, extent.len);
            }
        }
        assert_eq!(buddy.free_bytes, 64 * MIB);
        let mut whole = Vec::new();
        buddy.allocate(64 * MIB, true, &mut whole).unwrap();
        assert_eq!(whole, [Extent { offset: 0, len: 64 * MIB }]);
    }

    #[test]
    fn extents_never_overlap_and_exhaustion_is_undone() {
        let mut buddy = Buddy::new(8 * MIB - 12 * PAGE_SIZE);
        let mut taken = BTreeSet::new();
        let mut held = Vec::new();
        loop {
            let mut extents = Vec::new();
            if buddy.allocate(9 * PAGE_SIZE, false, &mut extents).is_err() {
                assert!(extents.is_empty());
                break;
            }
            for extent in &extents {
                for page in 0..extent.len / PAGE_SIZE {
                    assert!(taken.insert(extent.offset + page * PAGE_SIZE));
                }
            }
            held.push(extents);
        }
        assert!(buddy.free_bytes < 9 * PAGE_SIZE);
        for extent in held.into_iter().flatten() {
            buddy.release(extent.offset, extent.len);
        }
        assert_eq!(buddy.free_bytes, 8 * MIB - 12 * PAGE_SIZE);
    }

    #[test]
    fn contiguous_means_one_extent_or_nothing() {
        let mut buddy = Buddy::new(4 * MIB);
        let mut pin = Vec::new();
        buddy.allocate(PAGE_SIZE, false, &mut pin).unwrap();
        let mut extents = Vec::new();
        assert_eq!(buddy.allocate(4 * MIB - PAGE_SIZE, true, &mut extents), Err(Errno::ENOMEM));
        buddy.allocate(4 * MIB - PAGE_SIZE, false, &mut extents).unwrap();
        assert_eq!(buddy.free_bytes, 0);
    }
}
