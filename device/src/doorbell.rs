//! Doorbells: a page of values that queues look at, and the wake-up that makes them look.
//!
//! The region is the single copy of every doorbell's value. How a value got there:
//!
//! | way | the write | the value |
//! | --- | --- | --- |
//! | [`Way::Trapped`] | is an access the device answers | is stored by the device |
//! | [`Way::Woken`] | is announced by the host, who does not know what was written | stays in the producer's memory |
//! | [`Way::Polled`] | is nobody's news, or at most a hint | is found in the page the guest has mapped |
//!
//! Beside each value is the one the device has taken note of. Whatever differs from it was stored behind the device's
//! back, so that the ways are told apart exactly: writes of the first two kinds are counted one by one, and of the last
//! kind every value that was found.

#![expect(
    unsafe_code,
    reason = "the doorbell region is written by the guest at any time: atomics through raw pointers"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _};

/// How the device came to know of a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The write was an access.
    Trapped,
    /// The host said that there was a write.
    Woken,
    /// The value in the page had changed.
    Polled,
}

/// A doorbell that was rung.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Rung {
    pub(crate) value: u64,
    /// Whether it was found to be; all other ways were counted when the write was.
    pub(crate) found: bool,
}

/// Told which doorbells the queues of processes listen to, so that a host can have their writes travel in the best way.
///
/// The kernel's own rings take the value that is written: their doorbells are not among them, wherever they are.
///
/// Called from any thread, also while the device is locked: it must not call back but through
/// [`Gpu::doorbell_woken`](crate::Gpu::doorbell_woken) and [`Gpu::doorbell_hint`](crate::Gpu::doorbell_hint).
pub trait DoorbellListener: Send + Sync {
    /// A process's queue begins or ceases to listen to the 64-bit doorbell at a byte offset in BAR2.
    fn listens(&self, offset: u64, listening: bool);
}

/// A flag per 64-bit doorbell.
#[derive(Debug)]
struct Flags(Box<[AtomicU64]>);

impl Flags {
    fn new() -> Self {
        Self((0..COUNT / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, at: u64) -> (&AtomicU64, u64) {
        (&self.0[(at % COUNT / 64) as usize], 1 << (at % 64))
    }

    fn get(&self, at: u64) -> bool {
        let (word, bit) = self.place(at);
        word.load(Ordering::Acquire) & bit != 0
    }

    /// Sets a flag; whether it was set before.
    fn set(&self, at: u64, on: bool) -> bool {
        let (word, bit) = self.place(at);
        let before =
            if on { word.fetch_or(bit, Ordering::AcqRel) } else { word.fetch_and(!bit, Ordering::AcqRel) };
        before & bit != 0
    }

    /// Doorbells of a page whose flags are set, lowest first.
    fn of_page(&self, page: u64) -> impl Iterator<Item = u64> {
        let first = page / PAGE * (WORDS / 64);
        (first..first + WORDS / 64).flat_map(move |at| {
            let mut word = self.0[(at % (COUNT / 64)) as usize].load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at * 64 + u64::from(bit))
            })
        })
    }
}

/// The doorbell BAR.
pub(crate) struct Doorbells {
    region: MmapRegion,
    /// Values the device has taken note of.
    known: Box<[AtomicU64]>,
    /// One per page, for what changes a value and what is known of it together: whether anything is known of the page.
    locks: Box<[Mutex<bool>]>,
    /// Somebody listens.
    owned: Flags,
    /// The listener was told so.
    announced: Flags,
    /// Rung with the device's knowledge, and not looked at since.
    rung: Flags,
    /// The queue that listens has work.
    busy: Flags,
    enabled: AtomicBool,
    listener: OnceLock<Arc<dyn DoorbellListener>>,
}

impl std::fmt::Debug for Doorbells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doorbells").finish_non_exhaustive()
    }
}

const COUNT: u64 = DOORBELL_BAR_SIZE / 8;
const PAGE: u64 = 4096;
const WORDS: u64 = PAGE / 8;

impl Doorbells {
    /// Doorbells over a region of [`DOORBELL_BAR_SIZE`] bytes, or the size it has instead.
    pub(crate) fn new(region: MmapRegion) -> Result<Self, u64> {
        if region.size() as u64 != DOORBELL_BAR_SIZE || !(region.as_ptr().addr()).is_multiple_of(8) {
            return Err(region.size() as u64);
        }
        Ok(Self {
            region,
            known: vec![0; COUNT as usize].into_iter().map(AtomicU64::new).collect(),
            locks: (0..DOORBELL_BAR_SIZE / PAGE).map(|_| Mutex::default()).collect(),
            owned: Flags::new(),
            announced: Flags::new(),
            rung: Flags::new(),
            busy: Flags::new(),
            enabled: AtomicBool::new(false),
            listener: OnceLock::new(),
        })
    }

