//! Tests of the card, with a driver on one side and a socket on the other.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Network;
use super::testing::{BUFFERS, Driver, WRITE, wait};

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const IN: u64 = BUFFERS;
const OUT: u64 = BUFFERS + 0x10_0000;
const HEADER: usize = 12;

struct Ends {
    driver: Driver,
    host: UnixStream,
    sent: u16,
    received: u16,
}

impl Ends {
    fn new() -> Self {
        let (host, device) = UnixStream::pair().unwrap();
        Self::over(host, device)
    }

    fn over(host: UnixStream, device: UnixStream) -> Self {
        host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        host.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { driver: Driver::started(Network::new(device).unwrap()), host, sent: 0, received: 0 }
    }

    fn send(&mut self, frame: &[u8]) {
        self.driver.put(OUT, &[&[0xee; HEADER], frame].concat());
        let length = frame.len() as u32;
        self.driver.add(TRANSMIT, 0, &[(OUT, HEADER as u32, 0), (OUT + HEADER as u64, length, 0)]);
        self.sent += 1;
        self.driver.used(TRANSMIT, self.sent);
    }

    /// Waits until the card waits for its host, as after a time without frames.
    fn settle(&mut self) {
        self.send(&frame(60));
        assert_eq!(self.heard(), frame(60));
        std::thread::sleep(Duration::from_millis(20));
    }

    fn heard(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.host.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.host.read_exact(&mut frame).unwrap();
        frame
    }

    fn tell(&mut self, frame: &[u8]) {
        self.host.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
        self.host.write_all(frame).unwrap();
    }

    /// Gives the card a buffer and waits for it to come back.
    fn receive(&mut self, room: u32) -> Vec<u8> {
        self.driver.add(
            RECEIVE,
            0,
            &[(IN, room / 2, WRITE), (IN + u64::from(room / 2), room - room / 2, WRITE)],
        );
        self.received += 1;
        let (_, length) = self.driver.used(RECEIVE, self.received);
        let data = self.driver.take(IN, length as usize);
        assert_eq!(data[..HEADER], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "one buffer, nothing left to do");
        data[HEADER..].to_vec()
    }
}

fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

#[test]
fn frames_travel_both_ways() {
    let mut ends = Ends::new();
    assert_eq!(ends.driver.get(0x1000, 4), 0x1200_5452);
    assert_eq!((ends.driver.get(0x1004, 2), ends.driver.get(0x100a, 2)), (0x5634, 1500));
    for length in [14, 60, 1514, 1518] {
        ends.send(&frame(length));
        assert_eq!(ends.heard(), frame(length));
        ends.tell(&frame(length));
        assert_eq!(ends.receive(1530), frame(length));
    }
}

#[test]
fn frames_that_are_none_are_lost_and_the_next_one_is_not() {
    let mut ends = Ends::new();
    for length in [1, 13, 1519, 60_000] {
        ends.send(&frame(length));
    }
    // Requests without a whole header, and without any byte that a device may read.
    for chain in [[(OUT, 11, 0)], [(OUT, 12, 0)], [(OUT, 4096, WRITE)]] {
        ends.driver.add(TRANSMIT, 0, &chain);
        ends.sent += 1;
        ends.driver.used(TRANSMIT, ends.sent);
    }
    ends.send(&frame(100));
    assert_eq!(ends.heard(), frame(100));
    // A frame that does not fit the guest's buffer is lost; the buffer is not.
    ends.tell(&frame(1000));
    ends.tell(&frame(40));
    assert_eq!(ends.receive(100), frame(40));
}

#[test]
fn buffer_that_cannot_be_written_is_not_used() {
    let (host, device) = UnixStream::pair().unwrap();
    let unread = device.try_clone().unwrap();
    let mut ends = Ends::over(host, device);
    ends.driver.add(RECEIVE, 0, &[(IN, 4096, 0)]);
    ends.tell(&frame(50));
    ends.tell(&frame(60));
    wait(|| rustix::io::ioctl_fionread(&unread).unwrap() == 0, "the card to read both frames");
    ends.driver.worked(RECEIVE);
    assert_eq!(ends.driver.used_index(RECEIVE), 0, "both frames are lost, the buffer is not");
    ends.driver.describe(RECEIVE, 0, (IN, 4096, WRITE), 0);
    ends.tell(&frame(70));
    assert_eq!(ends.driver.used(RECEIVE, 1), (0, (HEADER + 70) as u32));
    assert_eq!(ends.driver.take(IN + HEADER as u64, 70), frame(70));
}

