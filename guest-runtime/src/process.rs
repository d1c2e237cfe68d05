//! State that all agents of one process share: the event page, the pool of signals, and memory faults.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use belfry_abi::kfd::event::{
    EventData, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE,
    KFD_MEM_ERR_POISON_CONSUMED, KFD_SIGNAL_EVENT_LIMIT, MemoryExceptionData,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::kfd::{Kfd, KfdError};
use crate::memory::{Allocation, HostAccess, MemoryError, MemoryKind};

/// Time for which a waiter polls before it sleeps: longer than a small kernel takes, shorter than a time
/// slice.
const SPIN: Duration = Duration::from_micros(50);
/// Longest sleep without ages: a waiter that shares an auto-reset event can miss it, so it looks again.
const SLICE_WITHOUT_AGES_MS: u32 = 50;
/// Longest sleep with ages.
const SLICE_MS: u32 = 1000;
/// Pause between looks where there are no events to sleep on.
const POLL: Duration = Duration::from_micros(100);

/// Locks a mutex whose data stays valid even if a holder has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An access of the GPU that its page tables do not allow, or that finds memory with an error that cannot be corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryFault {
    /// Address, exact to the page; 0 for poison.
    pub address: u64,
    /// KFD's id of the GPU.
    pub gpu_id: u32,
    /// The page is mapped, but not writable.
    pub read_only: bool,
    /// The page is mapped, but not executable.
    pub no_execute: bool,
    /// A wave or an engine has read memory with an error that cannot be corrected (ECC).
    pub poison: bool,
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.poison {
            return f.write_str("memory with an error that cannot be corrected was read (ECC)");
        }
        let why = match (self.read_only, self.no_execute) {
            (true, _) => "the page is read-only",
            (_, true) => "the page is not executable",
            _ => "the page is not mapped",
        };
        write!(f, "memory access fault at {:#x} ({why})", self.address)
    }
}

/// A KFD event and the last age this process saw.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: u32,
    age: AtomicU64,
}

impl Event {
    fn new(id: u32) -> Self {
        // A fresh event has age 1; 0 would mean "do not compare".
        Self { id, age: AtomicU64::new(1) }
    }
}

#[derive(Debug)]
struct EventPage {
    page: Allocation,
    memory: Event,
}

/// Memory of one signal and the event that goes with it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) page: Arc<Allocation>,
    pub(crate) offset: usize,
    pub(crate) event: Option<Event>,
    pub(crate) mailbox: u64,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) kfd: Arc<Kfd>,
    /// KFD's ids of all GPUs.
    pub(crate) gpus: Vec<u32>,
    /// `None` where the driver has no events for this process: waits poll.
    events: Option<EventPage>,
    /// Free signal slots, auto-reset and manual-reset.
    free_slots: [Mutex<Vec<Slot>>; 2],
    fault: OnceLock<MemoryFault>,
    /// Limit of a wait that was given no time.
    limit: OnceLock<Duration>,
}

impl Process {
    /// Sets up the event page and the memory fault event.
    pub(crate) fn new(kfd: Arc<Kfd>, gpus: Vec<u32>) -> Result<Self, MemoryError> {
        let size = KFD_SIGNAL_EVENT_LIMIT as usize * size_of::<u64>();
        let page = Allocation::new(&kfd, &gpus, MemoryKind::Gtt, HostAccess::ReadWrite, size)?;
        let events = match kfd.create_event(KFD_IOC_EVENT_MEMORY, false, Some(page.handle())) {
            // The driver writes to the page until the process ends, and refuses to free it.
            Ok((id, _)) => Some(EventPage { page: page.into_immortal(), memory: Event::new(id) }),
            Err(error) => {
                log::warn!("no events, waits will poll: {error}");
                None
            }
        };
        Ok(Self {
            kfd,
            gpus,
            events,
            free_slots: Default::default(),
            fault: OnceLock::new(),
            limit: OnceLock::new(),
        })
    }

    /// Creates a signal event. Returns it and the address of its mailbox; `None` when there are no more.
    pub(crate) fn create_event(&self, auto_reset: bool) -> Option<(Event, u64)> {
        let events = self.events.as_ref()?;
        match self.kfd.create_event(KFD_IOC_EVENT_SIGNAL, auto_reset, None) {
            Ok((id, slot)) => {
                let mailbox = events.page.address() + u64::from(slot) * size_of::<u64>() as u64;
                Some((Event::new(id), mailbox))
            }
            Err(error) => {
                log::debug!("a signal goes without event: {error}");
                None
            }
        }
    }

