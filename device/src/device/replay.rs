//! Replay of a record by the device alone.

mod checkpoints;

use std::io::{Read, Seek};
use std::sync::Arc;
use std::time::Duration;

use belfry_abi::pci;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::session::{Head, PROGRAM};
use super::{Gpu, Resources, SavedGpu};
use crate::config::GpuConfig;
use crate::faults::PlanError;
use crate::record::{Entry, Journal, Place, Player, Progress, RecordError, Stopped, Until};
use crate::trace::TraceSink;
use checkpoints::{Checkpoint, Checkpoints};

/// A device that repeats a record without a host, and compares itself with the record.
///
/// The record may come from anywhere: a mistake in it is an error, and a replay takes memory in proportion to
/// the accesses of the recorded device.
#[derive(Debug)]
pub struct Replay {
    gpu: Arc<Gpu>,
    journal: Arc<Journal>,
    config: GpuConfig,
    /// The record's beginning, if the replay can go back to it.
    begin: Option<Place>,
    checkpoints: Option<Checkpoints>,
    /// Operations of all devices that it has had.
    done: u64,
}

/// Progress of a replay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replayed {
    /// Turns of the device and calls of the host's.
    pub operations: u64,
    /// Events of the device.
    pub events: u64,
    /// Number of the last event, or of the event to stop at once that is reached, from 1 on.
    pub event: u64,
    /// The event with that number, in words.
    pub last: String,
    /// The digest of all memory that the device has seen.
    pub memory: u64,
    /// True if the record is over.
    pub at_end: bool,
}

/// A device of a record that has done nothing yet.
fn device(config: &GpuConfig, journal: &Arc<Journal>) -> Result<Arc<Gpu>, RecordError> {
    let region = |size| MmapRegion::new(size).map_err(|error| RecordError::Device(error.to_string()));
    let resources = Resources {
        vram: region(config.vram_size as usize)?,
        doorbells: region(pci::DOORBELL_BAR_SIZE as usize)?,
        system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        interrupts: Arc::new(DropsInterrupts),
    };
    let gpu = Gpu::in_session(config.clone(), resources, Arc::clone(journal), None);
    let gpu = Arc::new(gpu.map_err(|error| RecordError::Device(error.to_string()))?);
    gpu.work_on_caller();
    Ok(gpu)
}

impl Replay {
    /// Makes the device of a record; `trace` gets its events, and gets them again after it has [gone
    /// back](Self::back_to).
    ///
    /// # Errors
    ///
    /// Bytes that are no record, one of another program, or of a device that cannot be.
    pub fn open(
        record: impl Read + Seek + Send + 'static,
        trace: Option<Arc<dyn TraceSink>>,
    ) -> Result<Self, RecordError> {
        let (journal, head) = Journal::open(record)?;
        let damaged = RecordError::Damaged { at: 16, what: "its configuration" };
        let head: Head = match postcard::take_from_bytes(&head) {
            Ok((head, [])) => head,
            _ => return Err(damaged),
        };
        if head.program != PROGRAM {
            return Err(RecordError::Program { found: head.program, expected: PROGRAM });
        }
        let config = head.config.checked().map_err(|error| RecordError::Config(error.to_string()))?;
        let faults =
            head.faults.parse().map_err(|error: PlanError| RecordError::Config(error.to_string()))?;
        let config = GpuConfig { trace, faults, ..config };
        let gpu = device(&config, &journal)?;
        let begin = journal.player(|player| player.place()).flatten();
        Ok(Self { gpu, journal, config, begin, checkpoints: None, done: 0 })
    }

    /// Keeps checkpoints from now on, which [`Self::back_to`] goes back to, in `bytes` bytes of memory and
    /// one checkpoint more.
    ///
    /// Later checkpoints are closer together than earlier ones. A device with faults has none, as its plan
    /// does not go back. The results are the same without them.
    pub fn keep_checkpoints(&mut self, bytes: u64) {
        let without = self.config.faults.rules().is_empty() && self.config.faults.chaos().is_none();
        self.checkpoints = (bytes > 0 && without).then(|| Checkpoints::new(bytes));
    }

