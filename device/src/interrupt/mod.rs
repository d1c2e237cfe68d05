//! Interrupts: entries in the interrupt handler's ring, and the vector raised at the host.
//!
//! The ring lies in VMID 0's address space and is set up by the `IH_RB_*` registers. An entry is written, then the write
//! pointer (in the register and in memory), then the vector is raised: a driver that takes the interrupt finds the entry.

mod ih_ring;
mod retry;
mod save;
mod seen;
mod sources;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use belfry_abi::ih::{Client, IhEntry, Source};
use belfry_abi::regs::Offset;
use belfry_lock::{Mutex, MutexGuard, rank};

use crate::config::MsixTable;
use crate::doorbell::{Doorbells, InterruptDoorbell};
use crate::faults::Rule;
use crate::guest_error::GuestError;
use crate::moments::{Moment, Verdict};
use crate::pci::{Msix, SharedControl};
use crate::stats::{Counters, count};
use crate::tools::Tools;
use crate::trace::{Engine, Owner};
use crate::vm::{AddressSpace, Contexts};
use ih_ring::{IhRing, Lost, Pushed};
use retry::{Retry, Told};
pub(crate) use save::SavedInterrupts;
pub use seen::SeenIhRing;
pub(crate) use sources::Sources;

/// Receiver of the device's interrupts: an irqfd, a vfio-user eventfd, a driver in the same process, a counter in a test.
pub trait InterruptSink: Send + Sync {
    /// Raises a vector, edge-triggered; called from any thread of the device, and must not call back into it.
    fn raise(&self, vector: u16);

    /// Asserts or releases the interrupt pin, which is level-triggered; called as [`raise`](Self::raise) is, and only if
    /// the device is configured to have one.
    fn set_pin(&self, asserted: bool) {
        let _ = asserted;
    }
}

/// The vector of all interrupts: amdgpu and drivers like it ask for one.
const VECTOR: u16 = 0;

/// A source that no driver handles.
const NOBODYS: Source = Source(0xff);

/// Number of the ring for faults that are tried again.
const RETRY_RING: u8 = 1;

struct State {
    ring: IhRing,
    /// Ring 1 and its filter, on chips whose waves wait for pages.
    retry: Option<Retry>,
    msix: Msix,
    /// State of the pin that the host knows.
    pin: bool,
    /// The kernel's address space as the last entry found it, and the value of [`Contexts::changes`] at that time. It
    /// only saves a look-up.
    kernel: Option<(u64, Arc<AddressSpace>)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("ring", &self.ring)
            .field("retry", &self.retry)
            .field("msix", &self.msix)
            .field("pin", &self.pin)
            .finish()
    }
}

/// The interrupt handler block with its rings and vectors.
pub(crate) struct Interrupts {
    state: Mutex<State, rank::Interrupts>,
    sink: Arc<dyn InterruptSink>,
    table: MsixTable,
    has_pin: bool,
    /// True if entries wait to be read and the function has a pin to report them.
    pin_pending: AtomicBool,
    counters: Arc<Counters>,
    tools: Tools,
    /// True if read pointer updates may come without being seen, so every entry raises the vector.
    unseen_rptr: bool,
    /// Configuration that decides if and how a vector leaves the function.
    control: Arc<SharedControl>,
    /// Owners of doorbells, which follow the registers of this block.
    doorbells: Arc<Doorbells>,
    /// Vectors that are held back, each with the time at which it is due.
    late: Mutex<Vec<(Duration, u16)>, rank::LateVectors>,
}

impl std::fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupts")
            .field("state", &*self.lock())
            .field("pin_pending", &self.pin_pending)
            .field("control", &self.control.get())
            .finish_non_exhaustive()
    }
}

