//! Doorbells: a page of values that queues read, and the wake-up that makes them read.
//!
//! The region is the single copy of every doorbell's value. A value gets there in one of three ways:
//!
//! | [`Way`](crate::trace::Way) | the write | the value |
//! | --- | --- | --- |
//! | `Trapped` | is an access the device answers | is stored by the device |
//! | `Woken` | is announced by the host, which does not know the value | stays in the producer's memory |
//! | `Polled` | is not announced, or by a hint at most | is found in the page the guest has mapped |
//!
//! Beside each value lies the value that the device has taken note of. A difference between them is a store that the
//! device did not see. So the ways are told apart exactly: writes of the first two kinds are counted one by one, and of
//! the last kind every value that was found.

#![expect(
    unsafe_code,
    reason = "the doorbell region is written by the guest at any time: atomics through raw pointers"
)]

mod flags;
mod mirror;
mod owner;
mod save;
mod seen;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_abi::pci::{DOORBELL_BAR_SIZE, DOORBELL_SIZE};
use belfry_lock::{Mutex, MutexGuard, rank};
use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _};

use flags::Flags;
pub(crate) use mirror::{DoorbellMirror, HostDoorbells};
use owner::InterruptDoorbells;
pub(crate) use owner::{InterruptDoorbell, Owner};
pub(crate) use save::SavedDoorbells;
pub use seen::SeenDoorbell;
pub(crate) use watch::{DoorbellWatch, Heard};

/// A doorbell that was rung.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Rung {
    pub(crate) value: u64,
    /// True if the value was found in the page; writes of the other ways were counted when they came.
    pub(crate) found: bool,
}

/// Receiver of the list of doorbells that queues of processes listen to, so that a host can choose the best way for
/// their writes.
///
/// The kernel's own rings take the value that is written: their doorbells are not in the list, wherever they are.
///
/// Called from any thread, also while the device is locked. It may only call back through
/// [`Gpu::doorbell_woken`](crate::Gpu::doorbell_woken) and [`Gpu::doorbell_hint`](crate::Gpu::doorbell_hint).
pub trait DoorbellListener: Send + Sync {
    /// Called when a process's queue begins or ceases to listen to a 64-bit doorbell.
    fn listens(&self, doorbell: DoorbellOffset, listening: bool);
}

/// The doorbell BAR.
pub(crate) struct Doorbells {
    region: MmapRegion,
    /// Values the device has taken note of.
    known: Box<[AtomicU64]>,
    /// One lock for each page, held while a value and the device's note of it change together. It holds true if the
    /// page has been used since reset.
    locks: Box<[Mutex<bool, rank::Doorbells>]>,
    /// Doorbells of the interrupt handler.
    interrupts: InterruptDoorbells,
    /// Doorbells of rings and queues.
    owned: Flags,
    /// Doorbells whose owner is a process's queue, if the listener knows of it. Set only while `owned` is.
    announced: Flags,
    /// Doorbells that were rung by a write that the device saw, and not looked at since.
    rung: Flags,
    /// Doorbells whose queue has work.
    busy: Flags,
    /// Doorbells whose queue was taken off and may be back before long.
    away: Flags,
    /// Number of changes of `owned` and `away`.
    changes: AtomicU64,
    enabled: AtomicBool,
    listener: OnceLock<Arc<dyn DoorbellListener>>,
}

/// The doorbells that have an owner, by their offset in bytes.
impl std::fmt::Debug for Doorbells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let owned = (0..COUNT).filter(|at| self.owned.get(*at));
        let listened: Vec<_> = owned.map(|at| (offset(at), self.value(at).load(Ordering::Acquire))).collect();
        f.debug_struct("Doorbells")
            .field("enabled", &self.enabled)
            .field("listened", &listened)
            .finish_non_exhaustive()
    }
}

const COUNT: u64 = DOORBELL_BAR_SIZE / DOORBELL_SIZE;
const PAGE: u64 = 4096;
const WORDS: u64 = PAGE / DOORBELL_SIZE;

/// Returns the number of the 64-bit doorbell that an offset is in.
fn number(offset: DoorbellOffset) -> Option<u64> {
    offset.number().map(u64::from)
}

fn offset(number: u64) -> DoorbellOffset {
    DoorbellOffset::from_bytes(number * DOORBELL_SIZE)
}

impl Doorbells {
    /// Makes doorbells over a region of [`DOORBELL_BAR_SIZE`] bytes. Returns the region's size if it has another one.
    pub(crate) fn new(region: MmapRegion) -> Result<Self, u64> {
        if region.size() as u64 != DOORBELL_BAR_SIZE || !(region.as_ptr().addr()).is_multiple_of(8) {
            return Err(region.size() as u64);
        }
        Ok(Self {
            region,
            known: vec![0; COUNT as usize].into_iter().map(AtomicU64::new).collect(),
            locks: (0..DOORBELL_BAR_SIZE / PAGE).map(|_| Mutex::default()).collect(),
            interrupts: InterruptDoorbells::default(),
            owned: Flags::new(),
            announced: Flags::new(),
            rung: Flags::new(),
            busy: Flags::new(),
            away: Flags::new(),
            changes: AtomicU64::new(0),
            enabled: AtomicBool::new(false),
            listener: OnceLock::new(),
        })
    }

