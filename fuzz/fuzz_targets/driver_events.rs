//! Records of a guest about its driver: they give events that a trace can hold, and no more events than
//! records.
//!
//! An input is a list of chunks with any clocks and records. Some chunks have a wrong header, or end early.

#![no_main]

use arbitrary::Arbitrary;
use belfry_abi::driver_trace::{Chunk, Kind, MAGIC, NAME_BYTES, Record};
use belfry_traces::driver::DriverEvents;
use libfuzzer_sys::fuzz_target;
use zerocopy::IntoBytes as _;

#[derive(Arbitrary, Debug)]
struct Input {
    pieces: Vec<Piece>,
    now: u64,
}

/// A chunk, with its faults.
#[derive(Arbitrary, Debug)]
struct Piece {
    lost: u64,
    counter: u64,
    before_ns: u64,
    took_ns: u32,
    counter_hz: u32,
    records: Vec<Said>,
    magic: Option<u64>,
    after_ns: Option<u64>,
    record_bytes: Option<u32>,
    count: Option<u32>,
    /// Bytes that are left of it.
    length: Option<u16>,
}

#[derive(Arbitrary, Debug)]
struct Said {
    time_ns: u64,
    kind: u8,
    pasid: u16,
    thread: u32,
    arguments: [u64; 3],
}

fn bytes_of(piece: &Piece) -> Vec<u8> {
    let records: Vec<Record> = piece
        .records
        .iter()
        .map(|&Said { time_ns, kind, pasid, thread, arguments }| Record {
            time_ns,
            // Most of them are known.
            kind: Kind(u16::from(kind % 16)),
            pasid,
            thread,
            arguments,
        })
        .collect();
    let chunk = Chunk {
        magic: piece.magic.unwrap_or(MAGIC),
        records: piece.count.unwrap_or(records.len() as u32),
        record_bytes: piece.record_bytes.unwrap_or(size_of::<Record>() as u32),
        lost: piece.lost,
        counter: piece.counter,
        before_ns: piece.before_ns,
        after_ns: piece.after_ns.unwrap_or(piece.before_ns.saturating_add(piece.took_ns.into())),
        counter_hz: piece.counter_hz,
        reserved: 0,
    };
    let mut bytes = [chunk.as_bytes(), records.as_bytes()].concat();
    bytes.truncate(piece.length.map_or(usize::MAX, usize::from));
    bytes
}

/// Gives bytes to the parser. Returns the number of records that came.
fn take(events: &mut DriverEvents, bytes: &[u8], now: u64) -> u64 {
    let mut count = 0;
    events.take(bytes, now, &mut |record| {
        count += 1;
        assert!(record.kind.is_driver() && record.time <= now, "{record:?}");
        assert!(!record.text.chars().any(char::is_control), "{record:?}");
        // The names of commands are the longest texts.
        assert!(record.text.len() <= 4 * NAME_BYTES, "{record:?}");
    });
    count
}

fuzz_target!(|input: Input| {
    let mut events = DriverEvents::default();
    for piece in &input.pieces {
        let bytes = bytes_of(piece);
        let before = events.clone();
        let came = take(&mut events, &bytes, input.now);
        // A chunk tells of lost events with one more.
        let chunks = bytes.len() / size_of::<Chunk>();
        let most = bytes.len() / size_of::<Record>() + chunks;
        assert!(came <= most as u64, "{came} events of {} bytes", bytes.len());
        assert!(events.taken - before.taken + (events.unknown - before.unknown) <= most as u64);
        assert!(events.malformed - before.malformed <= 1);
        assert_eq!(events.error.is_some(), events.malformed > 0);
    }
    // All of the pieces at once are no worse.
    let whole: Vec<u8> = input.pieces.iter().flat_map(bytes_of).collect();
    take(&mut DriverEvents::default(), &whole, input.now);

    let taken = events.taken;
    let right = Piece {
        lost: 0,
        counter: 1,
        before_ns: 1,
        took_ns: 1,
        counter_hz: 1,
        records: vec![Said { time_ns: 1, kind: 3, pasid: 1, thread: 1, arguments: [1; 3] }],
        magic: None,
        after_ns: None,
        record_bytes: None,
        count: None,
        length: None,
    };
    assert_eq!(take(&mut events, &bytes_of(&right), input.now), 1);
    assert_eq!(events.taken, taken + 1);
});
