//! The ring, and the chunks that it is read in.

use alloc::vec::Vec;

use belfry_abi::driver_trace::{Chunk, Kind, MAGIC, Record};
use belfry_abi::regs::smuio;
use zerocopy::FromBytes as _;

use super::{COUNTER_HZ, LEAST_READ, MAX_RECORDS};
use crate::errno::Errno;
use crate::os::DriverEvent;
use crate::testing::Bench;

const RECORD: usize = size_of::<Record>();

fn set(bench: &Bench, event: u32) {
    bench.device.trace(7, DriverEvent::EventSet { event });
}

/// Reads a chunk with room for so many events; none if there is none.
fn read(bench: &Bench, room: usize, always: bool) -> Option<(Chunk, Vec<Record>)> {
    let mut bytes = alloc::vec![0; size_of::<Chunk>() + room * RECORD];
    let len = bench.gpu.trace_read(&mut bytes, always).unwrap();
    let (chunk, records) = Chunk::read_from_prefix(&bytes[..len]).ok()?;
    let records: Vec<_> =
        records.chunks(RECORD).map(|record| Record::read_from_bytes(record).unwrap()).collect();
    assert_eq!((chunk.magic, chunk.record_bytes), (MAGIC, RECORD as u32));
    assert_eq!(chunk.records as usize, records.len());
    Some((chunk, records))
}

fn events(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.arguments[0]).collect()
}

#[test]
fn ring_that_is_off_has_no_memory_and_takes_no_events() {
    let bench = Bench::new();
    set(&bench, 1);
    assert!(bench.device.trace.ring.lock().is_none());
    assert_eq!(read(&bench, 4, true), None);
    bench.gpu.trace_records(4).unwrap();
    set(&bench, 2);
    bench.gpu.trace_records(0).unwrap();
    set(&bench, 3);
    assert!(bench.device.trace.ring.lock().is_none());
    assert_eq!(read(&bench, 4, true), None);
    // What was there before is not there again.
    bench.gpu.trace_records(4).unwrap();
    assert_eq!(read(&bench, 4, true).unwrap().1, []);
}

#[test]
fn full_ring_loses_the_oldest_and_counts_them_once() {
    let bench = Bench::new();
    bench.gpu.trace_records(3).unwrap();
    let room = bench.device.trace.ring.lock().as_ref().unwrap().records.capacity();
    (0..5).for_each(|event| set(&bench, event));
    let (chunk, records) = read(&bench, 2, false).unwrap();
    assert_eq!((events(&records), chunk.lost), ([2, 3].into(), 2));
    (5..7).for_each(|event| set(&bench, event));
    let (chunk, records) = read(&bench, 8, false).unwrap();
    assert_eq!((events(&records), chunk.lost), ([4, 5, 6].into(), 0));
    assert_eq!(bench.device.trace.ring.lock().as_ref().unwrap().records.capacity(), room, "it has grown");
    assert_eq!(read(&bench, 8, false), None);
    let times: Vec<_> = records.iter().map(|record| record.time_ns).collect();
    assert!(times.is_sorted() && times[0] != 0, "{times:?}");
    assert!(records.iter().all(|record| (record.kind, record.pasid) == (Kind::EVENT_SET, 7)));
    assert!(records.iter().all(|record| record.thread == 0x1f3), "{records:?}");
}

#[test]
fn chunk_has_the_counter_of_a_time_behind_its_records() {
    let bench = Bench::new();
    bench.gpu.trace_records(2).unwrap();
    set(&bench, 1);
    bench.device.hw.write(smuio::GOLDEN_TSC_COUNT_UPPER(2));
    bench.device.hw.write(smuio::GOLDEN_TSC_COUNT_LOWER(3));
    let (chunk, records) = read(&bench, 1, false).unwrap();
    assert_eq!((chunk.counter, chunk.counter_hz), (2 << 32 | 3, COUNTER_HZ));
    assert!(records[0].time_ns < chunk.before_ns && chunk.before_ns < chunk.after_ns, "{chunk:?}");
}

#[test]
fn processes_are_named_when_they_open_the_node_and_when_recording_begins_later() {
    let bench = Bench::new();
    let early = bench.process(7);
    bench.gpu.trace_records(8).unwrap();
    let late = bench.process(8);
    bench.end(8);
    let (_, records) = read(&bench, 8, false).unwrap();
    let told: Vec<_> = records.iter().map(|record| (record.kind, record.pasid)).collect();
    assert_eq!(
        told,
        [
            (Kind::PROCESS_OPENED, early.pasid),
            (Kind::PROCESS_OPENED, late.pasid),
            (Kind::PROCESS_CLOSED, late.pasid),
        ]
    );
    let [id, low, high] = records[0].arguments;
    let name = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
    assert_eq!((id, &name), (0x1f3, b"a program\0\0\0\0\0\0\0"));
}

#[test]
fn too_much_room_and_too_little_are_refused_and_lose_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.gpu.trace_records(MAX_RECORDS + 1), Err(Errno::EINVAL));
    bench.gpu.trace_records(1).unwrap();
    set(&bench, 9);
    for len in [0, 1, LEAST_READ - 1] {
        let mut bytes = alloc::vec![0; len];
        assert_eq!(bench.gpu.trace_read(&mut bytes, true), Err(Errno::EINVAL), "{len} bytes");
    }
    assert_eq!(events(&read(&bench, 1, false).unwrap().1), [9]);
}
