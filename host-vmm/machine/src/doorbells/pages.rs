//! Pages of doorbells that are memory while they are rung often, and trap otherwise.
//!
//! A page that traps twice in a short time becomes memory of the guest, so that the next ring costs one store. A
//! thread looks at such pages and tells the device. Right after a ring it looks all the time. A page whose queues
//! have work stays memory for longer, and is looked at only now and then: a queue at work reads its write pointer
//! whenever a dispatch completes. A page without a ring for a while traps again, and the thread sleeps.
//!
//! A change costs the time that KVM takes to place or remove a slot: tens of microseconds, and up to some hundreds if
//! it has to wait for a vCPU. So single rings, far apart, go on trapping.
//!
//! [`belfry_device::handover`] explains why no doorbell is lost at a change.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci::DOORBELL_BAR_SIZE;
use belfry_device::Gpu;
use belfry_device::handover::{Handover, Page};
use belfry_lock::{Condvar, Mutex, MutexGuard, rank};
use kvm_bindings::{KVM_CAP_DISABLE_QUIRKS2, KVM_X86_QUIRK_SLOT_ZAP_ALL, kvm_enable_cap};
use kvm_ioctls::VmFd;

use super::is_process;
use crate::memory::Window;

const PAGE: u64 = 4096;
/// Number of pages that can be memory at one time; a process has two, and uses the first one for its first 512
/// queues.
pub(super) const WINDOWS: u32 = 16;

/// Times between looks, and until looks end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time after a ring during which the thread looks without a pause.
    pub(super) eager: Duration,
    /// Time between two looks after that, while queues have work.
    pub(super) nap: Duration,
    /// Time for which a page without work stays memory after a ring; also the longest time between two rings that
    /// make it memory.
    pub(super) idle: Duration,
    /// Time for which a page whose queues have work stays memory after a ring. After that an exit is cheaper: it is
    /// paid once, and the ring is known at once.
    pub(super) busy: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            eager: Duration::from_micros(200),
            nap: Duration::from_micros(50),
            idle: Duration::from_millis(1),
            busy: Duration::from_millis(10),
        }
    }
}

/// Place for one page in the guest's memory.
pub(in super::super) trait Slot: Send {
    /// Puts a length from an offset in the BAR on at a guest address, or takes it away.
    fn place(&mut self, at: Option<(u64, u64, u64)>) -> io::Result<()>;
}

impl Slot for Window {
    fn place(&mut self, at: Option<(u64, u64, u64)>) -> io::Result<()> {
        Self::place(self, at)
    }
}

/// Questions to the device.
pub(in super::super) trait Device: Send + Sync {
    /// Returns the doorbells that queues on a page listen to, and their values.
    fn doorbells(&self, page: u64) -> impl Iterator<Item = (DoorbellOffset, u64)>;
    /// Returns true if those queues have work.
    fn has_work(&self, page: u64) -> bool;
    /// Makes the device look at the values.
    fn look(&self);
}

impl Device for Arc<Gpu> {
    fn doorbells(&self, page: u64) -> impl Iterator<Item = (DoorbellOffset, u64)> {
        Gpu::doorbells(self, page)
    }

    fn has_work(&self, page: u64) -> bool {
        Gpu::has_work(self, page)
    }

    fn look(&self) {
        self.doorbell_hint();
    }
}

/// Disables a part of KVM's default behaviour: dropping the translations of the whole guest whenever a slot is taken
/// away (Linux 6.12 and later can do without).
pub(super) fn keep_other_translations(vm: &VmFd) {
    let quirk = u64::from(KVM_X86_QUIRK_SLOT_ZAP_ALL);
    let known = vm.check_extension_raw(KVM_CAP_DISABLE_QUIRKS2.into());
    if u64::try_from(known).is_ok_and(|known| known & quirk != 0) {
        let mut cap = kvm_enable_cap { cap: KVM_CAP_DISABLE_QUIRKS2, ..Default::default() };
        cap.args[0] = quirk;
        if let Err(error) = vm.enable_cap(&cap) {
            log::debug!(target: "kvm", "pages of doorbells change slowly: {error}");
        }
    }
}

/// Doorbells and values of one page, in order.
type Values = Vec<(DoorbellOffset, u64)>;

/// A page during an operation on it.
struct At<'a, S, D> {
    slot: &'a mut S,
    device: &'a D,
    base: Option<u64>,
    offset: u64,
}

impl<S: Slot, D: Device> Page for At<'_, S, D> {
    type Values = Values;

    fn values(&self) -> Values {
        self.device.doorbells(self.offset).collect()
    }

    fn differs(&self, last: &mut Values) -> bool {
        let (mut differs, mut count) = (false, 0);
        for now in self.device.doorbells(self.offset) {
            match last.get_mut(count) {
                Some(last) => {
                    differs |= *last != now;
                    *last = now;
                }
                None => {
                    differs = true;
                    last.push(now);
                }
            }
            count += 1;
        }
        // If queues have gone, there is nothing new.
        last.truncate(count);
        differs
    }

    fn give(&mut self) -> bool {
        let Some(base) = self.base else { return false };
        let placed = self.slot.place(Some((base + self.offset, self.offset, PAGE)));
        if let Err(error) = &placed {
            log::debug!(target: "kvm", "doorbells keep trapping: {error}");
        }
        placed.is_ok()
    }

    fn take(&mut self) -> bool {
        let taken = self.slot.place(None);
        if let Err(error) = &taken {
            log::error!(target: "kvm", "a page of doorbells cannot be made to trap: {error}");
        }
        taken.is_ok()
    }

    fn tell(&self) {
        self.device.look();
    }
}