    /// Number of checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.as_ref().map_or(0, Checkpoints::len)
    }

    /// Number of operations that were done, with repetitions.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The device at this point of the replay: another one after it has [gone back](Self::back_to).
    #[must_use]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Goes on to the end of the record, or to the end of the operation that this event is in.
    ///
    /// # Errors
    ///
    /// A record that is damaged or ends early, an event that it does not have or that is over, and the first difference from it.
    pub fn run(&mut self, until: Option<Until>) -> Result<Replayed, RecordError> {
        if let Some(until) = until
            && self.player(|player| player.is_behind(until)).unwrap_or_default()
        {
            return Err(RecordError::Behind(until.to_string()));
        }
        self.player(|player| player.stop_at(until));
        let stopped = loop {
            self.keep_checkpoint();
            match self.step() {
                Ok(()) => {}
                Err(stopped) => break stopped,
            }
        };
        if let Some(failure) = self.player(Player::take_failure).flatten() {
            return Err(failure);
        }
        if let Some(until) = until
            && stopped == Stopped::AtEnd
        {
            return Err(RecordError::NoEvent(until.to_string()));
        }
        let progress = self.player(|player| player.progress()).unwrap_or_default();
        let Progress { operations, events, event, last } = progress;
        let memory = self.gpu.memory_digest();
        Ok(Replayed { operations, events, event, last, memory, at_end: stopped == Stopped::AtEnd })
    }

    /// Goes back to the operation that an event is in, or forward: from the nearest checkpoint, or from the beginning of the record.
    ///
    /// The device is another one afterwards.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and a record that cannot be read again.
    pub fn back_to(&mut self, event: u64) -> Result<Replayed, RecordError> {
        let until = Some(Until { kind: None, number: event });
        if self.go_back(event).is_some_and(|went| went.is_ok()) {
            match self.run(until) {
                Err(RecordError::Diverged(divergence)) => {
                    log::warn!(target: "gpu::record", "a checkpoint was not enough to go on from: {divergence}");
                }
                result => return result,
            }
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.clear();
        }
        let unread = || RecordError::Device("it has begun already".to_owned());
        let begin = self.begin.clone().ok_or_else(unread)?;
        self.journal = self.journal.again(&begin)?;
        self.gpu = device(&self.config, &self.journal)?;
        self.player(Player::open);
        self.run(until)
    }

    /// Goes to the last checkpoint before an event, if there is one.
    fn go_back(&mut self, event: u64) -> Option<Result<(), RecordError>> {
        let place = self.checkpoints.as_mut()?.go_back(event)?.clone();
        Some(self.go_to(&place))
    }

    /// Makes the device of the last checkpoint, which is at this place.
    fn go_to(&mut self, place: &Place) -> Result<(), RecordError> {
        let failed = |error: &dyn std::fmt::Display| RecordError::Device(error.to_string());
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let Some(last) = checkpoints.last() else { return Ok(()) };
        self.journal = self.journal.again(place)?;
        let gpu = device(&self.config, &self.journal)?;
        if let (Some(mirror), Some(session)) = (gpu.memory.mirror(), &gpu.session) {
            checkpoints.put_memory(mirror);
            let saved = SavedGpu::from_bytes(&last.device).map_err(|error| failed(&error))?;
            // The session's time begins at 0, as the saved device's did.
            session.time().advance(saved.age());
            gpu.tools.tracer().set_epochs(&last.epochs);
            gpu.runner.pause();
            gpu.take_over(&saved).map_err(|error| failed(&error))?;
            gpu.resume_now();
        }
        self.gpu = gpu;
        self.player(Player::open);
        Ok(())
    }

    /// Keeps a checkpoint, if it is time for one and the device can be saved.
    fn keep_checkpoint(&mut self) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let due = |player: &mut Player| {
            let is_due = checkpoints.is_due(player.operations());
            is_due.then(|| player.place()).flatten()
        };
        let (Some(place), Some(mirror)) = (self.journal.player(due).flatten(), self.gpu.memory.mirror())
        else {
            return;
        };
        // A snapshot does not contain the work that a pause holds back, and a stopped device has no snapshot.
        if self.gpu.runner.is_paused() {
            return;
        }
        let saved = self.gpu.save_with(|| None, |saved| saved.to_bytes());
        if let Ok(Ok(device)) = saved {
            let epochs = self.gpu.tools.tracer().epochs();
            let (pages, ranges) = (mirror.take_changes(), mirror.ranges());
            checkpoints.add(Checkpoint { place, device, epochs, pages, ranges });
        }
    }

    fn player<R>(&self, ask: impl FnOnce(&mut Player) -> R) -> Option<R> {
        self.journal.player(ask)
    }

    /// Does the next operation again.
    fn step(&mut self) -> Result<(), Stopped> {
        let entry = self.player(Player::operation).unwrap_or(Err(Stopped::AtEnd))?;
        self.done += 1;
        let Some(session) = &self.gpu.session else { return Err(Stopped::AtEnd) };
        let ns = match &entry {
            Entry::Turn { ns } | Entry::Call { ns, .. } => *ns,
            _ => {
                self.journal.output(&self.gpu.digests());
                return Ok(());
            }
        };
        session.time().advance(Duration::from_nanos(ns));
        self.gpu.begin_operation();
        while let Some((at, value)) = self.player(Player::doorbell).flatten() {
            self.gpu.doorbells.found(at, value);
        }
        if let Entry::Call { call, .. } = &entry {
            // A refusal is compared, too.
            let _ = self.gpu.perform(call);
        } else {
            self.gpu.take_turns();
        }
        if self.player(Player::wants_check).unwrap_or_default() {
            self.journal.output(&Entry::Check { memory: self.gpu.memory_digest() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
