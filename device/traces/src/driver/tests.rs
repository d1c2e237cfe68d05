//! Tests of correct chunks, and of chunks that no driver writes.

use belfry_abi::driver_trace::{self as layout, Chunk, Kind as Of, MAGIC};
use belfry_device::trace::{Engine, Kind, Record};
use zerocopy::IntoBytes as _;

use super::{DriverEvents, DriverEventsError};

const HZ: u32 = 100_000_000;

/// Makes a chunk whose clocks were read at these times.
fn chunk(records: &[layout::Record], device_ns: u64, kernel_ns: u64) -> Vec<u8> {
    let head = Chunk {
        magic: MAGIC,
        records: records.len() as u32,
        record_bytes: size_of::<layout::Record>() as u32,
        lost: 0,
        counter: device_ns / 10 + 1,
        before_ns: kernel_ns,
        after_ns: kernel_ns + 30_000,
        counter_hz: HZ,
        reserved: 0,
    };
    [head.as_bytes(), records.as_bytes()].concat()
}

fn set(time_ns: u64, event: u64) -> layout::Record {
    layout::Record { time_ns, kind: Of::EVENT_SET, pasid: 7, thread: 3, arguments: [event, 0, 0] }
}

fn take(events: &mut DriverEvents, bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    events.take(bytes, u64::MAX, &mut |record| records.push(record.clone()));
    records
}

fn times(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.time).collect()
}

#[test]
fn times_are_the_devices_whatever_the_guests_clock_began_at() {
    let mut events = DriverEvents::default();
    // Before the first known moment, time is that of the guest's clock.
    let first = take(&mut events, &chunk(&[set(9_000_000, 1)], 2_000_000, 10_000_000));
    assert_eq!(times(&first), [1_000_000]);
    // The guest's clock runs twice as fast as it should: half of its time has passed.
    let records = [set(10_000_000, 1), set(12_000_000, 2), set(14_000_000, 3), set(15_000_000, 4)];
    let second = take(&mut events, &chunk(&records, 4_000_000, 14_000_000));
    assert_eq!(times(&second), [2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    assert_eq!((events.taken, events.malformed, events.unknown), (5, 0, 0));
}

#[test]
fn event_is_never_earlier_than_what_has_caused_it() {
    // The device counted 2_000_000 at some time of the 30 us in which the guest read it: an event right after any of them.
    let bytes = chunk(&[set(10_000_000, 1), set(10_030_000, 2)], 2_000_000, 10_000_000);
    let records = take(&mut DriverEvents::default(), &bytes);
    assert!(times(&records).iter().all(|&time| time >= 2_000_000), "{records:?}");
}

#[test]
fn event_is_not_later_than_its_arrival_nor_before_the_device() {
    let bytes = chunk(&[set(0, 1), set(u64::MAX, 2)], 2_000_000, 10_000_000);
    let mut seen = Vec::new();
    DriverEvents::default().take(&bytes, 3_000_000, &mut |record| seen.push(record.time));
    assert_eq!(seen, [0, 3_000_000]);
}

#[test]
fn device_that_was_reset_between_chunks_has_the_times_of_the_later_one() {
    let mut events = DriverEvents::default();
    take(&mut events, &chunk(&[], 5_000_000, 10_000_000));
    let records = take(&mut events, &chunk(&[set(11_000_000, 1)], 3_000_000, 12_000_000));
    assert_eq!(times(&records), [2_000_000]);
}

#[test]
fn events_are_those_of_the_hosted_driver() {
    let of = |kind, arguments| layout::Record { time_ns: 1, kind, pasid: 7, thread: 3, arguments };
    let name = u128::from_le_bytes(*b"gemm\x1b\0\0\0\0\0\0\0\0\0\0\0");
    let cases = [
        (of(Of::IOCTL_ENTER, [2, 0, 0]), Kind::IoctlEnter, [7, 3, 2, 0], "CREATE_QUEUE"),
        (of(Of::IOCTL_ENTER, [999, 0, 0]), Kind::IoctlEnter, [7, 3, 999, 0], ""),
        (of(Of::IOCTL_ENTER, [0, 0, 0]), Kind::IoctlEnter, [7, 3, 0, 0], ""),
        (of(Of::IOCTL_LEAVE, [2, 22, 0]), Kind::IoctlLeave, [7, 3, 2, 22], ""),
        (of(Of::EVENT_SET, [5, 0, 0]), Kind::EventSet, [7, 5, 0, 0], ""),
        (of(Of::EVENT_WAKE, [5, 0, 0]), Kind::EventWake, [7, 5, 0, 0], ""),
        (of(Of::QUEUE_CREATED, [1, 0, 0]), Kind::QueueCreated, [7, 1, 0, 0], ""),
        (of(Of::QUEUE_DESTROYED, [1, 0, 0]), Kind::QueueDestroyed, [7, 1, 0, 0], ""),
        (of(Of::MAPPED, [4096, 8192, 0]), Kind::MemoryMapped, [7, 4096, 8192, 0], ""),
        (of(Of::UNMAPPED, [4096, 8192, 0]), Kind::MemoryUnmapped, [7, 4096, 8192, 0], ""),
        (of(Of::HANDLED, [20, 181, 0]), Kind::InterruptHandled, [7, 20, 181, 0], ""),
        (of(Of::EVICTED, [0; 3]), Kind::Evicted, [7, 0, 0, 0], ""),
        (of(Of::RESTORED, [0; 3]), Kind::Restored, [7, 0, 0, 0], ""),
        (
            of(Of::PROCESS_OPENED, [71, name as u64, (name >> 64) as u64]),
            Kind::ProcessOpened,
            [7, 71, 0, 0],
            "gemm?",
        ),
        (of(Of::PROCESS_CLOSED, [0; 3]), Kind::ProcessClosed, [7, 0, 0, 0], ""),
    ];
    for (said, kind, arguments, text) in cases {
        let records = take(&mut DriverEvents::default(), &chunk(&[said], 1000, 1000));
        let [record] = &records[..] else { panic!("{said:?}: {records:?}") };
        assert_eq!((record.kind, record.text.as_str()), (kind, text), "{said:?}");
        assert_eq!((&record.arguments[..4], record.owner.pasid), (&arguments[..], 7), "{said:?}");
        assert_eq!(record.owner.engine, Engine::Driver);
    }
}

#[test]
fn events_that_are_lost_or_unknown_are_counted() {
    let mut events = DriverEvents::default();
    let unknown = layout::Record { kind: Of(999), ..set(1000, 1) };
    let mut bytes = chunk(&[unknown, set(1000, 1)], 1000, 1000);
    bytes[16..24].copy_from_slice(&12u64.to_le_bytes());
    let records = take(&mut events, &bytes);
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::DriverLost, Kind::EventSet]);
    assert_eq!(records[0].argument("events"), Some(12));
    assert_eq!((events.taken, events.lost, events.unknown), (1, 12, 1));
    // A guest may say any number.
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    take(&mut events, &bytes);
    assert_eq!(events.lost, u64::MAX);
}

