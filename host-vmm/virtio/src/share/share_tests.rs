//! Tests of the device with messages in chains of every shape.

use std::fs;

use super::super::testing::{BUFFERS, Driver, WRITE};
use super::Share;

const IN: u64 = BUFFERS;
const OUT: u64 = BUFFERS + 0x10_0000;
const VERSION: [u8; 21] = *b"\x15\0\0\0\x64\xff\xff\0\0\x01\0\x08\09P2000.L";
const ATTACH: [u8; 23] = *b"\x17\0\0\0\x68\0\0\x01\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0";

struct Rig {
    driver: Driver,
    sent: u16,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), vec![7; 100_000]).unwrap();
        let share = Share::new("a-tag", folder.path(), false, 16).unwrap();
        Self { driver: Driver::started(share), sent: 0, _folder: folder }
    }

    /// Sends a message in buffers of `piece` bytes, and takes the reply from such buffers of `room` bytes together.
    fn call(&mut self, message: &[u8], piece: u32, room: u32) -> Vec<u8> {
        self.driver.put(IN, message);
        let pieces = |at: u64, length: u32, flags| {
            (0..length.div_ceil(piece)).map(move |number| {
                (at + u64::from(number * piece), piece.min(length - number * piece), flags)
            })
        };
        let chain: Vec<_> = pieces(IN, message.len() as u32, 0).chain(pieces(OUT, room, WRITE)).collect();
        self.driver.add(0, 0, &chain);
        self.sent += 1;
        let (_, length) = self.driver.used(0, self.sent);
        self.driver.take(OUT, length as usize)
    }
}

#[test]
fn the_tag_is_in_the_configuration() {
    let rig = Rig::new();
    assert_eq!(rig.driver.get(0x1000, 2), 5);
    assert_eq!(rig.driver.get(0x1002, 4), u64::from(u32::from_le_bytes(*b"a-ta")));
    assert_eq!(rig.driver.offered() & 1, 1);
}

#[test]
fn messages_and_replies_may_be_in_any_pieces() {
    for (piece, room) in [(1, 64), (7, 64), (4096, 8192)] {
        let mut rig = Rig::new();
        let reply = rig.call(&VERSION, piece, room);
        assert_eq!(reply[..13], *b"\x15\0\0\0\x65\xff\xff\0\0\x01\0\x08\0");
        assert_eq!(rig.call(&ATTACH, piece, room).len(), 20);
    }
}

#[test]
fn reads_are_as_long_as_the_buffers_for_them() {
    let mut rig = Rig::new();
    rig.call(&VERSION, 4096, 64);
    rig.call(&ATTACH, 4096, 64);
    assert_eq!(rig.call(b"\x17\0\0\0\x6e\0\0\x01\0\0\0\x02\0\0\0\x01\0\x04\0file", 4096, 64).len(), 22);
    assert_eq!(rig.call(b"\x0f\0\0\0\x0c\0\0\x02\0\0\0\0\0\0\0", 4096, 64).len(), 24);
    let read = b"\x17\0\0\0\x74\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff";
    for (room, expected) in [(11, 11), (1000, 1000), (65_536, 65_536), (200_000, 65_536)] {
        let reply = rig.call(read, 4096, room);
        assert_eq!((reply.len(), reply[4]), (expected, 117), "{room}");
        assert!(reply[11..].iter().all(|&byte| byte == 7));
    }
}

#[test]
fn chains_that_carry_no_message_break_the_queue_and_a_reset_mends_it() {
    let size = |size: u32| [&size.to_le_bytes()[..], &VERSION[4..]].concat();
    let too_short: [(Vec<u8>, u32); 6] = [
        (vec![0; 6], 64),
        (size(0), 64),
        (size(6), 64),
        (size(22), 64),
        (size(!0), 64),
        // There is not even room for an error.
        (VERSION.to_vec(), 10),
    ];
    let mut rig = Rig::new();
    for (message, room) in too_short {
        rig.driver.put(IN, &message);
        rig.driver.add(0, 0, &[(IN, message.len() as u32, 0), (OUT, room, WRITE)]);
        rig.driver.wait_for_needs_reset(&format!("{message:x?}"));
        rig.driver.start(!0);
        rig.sent = 0;
        assert_eq!(rig.call(&VERSION, 4096, 64).len(), 21);
    }
    // There is no room at all.
    rig.driver.add(0, 0, &[(IN, 21, 0)]);
    rig.driver.wait_for_needs_reset("no writable buffer");
}

#[test]
fn messages_longer_than_agreed_are_errors() {
    let mut rig = Rig::new();
    let mut long = vec![0; 65_537];
    long[..4].copy_from_slice(&65_537u32.to_le_bytes());
    long[4] = 118;
    rig.call(&VERSION, 4096, 64);
    assert_eq!(rig.call(&long, 4096, 64), b"\x0b\0\0\0\x07\0\0\x5a\0\0\0");
    // A reset forgets fids and sizes.
    rig.driver.start(!0);
    rig.sent = 0;
    assert_eq!(rig.call(&ATTACH, 4096, 64), b"\x0b\0\0\0\x07\0\0\x47\0\0\0");
}
