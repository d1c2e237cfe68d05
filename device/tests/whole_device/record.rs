//! A device that is recorded, and does the same again alone.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use belfry_device::record::{RecordError, Recorded, Recording, Until};
use belfry_device::trace::{Record, TraceSink};
use belfry_device::{GpuConfig, Replay, Replayed};

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

/// Two busy queues with interrupts, recorded: the record, the events, and what is said of it.
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

fn replay(record: &[u8], until: Option<Until>) -> Result<(Replayed, Vec<Record>), RecordError> {
    let events = Arc::new(Events::default());
    let mut replay = Replay::open(Cursor::new(record.to_vec()), Some(events.clone()))?;
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
    // What there is behind the event may be missing.
    let half = &record[..record.len() - 1];
    assert!(matches!(replay(half, None), Err(RecordError::Short { .. })));
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
