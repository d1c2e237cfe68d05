//! The network card under a driver that knows no rules: frames go through whole, and a reset gives a card that works.

#![no_main]

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::kvm::driver::{BUFFERS, Driver, WRITE};
use libfuzzer_sys::fuzz_target;

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const HEADER: usize = 12;
const FRAME: [u8; 60] = [0x5a; 60];

fuzz_target!(|input: &[u8]| {
    let (driver, mut host) = Driver::network();
    driver.start(u64::MAX);
    let mut heard = Vec::new();
    for access in accesses(input) {
        match access.kind & 15 {
            10..=12 => tell(&driver, &mut host, &access),
            13 => drain(&mut host, &mut heard),
            14 => works(&driver, &mut host, &mut heard),
            _ => driver.act(&access),
        }
    }
    works(&driver, &mut host, &mut heard);
});

/// The host sends a frame, if there is room for a whole one.
fn tell(driver: &Driver, host: &mut UnixStream, access: &Access) {
    let length = 1 + access.offset as usize % 1600;
    let frame: Vec<u8> = access.data().iter().copied().chain([1]).cycle().take(length).collect();
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(frame);
    for piece in bytes.chunks(1 + usize::from(access.kind >> 4) * 100) {
        let mut piece = piece;
        while !piece.is_empty() {
            match host.write(piece) {
                Ok(written) => piece = &piece[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // The device takes waiting frames when it has buffers; a reset gives it some.
                    receive_one(driver);
                }
                Err(error) => panic!("the card has closed its end: {error}"),
            }
        }
        driver.run();
    }
}

/// Makes the card ready and gives it one buffer.
fn receive_one(driver: &Driver) {
    driver.start(u64::MAX);
    driver.describe(RECEIVE, 0, (BUFFERS, 0x800, WRITE), 0);
    driver.offer(RECEIVE, 0);
    driver.run();
}

/// Reads the frames that the guest has sent.
fn drain(host: &mut UnixStream, heard: &mut Vec<u8>) {
    let ended = host.read_to_end(heard).expect_err("the card keeps its end open");
    assert_eq!(ended.kind(), ErrorKind::WouldBlock);
    while let Some(length) = heard.first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        assert!((14..=1518).contains(&length), "a frame of {length} bytes");
        if heard.len() < 4 + length {
            return;
        }
        heard.drain(..4 + length);
    }
}

/// Brings the card up and sends a frame each way.
fn works(driver: &Driver, host: &mut UnixStream, heard: &mut Vec<u8>) {
    driver.start(u64::MAX);
    // The rest of a frame that the socket had no room for.
    for _ in 0..2 {
        driver.run();
        drain(host, heard);
    }
    assert!(heard.is_empty(), "{} bytes of a frame", heard.len());
    let buffer = BUFFERS + 0x1000;
    driver.put(buffer, &[0; HEADER]);
    driver.put(buffer + HEADER as u64, &FRAME);
    driver.describe(TRANSMIT, 0, (buffer, (HEADER + FRAME.len()) as u32, 0), 0);
    driver.offer(TRANSMIT, 0);
    driver.run();
    assert_eq!(driver.returned(TRANSMIT), 1, "what the guest sends is taken");
    let mut frame = [0; 4 + FRAME.len()];
    host.read_exact(&mut frame).expect("the guest's frame");
    assert!(frame[..4] == (FRAME.len() as u32).to_be_bytes() && frame[4..] == FRAME, "another frame");
}
