//! A device that is recorded, and a device that repeats the record alone.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use belfry_device::record::{RecordError, Recorded, Recording, Until};
use belfry_device::trace::{Record, TraceSink};
use belfry_device::{GpuConfig, Replay, Replayed, TraceSinks};

use crate::save::guest::{Guest, config};

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps events.
#[derive(Debug, Default)]
struct Events(Mutex<Vec<Record>>);

impl TraceSink for Events {
    fn record(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// Records two busy queues with interrupts; returns the record, the events, and the counts.
fn recorded() -> (Vec<u8>, Vec<Record>, Recorded) {
    let (file, events) = (File::default(), Arc::new(Events::default()));
    let recording = Recording::new(file.clone());
    let trace: Arc<dyn TraceSink> = events.clone();
    let config = GpuConfig { record: Some(recording.clone()), trace: Some(trace), ..config() };
    Guest::with(config, false).run();
    let record = file.0.lock().unwrap().clone();
    let events = events.0.lock().unwrap().clone();
    (record, events, recording.recorded().unwrap())
}

/// Sinks of which the first device's keeps its events there.
fn sinks(events: &Arc<Events>) -> TraceSinks {
    let events: Arc<dyn TraceSink> = events.clone();
    Box::new(move |device| (device == 0).then(|| events.clone()))
}

fn replay(record: &[u8], until: Option<Until>) -> Result<(Replayed, Vec<Record>), RecordError> {
    let events = Arc::new(Events::default());
    let mut replay = Replay::open(Cursor::new(record.to_vec()), sinks(&events))?;
    let replayed = replay.run(until)?;
    let events = events.0.lock().unwrap().clone();
    Ok((replayed, events))
}

#[test]
fn record_replays_to_the_same_events_and_memory_ten_times() {
    let (record, events, said) = recorded();
    assert!(said.complete && said.bytes == record.len() as u64, "{said:?}");
    let first = replay(&record, None).unwrap().0;
    assert!(first.at_end && first.memory != 0);
    assert_eq!((first.events, first.events), (said.events, events.len() as u64));
    for run in 0..10 {
        let (again, same) = replay(&record, None).unwrap();
        assert_eq!(again, first, "replay {run}");
        let differs = same.iter().zip(&events).find(|(got, expected)| got != expected);
        assert!(differs.is_none() && same.len() == events.len(), "replay {run}: {differs:?}");
    }
}

#[test]
fn replay_stops_at_an_event() {
    let (record, events, _) = recorded();
    let until = |text: &str| text.parse::<Until>().unwrap();
    let (third, _) = replay(&record, Some(until("dispatch:3"))).unwrap();
    assert!(!third.at_end && third.last.starts_with("dispatch start"), "{third:?}");
    let (same, seen) = replay(&record, Some(until(&third.event.to_string()))).unwrap();
    assert_eq!(same, third);
    assert_eq!(seen, events[..seen.len()]);
    assert!(matches!(replay(&record, Some(until("dispatch:99"))), Err(RecordError::NoEvent(_))));
    // Bytes after the event may be missing.
    let half = &record[..record.len() - 1];
    assert!(matches!(replay(half, None), Err(RecordError::Short { .. })));
}

/// Goes back to events, in this order, with `bytes` bytes of checkpoints; returns the number of checkpoints,
/// and for each event the result and the operations that it took.
fn go_back(record: &[u8], bytes: u64, events: &[u64]) -> (usize, Vec<(Replayed, u64)>) {
    let mut replay = Replay::open(Cursor::new(record.to_vec()), Box::new(|_| None)).unwrap();
    replay.keep_checkpoints(bytes);
    let whole = replay.run(None).unwrap();
    let kept = replay.checkpoints();
    let mut came_to = Vec::new();
    for &event in events {
        let before = replay.done();
        came_to.push((replay.back_to(event).unwrap(), replay.done() - before));
    }
    // From there it goes on to an equal end.
    assert_eq!(replay.run(None).unwrap(), whole);
    (kept, came_to)
}

#[test]
fn checkpoints_lead_to_the_same_places_on_shorter_ways() {
    let (record, _, said) = recorded();
    let mut events: Vec<u64> = (1..=said.events).rev().step_by(said.events as usize / 24).collect();
    // Forward again, and far back.
    events.extend([said.events, 1, said.events / 2]);
    let (none, without) = go_back(&record, 0, &events);
    let (kept, with) = go_back(&record, 1 << 30, &events);
    assert!(none == 0 && kept > 4, "{none} {kept} checkpoints");
    // How much they take depends on how the run was recorded.
    let mut bounded = (10..=20).rev().map(|bits| go_back(&record, 1 << bits, &events));
    let (_, bounded) = bounded.find(|(few, _)| *few < kept).unwrap();
    for (at, event) in events.iter().enumerate() {
        let fresh = replay(&record, Some(Until { kind: None, number: *event })).unwrap().0;
        assert_eq!((&without[at].0, &with[at].0, &bounded[at].0), (&fresh, &fresh, &fresh), "event {event}");
        assert_eq!(without[at].1, fresh.operations);
        assert!(with[at].1 <= fresh.operations, "event {event}");
    }
    let again = |of: &[(Replayed, u64)]| of.iter().map(|(_, operations)| operations).sum::<u64>();
    assert!(again(&with) * 2 < again(&without), "{} of {}", again(&with), again(&without));
}

#[test]
fn replay_that_has_stopped_goes_on() {
    let (record, _, said) = recorded();
    let until = |number| Some(Until { kind: None, number });
    let mut replayed = Replay::open(Cursor::new(record.clone()), Box::new(|_| None)).unwrap();
    for event in [said.events / 3, said.events / 3 * 2] {
        assert_eq!(replayed.run(until(event)).unwrap(), replay(&record, until(event)).unwrap().0);
    }
    let behind = replayed.run(until(said.events / 3)).unwrap_err();
    assert!(matches!(behind, RecordError::Behind(_)), "{behind}");
    assert_eq!(replayed.run(None).unwrap(), replay(&record, None).unwrap().0);
}

#[test]
fn damaged_records_are_errors() {
    let (record, ..) = recorded();
    for at in (0..record.len()).step_by(1000) {
        replay(&record[..at], None).unwrap_err();
        let mut other = record.clone();
        other[at] ^= 0x10;
        replay(&other, None).unwrap_err();
    }
}