#[test]
fn frames_wait_for_buffers_and_for_the_socket() {
    let mut ends = Ends::new();
    let mut writer = ends.host.try_clone().unwrap();
    // More bytes than sockets hold, in writes that do not match frames.
    let telling = std::thread::spawn(move || {
        let mut stream = Vec::new();
        for number in 0..2000 {
            let frame = frame(60 + number % 1400);
            stream.extend((frame.len() as u32).to_be_bytes());
            stream.extend(frame);
        }
        stream.chunks(777).for_each(|piece| writer.write_all(piece).unwrap());
    });
    for number in 0..2000 {
        assert_eq!(ends.receive(1530), frame(60 + number % 1400), "frame {number}");
    }
    telling.join().unwrap();
    let mut reader = ends.host.try_clone().unwrap();
    let hearing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let mut stream = vec![0; 2000 * 1518];
        reader.read_exact(&mut stream).unwrap();
        stream.chunks(1518).all(|piece| piece[..4] == 1514u32.to_be_bytes() && piece[4..] == frame(1514))
    });
    for _ in 0..2000 {
        ends.send(&frame(1514));
    }
    assert!(hearing.join().unwrap(), "what the host heard");
}

#[test]
fn a_reset_in_the_middle_of_a_frame_does_not_break_the_stream() {
    let mut ends = Ends::new();
    // The guest sends until the socket takes no more.
    ends.driver.put(OUT, &[&[0; HEADER], &frame(1514)[..]].concat());
    let (mut offered, mut before) = (0u16, u16::MAX);
    while ends.driver.used_index(TRANSMIT) != before {
        before = ends.driver.used_index(TRANSMIT);
        for _ in 0..64 {
            ends.driver.add(TRANSMIT, offered % 128, &[(OUT, 1526, 0)]);
            offered += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
        if offered - ends.driver.used_index(TRANSMIT) >= 64 {
            break;
        }
    }
    let taken = ends.driver.used_index(TRANSMIT);
    assert!(taken < offered, "the socket took everything");
    ends.tell(&frame(99));
    ends.driver.start(!0);
    (ends.sent, ends.received) = (0, 0);
    for number in 0..taken {
        assert_eq!(ends.heard(), frame(1514), "frame {number} of {taken}");
    }
    ends.send(&frame(64));
    assert_eq!(ends.heard(), frame(64));
    assert_eq!(ends.receive(1530), frame(99));
}

#[test]
fn a_network_that_ends_takes_the_guests_frames_and_gives_none() {
    let mut ends = Ends::new();
    ends.tell(&frame(70));
    ends.host = UnixStream::pair().unwrap().0;
    assert_eq!(ends.receive(1530), frame(70));
    ends.driver.add(RECEIVE, 0, &[(IN, 1530, WRITE)]);
    for _ in 0..100 {
        ends.send(&frame(1514));
    }
    assert_eq!(ends.driver.used_index(RECEIVE), 1);
}

#[test]
fn a_network_may_end_while_the_card_waits_for_it() {
    let mut ends = Ends::new();
    ends.settle();
    ends.host = UnixStream::pair().unwrap().0;
    ends.driver.add(RECEIVE, 0, &[(IN, 1530, WRITE)]);
    for _ in 0..100 {
        ends.send(&frame(1514));
    }
    assert_eq!(ends.driver.used_index(RECEIVE), 0);
}

#[test]
fn a_stream_that_is_no_frames_ends_the_network() {
    for (length, waits) in [0u32, 65_550, !0].into_iter().flat_map(|length| [(length, false), (length, true)])
    {
        let mut ends = Ends::new();
        if waits {
            ends.settle();
        }
        ends.host.write_all(&length.to_be_bytes()).unwrap();
        ends.driver.add(RECEIVE, 0, &[(IN, 1530, WRITE)]);
        let mut end = [0];
        assert_eq!(ends.host.read(&mut end).unwrap(), 0, "{length}: the card closes its end");
        ends.send(&frame(60));
    }
}

#[test]
fn what_breaks_a_queue_puts_the_card_out_of_service() {
    let ends = Ends::new();
    ends.driver.add(TRANSMIT, 0, &[(!0 - 100, 60, 0)]);
    ends.driver.wait_for_needs_reset("a buffer that is not memory");
    ends.driver.start(!0);
    wait(|| ends.driver.status() & 64 == 0, "a card that works again");
}
