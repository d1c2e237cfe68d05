//! A record that is replayed: gives out its inputs, and holds outputs against it.

use std::collections::BTreeMap;

use super::entry::{Entry, Event, Run};
use super::error::{Divergence, RecordError};
use super::file::Reader;
use super::until::Until;

/// Why a replay does not go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stopped {
    /// At the event that it was to stop at.
    AtEvent,
    /// At the end of the record.
    AtEnd,
}

/// How far a replay has come.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) operations: u64,
    pub(crate) events: u64,
    /// Number of the last event, or of the one that was to be reached.
    pub(crate) event: u64,
    /// That event, in words.
    pub(crate) last: String,
}

/// A record that is read.
pub(crate) struct Player {
    reader: Reader,
    /// The entry that comes next, once it was looked at.
    next: Option<Entry>,
    /// Why it cannot go on.
    failed: Option<RecordError>,
    /// Nothing is compared and nothing given out any more.
    closed: bool,
    operations: u64,
    /// The operation at hand, once there is one.
    during: Option<Entry>,
    events: u64,
    kinds: BTreeMap<u16, u64>,
    /// The event to stop at.
    until: Option<Until>,
    /// The last event, or the one that was to be reached.
    last: Option<Event>,
    last_number: u64,
    reached: bool,
}

impl Player {
    pub(super) fn new(reader: Reader) -> Self {
        Self {
            reader,
            next: None,
            failed: None,
            closed: false,
            operations: 0,
            during: None,
            events: 0,
            kinds: BTreeMap::new(),
            until: None,
            last: None,
            last_number: 0,
            reached: false,
        }
    }

    fn peek(&mut self) -> Option<&Entry> {
        if self.closed || self.failed.is_some() {
            return None;
        }
        if self.next.is_none() {
            match self.reader.next() {
                Ok(entry) => self.next = Some(entry),
                Err(error) => self.failed = Some(error),
            }
        }
        self.next.as_ref()
    }

    fn differs(&mut self, expected: &Entry, got: String) {
        self.failed = Some(RecordError::Diverged(Box::new(Divergence {
            operation: self.operations,
            during: self.during.as_ref().map_or_else(|| "before the first".to_owned(), Entry::to_string),
            events: self.events,
            expected: expected.to_string(),
            got,
        })));
    }

    pub(super) fn output(&mut self, got: &Entry) {
        let Some(expected) = self.peek() else { return };
        if expected != got {
            let expected = expected.clone();
            return self.differs(&expected, got.to_string());
        }
        self.next = None;
        if let Entry::Event(event) = got {
            self.events += 1;
            let of_kind = self.kinds.entry(event.kind).or_default();
            *of_kind += 1;
            let of_kind = *of_kind;
            let met = self.until.is_some_and(|until| match until.kind {
                None => until.number == self.events,
                Some(kind) => kind as u16 == event.kind && until.number == of_kind,
            });
            if met {
                self.reached = true;
            }
            if met || !self.reached {
                self.last = Some(event.clone());
                self.last_number = self.events;
            }
        }
    }

    pub(super) fn memory(&mut self, wanted: u64) -> Option<Vec<Run>> {
        let Some(Entry::Memory { page, .. }) = self.peek() else { return None };
        if *page != wanted {
            return None;
        }
        match self.next.take() {
            Some(Entry::Memory { runs, .. }) => Some(runs),
            _ => None,
        }
    }

    pub(super) fn found(&mut self, wanted: u64, wanted_at: u16) -> Option<u64> {
        let Some(&Entry::Found { page, at, value }) = self.peek() else { return None };
        if (page, at) != (wanted, wanted_at) {
            return None;
        }
        self.next = None;
        Some(value)
    }

    /// The doorbells that come next, which were stored without an access.
    pub(crate) fn doorbell(&mut self) -> Option<(u64, u64)> {
        let Some(&Entry::Doorbell { at, value }) = self.peek() else { return None };
        self.next = None;
        Some((at, value))
    }

    /// Begins the next operation; `Err` at the end.
    pub(crate) fn operation(&mut self) -> Result<Entry, Stopped> {
        if self.reached {
            self.closed = true;
            return Err(Stopped::AtEvent);
        }
        match self.peek() {
            Some(Entry::Turn { .. } | Entry::Call { .. }) => {}
            // Left for the device's own to be compared with.
            Some(state @ Entry::State { .. }) => return Ok(state.clone()),
            Some(Entry::End) => {
                self.next = None;
                self.closed = true;
                match self.reader.is_over() {
                    Ok(true) => {}
                    Ok(false) => self.failed = Some(RecordError::Trailing),
                    Err(error) => self.failed = Some(error),
                }
                return Err(Stopped::AtEnd);
            }
            Some(left) => {
                let left = left.clone();
                self.differs(&left, "the end of the operation".to_owned());
                return Err(Stopped::AtEnd);
            }
            None => return Err(Stopped::AtEnd),
        }
        self.operations += 1;
        match self.next.take() {
            Some(entry) => {
                self.during = Some(entry.clone());
                Ok(entry)
            }
            None => Err(Stopped::AtEnd),
        }
    }

    /// Whether the digest of memory comes next.
    pub(crate) fn wants_check(&mut self) -> bool {
        matches!(self.peek(), Some(Entry::Check { .. }))
    }

    /// The event to stop at from now on.
    pub(crate) fn stop_at(&mut self, until: Option<Until>) {
        self.until = until;
    }

    /// Why the replay cannot go on, if there is something.
    pub(crate) fn take_failure(&mut self) -> Option<RecordError> {
        let failed = self.failed.take();
        // A record that was cut off behind the event has what was asked for.
        failed.filter(|failed| !self.reached || !matches!(failed, RecordError::Short { .. }))
    }

    /// From now on, nothing is compared.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// How far it has come.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            operations: self.operations,
            events: self.events,
            event: self.last_number,
            last: self.last.as_ref().map(Event::to_string).unwrap_or_default(),
        }
    }
}
