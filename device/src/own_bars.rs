//! The device's own BARs as its engines and waves reach them: over the bus, beside memory.
//!
//! Drivers map doorbells and the page of flushes for GPUs, their own and others (linux `amdgpu_amdkfd_gpuvm.c`, `kfd_mem_attach`;
//! libhsakmt `map_mmio`). What a wave stores to a doorbell is in the doorbell page like a store of a processor's, and no
//! message tells the device of it: from the first access on the device looks by itself while queues have work.

#![expect(unsafe_code, reason = "gives places in the device's own pages, which others write at any time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belfry_abi::pci::DOORBELL_BAR_SIZE;

use crate::doorbell::Doorbells;
use crate::memory::{OwnPages, OwnPlace};
use crate::pci::Function;
use crate::threads::Wake;

/// Bytes of the page of flushes.
const PAGE: u64 = 4096;
/// Where nothing is on the bus.
const NOWHERE: u64 = u64::MAX;
/// Contents of the page before the first store to it: a value that no program flushes with.
const UNTOUCHED: u64 = 0x5a5a_a5a5_5a5a_a5a5;

/// Where the BARs are on the bus, and what is behind them.
#[derive(Debug)]
pub(crate) struct OwnBars {
    doorbells: Arc<Doorbells>,
    doorbells_at: AtomicU64,
    /// The page that the registers have their flushes in.
    flushes: Box<[AtomicU64; PAGE as usize / 8]>,
    flushes_at: AtomicU64,
    /// A host without a bus has said where doorbells are.
    placed: AtomicBool,
    /// Offset of the page in the BAR of the registers.
    remap: u64,
    /// Doorbells were reached.
    reached: AtomicBool,
    wake: Arc<Wake>,
}

impl OwnBars {
    /// BARs that are nowhere yet.
    pub(crate) fn new(doorbells: Arc<Doorbells>, remap: u64, wake: Arc<Wake>) -> Self {
        let [doorbells_at, flushes_at] = [NOWHERE, NOWHERE].map(AtomicU64::new);
        let flushes = Box::new([const { AtomicU64::new(0) }; PAGE as usize / 8]);
        flushes[0].store(UNTOUCHED, Ordering::Relaxed);
        let [placed, reached] = [false, false].map(AtomicBool::new);
        Self { doorbells, doorbells_at, flushes, flushes_at, placed, remap, reached, wake }
    }

    /// The BARs are where configuration space says, unless the host has said it.
    pub(crate) fn follow(&self, function: &Function) {
        if self.placed.load(Ordering::Acquire) {
            return;
        }
        self.doorbells_at.store(function.doorbells_at().unwrap_or(NOWHERE), Ordering::Release);
        let registers = function.registers_at().and_then(|base| base.checked_add(self.remap));
        self.flushes_at.store(registers.unwrap_or(NOWHERE), Ordering::Release);
    }

    /// The doorbells are at this address for the device, whatever configuration space says.
    pub(crate) fn place_doorbells(&self, address: u64) {
        self.placed.store(true, Ordering::Release);
        self.doorbells_at.store(address, Ordering::Release);
    }

    /// Whether doorbells may be stored without anybody's notice, by waves or by engines, or were while others were served.
    pub(crate) fn may_ring(&self) -> bool {
        self.reached.load(Ordering::Acquire) && (self.doorbells.any_busy() || self.doorbells.any_rung())
    }
}

/// A place so far into a range on the host.
fn place(base: *mut u8, size: u64, at: u64, address: u64) -> Option<OwnPlace> {
    let before = address.checked_sub(at).filter(|&before| at != NOWHERE && before < size)?;
    Some(OwnPlace { host: base.wrapping_add(before as usize), before, after: size - before })
}

// SAFETY: both ranges are there as long as `self` lives, which has the doorbells and the page; all of them are atomics, or accessed as
// such.
unsafe impl OwnPages for OwnBars {
    fn find(&self, address: u64) -> Option<OwnPlace> {
        let flushes = self.flushes_at.load(Ordering::Acquire);
        if let Some(found) = place(self.flushes.as_ptr().cast_mut().cast(), PAGE, flushes, address) {
            return Some(found);
        }
        let doorbells = self.doorbells_at.load(Ordering::Acquire);
        let found = place(self.doorbells.host(), DOORBELL_BAR_SIZE, doorbells, address)?;
        if !self.reached.swap(true, Ordering::AcqRel) {
            self.wake.wake();
        }
        Some(found)
    }

    fn have_flushed(&self) -> bool {
        // `HDP_MEM_FLUSH_CNTL` is the first word.
        self.flushes[0].swap(UNTOUCHED, Ordering::AcqRel) != UNTOUCHED
    }
}
