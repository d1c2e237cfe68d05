//! Events: what programs wait for (`kfd_events.c`).

mod show;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::kfd::event::{
    CreateEventArgs, EventData, HwExceptionData, KFD_EVENT_TIMEOUT_INFINITE, KFD_FIRST_NONSIGNAL_EVENT_ID,
    KFD_IOC_EVENT_DEBUG_EVENT, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_SIGNAL,
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT,
    KFD_NONSIGNAL_EVENT_ID_END, KFD_SIGNAL_EVENT_LIMIT, MemoryExceptionData, UNSIGNALED_EVENT_SLOT,
};
use belfry_abi::kfd::mmap::KFD_MMAP_TYPE_EVENTS;
use zerocopy::IntoBytes;

use crate::errno::{Errno, Result};
use crate::gart::quad;
use crate::object::SystemMemory;
use crate::os::{Backing, Clock, LockRank, Os, WaitOutcome, WaitQueue};
use crate::sync::Mutex;

/// Signals a process may have before it has given a signal page (what Linux allots for compatibility).
const SIGNALS_WITHOUT_PAGE: u32 = 256;

/// A wait in progress on one event: which wait, and the event's place in it.
type Waiter = (u64, u32);

struct Event {
    kind: u32,
    auto_reset: bool,
    signaled: bool,
    /// Counts settings, starts at 1 and is never 0.
    age: u64,
    memory: MemoryExceptionData,
    hw: HwExceptionData,
    waiters: Vec<Waiter>,
}

impl Event {
    fn is_signal(&self) -> bool {
        self.kind == KFD_IOC_EVENT_SIGNAL || self.kind == KFD_IOC_EVENT_DEBUG_EVENT
    }
}

/// One call of WAIT_EVENTS: which of its events came, which were destroyed.
struct Wait {
    activated: Vec<bool>,
    destroyed: bool,
}

struct Table<O: Os> {
    events: BTreeMap<u32, Event>,
    waits: BTreeMap<u64, Wait>,
    next_wait: u64,
    signals: u32,
    page: Option<Arc<SystemMemory<O>>>,
    hw_exception: Option<HwExceptionData>,
    /// The process is gone: there is nothing to wait for, and nothing may be added.
    closed: bool,
}

impl<O: Os> Table<O> {
    /// Sets an event and activates the waits on it (`set_event`).
    fn set(&mut self, id: u32) {
        let Some(event) = self.events.get_mut(&id) else { return };
        event.signaled = !event.auto_reset || event.waiters.is_empty();
        event.age = event.age.wrapping_add(1).max(2);
        for (wait, place) in &event.waiters {
            if let Some(activated) =
                self.waits.get_mut(wait).and_then(|wait| wait.activated.get_mut(*place as usize))
            {
                *activated = true;
            }
        }
    }

    /// Takes back and sets a signal event if the GPU wrote its slot. Returns whether it did.
    fn take_slot(&mut self, id: u32) -> bool {
        let Some(page) = &self.page else { return false };
        let slot = quad(page.pages(), id as usize * 8);
        if slot.load(Ordering::Acquire) == UNSIGNALED_EVENT_SLOT {
            return false;
        }
        if !self.events.get(&id).is_some_and(Event::is_signal) {
            return false;
        }
        slot.store(UNSIGNALED_EVENT_SLOT, Ordering::Release);
        self.set(id);
        true
    }

    /// Takes back and sets the events of all slots that the GPU wrote. Returns whether there was one.
    fn scan(&mut self) -> bool {
        let mut any = false;
        let mut next = 0;
        while let Some(id) = self.written_from(next) {
            any |= self.take_slot(id);
            next = id + 1;
        }
        any
    }

    /// Returns the first event from this one on whose slot the GPU wrote. A program may have thousands of events, and an interrupt
    /// whose slot was taken already looks at all of them: this loop only reads.
    fn written_from(&self, next: u32) -> Option<u32> {
        let pages = self.page.as_ref()?.pages();
        let mut ids = self.events.range(next..KFD_SIGNAL_EVENT_LIMIT).map(|(&id, _)| id);
        ids.find(|&id| quad(pages, id as usize * 8).load(Ordering::Acquire) != UNSIGNALED_EVENT_SLOT)
    }

