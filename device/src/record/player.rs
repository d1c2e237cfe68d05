//! A record that is replayed: it gives out its inputs, and compares the outputs.

use std::collections::BTreeMap;

use super::entry::{Entry, Event, Run};
use super::error::{Divergence, RecordError};
use super::file::{Position, Reader};
use super::until::Until;

/// Reasons why a replay stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stopped {
    /// The event to stop at is reached.
    AtEvent,
    /// The end of the record is reached.
    AtEnd,
}

/// Progress of a replay.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) operations: u64,
    pub(crate) events: u64,
    /// Number of the last event, or of the event to stop at once that is reached.
    pub(crate) event: u64,
    /// The event with that number, in words.
    pub(crate) last: String,
}

/// Place of a replay between two operations, and its counts until then.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    position: Position,
    /// The entry before the position, if it was read ahead; it comes next.
    next: Option<Entry>,
    pub(crate) operations: u64,
    pub(crate) events: u64,
    kinds: BTreeMap<u16, u64>,
    last: Option<Event>,
}

#[cfg(test)]
impl Place {
    /// A place after this number of operations and events.
    pub(crate) fn of(operations: u64, events: u64) -> Self {
        let position = Position::default();
        Self { position, next: None, operations, events, kinds: BTreeMap::new(), last: None }
    }
}

/// A record that is read.
pub(crate) struct Player {
    /// `None` once another device continues the record.
    reader: Option<Reader>,
    /// The next entry, if it was read ahead.
    next: Option<Entry>,
    /// Error because of which it cannot go on.
    failed: Option<RecordError>,
    /// True if nothing is compared or given out.
    closed: bool,
    /// True if the device has begun within the record, from a snapshot.
    cold: bool,
    operations: u64,
    /// The current operation, once there is one.
    during: Option<Entry>,
    events: u64,
    kinds: BTreeMap<u16, u64>,
    /// The event to stop at.
    until: Option<Until>,
    /// The last event, or the event to stop at once that is reached.
    last: Option<Event>,
    last_number: u64,
    reached: bool,
}

impl Player {
    pub(super) fn new(reader: Reader) -> Self {
        Self {
            reader: Some(reader),
            next: None,
            failed: None,
            closed: false,
            cold: false,
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
            match self.reader.as_mut()?.next() {
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
        let cold = self.cold;
        let Some(expected) = self.peek() else { return };
        let same = match (expected, got) {
            (Entry::Event(expected), Entry::Event(got)) if cold => got.stands_for(expected),
            _ => expected == got,
        };
        if !same {
            if matches!(got, Entry::Event(got) if cold && got.may_be_repeated()) {
                return;
            }
            let expected = expected.clone();
            return self.differs(&expected, got.to_string());
        }
        // The recorded event is kept, as this is the one to report.
        if let Some(Entry::Event(event)) = self.next.take() {
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
                self.last = Some(event);
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

    /// Takes the value that an atomic access has found at a byte of a page, if the record has one; `access`
    /// is the number in the operation.
    pub(super) fn found(&mut self, (wanted, byte): (u64, u16), access: u64) -> Option<u64> {
        let Some(&Entry::Found { page, at, value, number }) = self.peek() else { return None };
        if (page, at, number) != (wanted, byte, access) {
            return None;
        }
        self.next = None;
        Some(value)
    }

    /// Takes the next stored doorbell, if one comes next: its number and its value.
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
            // It is no operation.
            Some(Entry::Device(_)) => return self.next.take().ok_or(Stopped::AtEnd),
            // Left in place, to be compared with the state of the device.
            Some(state @ Entry::State { .. }) => return Ok(state.clone()),
            Some(Entry::End) => {
                self.next = None;
                self.closed = true;
                match self.reader.as_mut().map_or(Ok(true), Reader::is_over) {
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

    /// Returns true if the digest of memory comes next.
    pub(crate) fn wants_check(&mut self) -> bool {
        matches!(self.peek(), Some(Entry::Check { .. }))
    }

    /// Sets the event to stop at. If the replay has stopped at an event, it goes on.
    pub(crate) fn stop_at(&mut self, until: Option<Until>) {
        self.until = until;
        if std::mem::take(&mut self.reached) {
            self.closed = false;
        }
    }

    /// Returns true if an event was passed already.
    pub(crate) fn is_behind(&self, until: Until) -> bool {
        let passed = match until.kind {
            None => self.events,
            Some(kind) => self.kinds.get(&(kind as u16)).copied().unwrap_or_default(),
        };
        passed >= until.number
    }

    /// Number of operations that have begun.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// The current place, if the replay can go on from there.
    pub(crate) fn place(&self) -> Option<Place> {
        if self.closed || self.reached || self.failed.is_some() {
            return None;
        }
        Some(Place {
            position: self.reader.as_ref()?.position(),
            next: self.next.clone(),
            operations: self.operations,
            events: self.events,
            kinds: self.kinds.clone(),
            last: self.last.clone(),
        })
    }

    /// Makes another player, which is closed and continues at a place of the record. This player has nothing
    /// to read any more.
    pub(super) fn go_to(&mut self, place: &Place) -> Result<Self, RecordError> {
        let gone = || RecordError::Device("another device goes on with its record".to_owned());
        self.reader.as_mut().ok_or_else(gone)?.go_to(place.position)?;
        self.closed = true;
        let place = place.clone();
        Ok(Self {
            reader: self.reader.take(),
            next: place.next,
            failed: None,
            closed: true,
            cold: place.operations > 0,
            operations: place.operations,
            during: None,
            events: place.events,
            kinds: place.kinds,
            until: None,
            last: place.last,
            last_number: place.events,
            reached: false,
        })
    }

    /// Compares and gives out entries from now on.
    pub(crate) fn open(&mut self) {
        self.closed = false;
    }

    /// Takes the error because of which the replay cannot go on, if there is one.
    pub(crate) fn take_failure(&mut self) -> Option<RecordError> {
        let failed = self.failed.take();
        // A record that was cut off after the event to stop at is long enough.
        failed.filter(|failed| !self.reached || !matches!(failed, RecordError::Short { .. }))
    }

    /// Ends the replay with an error.
    pub(crate) fn fail(&mut self, error: RecordError) {
        self.failed.get_or_insert(error);
    }

    /// Stops comparing and giving out entries.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Progress up to now.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            operations: self.operations,
            events: self.events,
            event: self.last_number,
            last: self.last.as_ref().map(Event::to_string).unwrap_or_default(),
        }
    }
}