    /// Tells `listener` from now on; only the first one is taken.
    pub(crate) fn set_listener(&self, listener: Arc<dyn DoorbellListener>) {
        let _first = self.listener.set(listener);
    }

    /// The value at a doorbell's number, which is in range.
    fn value(&self, at: u64) -> &AtomicU64 {
        let at = (at % COUNT) as usize;
        // SAFETY: the region is mapped as long as `self` lives, the number is in range, the base is aligned (checked in
        // `new`), and the region is only ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.region.as_ptr().cast::<u64>().add(at)) }
    }

    fn known(&self, at: u64) -> &AtomicU64 {
        &self.known[(at % COUNT) as usize]
    }

    fn lock(&self, at: u64) -> MutexGuard<'_, bool> {
        self.locks[(at % COUNT / WORDS) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the driver lets doorbells through.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Lets doorbells through, or not.
    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
    }

    /// Value of the 64-bit doorbell at a byte offset, which is rounded down to its doorbell; outside of the BAR: 0.
    pub(crate) fn load(&self, offset: u64) -> u64 {
        if offset < DOORBELL_BAR_SIZE { self.value(offset / 8).load(Ordering::Acquire) } else { 0 }
    }

    /// Value of the low 32 bits at a byte offset that is a multiple of 4; outside of the BAR: 0.
    pub(crate) fn load32(&self, offset: u64) -> u32 {
        (self.load(offset) >> (offset % 8 * 8)) as u32
    }

