//! Signals: 64-bit values that processor and GPU change, compare, and wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use belfry_abi::kfd::event::{EventData, KFD_IOC_WAIT_RESULT_COMPLETE};
use belfry_abi::signal::{
    AMD_SIGNAL_KIND_USER, AmdSignal, SIGNAL_END_TS_OFFSET, SIGNAL_START_TS_OFFSET, SIGNAL_VALUE_OFFSET,
};
use zerocopy::FromZeros;

use crate::kfd::KfdError;
use crate::memory::{Allocation, HostAccess, MemoryError, MemoryKind};
use crate::process::{Event, MemoryFault, Process, Slot};
use crate::reservation::PAGE;

/// Why a wait ended without its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The time given is over; the signal's last value is here.
    #[error("the wait timed out with the signal at {0}")]
    Timeout(i64),
    /// The GPU met a memory fault, which ends all work of the process.
    #[error("{0}")]
    MemoryFault(MemoryFault),
}

/// Condition on a signal's value that ends a wait (`hsa_signal_condition_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The value equals the operand.
    Equal(i64),
    /// The value differs from the operand.
    NotEqual(i64),
    /// The value is less than the operand.
    Less(i64),
    /// The value is the operand or more.
    AtLeast(i64),
}

impl Condition {
    /// True if `value` fulfils the condition.
    pub fn holds(self, value: i64) -> bool {
        match self {
            Self::Equal(operand) => value == operand,
            Self::NotEqual(operand) => value != operand,
            Self::Less(operand) => value < operand,
            Self::AtLeast(operand) => value >= operand,
        }
    }
}

/// A signal: clones share one value.
///
/// The packet processor decrements completion signals by one and waits for dependency signals to become zero.
#[derive(Debug, Clone)]
pub struct Signal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    process: Arc<Process>,
    /// `None` only while dropping.
    slot: Option<Slot>,
    auto_reset: bool,
    waiters: AtomicU32,
}

impl Inner {
    fn slot(&self) -> &Slot {
        // PANIC: only `drop` takes the slot.
        self.slot.as_ref().expect("a live signal has a slot")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.process.free_slots(self.auto_reset).push(slot);
        }
    }
}

impl Signal {
    pub(crate) fn new(process: &Arc<Process>, value: i64) -> Result<Self, MemoryError> {
        Self::with_reset(process, value, true)
    }

    /// A signal whose event stays set until [`reset_event`](Self::reset_event): every waiter sees it.
    pub(crate) fn manual_reset(process: &Arc<Process>, value: i64) -> Result<Self, MemoryError> {
        let signal = Self::with_reset(process, value, false)?;
        signal.clear_event();
        Ok(signal)
    }

