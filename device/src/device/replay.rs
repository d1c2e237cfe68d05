//! A record, done again by the device alone.

use std::io::Read;
use std::sync::Arc;

use belfry_abi::pci;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::session::{Head, PROGRAM};
use super::{Gpu, Resources};
use crate::config::GpuConfig;
use crate::faults::PlanError;
use crate::record::{Entry, Journal, Player, Progress, RecordError, Stopped, Until};
use crate::trace::TraceSink;

/// A device that does again what a record says, without a host, and compares itself with the record.
///
/// The record may come from anywhere: what is wrong with it is an error, and takes memory in proportion to what the device of
/// the record accesses.
#[derive(Debug)]
pub struct Replay {
    gpu: Arc<Gpu>,
    journal: Arc<Journal>,
}

/// Where a replay has come to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replayed {
    /// Turns of the device and calls of the host's.
    pub operations: u64,
    /// Events of the device.
    pub events: u64,
    /// Number of the last event, or of the one that it has stopped at, from 1 on.
    pub event: u64,
    /// That event, in words.
    pub last: String,
    /// The digest of all memory that the device has seen.
    pub memory: u64,
    /// Whether the record is over.
    pub at_end: bool,
}

impl Replay {
    /// Makes the device of a record; `trace` is told its events.
    ///
    /// # Errors
    ///
    /// Bytes that are no record, one of another program, or of a device that cannot be.
    pub fn open(
        record: impl Read + Send + 'static,
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
        let region = |size| MmapRegion::new(size).map_err(|error| RecordError::Device(error.to_string()));
        let resources = Resources {
            vram: region(config.vram_size as usize)?,
            doorbells: region(pci::DOORBELL_BAR_SIZE as usize)?,
            system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            interrupts: Arc::new(DropsInterrupts),
        };
        let config = GpuConfig { trace, faults, ..config };
        let gpu = Gpu::in_session(config, resources, Arc::clone(&journal), None);
        let gpu = Arc::new(gpu.map_err(|error| RecordError::Device(error.to_string()))?);
        gpu.work_on_caller();
        Ok(Self { gpu, journal })
    }

    /// The device, where the replay has left it.
    #[must_use]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Goes on to the end of the record, or until the operation is over that this event is in.
    ///
    /// # Errors
    ///
    /// A record that is damaged or ends early, an event that it does not have, and the first difference from it.
    pub fn run(&mut self, until: Option<Until>) -> Result<Replayed, RecordError> {
        self.player(|player| player.stop_at(until));
        let stopped = loop {
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

    fn player<R>(&self, ask: impl FnOnce(&mut Player) -> R) -> Option<R> {
        self.journal.player(ask)
    }

    /// Does the next operation again.
    fn step(&mut self) -> Result<(), Stopped> {
        let entry = self.player(Player::operation).unwrap_or(Err(Stopped::AtEnd))?;
        let Some(session) = &self.gpu.session else { return Err(Stopped::AtEnd) };
        let ns = match &entry {
            Entry::Turn { ns } | Entry::Call { ns, .. } => *ns,
            _ => {
                self.journal.output(&self.gpu.digests());
                return Ok(());
            }
        };
        session.time().advance(std::time::Duration::from_nanos(ns));
        self.gpu.begin_operation();
        while let Some((at, value)) = self.player(Player::doorbell).flatten() {
            self.gpu.doorbells.found(at, value);
        }
        if let Entry::Call { call, .. } = &entry {
            // Whether it was refused is compared.
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