#[test]
fn records_of_a_later_driver_are_read_as_far_as_they_are_known() {
    let mut bytes = chunk(&[], 1000, 1000);
    bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&48u32.to_le_bytes());
    for event in [1, 2] {
        bytes.extend_from_slice(set(1000, event).as_bytes());
        bytes.extend_from_slice(&[0xff; 8]);
    }
    let records = take(&mut DriverEvents::default(), &bytes);
    let events: Vec<_> = records.iter().filter_map(|record| record.argument("event")).collect();
    assert_eq!(events, [1, 2]);
}

#[test]
fn what_no_driver_writes_is_counted_and_named() {
    let whole = chunk(&[set(1000, 1)], 1000, 1000);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let truncated = |bytes, expected| DriverEventsError::Truncated { bytes, expected };
    let cases: [(&str, Vec<u8>, DriverEventsError); 9] = [
        ("less than a header", whole[..55].to_vec(), truncated(55, 56)),
        ("less than its records", whole[..95].to_vec(), truncated(95, 96)),
        ("records without end", with(8, &[0xff; 4]), truncated(96, 56 + 40 * 0xffff_ffff)),
        (
            "something else",
            with(0, b"BELTRC01"),
            DriverEventsError::Foreign(u64::from_le_bytes(*b"BELTRC01")),
        ),
        ("records without bytes", with(12, &[0; 4]), DriverEventsError::RecordSize(0)),
        ("records that are too short", with(12, &[39, 0, 0, 0]), DriverEventsError::RecordSize(39)),
        ("records that are too long", with(12, &[0xff; 4]), DriverEventsError::RecordSize(u32::MAX)),
        (
            "a counter that stands still",
            with(48, &[0; 4]),
            DriverEventsError::Clocks { hz: 0, before: 1000, after: 31_000 },
        ),
        (
            "a clock that goes backwards",
            with(40, &[0; 8]),
            DriverEventsError::Clocks { hz: HZ, before: 1000, after: 0 },
        ),
    ];
    for (what, bytes, error) in cases {
        let mut events = DriverEvents::default();
        assert_eq!(take(&mut events, &bytes), [], "{what}");
        assert_eq!((events.malformed, events.error.clone()), (1, Some(error)), "{what}");
        // Later chunks are taken all the same.
        assert_eq!(take(&mut events, &whole).len(), 1, "{what}");
    }
    // Of several chunks in a piece, those before the bad one count.
    let mut events = DriverEvents::default();
    assert_eq!(take(&mut events, &[&whole[..], &whole, b"x"].concat()).len(), 2);
    assert_eq!(events.malformed, 1);
    assert_eq!(take(&mut events, &[]), []);
    assert_eq!(events.malformed, 1);
}

#[test]
fn extreme_numbers_do_no_harm() {
    for (counter, hz, before, after, time) in [
        (u64::MAX, 1, 0, u64::MAX, u64::MAX),
        (0, u32::MAX, u64::MAX, u64::MAX, 0),
        (u64::MAX, u32::MAX, u64::MAX, u64::MAX, 1),
    ] {
        let mut events = DriverEvents::default();
        let mut bytes = chunk(&[set(time, 1), set(0, 2)], 0, 0);
        bytes[24..32].copy_from_slice(&u64::to_le_bytes(counter));
        bytes[32..40].copy_from_slice(&u64::to_le_bytes(before));
        bytes[40..48].copy_from_slice(&u64::to_le_bytes(after));
        bytes[48..52].copy_from_slice(&u32::to_le_bytes(hz));
        for _ in 0..2 {
            assert_eq!(take(&mut events, &bytes).len(), 2);
            assert_eq!(take(&mut events, &chunk(&[set(time, 1)], 1000, 1000)).len(), 1);
        }
    }
}