    /// Stores 4 or 8 bytes, of a write that was an access, at an aligned offset inside the BAR.
    ///
    /// Gives the value that was found, if it was one nobody knew of.
    pub(crate) fn store(&self, offset: u64, value: u64, len: usize) -> Option<u64> {
        if offset >= DOORBELL_BAR_SIZE {
            return None;
        }
        let at = offset / 8;
        let (shift, mask) = if len == 8 { (0, u64::MAX) } else { (offset % 8 * 8, 0xffff_ffff) };
        let merged = |old: u64| old & !(mask << shift) | (value & mask) << shift;
        let mut used = self.lock(at);
        *used = true;
        // One exchange: a store of the guest's in between would go uncounted.
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

    /// Notes a write that was announced without its value; whether anybody listens.
    pub(crate) fn note(&self, offset: u64) -> bool {
        let listens = self.is_owned(offset);
        if listens {
            self.rung.set(offset / 8, true);
        }
        listens
    }

    /// Replaces a 64-bit value, unless somebody has rung since `before` was read.
    pub(crate) fn replace(&self, offset: u64, before: u64, value: u64) {
        if offset >= DOORBELL_BAR_SIZE {
            return;
        }
        let at = offset / 8;
        let mut used = self.lock(at);
        *used = true;
        if self.value(at).compare_exchange(before, value, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.known(at).store(value, Ordering::Relaxed);
        }
    }

    /// Says whether somebody listens to the doorbell at a dword index.
    pub(crate) fn own(&self, index: u32, owned: bool) {
        let at = u64::from(index / 2) % COUNT;
        if self.owned.get(at) == owned {
            return;
        }
        if owned {
            // What an earlier owner has left there rings for nobody.
            self.forget(at);
            self.owned.set(at, true);
        } else {
            // The listener passes on what it has for the queue while that is still there.
            if self.announced.set(at, false) {
                self.tell(at, false);
            }
            self.owned.set(at, false);
            self.busy.set(at, false);
        }
    }

    /// Says that a process's queue, which has its write pointer in memory, listens to the doorbell at a dword index.
    pub(crate) fn own_with_pointer(&self, index: u32) {
        self.own(index, true);
        let at = u64::from(index / 2) % COUNT;
        if !self.announced.set(at, true) {
            self.tell(at, true);
        }
    }

    fn tell(&self, at: u64, listening: bool) {
        if let Some(listener) = self.listener.get() {
            listener.listens(at * 8, listening);
        }
    }

    /// Whether somebody listens to the doorbell at a byte offset.
    pub(crate) fn is_owned(&self, offset: u64) -> bool {
        offset < DOORBELL_BAR_SIZE && self.owned.get(offset / 8)
    }

    /// Doorbells somebody listens to on the page at a byte offset: their byte offsets and values.
    pub(crate) fn of_page(&self, page: u64) -> impl Iterator<Item = (u64, u64)> {
        self.owned.of_page(page).map(|at| (at * 8, self.value(at).load(Ordering::Acquire)))
    }

    /// Says whether the queue that listens to the doorbell at a dword index has work.
    pub(crate) fn set_busy(&self, index: u32, busy: bool) {
        self.busy.set(u64::from(index / 2), busy);
    }

    /// Whether a queue that listens on the page at a byte offset has work.
    pub(crate) fn is_busy(&self, page: u64) -> bool {
        self.busy.of_page(page).next().is_some()
    }

    /// Whether the doorbell at a dword index was rung since it was last taken note of.
    pub(crate) fn is_rung(&self, index: u32) -> bool {
        let at = u64::from(index / 2);
        self.value(at).load(Ordering::Acquire) != self.known(at).load(Ordering::Relaxed) || self.rung.get(at)
    }

    /// Takes note of the doorbell at a dword index, if it was rung.
    pub(crate) fn take(&self, index: u32) -> Option<Rung> {
        if !self.is_rung(index) {
            return None;
        }
        let at = u64::from(index / 2);
        let mut used = self.lock(at);
        *used = true;
        let value = self.value(at).load(Ordering::Acquire);
        let rung = self.rung.set(at, false);
        if self.known(at).swap(value, Ordering::Relaxed) != value {
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

    /// Nobody listens any more, and every value is 0.
    pub(crate) fn reset(&self) {
        for page in (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize) {
            for at in self.owned.of_page(page).collect::<Vec<_>>() {
                self.own(at as u32 * 2, false);
            }
        }
        self.enable(false);
        for first in (0..COUNT).step_by(WORDS as usize) {
            let mut used = self.lock(first);
            // Reading first keeps a fresh region sparse.
            if !*used && self.is_blank(first * 8) {
                continue;
            }
            *used = false;
            for at in first..first + WORDS {
                self.value(at).store(0, Ordering::Release);
                self.known(at).store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether every value of the page at a byte offset is 0.
    fn is_blank(&self, page: u64) -> bool {
        let mut bytes = [0; PAGE as usize];
        let slice = self.region.get_slice(page as usize, bytes.len());
        slice.is_ok_and(|slice| slice.read_slice(&mut bytes, 0).is_ok()) && bytes == [0; PAGE as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doorbells() -> Doorbells {
        Doorbells::new(MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory"))
            .expect("right size")
    }

    #[test]
    fn values_are_kept_in_the_page() {
        let doorbells = doorbells();
        doorbells.store(0x58, 0x1_0000_0002, 8);
        assert_eq!(doorbells.load(0x58), 0x1_0000_0002);
        doorbells.store(0xbc4, 7, 4);
        assert_eq!(
            (doorbells.load(0xbc0), doorbells.load32(0xbc4), doorbells.load32(0xbc0)),
            (7 << 32, 7, 0)
        );
        doorbells.reset();
        assert_eq!(doorbells.load(0x58), 0);
    }

    #[test]
    fn value_taken_back_before_a_reset_is_not_found_after_it() {
        let doorbells = doorbells();
        assert_eq!(doorbells.store(0x58, 5, 8), None);
        doorbells.value(0x58 / 8).store(0, Ordering::Release);
        doorbells.reset();
        assert_eq!(doorbells.store(0x58, 7, 8), None, "nobody wrote since the reset");
    }

    /// Stores as a guest does that has the page mapped.
    fn store_behind(doorbells: &Doorbells, offset: u64, value: u64) {
        doorbells.value(offset / 8).store(value, Ordering::Release);
    }

    fn polled(value: u64) -> Rung {
        Rung { value, found: true }
    }

    fn trapped(value: u64) -> Rung {
        Rung { value, found: false }
    }

    #[test]
    fn ways_are_told_apart() {
        let doorbells = doorbells();
        doorbells.own(0x800, true);
        assert_eq!(doorbells.take(0x800), None);
        // An access, also with the value that is there already.
        for _ in 0..2 {
            assert_eq!(doorbells.store(0x2000, 5, 8), None);
            assert!(doorbells.is_rung(0x800));
            assert_eq!(doorbells.take(0x800), Some(trapped(5)));
            assert_eq!(doorbells.take(0x800), None);
        }
        // A store behind the device's back, and one that an access overwrites before anybody looks.
        store_behind(&doorbells, 0x2000, 6);
        assert_eq!(doorbells.take(0x800), Some(polled(6)));
        store_behind(&doorbells, 0x2000, 7);
        assert_eq!(doorbells.store(0x2000, 8, 8), Some(7));
        assert_eq!(doorbells.take(0x800), Some(trapped(8)));
        // Half an access, over a store.
        store_behind(&doorbells, 0x2000, 9);
        assert_eq!(doorbells.store(0x2004, 1, 4), Some(9));
        assert_eq!(doorbells.take(0x800), Some(trapped(1 << 32 | 9)));
        // An access, then a store: both.
        assert_eq!(doorbells.store(0x2000, 10, 8), None);
        store_behind(&doorbells, 0x2000, 11);
        assert_eq!(doorbells.take(0x800), Some(polled(11)));
        // Somebody says so.
        assert!(doorbells.note(0x2000) && !doorbells.note(0x2008) && !doorbells.note(DOORBELL_BAR_SIZE));
        assert_eq!(doorbells.take(0x800), Some(trapped(11)));
    }

    #[test]
    fn a_new_owner_is_not_rung_by_what_it_finds() {
        let doorbells = doorbells();
        store_behind(&doorbells, 0x2000, 9);
        doorbells.own(0x800, true);
        assert_eq!(doorbells.take(0x800), None);
        doorbells.replace(0x2000, 9, 3);
        assert_eq!((doorbells.take(0x800), doorbells.load(0x2000)), (None, 3));
        // Rung between the two looks: what was rung stays.
        store_behind(&doorbells, 0x2000, 4);
        doorbells.replace(0x2000, 3, 0);
        assert_eq!(doorbells.take(0x800), Some(polled(4)));
    }

    #[test]
    fn traps_are_never_taken_for_stores() {
        const RINGS: u64 = 200_000;
        let doorbells = doorbells();
        doorbells.own(0x800, true);
        std::thread::scope(|scope| {
            let ringing = scope.spawn(|| {
                for value in 1..=RINGS {
                    assert_eq!(doorbells.store(0x2000, value, 8), None, "at {value}");
                }
            });
            let mut last = 0;
            while last != RINGS {
                if let Some(Rung { value, found }) = doorbells.take(0x800) {
                    assert!(!found, "at {value}");
                    assert!(value >= last);
                    last = value;
                }
            }
            ringing.join().expect("no assertion of it failed");
        });
    }

    #[test]
    fn stores_are_counted_once_however_they_are_found() {
        // One thread stores behind the device's back and waits until that is known; another one traps on the same page,
        // and on the same doorbell. Each store is found either by looking or by the access that overwrites it.
        const STORES: u64 = 20_000;
        let doorbells = doorbells();
        doorbells.own(0x800, true);
        let (found, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=STORES {
                    store_behind(&doorbells, 0x2000, value);
                    while found.load(Ordering::Acquire) < value {
                        std::hint::spin_loop();
                    }
                }
                done.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                let mut trapped = 1 << 32;
                while !done.load(Ordering::Acquire) {
                    trapped += 1;
                    doorbells.store(0x2008, trapped, 8);
                    if trapped % 3 == 0 && doorbells.store(0x2000, trapped, 8).is_some() {
                        found.fetch_add(1, Ordering::AcqRel);
                    }
                    std::thread::yield_now();
                }
            });
            while !done.load(Ordering::Acquire) {
                if doorbells.take(0x800).is_some_and(|rung| rung.found) {
                    found.fetch_add(1, Ordering::AcqRel);
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(found.into_inner(), STORES);
    }

    #[test]
    fn listeners_hear_of_every_change_once() {
        #[derive(Default)]
        struct Heard(Mutex<Vec<(u64, bool)>>);
        impl DoorbellListener for Heard {
            fn listens(&self, offset: u64, listening: bool) {
                self.0.lock().expect("no panic").push((offset, listening));
            }
        }
        let heard = Arc::new(Heard::default());
        let doorbells = doorbells();
        doorbells.set_listener(heard.clone());
        doorbells.own_with_pointer(0x800);
        doorbells.own_with_pointer(0x800);
        doorbells.own_with_pointer(0x804);
        for owned in [false, false, true, false] {
            doorbells.own(0x804, owned);
        }
        doorbells.set_busy(0x800, true);
        assert!(doorbells.is_busy(0x2000) && !doorbells.is_busy(0x3000));
        assert_eq!(doorbells.of_page(0x2000).collect::<Vec<_>>(), [(0x2000, 0)]);
        doorbells.reset();
        assert!(!doorbells.is_busy(0x2000) && doorbells.of_page(0x2000).next().is_none());
        let expected = [(0x2000, true), (0x2010, true), (0x2010, false), (0x2000, false)];
        assert_eq!(*heard.0.lock().expect("no panic"), expected);
    }

    #[test]
    fn outside_of_the_bar_there_is_nothing() {
        let doorbells = doorbells();
        doorbells.store(DOORBELL_BAR_SIZE, 1, 8);
        assert_eq!(doorbells.load(DOORBELL_BAR_SIZE), 0);
        assert_eq!(doorbells.load(u64::MAX), 0);
    }

    #[test]
    fn ownership_is_per_doorbell() {
        let doorbells = doorbells();
        doorbells.own(0x16, true);
        assert!(doorbells.is_owned(0x58) && doorbells.is_owned(0x5c) && !doorbells.is_owned(0x60));
        doorbells.own(0x16, false);
        assert!(!doorbells.is_owned(0x58));
    }

    #[test]
    fn regions_of_the_wrong_size_are_refused() {
        assert_eq!(Doorbells::new(MmapRegion::new(4096).expect("anonymous memory")).err(), Some(4096));
    }
}