    pub(crate) fn free_slots(&self, auto_reset: bool) -> MutexGuard<'_, Vec<Slot>> {
        lock(&self.free_slots[usize::from(auto_reset)])
    }

    /// The memory fault that ended this process's GPU work, if there was one.
    pub(crate) fn fault(&self) -> Option<MemoryFault> {
        self.fault.get().copied()
    }

    /// Has waits end that were given no time; the first limit counts.
    pub(crate) fn limit_waits(&self, limit: Duration) {
        let _ = self.limit.set(limit);
    }

    /// Limit of a wait that was given no time; `None`: for ever.
    pub(crate) fn wait_limit(&self) -> Option<Duration> {
        self.limit.get().copied()
    }

    /// Looks whether a memory fault was reported, for at most `wait`.
    pub(crate) fn poll_fault(&self, wait: Duration) -> Option<MemoryFault> {
        self.wait(&[], Some(Instant::now() + wait), || self.fault());
        self.fault()
    }

    /// Polls, then sleeps on the events and on memory faults, until `ready` has an answer or the deadline passes.
    ///
    /// `ready` is asked again after each wake-up, wanted or not.
    pub(crate) fn wait<R>(
        &self,
        events: &[&Event],
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let start = Instant::now();
        let deadline = deadline.or_else(|| start.checked_add(self.wait_limit()?));
        let expired = |now: Instant| deadline.is_some_and(|deadline| now >= deadline);
        loop {
            if let Some(answer) = ready() {
                return Some(answer);
            }
            let now = Instant::now();
            if expired(now) {
                return None;
            }
            if now - start >= SPIN {
                break;
            }
            std::thread::yield_now();
        }
        let mut broken = false;
        loop {
            let ages: Vec<u64> = events.iter().map(|event| event.age.load(Ordering::SeqCst)).collect();
            if let Some(answer) = ready() {
                return Some(answer);
            }
            let now = Instant::now();
            if expired(now) {
                return None;
            }
            let left = deadline.map_or(Duration::MAX, |deadline| deadline - now);
            if broken || self.events.is_none() {
                self.kfd.transport().pause(left.min(POLL));
                continue;
            }
            let slice = if self.kfd.has_event_age() { SLICE_MS } else { SLICE_WITHOUT_AGES_MS };
            let milliseconds = u32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u32::MAX).min(slice);
            if let Err(error) = self.sleep(events, &ages, milliseconds) {
                log::warn!("{error}; this wait polls");
                broken = true;
            }
        }
    }

    /// One WAIT_EVENTS on the given events and the memory fault event.
    fn sleep(&self, events: &[&Event], ages: &[u64], milliseconds: u32) -> Result<(), KfdError> {
        let Some(page) = &self.events else { return Ok(()) };
        let with_age = self.kfd.has_event_age();
        let mut data = vec![EventData::new_zeroed(); events.len() + 1];
        for (entry, (event, age)) in data.iter_mut().zip(events.iter().zip(ages)) {
            entry.event_id = event.id;
            if with_age {
                entry.data[..8].copy_from_slice(&age.to_le_bytes());
            }
        }
        data[events.len()].event_id = page.memory.id;
        if self.kfd.wait_events(&mut data, milliseconds)? != KFD_IOC_WAIT_RESULT_COMPLETE {
            return Ok(());
        }
        if with_age {
            for (entry, event) in data.iter().zip(events) {
                if let Ok((age, _)) = u64::read_from_prefix(entry.data.as_bytes()) {
                    event.age.fetch_max(age, Ordering::SeqCst);
                }
            }
        }
        if let Ok(exception) = MemoryExceptionData::read_from_bytes(&data[events.len()].data)
            && exception.gpu_id != 0
        {
            let _ = self.fault.set(MemoryFault {
                address: exception.va,
                gpu_id: exception.gpu_id,
                read_only: exception.failure.read_only != 0,
                no_execute: exception.failure.no_execute != 0,
                poison: exception.error_type == KFD_MEM_ERR_POISON_CONSUMED,
            });
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let slots = self.free_slots.iter().flat_map(|slots| std::mem::take(&mut *lock(slots)));
        let ids = slots.filter_map(|slot| slot.event.map(|event| event.id));
        for id in ids.chain(self.events.as_ref().map(|events| events.memory.id)) {
            if let Err(error) = self.kfd.destroy_event(id) {
                log::debug!("event {id}: {error}");
            }
        }
    }
}
