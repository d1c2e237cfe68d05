//! The copy that a recorded device works on, against memory that other processors write.

use std::io::Cursor;
use std::sync::Arc;

use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::{Changes, Memory, PAGE, Physical};
use crate::record::testing::{begun, entries};
use crate::record::{Call, Entry, Journal, OF_PEER, Run, SYSTEM};

const VRAM: usize = 1 << 20;

fn plain() -> Memory {
    let ranges = [(GuestAddress(0x1000), 0x3000), (GuestAddress(0x8000), 0x1800)];
    let map = GuestMemoryMmap::from_ranges(&ranges).expect("anonymous memory");
    Memory::new(MmapRegion::new(VRAM).expect("anonymous memory"), GuestMemoryAtomic::new(map))
}

/// Memory with a second view of it: the view of the host's processors.
struct Both {
    device: Memory,
    host: Memory,
}

fn both(journal: &Arc<Journal>) -> Both {
    let (device, vram) = (plain(), MmapRegion::new(VRAM).expect("anonymous memory"));
    let host = Memory::new(vram, device.source.clone());
    let device = device.mirrored(Arc::clone(journal));
    device.changed();
    Both { device, host }
}

#[test]
fn what_others_write_is_noted_when_it_is_read() {
    let (recording, file) = begun();
    let Both { device, host } = both(recording.journal());
    let at = Physical::system(0x1ff8);
    assert_eq!(device.load_u64(at), Ok(0));
    host.store_u64(at, 0x1234).expect("mapped");
    assert_eq!(device.load_u64(at), Ok(0), "nothing new was seen since the page was compared");
    device.mirror().expect("mirrored").begin();
    assert_eq!(device.load_u64(at), Ok(0x1234));
    // A flag that is new makes the device read the data written before it again.
    let (data, flag) = (Physical::system(0x1000), Physical::system(0x3000));
    assert_eq!((device.load_u32(data), device.load_u32(flag)), (Ok(0), Ok(0)));
    device.mirror().expect("mirrored").begin();
    assert_eq!(device.load_u32(data), Ok(0));
    host.store_u32(data, 7).expect("mapped");
    host.store_u32(flag, 1).expect("mapped");
    assert_eq!((device.load_u32(flag), device.load_u32(data)), (Ok(1), Ok(7)));
    recording.journal().end();
    let memory = |page: u64, at, byte: &[u8]| Entry::Memory {
        page: page | SYSTEM,
        runs: vec![Run { at, bytes: byte.to_vec() }],
    };
    let expected = [memory(1, 0xff8, &[0x34, 0x12]), memory(3, 0, &[1]), memory(1, 0, &[7]), Entry::End];
    assert_eq!(entries(&file.bytes()).1, expected);
}

#[test]
fn stores_reach_memory_and_leave_what_others_write() {
    let (recording, _) = begun();
    let Both { device, host } = both(recording.journal());
    let word = Physical::system(0x2000);
    host.store_u64(word, 0x1111_2222_3333_4444).expect("mapped");
    device.store_u32(word, 0xaaaa_bbbb).expect("mapped");
    // Before the device's store is in memory, another processor writes the other half.
    host.store_u32(Physical::system(0x2004), 0x5555_6666).expect("mapped");
    device.flush();
    assert_eq!(host.load_u64(word), Ok(0x5555_6666_aaaa_bbbb));
    // Each store is in memory when the next one is done.
    device.store_u32(Physical::system(0x3000), 1).expect("mapped");
    device.store_u32(Physical::system(0x1000), 2).expect("mapped");
    assert_eq!(host.load_u32(Physical::system(0x3000)), Ok(1));
    device.write_bytes(Physical::system(0x2ffe), &[1, 2, 3, 4]).expect("mapped");
    device.flush();
    assert_eq!(host.read::<[u8; 4]>(Physical::system(0x2ffe)), Ok([1, 2, 3, 4]));
}

#[test]
fn atomics_are_done_on_memory_and_note_what_they_find() {
    let (recording, file) = begun();
    let Both { device, host } = both(recording.journal());
    let word = Physical::system(0x2008);
    assert_eq!(device.fetch_add_u64(word, 1), Ok(0));
    assert_eq!(device.fetch_add_u64(word, 0), Ok(1));
    host.fetch_add_u64(word, 0x10).expect("mapped");
    assert_eq!(device.fetch_add_u64(word, 1), Ok(0x11));
    assert_eq!((host.load_u64(word), device.load_u64(word)), (Ok(0x12), Ok(0x12)));
    recording.journal().end();
    let found = Entry::Found { page: 2 | SYSTEM, at: 8, value: 0x11, number: 2 };
    assert_eq!(entries(&file.bytes()).1, [found, Entry::End]);
}

#[test]
fn pages_that_are_not_whole_are_no_memory() {
    let (recording, _) = begun();
    let Both { device, .. } = both(recording.journal());
    for (at, exists) in [
        (Physical::system(0), false),
        (Physical::system(0x3ffc), true),
        (Physical::system(0x4000), false),
        (Physical::system(0x8ffc), true),
        (Physical::system(0x9000), false),
        (Physical::system(u64::MAX - 3), false),
        (Physical::local(VRAM as u64 - 4), true),
        (Physical::local(VRAM as u64), false),
    ] {
        assert_eq!(device.load_u32(at).is_ok(), exists, "{at:x?}");
    }
    assert!(device.fetch_add_u64(Physical::system(0x2004), 1).is_err(), "misaligned");
}

