//! Tests of devices that are saved in the middle of their work, and go on in another function, on one memory.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use belfry_bus::Function as _;

use super::console::Console;
use super::console_tests::{Ends, IN, NAME, OUT, RECEIVE, TRANSMIT};
use super::testing::{Driver, WRITE};
use crate::saved::Unsaved;
use crate::saved::{SavedDevice, SavedVirtio};

/// Makes a frame of the channel with `length` bytes of payload.
fn frame(length: u32) -> Vec<u8> {
    let mut frame = vec![3];
    frame.extend(length.to_le_bytes());
    frame.extend((0..length).map(|at| at as u8));
    frame
}

fn saved(driver: &Driver) -> Result<SavedVirtio, Unsaved> {
    driver.function.hold(true);
    let saved = driver.function.save(2);
    driver.function.hold(false);
    saved
}

/// Goes on in another function with a host of its own; the first function does nothing any more.
fn go_on(before: &Driver, saved: &SavedVirtio) -> (Driver, UnixStream) {
    before.function.hold(true);
    let (host, device) = UnixStream::pair().unwrap();
    host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let console = Console::new(NAME, device).unwrap();
    (Driver::restored(console, before.memory.clone(), saved).unwrap(), host)
}

fn send(driver: &Driver, bytes: &[u8], count: u16) {
    driver.put(OUT, bytes);
    driver.add(TRANSMIT, 0, &[(OUT, bytes.len() as u32, 0)]);
    driver.used(TRANSMIT, count);
}

#[test]
fn channel_goes_on_with_the_frame_that_it_was_in() {
    let mut first = Ends::open();
    first.host.write_all(&frame(10)).unwrap();
    assert_eq!(first.receive(15), frame(10));
    let both = [frame(3), frame(300)].concat();
    send(&first.driver, &both[..100], 1);
    let mut taken = [0; 100];
    first.host.read_exact(&mut taken).unwrap();

    let state = saved(&first.driver).unwrap();
    let (driver, mut host) = go_on(&first.driver, &state);
    assert_eq!(driver.get(super::testing::STATUS, 1), first.driver.get(super::testing::STATUS, 1));
    send(&driver, &both[100..], 2);
    let mut whole = vec![0; 305];
    host.read_exact(&mut whole).unwrap();
    assert_eq!(whole, frame(300), "the second host gets whole frames");
    // In the other direction, interrupts go to their old vectors.
    host.write_all(&frame(7)).unwrap();
    driver.add(RECEIVE, 0, &[(IN, 64, WRITE)]);
    assert_eq!(driver.used(RECEIVE, 2), (0, 12));
    assert_eq!(driver.take(IN, 12), frame(7));
    assert_eq!(saved(&driver).unwrap().queues[RECEIVE].next, (2, 2));
    // Before it has moved any byte, its state is that of the first one.
    let (again, _host) = go_on(&first.driver, &state);
    let mut same = saved(&again).unwrap();
    if let (SavedDevice::Console(now), SavedDevice::Console(then)) = (&mut same.device, &state.device) {
        now.piece.clone_from(&then.piece);
    }
    assert_eq!((same.works, &same.config, &same.table), (true, &state.config, &state.table));
}

#[test]
fn requests_on_their_way_to_the_guest_keep_it_from_being_saved() {
    let mut first = Ends::open();
    assert!(saved(&first.driver).is_ok());
    first.host.write_all(&frame(20)).unwrap();
    assert_eq!(saved(&first.driver), Err(Unsaved::Busy), "the socket has it");
    first.receive(10);
    assert_eq!(saved(&first.driver), Err(Unsaved::Busy), "the guest has a part of it");
    first.receive(64);
    assert!(saved(&first.driver).is_ok());
    send(&first.driver, &[0xff; 64], 1);
    let Err(Unsaved::Refused(why)) = saved(&first.driver) else { panic!("these are no frames") };
    assert!(why.contains("frames"), "{why}");
}

#[test]
fn device_that_is_held_does_nothing() {
    let first = Ends::open();
    first.driver.function.hold(true);
    first.driver.put(OUT, b"later");
    first.driver.add(TRANSMIT, 0, &[(OUT, 5, 0)]);
    first.driver.worked(TRANSMIT);
    assert_eq!(first.driver.used_index(TRANSMIT), 0);
    first.driver.function.hold(false);
    first.driver.used(TRANSMIT, 1);
}

#[test]
fn values_that_no_device_has_are_refused() {
    let first = Ends::open();
    let good = saved(&first.driver).unwrap();
    first.driver.function.hold(true);
    let refused = |what: &str, change: &dyn Fn(&mut SavedVirtio)| {
        let mut bad = good.clone();
        change(&mut bad);
        let (_host, device) = UnixStream::pair().unwrap();
        let console = Console::new(NAME, device).unwrap();
        let made = Driver::restored(console, first.driver.memory.clone(), &bad);
        let error = made.err().unwrap_or_else(|| panic!("{what} is taken")).to_string();
        assert!(error.contains(what), "{error}");
    };
    refused("constant byte", &|bad| bad.config[0] ^= 1);
    refused("number of queues", &|bad| bad.queues.truncate(2));
    refused("features", &|bad| bad.accepted |= 1 << 60);
    refused("table", &|bad| bad.table.push(0));
    refused("pending", &|bad| bad.pending = 1 << 40);
    refused("vector", &|bad| bad.config_vector = 100);
    refused("works", &|bad| bad.status = 0);
    refused("place of a queue", &|bad| bad.queues[RECEIVE].desc = 1 << 40);
    refused("buffer", &|bad| {
        let SavedDevice::Console(console) = &mut bad.device else { panic!("it is a console") };
        console.outgoing =
            Some(crate::saved::SavedChain { readable: vec![(1 << 40, 8)], ..Default::default() });
    });
    let (_host, device) = UnixStream::pair().unwrap();
    let console = Console::new(NAME, device).unwrap();
    let driver = Driver::restored(console, first.driver.memory.clone(), &good).unwrap();
    let mut header = [0; 4];
    driver.function.config_read(0, &mut header);
    assert_eq!(u16::from_le_bytes([header[0], header[1]]), 0x1af4);
}