    fn with_reset(process: &Arc<Process>, value: i64, auto_reset: bool) -> Result<Self, MemoryError> {
        let free = process.free_slots(auto_reset).pop();
        let slot = match free {
            Some(slot) => slot,
            None => new_slot(process, auto_reset)?,
        };
        let mut memory = AmdSignal::new_zeroed();
        memory.kind = AMD_SIGNAL_KIND_USER;
        memory.value = value;
        memory.event_mailbox_ptr = slot.mailbox;
        memory.event_id = slot.event.as_ref().map_or(0, |event| event.id);
        slot.page.write(slot.offset, &memory);
        let inner =
            Inner { process: Arc::clone(process), slot: Some(slot), auto_reset, waiters: AtomicU32::new(0) };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn atomic(&self) -> &AtomicI64 {
        let slot = self.inner.slot();
        slot.page.atomic_i64(slot.offset + SIGNAL_VALUE_OFFSET as usize)
    }

    /// The current value, with everything that happened before it was stored.
    pub fn load(&self) -> i64 {
        self.atomic().load(Ordering::SeqCst)
    }

    /// Stores a value and wakes threads that wait for it.
    pub fn store(&self, value: i64) {
        self.atomic().store(value, Ordering::SeqCst);
        self.notify();
    }

    /// Adds to the value, returns the old value, and wakes threads that wait for it.
    pub fn add(&self, value: i64) -> i64 {
        let old = self.atomic().fetch_add(value, Ordering::SeqCst);
        self.notify();
        old
    }

    /// Subtracts from the value, returns the old value, and wakes threads that wait for it.
    pub fn subtract(&self, value: i64) -> i64 {
        self.add(value.wrapping_neg())
    }

    pub(crate) fn compare_exchange(&self, old: i64, new: i64) -> bool {
        self.atomic().compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// GPU code sees stores by itself; only sleeping threads need the event.
    fn notify(&self) {
        let slot = self.inner.slot();
        if self.inner.waiters.load(Ordering::SeqCst) > 0
            && let Some(event) = &slot.event
            && let Err(error) = self.inner.process.kfd.set_event(event.id)
        {
            log::warn!("event {}: {error}", event.id);
        }
    }

    /// Clears the event that goes with the signal, so that [`wait_event`](Self::wait_event) waits for the next interrupt.
    ///
    /// # Errors
    ///
    /// As for the driver's ioctl.
    pub fn reset_event(&self) -> Result<(), KfdError> {
        match &self.inner.slot().event {
            Some(event) => self.inner.process.kfd.reset_event(event.id),
            None => Ok(()),
        }
    }

    pub(crate) fn clear_event(&self) {
        if let Err(error) = self.reset_event() {
            log::warn!("the event of a signal: {error}");
        }
    }

    /// Sleeps until the signal's event is set, with any value, or until the time has passed. Returns true if
    /// the event is set. For programs with a loop of their own: [`wait`](Self::wait) looks at the value, and
    /// misses nothing. For a signal without an event it returns false at once.
    ///
    /// # Errors
    ///
    /// As for the driver's ioctl.
    pub fn wait_event(&self, timeout: Option<Duration>) -> Result<bool, KfdError> {
        let Some(event) = &self.inner.slot().event else { return Ok(false) };
        // Without an age: earlier events are not asked for.
        let mut data = EventData::new_zeroed();
        data.event_id = event.id;
        let milliseconds = timeout.map_or(u32::MAX, |timeout| {
            u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).min(u32::MAX - 1)
        });
        let result = self.inner.process.kfd.wait_events(&mut [data], milliseconds)?;
        Ok(result == KFD_IOC_WAIT_RESULT_COMPLETE)
    }

    /// Waits until the condition holds; forever without a timeout. Returns the value that fulfilled it.
    ///
    /// # Errors
    ///
    /// [`SignalError::Timeout`] and [`SignalError::MemoryFault`].
    pub fn wait(&self, condition: Condition, timeout: Option<Duration>) -> Result<i64, SignalError> {
        let process = &self.inner.process;
        let outcome = self.wait_with(&[], timeout, || {
            let value = self.load();
            if condition.holds(value) {
                return Some(Ok(value));
            }
            process.fault().map(|fault| Err(SignalError::MemoryFault(fault)))
        });
        outcome.unwrap_or_else(|| Err(SignalError::Timeout(self.load())))
    }

    /// Sleeps on this signal and on others until `ready` has an answer; `None` at the timeout.
    pub(crate) fn wait_with<R>(
        &self,
        others: &[&Signal],
        timeout: Option<Duration>,
        ready: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let all = || std::iter::once(self).chain(others.iter().copied());
        for signal in all() {
            signal.inner.waiters.fetch_add(1, Ordering::SeqCst);
        }
        let events: Vec<&Event> = all().filter_map(|signal| signal.inner.slot().event.as_ref()).collect();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let answer = self.inner.process.wait(&events, deadline, ready);
        for signal in all() {
            signal.inner.waiters.fetch_sub(1, Ordering::SeqCst);
        }
        answer
    }

    /// Address of the `amd_signal_t`, which is the signal's handle in packets.
    pub fn handle(&self) -> u64 {
        let slot = self.inner.slot();
        slot.page.address() + slot.offset as u64
    }

    /// Address at which the GPU writes the number of the signal's event before it raises the event's
    /// interrupt, and that number; `None` for a signal that the driver had no event for.
    pub(crate) fn mailbox(&self) -> Option<(u64, u32)> {
        let slot = self.inner.slot();
        slot.event.as_ref().map(|event| (slot.mailbox, event.id))
    }

    /// Start and end of the last packet that completed this signal, in ticks of the GPU clock (100 MHz).
    pub fn timestamps(&self) -> (u64, u64) {
        let slot = self.inner.slot();
        let read = |offset: u64| slot.page.atomic_u64(slot.offset + offset as usize).load(Ordering::Acquire);
        (read(SIGNAL_START_TS_OFFSET), read(SIGNAL_END_TS_OFFSET))
    }
}

/// Makes a page of slots, each with its event while the driver has some; all but one go to the pool.
fn new_slot(process: &Arc<Process>, auto_reset: bool) -> Result<Slot, MemoryError> {
    let page = Allocation::new(&process.kfd, &process.gpus, MemoryKind::Gtt, HostAccess::ReadWrite, PAGE)?;
    let page = Arc::new(page);
    let mut slots: Vec<Slot> = (0..PAGE / size_of::<AmdSignal>())
        .map(|index| {
            let created = process.create_event(auto_reset);
            let (event, mailbox) = created.map_or((None, 0), |(event, mailbox)| (Some(event), mailbox));
            Slot { page: Arc::clone(&page), offset: index * size_of::<AmdSignal>(), event, mailbox }
        })
        .collect();
    // PANIC: a page holds 64 signals.
    let first = slots.pop().expect("a page holds signals");
    process.free_slots(auto_reset).append(&mut slots);
    Ok(first)
}
