//! The guest channel under a driver that knows no rules: after anything it did, a reset gives a channel that
//! works.

#![no_main]

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::kvm::driver::{BUFFERS, Driver, WRITE};
use libfuzzer_sys::fuzz_target;

const CONTROL_RECEIVE: usize = 2;
const CONTROL_TRANSMIT: usize = 3;
const TRANSMIT: usize = 5;
const PORT: u32 = 1;
const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;
const PORT_NAME: u16 = 7;
const HELLO: &[u8] = b"hello";

fuzz_target!(|input: &[u8]| {
    let (driver, host) = Driver::console();
    let mut host = Some(host);
    driver.start(u64::MAX);
    for access in accesses(input) {
        match access.kind & 15 {
            10 | 11 => send(&driver, host.as_mut(), &access),
            12 => {
                host.as_mut().map(drain);
                driver.run();
            }
            // Rarely, as it is for good.
            13 if access.kind >> 4 == 13 => {
                host = None;
                driver.run();
            }
            14 => works(&driver, host.as_mut()),
            _ => driver.act(&access),
        }
    }
    works(&driver, host.as_mut());
});

/// The host sends; as much as there is room for.
fn send(driver: &Driver, host: Option<&mut UnixStream>, access: &Access) {
    if let Some(host) = host {
        let times = 1 + access.offset as usize % 0x1000;
        // A socket that is full takes nothing.
        let _ = host.write(&access.data().repeat(times));
    }
    driver.run();
}

/// Reads the bytes that the guest has sent.
fn drain(host: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    let ended = host.read_to_end(&mut all).expect_err("the device keeps its end open");
    assert_eq!(ended.kind(), ErrorKind::WouldBlock);
    all
}

fn control(event: u16, value: u16) -> Vec<u8> {
    let mut message = Vec::from(PORT.to_le_bytes());
    message.extend(event.to_le_bytes());
    message.extend(value.to_le_bytes());
    message
}

/// Brings the channel up as Linux does, and has the guest send something.
fn works(driver: &Driver, mut host: Option<&mut UnixStream>) {
    driver.start(u64::MAX);
    for at in 0..3 {
        driver.describe(CONTROL_RECEIVE, at, (BUFFERS + u64::from(at) * 64, 64, WRITE), 0);
        driver.offer(CONTROL_RECEIVE, at);
    }
    for (at, message) in
        (0u16..).zip([control(DEVICE_READY, 1), control(PORT_READY, 1), control(PORT_OPEN, 1)])
    {
        let buffer = BUFFERS + 0x400 + u64::from(at) * 64;
        driver.put(buffer, &message);
        driver.describe(CONTROL_TRANSMIT, at, (buffer, 8, 0), 0);
        driver.offer(CONTROL_TRANSMIT, at);
        driver.run();
    }
    assert_eq!(driver.returned(CONTROL_TRANSMIT), 3, "control messages come back");
    // A port whose host was gone before is not opened; that it has gone is noticed when something is sent or received.
    let told = driver.returned(CONTROL_RECEIVE);
    assert!(told == 3 || told == 2 && host.is_none(), "{told} control messages");
    for (at, event) in (0..u64::from(told)).zip([PORT_ADD, PORT_NAME, PORT_OPEN]) {
        let message = driver.take(BUFFERS + at * 64, 8);
        let closed = host.is_none() && message == control(PORT_OPEN, 0);
        assert!(message == control(event, 1) || closed, "control message {at}: {message:x?}");
    }
    if let Some(host) = &mut host {
        drain(host);
    }
    driver.put(BUFFERS + 0x800, HELLO);
    driver.describe(TRANSMIT, 0, (BUFFERS + 0x800, HELLO.len() as u32, 0), 0);
    driver.offer(TRANSMIT, 0);
    driver.run();
    assert_eq!(driver.returned(TRANSMIT), 1, "what the guest sends is taken");
    if let Some(host) = host {
        assert_eq!(drain(host), HELLO);
    }
}