#[test]
fn digests_follow_what_is_written() {
    let (recording, _) = begun();
    let Both { device, .. } = both(recording.journal());
    let mirror = device.mirror().expect("mirrored");
    assert_eq!(mirror.digest(), 0);
    device.store_u32(Physical::local(0), 1).expect("mapped");
    let first = mirror.digest();
    device.store_u32(Physical::local(0x1000), 1).expect("mapped");
    assert!(first != 0 && mirror.digest() != first);
    device.store_u32(Physical::local(0x1000), 0).expect("mapped");
    assert_eq!(mirror.digest(), first);
    device.store_u32(Physical::local(0), 0).expect("mapped");
    device.store_u32(Physical::local(0x1000), 1).expect("mapped");
    assert_ne!(mirror.digest(), first, "pages are not exchanged for each other");
}

#[test]
fn replays_have_the_copy_alone() {
    let runs = vec![Run { at: 0xffc, bytes: vec![1, 2, 3, 4, 5, 6] }];
    let page = 1 | SYSTEM;
    let all = [
        Entry::Memory { page, runs },
        Entry::Found { page, at: 0x10, value: 9, number: 2 },
        Entry::Call { device: 0, ns: 0, call: Call::Stop },
    ];
    let record = crate::record::testing::record_of(&[], &all);
    let (journal, _) = Journal::open(Cursor::new(record)).expect("a record");
    let Both { device, host } = both(&journal);
    // The bytes of a run beyond the page are dropped.
    assert_eq!(device.load_u32(Physical::system(0x1ffc)), Ok(0x0403_0201));
    assert_eq!(device.load_u32(Physical::system(0x2000)), Ok(0));
    // The value that a later access of a word has found does not count for earlier ones.
    let word = Physical::system(0x1010);
    assert_eq!((device.fetch_add_u64(word, 1), device.fetch_add_u64(word, 1)), (Ok(0), Ok(1)));
    assert_eq!(device.fetch_add_u64(word, 1), Ok(9));
    assert_eq!(device.load_u64(Physical::system(0x1010)), Ok(10));
    assert_eq!(host.load_u64(Physical::system(0x1010)), Ok(0));
}

#[test]
fn changes_put_together_are_the_copy() {
    let (recording, _) = begun();
    let Both { device, host } = both(recording.journal());
    let mirror = device.mirror().expect("mirrored");
    device.store_u32(Physical::local(0), 1).expect("mapped");
    device.store_u32(Physical::system(0x1000), 2).expect("mapped");
    let first = mirror.take_changes();
    let of_first = mirror.digest();
    device.fetch_add_u64(Physical::local(0), 7).expect("mapped");
    host.store_u32(Physical::system(0x2000), 3).expect("mapped");
    mirror.begin();
    assert_eq!(device.load_u32(Physical::system(0x2000)), Ok(3));
    let second = mirror.take_changes();
    assert!(second.size() > PAGE && second.size() < 3 * PAGE, "the page that has not changed is not in it");
    assert_eq!(mirror.take_changes().size(), 0);

    let again = |all: &[&Changes]| {
        let (recording, _) = begun();
        let device = plain().mirrored(Arc::clone(recording.journal()));
        let mirror = device.mirror().expect("mirrored");
        mirror.put(all.iter().copied(), &[(0x1000, 0x3000)]);
        (mirror.digest(), mirror.ranges(), mirror.take_changes().size())
    };
    let ranges = vec![(0x1000, 0x3000)];
    assert_eq!(again(&[&first]), (of_first, ranges.clone(), 0));
    assert_eq!(again(&[&first, &second]), (mirror.digest(), ranges.clone(), 0));
    // Changes that are dropped leave their pages to the later ones.
    let mut both = second;
    both.add_earlier(first);
    assert_eq!(again(&[&both]), (mirror.digest(), ranges, 0));
}

#[test]
fn pages_of_peers_are_in_the_copy() {
    let (recording, file) = begun();
    let Both { device, host } = both(recording.journal());
    let at = Physical::peer(1, 8);
    assert!(device.load_u64(at).is_err() && device.store_u32(at, 1).is_err(), "it is not there yet");
    device.set_peer(1, Some(host.vram().into())).expect("a number of the fabric");
    device.store_u64(Physical::local(8), 3).expect("in VRAM");
    device.store_u64(at, 1).expect("in the peer's VRAM");
    device.flush();
    assert_eq!((host.load_u64(Physical::local(8)), device.load_u64(Physical::local(8))), (Ok(1), Ok(3)));
    host.fetch_add_u64(Physical::local(8), 1).expect("its own");
    device.mirror().expect("mirrored").begin();
    assert_eq!(device.load_u64(at), Ok(2));
    assert_eq!(device.fetch_add_u64(at, 5), Ok(2));
    assert_eq!(host.load_u64(Physical::local(8)), Ok(7));
    for nowhere in [Physical::peer(1, VRAM as u64), Physical::peer(2, 8), Physical::peer(u8::MAX, 8)] {
        assert!(device.load_u32(nowhere).is_err(), "{nowhere:x?}");
    }
    let vram = device.mirror().expect("mirrored").vram_pages();
    assert_eq!(vram.len(), 1, "VRAM of a peer is not the device's own");
    device.set_peer(1, None).expect("a number of the fabric");
    assert!(device.load_u64(at).is_err(), "it has left");
    recording.journal().end();
    let expected = Entry::Memory { page: 2 * OF_PEER, runs: vec![Run { at: 8, bytes: vec![2] }] };
    assert_eq!(entries(&file.bytes()).1, [expected, Entry::End]);
}
