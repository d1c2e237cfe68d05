//! A device that does one thing after the other: operations, which are turns of its own or calls of the host's.
//!
//! While the device is recorded, one thread takes its turns, and calls come from any thread of the host. Each
//! operation waits until the one before is over. Time stands still within an operation. `record` and
//! `memory/mirror.rs` say when the device sees writes of processors. A replay does the same operations in the
//! same order on one thread (`replay.rs`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci;
use belfry_lock::{Mutex, MutexGuard, ThisDevice, rank};
use serde::{Deserialize, Serialize};
use vm_memory::MmapRegion;

use super::save::SavedConfig;
use super::{Gpu, ResetKind, Resources};
use crate::config::GpuConfig;
use crate::doorbell::DoorbellMirror;
use crate::error::Error;
use crate::firmware::Turn;
use crate::interrupt::InterruptSink;
use crate::io::{IoError, IoResult};
use crate::memory::{Memory, SavedVram};
use crate::record::{Call, Entry, Journal, Recording, Witness, digest};
use crate::runner;
use crate::threads::patience::Patience;
use crate::threads::processors::processors;
use crate::time::{Clock, TimeSource};

/// Most turns at waves in one operation.
const TURNS: usize = 16;
/// Operations after which the digest of memory is noted.
const CHECK: u64 = 1024;

/// Most bytes of a read of registers or doorbells; one access takes 8.
const MOST_READ: usize = 4096;

/// The device of a record.
#[derive(Deserialize, Serialize)]
pub(super) struct Head {
    /// Release of the program.
    pub(super) program: String,
    pub(super) config: SavedConfig,
    /// Text of its plan of faults.
    pub(super) faults: String,
}

/// Release of this program.
pub(super) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A sink of interrupts that first writes the device's stores from its copy to memory.
pub(super) struct AfterStores {
    pub(super) memory: Arc<Memory>,
    pub(super) next: Arc<dyn InterruptSink>,
}

impl InterruptSink for AfterStores {
    fn raise(&self, vector: u16) {
        self.memory.flush();
        self.next.raise(vector);
    }

    fn set_pin(&self, asserted: bool) {
        self.memory.flush();
        self.next.set_pin(asserted);
    }
}

/// Operations of a device that is recorded or replayed.
pub(super) struct Session {
    journal: Arc<Journal>,
    time: TimeSource,
    state: Mutex<State, rank::Session>,
    /// Calls that wait for their operation: the thread lets them pass.
    visitors: AtomicUsize,
    ended: AtomicBool,
}

pub(super) struct State {
    begun: Instant,
    /// Time of the device.
    now: Duration,
    /// The host's doorbells; a replay has none.
    doorbells: Option<DoorbellMirror>,
    operations: u64,
}

