//! The device's own BARs, for its engines and waves, and for other devices: they reach them over the bus, beside memory.
//!
//! VRAM is there for other devices alone: the device itself has it nearer.
//!
//! Drivers map doorbells and the page of flushes for GPUs, their own and others (linux
//! `amdgpu_amdkfd_gpuvm.c`, `kfd_mem_attach`; libhsakmt `map_mmio`). A wave's store to a doorbell is in the
//! doorbell page like a processor's store, and no message tells the device of it: from the first access on,
//! the device looks by itself while queues have work: its own, or those of other devices that have reached its doorbells.

#![expect(unsafe_code, reason = "gives places in the device's own pages, which others write at any time")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use belfry_abi::pci::DOORBELL_BAR_SIZE;

use crate::doorbell::{Doorbells, HostDoorbells};
use crate::memory::{BusBars, OwnPages, OwnPlace};
use crate::pci::Function;
use crate::threads::Wake;

/// Bytes of the page of flushes.
const PAGE: u64 = 4096;
/// Address of a BAR that is not on the bus.
const NOWHERE: u64 = u64::MAX;
/// Contents of the page before the first store to it: a value that no program flushes with.
const UNTOUCHED: u64 = 0x5a5a_a5a5_5a5a_a5a5;

/// Addresses of the BARs on the bus, and their memory.
#[derive(Debug)]
pub(crate) struct OwnBars {
    doorbells: Arc<Doorbells>,
    /// The doorbells as the host has them, for a device that is recorded and has doorbells of its own.
    host: OnceLock<HostDoorbells>,
    doorbells_at: AtomicU64,
    vram_size: u64,
    vram_at: AtomicU64,
    /// The page that contains the flush registers.
    flushes: Box<[AtomicU64; PAGE as usize / 8]>,
    flushes_at: AtomicU64,
    /// True once a host without a bus has set the addresses.
    placed: AtomicBool,
    /// Offset of the page in the BAR of the registers.
    remap: u64,
    /// True once doorbells were reached, by the device itself or by others.
    reached: AtomicBool,
    /// True once others have reached them.
    reached_by_peers: AtomicBool,
    wake: Arc<Wake>,
}

impl OwnBars {
    /// BARs that are not on the bus yet.
    pub(crate) fn new((doorbells, vram_size): (Arc<Doorbells>, u64), remap: u64, wake: Arc<Wake>) -> Self {
        let [doorbells_at, flushes_at, vram_at] = [NOWHERE; 3].map(AtomicU64::new);
        let flushes = Box::new([const { AtomicU64::new(0) }; PAGE as usize / 8]);
        flushes[0].store(UNTOUCHED, Ordering::Relaxed);
        let [placed, reached, reached_by_peers] = [false; 3].map(AtomicBool::new);
        Self {
            doorbells,
            host: OnceLock::new(),
            doorbells_at,
            vram_size,
            vram_at,
            flushes,
            flushes_at,
            placed,
            remap,
            reached,
            reached_by_peers,
            wake,
        }
    }

    /// Takes the addresses of the BARs from configuration space, unless the host has set one.
    pub(crate) fn follow(&self, function: &Function) {
        if self.placed.load(Ordering::Acquire) {
            return;
        }
        self.doorbells_at.store(function.doorbells_at().unwrap_or(NOWHERE), Ordering::Release);
        self.vram_at.store(function.vram_at().unwrap_or(NOWHERE), Ordering::Release);
        let registers = function.registers_at().and_then(|base| base.checked_add(self.remap));
        self.flushes_at.store(registers.unwrap_or(NOWHERE), Ordering::Release);
    }

    /// Puts VRAM and doorbells at these addresses for devices, in place of those in configuration space.
    pub(crate) fn place(&self, vram: u64, doorbells: u64) {
        self.placed.store(true, Ordering::Release);
        self.vram_at.store(vram, Ordering::Release);
        self.doorbells_at.store(doorbells, Ordering::Release);
    }

    /// Has waves and engines store to the host's doorbells, as processors do: a device that is recorded looks there before each operation.
    /// Only the first call counts.
    pub(crate) fn store_to_host(&self, doorbells: HostDoorbells) {
        let _ = self.host.set(doorbells);
    }

    /// The page of flushes or the doorbells at an address, and whether it is the doorbells.
    fn page(&self, address: u64) -> Option<(OwnPlace, bool)> {
        let flushes = self.flushes_at.load(Ordering::Acquire);
        if let Some(found) = place(self.flushes.as_ptr().cast_mut().cast(), PAGE, flushes, address) {
            return Some((found, false));
        }
        let doorbells = self.doorbells_at.load(Ordering::Acquire);
        let host = self.host.get().map_or_else(|| self.doorbells.host(), HostDoorbells::host);
        place(host, DOORBELL_BAR_SIZE, doorbells, address).map(|found| (found, true))
    }

    /// Returns true if waves or engines may store to doorbells without a message, or did so while others were
    /// served. `peers_are_busy` tells of those of other devices.
    pub(crate) fn may_ring(&self, peers_are_busy: impl FnOnce() -> bool) -> bool {
        if !self.reached.load(Ordering::Acquire) {
            return false;
        }
        let by_peers = || self.reached_by_peers.load(Ordering::Acquire) && peers_are_busy();
        // Values last: they are there once what has stored them is over.
        self.doorbells.any_busy() || by_peers() || self.doorbells.any_rung()
    }
}

/// The place of `address` in a range on the host that begins at bus address `at`.
fn place(base: *mut u8, size: u64, at: u64, address: u64) -> Option<OwnPlace> {
    let before = address.checked_sub(at).filter(|&before| at != NOWHERE && before < size)?;
    Some(OwnPlace { host: base.wrapping_add(before as usize), before, after: size - before })
}

// SAFETY: both ranges exist as long as `self` lives, which owns the doorbells (its own, and the host's, which has the same size) and the page;
// all of them are atomics, or accessed like atomics.
unsafe impl OwnPages for OwnBars {
    fn find(&self, address: u64) -> Option<OwnPlace> {
        let (found, are_doorbells) = self.page(address)?;
        if are_doorbells && !self.reached.swap(true, Ordering::AcqRel) {
            self.wake.wake();
        }
        Some(found)
    }

    fn have_flushed(&self) -> bool {
        // `HDP_MEM_FLUSH_CNTL` is the first word.
        self.flushes[0].swap(UNTOUCHED, Ordering::AcqRel) != UNTOUCHED
    }
}

// SAFETY: as above.
unsafe impl BusBars for OwnBars {
    fn vram_offset(&self, address: u64) -> Option<u64> {
        let at = self.vram_at.load(Ordering::Acquire);
        address.checked_sub(at).filter(|&offset| at != NOWHERE && offset < self.vram_size)
    }

    fn find(&self, address: u64) -> Option<(OwnPlace, bool)> {
        self.page(address)
    }

    fn doorbells_are_reached(&self) {
        self.reached.store(true, Ordering::Release);
        if !self.reached_by_peers.swap(true, Ordering::AcqRel) {
            self.wake.wake();
        }
    }

    fn is_busy(&self) -> bool {
        self.doorbells.any_busy()
    }

    fn nudge(&self) {
        if self.reached_by_peers.load(Ordering::Acquire) {
            self.wake.wake();
        }
    }
}
