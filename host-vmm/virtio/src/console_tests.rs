//! Tests of the console, with a driver on one side and a socket on the other.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Console;
use super::testing::{BUFFERS, Driver, WRITE, wait};

pub(super) const NAME: &str = "org.example.0";
const CONTROL_RECEIVE: usize = 2;
const CONTROL_TRANSMIT: usize = 3;
pub(super) const RECEIVE: usize = 4;
pub(super) const TRANSMIT: usize = 5;
const TOLD: u64 = BUFFERS;
const SAID: u64 = BUFFERS + 0x1_0000;
pub(super) const IN: u64 = BUFFERS + 0x10_0000;
pub(super) const OUT: u64 = BUFFERS + 0x40_0000;

pub(super) struct Ends {
    pub(super) driver: Driver,
    pub(super) host: UnixStream,
    said: u16,
    told: u16,
    received: u16,
}

impl Ends {
    fn new() -> Self {
        let (host, device) = UnixStream::pair().unwrap();
        host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        host.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        let driver = Driver::started(Console::new(NAME, device).unwrap());
        Self { driver, host, said: 0, told: 0, received: 0 }
    }

    /// Makes a console whose port both ends have opened.
    pub(super) fn open() -> Self {
        let mut console = Self::new();
        console.say(0, 0, 1);
        assert_eq!(console.told(), (1, 1, 1, String::new()));
        console.say(1, 3, 1);
        assert_eq!(console.told(), (1, 7, 1, NAME.into()));
        assert_eq!(console.told(), (1, 6, 1, String::new()));
        console.say(1, 6, 1);
        console
    }

    /// Sends a control message: port, event, value.
    fn say(&mut self, port: u32, event: u16, value: u16) {
        let mut message = Vec::from(port.to_le_bytes());
        message.extend(event.to_le_bytes());
        message.extend(value.to_le_bytes());
        self.say_bytes(&message);
    }

    fn say_bytes(&mut self, message: &[u8]) {
        self.driver.put(SAID, message);
        self.driver.add(CONTROL_TRANSMIT, 0, &[(SAID, message.len() as u32, 0)]);
        self.said += 1;
        self.driver.used(CONTROL_TRANSMIT, self.said);
    }

    /// Gets the next control message.
    fn told(&mut self) -> (u32, u16, u16, String) {
        self.driver.add(CONTROL_RECEIVE, 0, &[(TOLD, 64, WRITE)]);
        self.told += 1;
        let (_, length) = self.driver.used(CONTROL_RECEIVE, self.told);
        let data = self.driver.take(TOLD, length as usize);
        let word = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        (
            u32::from(word(2)) << 16 | u32::from(word(0)),
            word(4),
            word(6),
            String::from_utf8(data[8..].to_vec()).unwrap(),
        )
    }

    /// Gives the device a buffer and waits for it to come back.
    pub(super) fn receive(&mut self, room: u32) -> Vec<u8> {
        self.driver.add(RECEIVE, 0, &[(IN, room, WRITE)]);
        self.received += 1;
        let (_, length) = self.driver.used(RECEIVE, self.received);
        self.driver.take(IN, length as usize)
    }
}

#[test]
fn the_port_is_announced_named_and_opened() {
    let mut console = Ends::open();
    console.host.write_all(b"from the host").unwrap();
    assert_eq!(console.receive(4), b"from");
    assert_eq!(console.receive(100), b" the host");
    console.driver.put(OUT, b"from the guest");
    console.driver.add(TRANSMIT, 0, &[(OUT, 5, 0), (OUT + 5, 9, 0)]);
    console.driver.used(TRANSMIT, 1);
    let mut data = [0; 14];
    console.host.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"from the guest");
    assert_eq!(console.driver.get(0x1004, 4), 2, "max_nr_ports");
}

#[test]
fn nothing_is_delivered_before_the_guest_has_opened_the_port() {
    let mut console = Ends::new();
    console.host.write_all(b"early").unwrap();
    console.driver.add(RECEIVE, 0, &[(IN, 64, WRITE)]);
    console.say(0, 0, 1);
    console.told();
    console.say(1, 3, 1);
    assert_eq!((console.told().1, console.told().1), (7, 6));
    assert_eq!(console.driver.used_index(RECEIVE), 0);
    console.say(1, 6, 1);
    assert_eq!(console.driver.used(RECEIVE, 1), (0, 5));
    assert_eq!(console.driver.take(IN, 5), b"early");
    // The port is closed and opened again: the bytes that came meanwhile are there.
    console.say(1, 6, 0);
    console.host.write_all(b"later").unwrap();
    console.driver.add(RECEIVE, 0, &[(IN, 64, WRITE)]);
    console.say(9, 9, 9);
    assert_eq!(console.driver.used_index(RECEIVE), 1);
    console.say(1, 6, 1);
    assert_eq!(console.driver.used(RECEIVE, 2), (0, 5));
}