    /// Sets the receiver of the doorbells that are listened to from now on; only the first one is taken.
    pub(crate) fn set_listener(&self, listener: Arc<dyn DoorbellListener>) {
        if self.listener.set(listener).is_err() {
            return;
        }
        // On a device that was restored, queues listen already.
        for page in (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize) {
            self.announced.of_page(page).for_each(|at| self.tell(at, true));
        }
    }

    /// Returns the host address of the region.
    pub(crate) fn host(&self) -> *mut u8 {
        self.region.as_ptr()
    }

    /// Returns the value at a doorbell's number, which is in range.
    fn value(&self, at: u64) -> &AtomicU64 {
        let at = (at % COUNT) as usize;
        // SAFETY: the region is mapped as long as `self` lives, the number is in range, the base is aligned (checked in
        // `new`), and the region is only ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.region.as_ptr().cast::<u64>().add(at)) }
    }

    fn known(&self, at: u64) -> &AtomicU64 {
        &self.known[(at % COUNT) as usize]
    }

    fn lock(&self, at: u64) -> MutexGuard<'_, bool, rank::Doorbells> {
        self.locks[(at % COUNT / WORDS) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the driver lets doorbells through.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Lets doorbells through, or not.
    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
    }

    /// Reads the value of the 64-bit doorbell that an offset is in; outside of the BAR: 0.
    pub(crate) fn load(&self, offset: DoorbellOffset) -> u64 {
        number(offset).map_or(0, |at| self.value(at).load(Ordering::Acquire))
    }

    /// Reads 32 bits at an offset that is a multiple of 4; outside of the BAR: 0.
    pub(crate) fn load32(&self, offset: DoorbellOffset) -> u32 {
        (self.load(offset) >> (offset.inside() * 8)) as u32
    }