    fn free_id(&self, range: core::ops::Range<u32>) -> Option<u32> {
        let mut candidate = range.start;
        for &id in self.events.range(range.clone()).map(|(id, _)| id) {
            if id != candidate {
                break;
            }
            candidate += 1;
        }
        Some(candidate).filter(|id| range.contains(id))
    }

    fn complete(&self, wait: u64, all: bool) -> bool {
        let Some(wait) = self.waits.get(&wait) else { return false };
        if all || wait.activated.is_empty() {
            wait.activated.iter().all(|&activated| activated)
        } else {
            wait.activated.contains(&true)
        }
    }
}

/// The events of one process.
pub(crate) struct Events<O: Os> {
    table: Mutex<O, Table<O>>,
    queue: O::WaitQueue,
}

/// End of WAIT_EVENTS: the result word, and the answer of the call.
pub(crate) struct WaitEnd {
    pub(crate) result: u32,
    pub(crate) error: Option<Errno>,
    /// Milliseconds left, to be written back when a signal interrupted the wait.
    pub(crate) remaining_ms: Option<u32>,
}

impl<O: Os> Events<O> {
    pub(crate) fn new(os: &O) -> Result<Self> {
        let table = Table {
            events: BTreeMap::new(),
            waits: BTreeMap::new(),
            next_wait: 0,
            signals: 0,
            page: None,
            hw_exception: None,
            closed: false,
        };
        Ok(Self { table: Mutex::new(os, LockRank::Events, table)?, queue: os.wait_queue_new()? })
    }