#[test]
fn megabytes_pass_both_ways_through_full_sockets_and_empty_queues() {
    const TOTAL: usize = 12 << 20;
    const CHUNK: u32 = 32 << 10;
    let mut console = Ends::open();
    let pattern = |at: usize| (at * 7 + at / 251) as u8;
    let (mut reader, mut writer) = (console.host.try_clone().unwrap(), console.host.try_clone().unwrap());
    let host_writes = std::thread::spawn(move || {
        let data: Vec<u8> = (0..TOTAL).map(pattern).collect();
        writer.write_all(&data).unwrap();
    });
    let host_reads = std::thread::spawn(move || {
        // The host reads late, when the socket is full.
        std::thread::sleep(Duration::from_millis(100));
        let mut data = vec![0; TOTAL];
        reader.read_exact(&mut data).unwrap();
        assert!(data.iter().enumerate().all(|(at, &byte)| byte == pattern(at)), "what the host read");
    });
    let (mut sent, mut received, mut transmits) = (0, 0, 0u16);
    while sent < TOTAL || received < TOTAL {
        if sent < TOTAL && console.driver.used_index(TRANSMIT) == transmits {
            let piece: Vec<u8> = (sent..sent + CHUNK as usize).map(pattern).collect();
            console.driver.put(OUT, &piece);
            console.driver.add(
                TRANSMIT,
                0,
                &[(OUT, CHUNK / 2, 0), (OUT + u64::from(CHUNK / 2), CHUNK / 2, 0)],
            );
            transmits = transmits.wrapping_add(1);
            sent += CHUNK as usize;
        }
        if received < TOTAL {
            let data = console.receive(CHUNK);
            assert!((received..).zip(&data).all(|(at, &byte)| byte == pattern(at)), "at {received}");
            received += data.len();
        }
    }
    host_writes.join().unwrap();
    host_reads.join().unwrap();
}

#[test]
fn a_host_that_goes_away_closes_the_port_and_a_guest_that_writes_on_is_not_held() {
    let mut console = Ends::open();
    console.host.write_all(b"last words").unwrap();
    console.host = UnixStream::pair().unwrap().0;
    assert_eq!(console.receive(64), b"last words");
    console.driver.add(RECEIVE, 0, &[(IN, 64, WRITE)]);
    assert_eq!(console.told(), (1, 6, 0, String::new()));
    for round in 1..100 {
        console.driver.add(TRANSMIT, 0, &[(OUT, 1 << 20, 0)]);
        console.driver.used(TRANSMIT, round);
    }
    assert_eq!(console.driver.used_index(RECEIVE), 1);
}

#[test]
fn what_the_guest_sent_before_its_end_arrives_and_then_the_end() {
    let mut console = Ends::open();
    console.driver.put(OUT, b"good bye");
    console.driver.add(TRANSMIT, 0, &[(OUT, 8, 0)]);
    drop(console.driver);
    let mut data = Vec::new();
    console.host.read_to_end(&mut data).unwrap();
    assert_eq!(data, b"good bye");
}

#[test]
fn control_messages_that_are_none_are_survived() {
    let mut console = Ends::open();
    for message in [&[][..], &[0], &[1, 0, 0, 0, 6, 0, 1], &[0xff; 8], &[0xff; 64]] {
        if message.is_empty() {
            continue;
        }
        console.say_bytes(message);
    }
    for port in [0, 1, 2, !0] {
        for event in (0..10).chain([!0]).filter(|event| (port, *event) != (1, 6)) {
            for value in [0, 2, !0] {
                console.say(port, event, value);
            }
        }
    }
    // A question that comes a thousand times has one answer.
    for _ in 0..1000 {
        console.say(0, 0, 1);
        console.say(1, 3, 1);
    }
    assert_eq!((console.told().1, console.told().1, console.told().1), (1, 7, 6));
    console.host.write_all(b"well").unwrap();
    assert_eq!(console.receive(64), b"well");
    // A buffer into which no message fits.
    console.driver.add(CONTROL_RECEIVE, 0, &[(TOLD, 7, WRITE)]);
    console.say(0, 0, 1);
    console.driver.wait_for_needs_reset("a control buffer of 7 bytes");
}

#[test]
fn a_reset_forgets_the_driver_and_keeps_the_host() {
    let mut console = Ends::open();
    // A chain is on its way when the reset comes: the host reads nothing.
    for round in 0..64 {
        console.driver.add(TRANSMIT, round, &[(OUT, 1 << 20, 0)]);
    }
    console.driver.start(!0);
    (console.said, console.told, console.received) = (0, 0, 0);
    console.say(0, 0, 1);
    assert_eq!(console.told().1, 1);
    console.say(1, 3, 1);
    assert_eq!((console.told().1, console.told().1), (7, 6));
    console.say(1, 6, 1);
    console.host.write_all(b"well").unwrap();
    assert_eq!(console.receive(64), b"well");
}

#[test]
fn buffers_the_wrong_way_round_carry_nothing() {
    let mut console = Ends::open();
    console.driver.add(TRANSMIT, 0, &[(OUT, 64, WRITE)]);
    assert_eq!(console.driver.used(TRANSMIT, 1), (0, 0));
    console.host.write_all(b"data").unwrap();
    console.driver.add(RECEIVE, 0, &[(IN, 64, 0)]);
    assert_eq!(console.driver.used(RECEIVE, 1), (0, 0));
    console.received = 1;
    assert_eq!(console.receive(64), b"data");
    wait(|| console.driver.interrupts.pin(), "an interrupt");
}