/// A page that is memory.
#[derive(Debug)]
struct Held {
    offset: u64,
    handover: Handover<Values>,
    rung: Instant,
}

#[derive(Debug)]
struct State<S> {
    /// Guest address of the BAR.
    base: Option<u64>,
    slots: Vec<(S, Option<Held>)>,
    stopped: bool,
}

/// Time of the next look.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Next {
    AtOnce,
    After(Duration),
    WhenTold,
}

/// The pages of the doorbell BAR.
#[derive(Debug)]
pub(in super::super) struct Pages<S, D> {
    device: D,
    pace: Pace,
    start: Instant,
    /// Time at which each page last trapped, in nanoseconds from the start; 0: never.
    trapped: Box<[AtomicU64]>,
    state: Mutex<State<S>, rank::PagesState>,
    changed: Condvar,
}

impl<S: Slot, D: Device> Pages<S, D> {
    pub(super) fn new(slots: Vec<S>, device: D, pace: Pace) -> Arc<Self> {
        let slots = slots.into_iter().map(|slot| (slot, None)).collect();
        let state = Mutex::new(State { base: None, slots, stopped: false });
        let trapped = (0..DOORBELL_BAR_SIZE / PAGE).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { device, pace, start: Instant::now(), trapped, state, changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State<S>, rank::PagesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of pages that are memory.
    #[cfg(test)]
    pub(in super::super) fn held(&self) -> usize {
        self.lock().slots.iter().filter(|(_, held)| held.is_some()).count()
    }

    pub(super) fn set_base(&self, base: Option<u64>) {
        let mut state = self.lock();
        if state.base == base {
            return;
        }
        state.base = base;
        self.take_all(&mut state);
    }

    /// Takes every page away, and tells the device the rings on it.
    fn take_all(&self, state: &mut State<S>) {
        for (slot, held) in &mut state.slots {
            if let Some(mut page) = held.take() {
                let mut at = At { slot, device: &self.device, base: state.base, offset: page.offset };
                if !page.handover.end(&mut at) {
                    *held = Some(page);
                }
            }
        }
    }

    /// Makes all pages trap.
    pub(super) fn settle(&self) {
        self.take_all(&mut self.lock());
    }

    /// Takes a trapped ring: the next rings on its page are likely to come soon.
    pub(super) fn rung(&self, offset: u64) {
        if !is_process(offset) {
            return;
        }
        let page = offset & !(PAGE - 1);
        let now = self.start.elapsed().as_nanos() as u64;
        let before = self.trapped[(page / PAGE) as usize].swap(now.max(1), Ordering::Relaxed);
        if before == 0 || now.saturating_sub(before) > self.pace.idle.as_nanos() as u64 {
            return;
        }
        // A page without a listening queue needs no looks.
        if self.device.doorbells(page).all(|(bell, _)| bell != DoorbellOffset::from_bytes(offset).whole()) {
            return;
        }
        // If pages are changing now, this one can wait: it traps again.
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let State { base, slots, stopped } = &mut *state;
        if *stopped || slots.iter().any(|(_, held)| held.as_ref().is_some_and(|held| held.offset == page)) {
            return;
        }
        let Some((slot, held)) = slots.iter_mut().find(|(_, held)| held.is_none()) else { return };
        let mut at = At { slot, device: &self.device, base: *base, offset: page };
        if let Some(handover) = Handover::begin(&mut at) {
            *held = Some(Held { offset: page, handover, rung: Instant::now() });
            self.changed.notify_one();
        }
    }

    /// Looks at the pages that are memory, and takes away those that have no need to be.
    fn look(&self, state: &mut State<S>) -> Next {
        let mut next = Next::WhenTold;
        let now = Instant::now();
        for (slot, held) in &mut state.slots {
            let Some(page) = held else { continue };
            let mut at = At { slot, device: &self.device, base: state.base, offset: page.offset };
            if page.handover.look(&at) {
                page.rung = now;
            }
            let quiet = now.duration_since(page.rung);
            let works = self.device.has_work(page.offset);
            let stays = if works { self.pace.busy } else { self.pace.idle };
            let wanted = quiet < stays && self.device.doorbells(page.offset).next().is_some();
            let soon = if !wanted {
                if page.handover.end(&mut at) {
                    *held = None;
                    continue;
                }
                Next::After(self.pace.idle)
            } else if works && quiet >= self.pace.eager {
                Next::After(self.pace.nap)
            } else {
                Next::AtOnce
            };
            next = next.min(soon);
        }
        next
    }

    /// Looks until stopped.
    pub(super) fn watch(&self) {
        let mut state = self.lock();
        while !state.stopped {
            state = match self.look(&mut state) {
                Next::AtOnce => {
                    drop(state);
                    // The thread that rings may need this processor.
                    std::thread::yield_now();
                    self.lock()
                }
                Next::After(nap) => {
                    self.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0
                }
                Next::WhenTold => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.set_base(None);
        self.changed.notify_one();
    }
}