    /// Makes a buffer object the signal page; all slots become unsignaled.
    ///
    /// # Errors
    ///
    /// `EBUSY` when there is one already, `EINVAL` when the buffer object is too small.
    pub(crate) fn set_page(&self, page: Arc<SystemMemory<O>>) -> Result<()> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if table.page.is_some() {
            return Err(Errno::EBUSY);
        }
        if page.size() < u64::from(KFD_SIGNAL_EVENT_LIMIT) * 8 {
            return Err(Errno::EINVAL);
        }
        for slot in 0..KFD_SIGNAL_EVENT_LIMIT as usize {
            quad(page.pages(), slot * 8).store(UNSIGNALED_EVENT_SLOT, Ordering::Relaxed);
        }
        table.page = Some(page);
        Ok(())
    }

    pub(crate) fn has_page(&self) -> bool {
        self.table.lock().page.is_some()
    }

    /// Makes an event and fills the outputs of `args`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when the slots or ids are used up, `ENODEV` when the process was torn down.
    pub(crate) fn create(&self, args: &mut CreateEventArgs) -> Result<()> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        let signal = matches!(args.event_type, KFD_IOC_EVENT_SIGNAL | KFD_IOC_EVENT_DEBUG_EVENT);
        let id = if signal {
            let limit = if table.page.is_some() { KFD_SIGNAL_EVENT_LIMIT } else { SIGNALS_WITHOUT_PAGE };
            // Id 0 stays free: a program takes it for "no event".
            table.free_id(1..limit)
        } else {
            table.free_id(KFD_FIRST_NONSIGNAL_EVENT_ID..KFD_NONSIGNAL_EVENT_ID_END)
        };
        let id = id.ok_or(Errno::ENOSPC)?;
        let mut event = Event {
            kind: args.event_type,
            auto_reset: args.auto_reset != 0,
            signaled: false,
            age: 1,
            memory: MemoryExceptionData::default(),
            hw: HwExceptionData::default(),
            waiters: Vec::new(),
        };
        if let (KFD_IOC_EVENT_HW_EXCEPTION, Some(data)) = (event.kind, table.hw_exception) {
            // The GPU was reset under this process already.
            event.hw = data;
            event.signaled = true;
        }
        table.events.insert(id, event);
        args.event_id = id;
        if signal {
            table.signals += 1;
            args.event_page_offset = KFD_MMAP_TYPE_EVENTS;
            args.event_trigger_data = id;
            args.event_slot_index = id;
        }
        Ok(())
    }

    /// Removes an event; waits on it fail.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown id.
    pub(crate) fn destroy(&self, id: u32) -> Result<()> {
        {
            let mut table = self.table.lock();
            let event = table.events.remove(&id).ok_or(Errno::EINVAL)?;
            if event.is_signal() {
                table.signals -= 1;
            }
            for (wait, _) in &event.waiters {
                if let Some(wait) = table.waits.get_mut(wait) {
                    wait.destroyed = true;
                }
            }
        }
        self.queue.wake_all();
        Ok(())
    }

    /// Sets a signal event.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown id or another type.
    pub(crate) fn set(&self, id: u32) -> Result<()> {
        {
            let mut table = self.table.lock();
            if !table.events.get(&id).is_some_and(Event::is_signal) {
                return Err(Errno::EINVAL);
            }
            table.set(id);
        }
        self.queue.wake_all();
        Ok(())
    }

    /// Resets a signal event.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown id or another type.
    pub(crate) fn reset(&self, id: u32) -> Result<()> {
        let mut table = self.table.lock();
        match table.events.get_mut(&id) {
            Some(event) if event.is_signal() => {
                event.signaled = false;
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Handles an interrupt that carries the event id `id` (`kfd_signal_event_interrupt`).
    ///
    /// If that slot was not written, all slots are looked at. `set` is called if any event was set, before a waiter can see that.
    pub(crate) fn interrupt(&self, id: u32, set: impl FnOnce()) {
        let any = {
            let mut table = self.table.lock();
            let any = (id < KFD_SIGNAL_EVENT_LIMIT && table.take_slot(id)) || table.scan();
            if any {
                set();
            }
            any
        };
        if any {
            self.queue.wake_all();
        }
    }

    /// Looks at all slots, after interrupts were lost.
    pub(crate) fn scan(&self) {
        if self.table.lock().scan() {
            self.queue.wake_all();
        }
    }

    fn set_all(&self, kind: u32, mut fill: impl FnMut(&mut Event)) -> bool {
        let mut any = false;
        {
            let mut table = self.table.lock();
            let mut next = KFD_FIRST_NONSIGNAL_EVENT_ID;
            while let Some((&id, event)) = table.events.range_mut(next..).next() {
                if event.kind == kind {
                    fill(event);
                    table.set(id);
                    any = true;
                }
                next = id + 1;
            }
        }
        self.queue.wake_all();
        any
    }

    /// Tells all memory events about a fault. Returns whether there was one to tell.
    pub(crate) fn memory_exception(&self, data: MemoryExceptionData) -> bool {
        self.set_all(KFD_IOC_EVENT_MEMORY, |event| event.memory = data)
    }

    /// Tells all hardware exception events about an error of the hardware after which the GPU was not reset.
    pub(crate) fn hw_error(&self, data: HwExceptionData) -> bool {
        self.set_all(KFD_IOC_EVENT_HW_EXCEPTION, |event| event.hw = data)
    }

    /// Tells all hardware exception events, present and future, about a reset.
    pub(crate) fn hw_exception(&self, data: HwExceptionData) -> bool {
        self.table.lock().hw_exception = Some(data);
        self.hw_error(data)
    }

    /// Enters a wait: every event that is there already is activated at once (`init_event_waiter`).
    fn enter(&self, events: &[EventData]) -> Result<u64> {
        let mut table = self.table.lock();
        let mut activated = Vec::new();
        activated.try_reserve_exact(events.len()).map_err(|_| Errno::ENOMEM)?;
        let id = table.next_wait;
        table.next_wait += 1;
        let mut failed = false;
        for (place, data) in events.iter().enumerate() {
            let Some(event) = table.events.get_mut(&data.event_id) else {
                failed = true;
                break;
            };
            let mut now = event.signaled;
            event.signaled &= !event.auto_reset;
            let age = u64::from_le_bytes(first_quad(&data.data));
            if event.kind == KFD_IOC_EVENT_SIGNAL && age != 0 && age != event.age {
                now = true;
            }
            if event.waiters.try_reserve(1).is_err() {
                failed = true;
                break;
            }
            event.waiters.push((id, place as u32));
            activated.push(now);
        }
        table.waits.insert(id, Wait { activated, destroyed: false });
        drop(table);
        if failed {
            self.leave(id, events, true);
            return Err(Errno::EINVAL);
        }
        Ok(id)
    }

    /// Leaves a wait; with `undo`, auto-reset events that were consumed are set again.
    fn leave(&self, id: u64, events: &[EventData], undo: bool) {
        let mut table = self.table.lock();
        let Some(wait) = table.waits.remove(&id) else { return };
        for (place, data) in events.iter().enumerate() {
            let Some(event) = table.events.get_mut(&data.event_id) else { continue };
            event.waiters.retain(|waiter| *waiter != (id, place as u32));
            if undo && event.auto_reset && wait.activated.get(place) == Some(&true) {
                event.signaled = true;
            }
        }
    }

    /// Copies what came with the activated events into `events` (`copy_signaled_event_data`).
    fn collect(&self, id: u64, events: &mut [EventData]) {
        let table = self.table.lock();
        let Some(wait) = table.waits.get(&id) else { return };
        for (data, _) in events.iter_mut().zip(&wait.activated).filter(|(_, activated)| **activated) {
            let Some(event) = table.events.get(&data.event_id) else { continue };
            match event.kind {
                KFD_IOC_EVENT_MEMORY => data.data.copy_from_slice(event.memory.as_bytes()),
                KFD_IOC_EVENT_HW_EXCEPTION => data.data[..16].copy_from_slice(event.hw.as_bytes()),
                KFD_IOC_EVENT_SIGNAL if first_quad(&data.data) != [0; 8] => {
                    data.data[..8].copy_from_slice(&event.age.to_le_bytes());
                }
                _ => {}
            }
        }
    }

    /// Waits for any or all of `events` for `timeout_ms` milliseconds and fills in what came with them.
    pub(crate) fn wait(&self, os: &O, events: &mut [EventData], all: bool, timeout_ms: u32) -> WaitEnd {
        let id = match self.enter(events) {
            Ok(id) => id,
            Err(error) => {
                return WaitEnd { result: KFD_IOC_WAIT_RESULT_FAIL, error: Some(error), remaining_ms: None };
            }
        };
        let start = os.clock_ns(Clock::MonotonicRaw);
        let total = (timeout_ms != KFD_EVENT_TIMEOUT_INFINITE).then(|| u64::from(timeout_ms) * 1_000_000);
        let end = loop {
            let ticket = self.queue.ticket();
            {
                let table = self.table.lock();
                if table.waits.get(&id).is_none_or(|wait| wait.destroyed) {
                    break WaitEnd {
                        result: KFD_IOC_WAIT_RESULT_FAIL,
                        error: Some(Errno::EIO),
                        remaining_ms: None,
                    };
                }
                if table.complete(id, all) {
                    break WaitEnd { result: KFD_IOC_WAIT_RESULT_COMPLETE, error: None, remaining_ms: None };
                }
            }
            let elapsed = os.clock_ns(Clock::MonotonicRaw).saturating_sub(start);
            let rest = total.map(|total| total.saturating_sub(elapsed));
            if rest == Some(0) {
                break WaitEnd { result: KFD_IOC_WAIT_RESULT_TIMEOUT, error: None, remaining_ms: None };
            }
            if self.queue.wait(ticket, rest) == WaitOutcome::Interrupted {
                break WaitEnd {
                    result: KFD_IOC_WAIT_RESULT_FAIL,
                    error: Some(Errno::ERESTARTSYS),
                    remaining_ms: rest.map(|rest| (rest / 1_000_000) as u32),
                };
            }
        };
        let complete = end.result == KFD_IOC_WAIT_RESULT_COMPLETE;
        if complete {
            self.collect(id, events);
        }
        self.leave(id, events, !complete);
        end
    }

    /// Ends all waits and forgets the signal page: the process is going away.
    pub(crate) fn shut_down(&self) {
        let page = {
            let mut table = self.table.lock();
            table.closed = true;
            for wait in table.waits.values_mut() {
                wait.destroyed = true;
            }
            table.events.clear();
            table.page.take()
        };
        drop(page);
        self.queue.wake_all();
    }
}

fn first_quad(data: &[u8; 32]) -> [u8; 8] {
    let mut quad = [0; 8];
    quad.copy_from_slice(&data[..8]);
    quad
}
