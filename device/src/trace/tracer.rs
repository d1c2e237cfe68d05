//! The recorder that all parts of a device use.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_lock::{Mutex, rank};

use super::record::{MAX_TEXT, Record};
use super::{Engine, Job, JobScope, Owner, TraceEvent, TraceSink, job};
use crate::time::Clock;

/// Records events if there is a sink; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    sink: Arc<dyn TraceSink>,
    clock: Clock,
    /// Number of queues that each doorbell has had.
    epochs: Mutex<BTreeMap<u32, u16>, rank::TraceEpochs>,
}

impl Tracer {
    /// Records to a sink, by a device's clock.
    #[must_use]
    pub fn new(sink: Option<Arc<dyn TraceSink>>, clock: &Clock) -> Self {
        if let Some(sink) = &sink {
            sink.begins(clock.start());
        }
        Self(sink.map(|sink| Arc::new(Inner { sink, clock: clock.clone(), epochs: Mutex::default() })))
    }

    /// Returns true if events are recorded.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The device's time; none while nothing is recorded.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        self.0.as_ref().map(|inner| inner.clock.now())
    }

    /// The sink.
    #[must_use]
    pub fn sink(&self) -> Option<&dyn TraceSink> {
        self.0.as_deref().map(|inner| &*inner.sink)
    }

    /// Records an event of this thread's job.
    pub fn event(&self, owner: Owner, event: TraceEvent<'_>) {
        if let Some(inner) = &self.0 {
            inner.record(job::current(), owner, &event);
        }
    }

    /// Records an event of this thread's job that happened at an earlier [`Self::time`].
    pub(crate) fn event_at(&self, time: Duration, owner: Owner, event: TraceEvent<'_>) {
        if let Some(inner) = &self.0 {
            inner.record_at(time, (job::current(), owner), &event);
        }
    }

    /// Records an event of an engine, and of the queue that the event names.
    pub fn of_engine(&self, engine: Engine, event: TraceEvent<'_>) {
        if let Some(inner) = &self.0 {
            inner.record(job::current(), event.owner(engine), &event);
        }
    }

    /// Records an event of a job.
    pub fn of_job(&self, job: Job, owner: Owner, event: TraceEvent<'_>) {
        if let Some(inner) = &self.0 {
            inner.record(job, owner, &event);
        }
    }

    /// Records a refusal; its words are made only here.
    pub(crate) fn refused(&self, name: &dyn std::fmt::Display, details: std::fmt::Arguments<'_>) {
        if self.is_on() {
            let text = format!("{name}: {details}");
            self.of_engine(Engine::Device, TraceEvent::Refused { text: &text });
        }
    }

    /// Notes that a doorbell has a new queue.
    pub(crate) fn queue_added(&self, doorbell: DoorbellIndex) {
        if let Some(inner) = &self.0 {
            {
                let mut epochs = inner.epochs.lock().unwrap_or_else(PoisonError::into_inner);
                let epoch = epochs.entry(doorbell.dwords()).or_insert(0);
                // A job has 12 bits for this number.
                *epoch = *epoch % 0xfff + 1;
            }
            self.of_engine(Engine::Firmware, TraceEvent::QueueAdded { doorbell });
        }
    }

    /// Number of queues that each doorbell has had; jobs are numbered by it.
    pub(crate) fn epochs(&self) -> BTreeMap<u32, u16> {
        let epochs = self.0.as_ref().map(|inner| inner.epochs.lock().unwrap_or_else(PoisonError::into_inner));
        epochs.map(|epochs| epochs.clone()).unwrap_or_default()
    }

    /// Continues with the numbers of another device.
    pub(crate) fn set_epochs(&self, epochs: &BTreeMap<u32, u16>) {
        if let Some(inner) = &self.0 {
            inner.epochs.lock().unwrap_or_else(PoisonError::into_inner).clone_from(epochs);
        }
    }

    /// The job of the packet at a place of the queue that a doorbell has now; [`Job::NONE`] if nothing is
    /// recorded, or if the doorbell has no queue.
    #[must_use]
    pub fn job(&self, doorbell: DoorbellIndex, index: u64) -> Job {
        let Some(inner) = &self.0 else { return Job::NONE };
        let epochs = inner.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.get(&doorbell.dwords()).map_or(Job::NONE, |&epoch| Job::new(doorbell, epoch, index))
    }

    /// The job that this thread works for.
    #[must_use]
    pub fn current(&self) -> Job {
        if self.is_on() { job::current() } else { Job::NONE }
    }

    /// Makes records of this thread belong to a job until the scope is dropped.
    pub fn scope(&self, job: Job) -> JobScope {
        if self.is_on() { JobScope::enter(job) } else { JobScope::nothing() }
    }
}

impl Inner {
    fn record(&self, job: Job, owner: Owner, event: &TraceEvent<'_>) {
        self.record_at(self.clock.now(), (job, owner), event);
    }

    fn record_at(&self, time: Duration, (job, owner): (Job, Owner), event: &TraceEvent<'_>) {
        let (kind, arguments, text) = event.encode();
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let text = text[..end].to_owned();
        self.sink.record(&Record { sequence: 0, time, job, owner, kind, arguments, text });
    }
}
