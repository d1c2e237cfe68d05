//! A device that does one thing after the other: operations, which are turns of its own or calls of the host's.
//!
//! While the device is recorded, one thread takes its turns, and calls come from any thread of the host. Each
//! operation waits until the one before is over, of this device or of another one of the record. Time stands still
//! within an operation. `record` and `memory/mirror.rs` say when the device sees writes of processors. A replay does
//! the same operations in the same order on one thread (`replay.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
use crate::memory::{Memory, NoSuchPeer, Peer, SavedVram};
use crate::record::{Call, Entry, Journal, Operation, Recording, Witness, digest};
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
    /// Number of the device in the record.
    device: u8,
    time: TimeSource,
    state: Mutex<State, rank::Session>,
    /// Number of the device's last turn, among those of all devices of the record.
    last_turn: AtomicU64,
    /// True once the device's part of the record has ended.
    part_has_ended: AtomicBool,
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

/// Time between two operations: none of any device of the record begins.
pub(super) struct Between<'a> {
    state: MutexGuard<'a, State, rank::Session>,
    /// Released last.
    _operation: Operation<'a>,
}

impl Session {
    /// Makes operations of device number `device` of a journal, in this time; `doorbells` are the host's, while the device is recorded.
    pub(super) fn new(
        (journal, device): (Arc<Journal>, u8),
        time: TimeSource,
        doorbells: Option<DoorbellMirror>,
    ) -> Self {
        let state = State { begun: Instant::now(), now: Duration::ZERO, doorbells, operations: 0 };
        let [part_has_ended, ended] = [false; 2].map(AtomicBool::new);
        let (state, last_turn) = (Mutex::new(state), AtomicU64::new(0));
        Self { journal, device, time, state, last_turn, part_has_ended, ended }
    }

    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    pub(super) fn time(&self) -> &TimeSource {
        &self.time
    }

    /// The record, and the device's number there.
    pub(super) fn in_record(&self) -> (Arc<Journal>, u8) {
        (Arc::clone(&self.journal), self.device)
    }

    fn during<'a>(&'a self, operation: Operation<'a>) -> Between<'a> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Between { state, _operation: operation }
    }

    /// Waits until the current operation is over; no other begins until the guard is dropped.
    pub(super) fn between(&self) -> Between<'_> {
        self.during(self.journal.order().call())
    }

    /// Does an operation and records it.
    pub(super) fn operate<R>(
        &self,
        gpu: &Gpu,
        begin: impl FnOnce(u64) -> Entry,
        run: impl FnOnce() -> R,
    ) -> R {
        self.operate_in(&mut self.between().state, gpu, begin, run)
    }

    /// The beginning of a call.
    fn begins(&self, call: &Call) -> impl FnOnce(u64) -> Entry {
        let (device, call) = (self.device, call.clone());
        move |ns| Entry::Call { device, ns, call }
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
        self.operate(gpu, self.begins(call), || gpu.perform(call))
    }

    /// Sets another device of the record, or takes it away. Devices of other records are not there: their stores would be in neither.
    pub(super) fn set_peer(&self, gpu: &Gpu, number: u8, peer: Option<Peer>) -> Result<(), NoSuchPeer> {
        let known = peer.and_then(|peer| Some((peer.in_record(&self.journal)?, peer)));
        let call = Call::Peer { number, peer: known.as_ref().map(|(known, _)| *known) };
        self.operate(gpu, self.begins(&call), || gpu.meet(number, known.map(|(_, peer)| peer)))
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
        let mut between = self.during(self.journal.order().turn(&self.last_turn));
        if self.ended.load(Ordering::SeqCst) {
            return None;
        }
        let begin = |ns| Entry::Turn { device: self.device, ns };
        Some(self.operate_in(&mut between.state, gpu, begin, || gpu.take_turns()))
    }

    /// Ends the device's part of the record, once.
    fn end_part(&self) {
        if !self.part_has_ended.swap(true, Ordering::SeqCst) {
            self.journal.end();
        }
    }

    /// Ends the record here, while the device goes on.
    pub(super) fn end_record(&self, gpu: &Gpu) {
        let between = self.between();
        if self.journal.is_recording() && !self.ended.load(Ordering::SeqCst) {
            self.journal.output(&gpu.digests());
            self.end_part();
        }
        drop(between);
    }

    /// Stops the device, and ends its record.
    pub(super) fn end(&self, gpu: &Gpu) {
        let mut between = self.between();
        if !self.ended.swap(true, Ordering::SeqCst) {
            if self.journal.is_recording() {
                self.journal.output(&gpu.digests());
                let call = Call::Stop;
                // The end refuses nothing.
                let _ = self.operate_in(&mut between.state, gpu, self.begins(&call), || gpu.perform(&call));
                self.end_part();
            } else {
                self.journal.player(crate::record::Player::close);
                gpu.runner.stop();
            }
        }
        drop(between);
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
        let begun = {
            // Others of the record may be at work.
            let _between = journal.order().call();
            journal.begin(&head)
        };
        let number = begun.ok_or(Error::Recorded)?;
        let own = MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize);
        let own = own.map_err(|error| Error::Memory(error.to_string()))?;
        let Resources { vram, doorbells, system, interrupts } = resources;
        let host = DoorbellMirror::new(doorbells)
            .map_err(|actual| Error::DoorbellRegion { expected: pci::DOORBELL_BAR_SIZE, actual })?;
        let resources = Resources { vram, doorbells: own, system, interrupts };
        let page = host.page();
        let gpu = Arc::new(Self::in_session(config, resources, (journal, number), Some(host))?);
        gpu.own.store_to_host(page);
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
        (journal, device): (Arc<Journal>, u8),
        doorbells: Option<DoorbellMirror>,
    ) -> Result<Self, Error> {
        let time = TimeSource::recorded();
        let witness = Witness { journal: Arc::clone(&journal), next: config.trace };
        let config = GpuConfig { trace: Some(Arc::new(witness)), time: time.clone(), ..config };
        let clock = Clock::new(&time);
        let session = Session::new((journal, device), time, doorbells);
        Self::assemble(config, resources, clock, Some(session))
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
        let device = self.session.as_ref().map_or(0, |session| session.device);
        Entry::State { device, memory: self.memory_digest(), rest: digest(&bytes) }
    }

    /// Does a call of the host, within an operation; its answer is recorded or compared.
    pub(super) fn perform(&self, call: &Call) -> Result<Vec<u8>, IoError> {
        let answer = self.answer(call);
        self.answers(answer.as_ref().ok().cloned());
        answer
    }

    fn answers(&self, answer: Option<Vec<u8>>) {
        if let Some(session) = &self.session {
            session.journal.output(&Entry::Answer(answer));
        }
    }

    /// Sets another device of the record, or takes it away, within an operation.
    pub(super) fn meet(&self, number: u8, peer: Option<Peer>) -> Result<(), NoSuchPeer> {
        let result = self.memory.set_peer(number, peer);
        self.answers(result.is_ok().then(Vec::new));
        result
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
            Call::Place { vram, doorbells } => self.own.place(*vram, *doorbells),
            // A device knows no others; who has them does it (`meet`).
            Call::Peer { .. } => return Err(IoError::Unsupported { bar: u8::MAX, offset: 0, len: 0 }),
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