impl Interrupts {
    pub(crate) fn new(
        sink: Arc<dyn InterruptSink>,
        (table, has_pin, retries): (MsixTable, bool, bool),
        counters: Arc<Counters>,
        tools: Tools,
        unseen_rptr: bool,
        (control, doorbells): (Arc<SharedControl>, Arc<Doorbells>),
    ) -> Self {
        let retry = retries.then(Retry::default);
        let state = State { ring: IhRing::default(), retry, msix: Msix::new(), pin: false, kernel: None };
        Self {
            state: Mutex::new(state),
            sink,
            table,
            has_pin,
            pin_pending: AtomicBool::new(false),
            counters,
            tools,
            unseen_rptr,
            control,
            doorbells,
            late: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Interrupts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on a change of configuration space. After the call, all interrupts follow the new configuration.
    pub(crate) fn control_changed(&self) {
        let mut state = self.lock();
        self.raise_pending(&mut state);
        self.update_pin(&mut state);
    }

    /// Returns true if the pin would be asserted, were it not for messages or the command register.
    pub(crate) fn pin_pending(&self) -> bool {
        self.pin_pending.load(Ordering::SeqCst)
    }

    /// Asserts the pin while there are entries to read and messages are off.
    fn update_pin(&self, state: &mut State) {
        if !self.has_pin {
            return;
        }
        let pending = state.ring.has_entries() && state.ring.interrupts_enabled();
        self.pin_pending.store(pending, Ordering::SeqCst);
        let control = self.control.get();
        let asserted =
            pending && !control.pin_disabled() && !control.msi_enabled() && !control.msix_enabled();
        if asserted != state.pin {
            state.pin = asserted;
            if asserted {
                count(&self.counters.interrupts);
                self.tools.tell(|| Moment::Raised { vector: VECTOR }.on(Engine::Ih));
            }
            self.sink.set_pin(asserted);
        }
    }

    /// Reads a register of the block, if it belongs to a ring or to the retry filter.
    pub(crate) fn read_register(&self, at: Offset) -> Option<u32> {
        let state = self.lock();
        state.ring.read(at).or_else(|| state.retry.as_ref()?.read(at))
    }

    /// Writes a register of the block; `false` if it is not one of them.
    pub(crate) fn write_register(&self, at: Offset, value: u32) -> bool {
        let mut state = self.lock();
        if state.retry.as_mut().is_some_and(|retry| retry.write(at, value)) {
            self.own_doorbells(&state);
            return true;
        }
        let known = state.ring.write(at, value);
        self.own_doorbells(&state);
        if known && state.ring.wants_interrupt_after_rptr(at) {
            self.raise(&mut state);
        }
        self.update_pin(&mut state);
        known
    }

    /// Tells the owners of doorbells which are this block's, by its registers.
    fn own_doorbells(&self, state: &State) {
        let retry = state.retry.as_ref();
        self.doorbells.set_interrupts([
            state.ring.rptr_doorbell(),
            retry.and_then(|retry| retry.ring.rptr_doorbell()),
            retry.and_then(Retry::acknowledge_doorbell),
        ]);
    }

    /// Takes the value that was written to a doorbell. Returns VMID and page that may be reported again, if it gives
    /// back an entry of the retry filter.
    pub(crate) fn rung(&self, which: InterruptDoorbell, value: u32) -> Option<(u8, u64)> {
        match which {
            InterruptDoorbell::Rptr => self.set_rptr(value),
            InterruptDoorbell::RetryRptr => {
                if let Some(retry) = &mut self.lock().retry {
                    retry.ring.set_rptr(value);
                }
            }
            InterruptDoorbell::RetryAcknowledge => return self.acknowledge_retry(value),
        }
        None
    }

    /// Gives an entry of the retry filter back. Returns its VMID and page, which may be reported again.
    pub(crate) fn acknowledge_retry(&self, index: u32) -> Option<(u8, u64)> {
        let told = self.lock().retry.as_mut()?.release(index)?;
        Some((told.vmid, told.page))
    }

    /// Reports a page that a wave waits for, unless the filter keeps it back: in ring 1 if that is on.
    pub(crate) fn push_retry(&self, space: Option<&AddressSpace>, mut entry: IhEntry, clock: u64) {
        entry.timestamp_lo = clock as u32;
        entry.timestamp_hi = (clock >> 32) as u32 & 0xffff;
        let told = Told { vmid: entry.vmid(), pasid: entry.pasid(), page: entry.fault_page() };
        let mut state = self.lock();
        let Some(retry) = &mut state.retry else {
            drop(state);
            return self.push(space, entry, clock);
        };
        let Some(index) = retry.admit(told) else { return };
        entry.data[2] |= index;
        let is_on = retry.ring.is_on();
        let time = self.tools.time();
        let pushed = match space {
            Some(space) if self.control.bus_master() && is_on => retry.ring.push(space, &entry),
            Some(space) if self.control.bus_master() => state.ring.push(space, &entry),
            _ => Pushed::Lost(Lost::NotBusMaster),
        };
        if matches!(pushed, Pushed::Lost(_))
            && let Some(retry) = &mut state.retry
        {
            retry.release(index);
        }
        match pushed {
            // The fault comes again.
            Pushed::Lost(Lost::Full) if is_on => {}
            Pushed::Stored { .. } if is_on => {
                count(&self.counters.ih_entries);
                drop(state);
                self.push(space, IhEntry::new(Client::IH, Source(0), RETRY_RING, 0, 0), clock);
            }
            pushed => self.told(&mut state, (&entry, time), pushed),
        }
    }

    /// Takes a read pointer of ring 0.
    pub(crate) fn set_rptr(&self, rptr: u32) {
        let mut state = self.lock();
        if state.ring.set_rptr(rptr) {
            self.raise(&mut state);
        }
        self.update_pin(&mut state);
    }

    /// Writes an entry to the ring, stamped with `clock` (100 MHz ticks), and raises the vector as the ring asks for.
    pub(crate) fn push(&self, space: Option<&AddressSpace>, entry: IhEntry, clock: u64) {
        self.push_locked(&mut self.lock(), space, entry, clock);
    }

    /// Writes an entry to the ring in the kernel's address space, which is looked up again if it may have changed.
    pub(crate) fn push_to_kernel(&self, contexts: &Contexts, entry: IhEntry, clock: u64) {
        // Read before the look-up: if a change comes after it, the next entry looks again.
        let changes = contexts.changes();
        let mut state = self.lock();
        let mut kernel = state.kernel.take().filter(|(at, _)| *at == changes);
        if kernel.is_none() {
            // The locks of contexts are taken before this one.
            drop(state);
            kernel = contexts.space(0).map(|space| (changes, space));
            state = self.lock();
        }
        self.push_locked(&mut state, kernel.as_ref().map(|(_, space)| &**space), entry, clock);
        state.kernel = kernel;
    }

    fn push_locked(&self, state: &mut State, space: Option<&AddressSpace>, mut entry: IhEntry, clock: u64) {
        entry.timestamp_lo = clock as u32;
        entry.timestamp_hi = (clock >> 32) as u32 & 0xffff;
        if self.tools.may_strike() {
            self.strike_entry(state, space, &entry);
        }
        let overflow = state.ring.overflow;
        let time = self.tools.time();
        let pushed = match space {
            Some(space) if self.control.bus_master() => state.ring.push(space, &entry),
            _ => Pushed::Lost(Lost::NotBusMaster),
        };
        if state.ring.overflow && !overflow {
            let text = "the interrupt ring is full, and its oldest entry is overwritten";
            self.counters.tell(GuestError::InterruptLost, format_args!("{text}"));
        }
        self.told(state, (&entry, time), pushed);
    }

    /// Applies the faults that are due before an entry is written.
    fn strike_entry(&self, state: &mut State, space: Option<&AddressSpace>, entry: &IhEntry) {
        let (client, source) = (entry.client().0, entry.source().0);
        match self.tools.at(|| Moment::Entry { client, source }.of(owner(entry))) {
            Verdict::Strike(Rule::InterruptSpurious) => self.raise(state),
            Verdict::Strike(Rule::IhOverflow) => {
                let space = space.filter(|_| self.control.bus_master());
                let Some((space, entries)) = space.zip(state.ring.entries()) else { return };
                let mut interrupts = false;
                for _ in 0..entries {
                    let filler = IhEntry::new(Client::IH, NOBODYS, 0, 0, 0);
                    let pushed = state.ring.push(space, &filler);
                    interrupts |= matches!(pushed, Pushed::Stored { interrupt: true });
                }
                if interrupts {
                    self.raise(state);
                }
            }
            _ => {}
        }
    }

    /// Raises the interrupt of an entry that is in ring 0, or counts one that is lost. A trace gets the time before the
    /// entry was written, because a driver that reads the ring at that moment may handle the entry at once.
    fn told(&self, state: &mut State, (entry, time): (&IhEntry, Option<Duration>), pushed: Pushed) {
        match pushed {
            Pushed::Stored { interrupt } => {
                count(&self.counters.ih_entries);
                if let Some(time) = time {
                    let (client, source) = (entry.client().0, entry.source().0);
                    let context = entry.data[0];
                    let moment = Moment::EntryWritten { client, source, context, time };
                    self.tools.tell(|| moment.of(owner(entry)));
                }
                if interrupt || (self.unseen_rptr && state.ring.interrupts_enabled()) {
                    self.raise(state);
                }
                self.update_pin(state);
            }
            Pushed::Lost(why) => {
                count(&self.counters.ih_lost);
                let (client, source) = (entry.client().0, entry.source().0);
                self.counters.error(
                    GuestError::InterruptLost,
                    format_args!("client={client:#x} source={source} reason={why}"),
                );
            }
        }
    }

    fn raise(&self, state: &mut State) {
        let control = self.control.get();
        if !control.bus_master() {
            return;
        }
        if self.table == MsixTable::Device {
            if control.msix_enabled() {
                if control.msix_masked() || state.msix.is_masked(VECTOR) {
                    state.msix.set_pending(VECTOR);
                    return;
                }
            } else if !control.msi_enabled() {
                return;
            }
        }
        self.raise_vector(VECTOR);
    }

    fn raise_vector(&self, vector: u16) {
        if self.tools.is_removed() {
            return;
        }
        match self.tools.at(|| Moment::Message.on(Engine::Ih)) {
            Verdict::Lose => return,
            Verdict::Delay(until) => {
                self.late.lock().unwrap_or_else(PoisonError::into_inner).push((until, vector));
                self.tools.faults().look_again();
                return;
            }
            Verdict::Twice => self.send(vector),
            _ => {}
        }
        self.send(vector);
    }

    /// Raises the vectors that were held back and are due.
    pub(crate) fn raise_late(&self) {
        let due: Vec<_> = {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.extract_if(.., |(until, _)| self.tools.is_over(*until)).collect()
        };
        for (_, vector) in due {
            self.send(vector);
        }
    }

    fn send(&self, vector: u16) {
        count(&self.counters.interrupts);
        self.tools.tell(|| Moment::Raised { vector }.on(Engine::Ih));
        self.sink.raise(vector);
    }

    fn raise_pending(&self, state: &mut State) {
        let control = self.control.get();
        if self.table == MsixTable::Device
            && control.bus_master()
            && control.msix_enabled()
            && !control.msix_masked()
        {
            for vector in state.msix.take_pending() {
                self.raise_vector(vector);
            }
        }
    }

    /// Reads the MSI-X table or pending bits at a byte offset in BAR5.
    pub(crate) fn read_msix(&self, offset: u64, data: &mut [u8]) {
        self.lock().msix.read(offset, data);
    }

    /// Writes the MSI-X table.
    pub(crate) fn write_msix(&self, offset: u64, data: &[u8]) {
        let mut state = self.lock();
        state.msix.write(offset, data);
        self.raise_pending(&mut state);
    }

    /// Resets to power on: ring off, vectors masked.
    pub(crate) fn reset(&self) {
        let mut state = self.lock();
        state.ring = IhRing::default();
        state.retry = state.retry.take().map(|_| Retry::default());
        state.msix = Msix::new();
        self.own_doorbells(&state);
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.update_pin(&mut state);
    }
}

/// The owner of an entry.
fn owner(entry: &IhEntry) -> Owner {
    Owner { pasid: entry.pasid().into(), vmid: entry.vmid(), ..Owner::of(Engine::Ih) }
}