    /// Stores 4 or 8 bytes of a trapped write, at an aligned offset inside the BAR.
    ///
    /// Returns the value that was there, if the device had not taken note of it.
    pub(crate) fn store(&self, offset: DoorbellOffset, value: u64, len: usize) -> Option<u64> {
        let at = number(offset)?;
        let (shift, mask) = if len == 8 { (0, u64::MAX) } else { (offset.inside() * 8, 0xffff_ffff) };
        let merged = |old: u64| old & !(mask << shift) | (value & mask) << shift;
        let mut used = self.lock(at);
        *used = true;
        // One exchange, or a store of the guest in between would not be counted.
        let old = self
            .value(at)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(merged(old)))
            .unwrap_or_else(|old| old);
        let unknown = old != self.known(at).swap(merged(old), Ordering::Relaxed);
        if self.owned.get(at) {
            self.rung.set(at, true);
        }
        unknown.then_some(old)
    }

    /// Notes a write that was announced without its value. Returns false if no queue listens.
    pub(crate) fn note(&self, offset: DoorbellOffset) -> bool {
        let listened = number(offset).filter(|&at| self.owned.get(at));
        if let Some(at) = listened {
            self.rung.set(at, true);
        }
        listened.is_some()
    }

    /// Replaces a 64-bit value, unless the doorbell was rung since `before` was read.
    pub(crate) fn replace(&self, offset: DoorbellOffset, before: u64, value: u64) {
        let Some(at) = number(offset) else { return };
        let mut used = self.lock(at);
        *used = true;
        if self.value(at).compare_exchange(before, value, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.known(at).store(value, Ordering::Relaxed);
        }
    }

    /// Gives a doorbell to a ring or a queue, or takes it from its owner; does nothing if the doorbell does not exist. Those of the
    /// interrupt handler are [set](Self::set_interrupts) by their offsets.
    pub(crate) fn own(&self, doorbell: DoorbellIndex, owner: Owner) {
        let Some(at) = number(doorbell.offset()) else { return };
        if owner == Owner::Nobody {
            return self.give_up(at);
        }
        if !self.owned.get(at) {
            // The value that an earlier owner has left there does not count as a ring.
            self.forget(at);
            self.owned.set(at, true);
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        if owner == Owner::Queue && !self.announced.set(at, true) {
            self.tell(at, true);
        }
    }

    fn give_up(&self, at: u64) {
        if !self.owned.get(at) {
            return;
        }
        // The listener passes on writes that it still holds for the queue, so the owner is removed after that.
        if self.announced.set(at, false) {
            self.tell(at, false);
        }
        self.owned.set(at, false);
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.busy.set(at, false);
    }

    fn tell(&self, at: u64, listening: bool) {
        if let Some(listener) = self.listener.get() {
            listener.listens(offset(at), listening);
        }
    }

    /// Notes whether the queue of a doorbell without an owner may come back. The queue finds in memory the writes that
    /// came meanwhile.
    pub(crate) fn set_away(&self, doorbell: DoorbellIndex, away: bool) {
        if let Some(at) = number(doorbell.offset()) {
            self.away.set(at, away);
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns true if the doorbell that an offset is in has an owner, or may have one again before long.
    pub(crate) fn is_awaited(&self, offset: DoorbellOffset) -> bool {
        // `owned` is read twice: the queue may come back after the first read, and be no longer away at the second.
        number(offset).is_some_and(|at| self.owned.get(at) || self.away.get(at) || self.owned.get(at))
    }

    /// Returns true if the doorbell that an offset is in has an owner.
    pub(crate) fn is_owned(&self, offset: DoorbellOffset) -> bool {
        number(offset).is_some_and(|at| self.owned.get(at))
    }

    /// Returns the doorbells with an owner on the page at a byte offset, and their values.
    pub(crate) fn of_page(&self, page: u64) -> impl Iterator<Item = (DoorbellOffset, u64)> {
        self.owned.of_page(page).map(|at| (offset(at), self.value(at).load(Ordering::Acquire)))
    }

    /// Notes whether the queue that listens to a doorbell has work.
    pub(crate) fn set_busy(&self, doorbell: DoorbellIndex, busy: bool) {
        let Some(at) = number(doorbell.offset()) else { return };
        // Every service calls this, and the flag hardly ever changes.
        if self.busy.get(at) != busy {
            self.busy.set(at, busy);
        }
    }

    /// Returns true if the queue that listens to a doorbell has work.
    pub(crate) fn has_work(&self, doorbell: DoorbellIndex) -> bool {
        number(doorbell.offset()).is_some_and(|at| self.busy.get(at))
    }

    /// Returns true if a queue that listens on the page at a byte offset has work.
    pub(crate) fn is_busy(&self, page: u64) -> bool {
        self.busy.of_page(page).next().is_some()
    }

    /// Returns true if any queue has work.
    pub(crate) fn any_busy(&self) -> bool {
        (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize).any(|page| self.is_busy(page))
    }

    /// Returns true if a doorbell was rung since the device last took note of it.
    pub(crate) fn is_rung(&self, doorbell: DoorbellIndex) -> bool {
        number(doorbell.offset()).is_some_and(|at| self.is_rung_at(at))
    }

    /// Returns true if any doorbell with an owner was rung since the device last took note of it.
    pub(crate) fn any_rung(&self) -> bool {
        let mut pages = (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize);
        pages.any(|page| self.owned.of_page(page).any(|at| self.is_rung_at(at)))
    }

    fn is_rung_at(&self, at: u64) -> bool {
        self.value(at).load(Ordering::Acquire) != self.known(at).load(Ordering::Relaxed) || self.rung.get(at)
    }

    /// Takes note of a doorbell, if it was rung.
    pub(crate) fn take(&self, doorbell: DoorbellIndex) -> Option<Rung> {
        let at = number(doorbell.offset()).filter(|&at| self.is_rung_at(at))?;
        let mut used = self.lock(at);
        *used = true;
        let value = self.value(at).load(Ordering::Acquire);
        // Most doorbells are found by their value alone.
        let rung = self.rung.get(at) && self.rung.set(at, false);
        if self.known(at).load(Ordering::Relaxed) != value {
            // It changes only under the lock.
            self.known(at).store(value, Ordering::Relaxed);
            Some(Rung { value, found: true })
        } else {
            rung.then_some(Rung { value, found: false })
        }
    }

    fn forget(&self, at: u64) {
        let mut used = self.lock(at);
        *used = true;
        self.rung.set(at, false);
        self.known(at).store(self.value(at).load(Ordering::Acquire), Ordering::Relaxed);
    }

    /// Removes the owners of all doorbells and sets every value to 0.
    pub(crate) fn reset(&self) {
        for page in (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize) {
            for at in self.owned.of_page(page).collect::<Vec<_>>() {
                self.give_up(at);
            }
            for at in self.away.of_page(page).collect::<Vec<_>>() {
                self.away.set(at, false);
                self.changes.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.enable(false);
        for first in (0..COUNT).step_by(WORDS as usize) {
            let mut used = self.lock(first);
            // A read before the writes keeps a fresh region sparse.
            if !*used && self.is_blank(offset(first).bytes()) {
                continue;
            }
            *used = false;
            for at in first..first + WORDS {
                self.value(at).store(0, Ordering::Release);
                self.known(at).store(0, Ordering::Relaxed);
            }
        }
    }

    /// Returns true if every value of the page at a byte offset is 0.
    fn is_blank(&self, page: u64) -> bool {
        let mut bytes = [0; PAGE as usize];
        let slice = self.region.get_slice(page as usize, bytes.len());
        slice.is_ok_and(|slice| slice.read_slice(&mut bytes, 0).is_ok()) && bytes == [0; PAGE as usize]
    }
}

#[cfg(test)]
mod tests;