impl Session {
    /// Makes operations of a journal, in this time; `doorbells` are the host's, while the device is recorded.
    pub(super) fn new(journal: Arc<Journal>, time: TimeSource, doorbells: Option<DoorbellMirror>) -> Self {
        let state = State { begun: Instant::now(), now: Duration::ZERO, doorbells, operations: 0 };
        Self {
            journal,
            time,
            state: Mutex::new(state),
            visitors: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    pub(super) fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Waits until the current operation is over; no other begins until the guard is dropped.
    pub(super) fn between(&self) -> MutexGuard<'_, State, rank::Session> {
        self.visitors.fetch_add(1, Ordering::SeqCst);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.visitors.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// Does an operation and records it.
    fn operate<R>(&self, gpu: &Gpu, begin: impl FnOnce(u64) -> Entry, run: impl FnOnce() -> R) -> R {
        self.operate_in(&mut self.between(), gpu, begin, run)
    }

    fn operate_in<R>(
        &self,
        state: &mut State,
        gpu: &Gpu,
        begin: impl FnOnce(u64) -> Entry,
        run: impl FnOnce() -> R,
    ) -> R {
        let passed = state.begun.elapsed().saturating_sub(state.now);
        state.now += passed;
        self.time.advance(passed);
        self.journal.note(&begin(passed.as_nanos() as u64));
        gpu.begin_operation();
        if let Some(mirror) = &mut state.doorbells {
            for (at, value) in mirror.look(&gpu.doorbells) {
                self.journal.note(&Entry::Doorbell { at, value });
            }
        }
        let result = run();
        gpu.memory.flush();
        if let Some(mirror) = &mut state.doorbells {
            mirror.show(&gpu.doorbells);
        }
        state.operations += 1;
        if state.operations.is_multiple_of(CHECK) {
            self.journal.output(&Entry::Check { memory: gpu.memory_digest() });
        }
        result
    }

    /// Calls the device, and returns its answer.
    pub(super) fn call(&self, gpu: &Gpu, call: &Call) -> Result<Vec<u8>, IoError> {
        self.operate(gpu, |ns| Entry::Call { ns, call: call.clone() }, || gpu.perform(call))
    }

    /// Calls the device for a call that has no answer.
    pub(super) fn tell(&self, gpu: &Gpu, call: &Call) {
        // A call that has no answer cannot be refused.
        let _ = self.call(gpu, call);
        gpu.wake.wake();
    }

    /// Calls the device for a read.
    pub(super) fn read(&self, gpu: &Gpu, call: &Call, data: &mut [u8]) -> IoResult {
        let answer = self.call(gpu, call)?;
        let len = data.len().min(answer.len());
        data[..len].copy_from_slice(&answer[..len]);
        Ok(())
    }

    /// Takes a turn of the device itself; `None` at its end.
    fn turn(&self, gpu: &Gpu) -> Option<Turn> {
        while self.visitors.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ended.load(Ordering::SeqCst) {
            return None;
        }
        Some(self.operate_in(&mut state, gpu, |ns| Entry::Turn { ns }, || gpu.take_turns()))
    }

    /// Ends the record here, while the device goes on.
    pub(super) fn end_record(&self, gpu: &Gpu) {
        let between = self.between();
        if self.journal.is_recording() && !self.ended.load(Ordering::SeqCst) {
            self.journal.output(&gpu.digests());
            self.journal.end();
        }
        drop(between);
    }

    /// Stops the device, and ends its record.
    pub(super) fn end(&self, gpu: &Gpu) {
        let mut state = self.between();
        if !self.ended.swap(true, Ordering::SeqCst) {
            if self.journal.is_recording() {
                self.journal.output(&gpu.digests());
                let call = Call::Stop;
                let begin = |ns| Entry::Call { ns, call: call.clone() };
                // The end refuses nothing.
                let _ = self.operate_in(&mut state, gpu, begin, || gpu.perform(&call));
                self.journal.end();
            } else {
                self.journal.player(crate::record::Player::close);
                gpu.runner.stop();
            }
        }
        drop(state);
        gpu.wake.wake();
    }
}

/// Takes a device's turns until it is gone.
fn run(gpu: &Weak<Gpu>) {
    let mut patience = Patience::new(processors());
    loop {
        let Some(gpu) = gpu.upgrade() else { return };
        let turn = gpu.session.as_ref().and_then(|session| session.turn(&gpu));
        let wake = Arc::clone(&gpu.wake);
        drop(gpu);
        let Some(turn) = turn else { return };
        runner::wait(&wake, turn, &mut patience);
    }
}

impl Gpu {
    /// A device that is recorded.
    pub(super) fn new_recorded(
        config: GpuConfig,
        resources: Resources,
        recording: &Recording,
    ) -> Result<Arc<Self>, Error> {
        config.validate().map_err(Error::Config)?;
        let journal = Arc::clone(recording.journal());
        let config = GpuConfig { deterministic: config.deterministic.or(Some(0)), ..config };
        let faults = config.faults.to_string();
        let head = Head { program: PROGRAM.to_owned(), config: SavedConfig::of(&config), faults };
        let head = postcard::to_allocvec(&head).map_err(|error| Error::Memory(error.to_string()))?;
        if !journal.begin(&head) {
            return Err(Error::Recorded);
        }
        let own = MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize);
        let own = own.map_err(|error| Error::Memory(error.to_string()))?;
        let Resources { vram, doorbells, system, interrupts } = resources;
        let host = DoorbellMirror::new(doorbells)
            .map_err(|actual| Error::DoorbellRegion { expected: pci::DOORBELL_BAR_SIZE, actual })?;
        let resources = Resources { vram, doorbells: own, system, interrupts };
        let gpu = Arc::new(Self::in_session(config, resources, journal, Some(host))?);
        gpu.work_on_caller();
        if let Some(session) = &gpu.session {
            session.tell(&gpu, &Call::Start(gpu.memory.installed()));
        }
        let _on = gpu.on_device();
        let (weak, device) = (Arc::downgrade(&gpu), ThisDevice::current());
        let run = move || {
            let _on = device.enter();
            run(&weak);
        };
        let thread = std::thread::Builder::new().name("gpu-recorded".into()).spawn(run);
        let thread = thread.map_err(Error::Thread)?;
        *gpu.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(gpu)
    }

    /// A device that works in operations, and has done nothing yet.
    pub(super) fn in_session(
        config: GpuConfig,
        resources: Resources,
        journal: Arc<Journal>,
        doorbells: Option<DoorbellMirror>,
    ) -> Result<Self, Error> {
        let time = TimeSource::recorded();
        let witness = Witness { journal: Arc::clone(&journal), next: config.trace };
        let config = GpuConfig { trace: Some(Arc::new(witness)), time: time.clone(), ..config };
        let clock = Clock::new(&time);
        Self::assemble(config, resources, clock, Some(Session::new(journal, time, doorbells)))
    }

    /// Begins an operation: memory that was read before may have changed.
    pub(super) fn begin_operation(&self) {
        if let Some(mirror) = self.memory.mirror() {
            mirror.begin();
            self.memory.look_for_flush();
        }
    }

    /// Serves everything once, and takes some turns at waves; returns when the next turn is due.
    pub(super) fn take_turns(&self) -> Turn {
        let turn = self.runner.pass_until();
        let taken = (0..TURNS).take_while(|_| self.shader.turn()).count();
        if taken > 0 { Turn::Now } else { turn }
    }

    /// The digest of all memory that the device has seen.
    pub(super) fn memory_digest(&self) -> u64 {
        self.memory.mirror().map_or(0, crate::memory::Mirror::digest)
    }

    /// The digests of the whole device.
    pub(super) fn digests(&self) -> Entry {
        let saved = self.save_with(|| Some(SavedVram::default()), |saved| saved);
        let bytes = saved.and_then(|saved| saved.to_bytes()).unwrap_or_default();
        Entry::State { memory: self.memory_digest(), rest: digest(&bytes) }
    }

    /// Does a call of the host, within an operation; its answer is recorded or compared.
    pub(super) fn perform(&self, call: &Call) -> Result<Vec<u8>, IoError> {
        let answer = self.answer(call);
        if let Some(session) = &self.session {
            session.journal.output(&Entry::Answer(answer.as_ref().ok().cloned()));
        }
        answer
    }

    fn answer(&self, call: &Call) -> Result<Vec<u8>, IoError> {
        match call {
            Call::BarRead { bar, offset, len } => {
                let bytes = *len as usize;
                self.check(*bar, *offset, bytes)?;
                if *bar == pci::BAR_VRAM || bytes > MOST_READ {
                    return Err(IoError::Unsupported { bar: *bar, offset: *offset, len: bytes });
                }
                let mut data = vec![0; *len as usize];
                self.answer_read(*bar, *offset, &mut data)?;
                return Ok(data);
            }
            Call::ConfigRead { offset, len } => {
                let mut data = vec![0; (*len as usize).min(pci::CONFIG_SPACE_SIZE)];
                self.answer_config_read(*offset as usize, &mut data);
                return Ok(data);
            }
            Call::BarWrite { bar, offset, data } => {
                self.check(*bar, *offset, data.len())?;
                self.answer_write(*bar, *offset, data)?;
            }
            Call::ConfigWrite { offset, data } => self.answer_config_write(*offset as usize, data),
            Call::Start(ranges) => {
                self.take_memory(ranges);
                self.place_tables();
            }
            Call::Memory(ranges) => {
                self.take_memory(ranges);
            }
            Call::Reset { system } => {
                self.reset_now(if *system { ResetKind::System } else { ResetKind::Flr });
            }
            Call::DoorbellHint => self.take_hint(),
            Call::DoorbellWoken { offset, writes } => {
                self.take_writes(DoorbellOffset::from_bytes(*offset), *writes);
            }
            Call::Pause => self.runner.pause(),
            Call::Resume => self.resume_now(),
            Call::Stop => self.runner.stop(),
        }
        Ok(Vec::new())
    }

    fn take_memory(&self, ranges: &[(u64, u64)]) {
        if self.session.as_ref().is_some_and(|session| session.journal.is_recording()) {
            self.memory.changed();
        } else if let Some(mirror) = self.memory.mirror() {
            mirror.set_ranges(ranges.to_vec());
        }
    }
}
