//! Tests of the transport, over a device that answers every request with the request's bytes.

use belfry_bus::Function as _;

use super::ring::Rings;
use super::testing::{
    ACKNOWLEDGE, BUFFERS, DRIVER, DRIVER_OK, Driver, FEATURES_OK, NEEDS_RESET, NEXT, QUEUE_DESC,
    QUEUE_DEVICE, QUEUE_DRIVER, QUEUE_ENABLE, QUEUE_SELECT, QUEUE_SIZE, QUEUE_VECTOR, RAM, STATUS, WRITE,
    wait,
};
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress};

const INDIRECT: u16 = 4;
const VERSION_1: u64 = 1 << 32;
const EVENT_IDX: u64 = 1 << 29;
const READY: u8 = ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK;

/// Copies the readable bytes to the writable ones; an empty request makes it panic, as a bug would.
#[derive(Debug, Default)]
struct Echo;

impl Device for Echo {
    fn profile(&self) -> Profile {
        Profile {
            name: "echo".into(),
            id: 42,
            class: 0xff_0000,
            features: 1 << 5,
            queues: vec![8, 4],
            config: (1..=12).collect(),
        }
    }

    fn reset(&mut self) {}

    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        let Some(mut chain) = rings.pop(0)? else { return Ok(Progress::Idle) };
        assert!(chain.readable.len() + chain.writable.len() > 0, "an empty request");
        let mut data = vec![0; chain.readable.len().min(4096) as usize];
        chain.readable.read(rings.memory(), &mut data)?;
        let written = chain.writable.write(rings.memory(), &data)?;
        rings.push(0, &chain, written as u64)?;
        Ok(Progress::More)
    }
}

fn echo(driver: &Driver, text: &[u8], count: u16) -> Vec<u8> {
    driver.put(BUFFERS, text);
    driver.put(BUFFERS + 0x1000, &[0; 64]);
    driver.add(0, 0, &[(BUFFERS, text.len() as u32, 0), (BUFFERS + 0x1000, 64, WRITE)]);
    let (head, length) = driver.used(0, count);
    assert_eq!(head, 0);
    driver.take(BUFFERS + 0x1000, length as usize)
}

#[test]
fn requests_are_answered_with_and_without_the_event_index() {
    for mask in [!0, !EVENT_IDX] {
        let driver = Driver::new(Echo);
        driver.start(mask);
        for round in 1..=20 {
            assert_eq!(echo(&driver, b"hello", round), b"hello");
        }
        assert_eq!(driver.status(), READY);
    }
}

#[test]
fn interrupts_take_the_queues_vector_or_the_pin() {
    // Without MSI-X, and without the event index, every request sets the ISR byte.
    let driver = Driver::new(Echo);
    driver.start(!EVENT_IDX);
    echo(&driver, b"a", 1);
    wait(|| driver.interrupts.pin(), "the pin");
    assert_eq!(driver.config(6, 2) & 1 << 3, 1 << 3);
    assert_eq!(driver.get(0x800, 1), 1);
    assert!(!driver.interrupts.pin());
    assert_eq!((driver.get(0x800, 1), driver.config(6, 2) & 1 << 3), (0, 0));

    // Interrupts are switched off in the command register.
    driver.function.config_write(4, &[6, 4]);
    echo(&driver, b"a", 2);
    wait(|| driver.config(6, 2) & 1 << 3 != 0, "the status register");
    assert!(!driver.interrupts.pin());
    driver.function.config_write(4, &[6, 0]);
    assert!(driver.interrupts.pin());
    driver.get(0x800, 1);

    // By message: vector 0 is the first queue's.
    let msix = driver.capability(0x11, None);
    driver.function.config_write(msix + 2, &0x8000u16.to_le_bytes());
    for (at, word) in [(0, 0xfee0_0000u64), (4, 0), (8, 0x41), (12, 0)] {
        driver.set(0x3000 + at, 4, word);
    }
    echo(&driver, b"a", 3);
    wait(|| driver.interrupts.raised() == [0], "the message");
    assert_eq!((driver.get(0x800, 1), driver.interrupts.pin()), (0, false));
    assert_eq!(driver.interrupts.routes()[0].map(|message| message.data), Some(0x41));

    // The vector is masked, so the interrupt is pending.
    driver.set(0x300c, 4, 1);
    echo(&driver, b"a", 4);
    wait(|| driver.get(0x3800, 8) == 1, "the pending bit");
    assert!(driver.interrupts.raised().is_empty());
    driver.set(0x300c, 4, 0);
    assert_eq!((driver.interrupts.raised(), driver.get(0x3800, 8)), (vec![0], 0));
}

#[test]
fn drivers_that_want_no_interrupts_get_none() {
    let driver = Driver::new(Echo);
    driver.start(!EVENT_IDX);
    driver.store(driver.rings(0).avail, 1u16);
    echo(&driver, b"a", 1);
    driver.store(driver.rings(0).avail, 0u16);
    echo(&driver, b"b", 2);
    wait(|| driver.interrupts.pin(), "the second interrupt");
    driver.store(driver.rings(0).avail, 1u16);
    driver.get(0x800, 1);
    echo(&driver, b"c", 3);
    // The device pushes, then interrupts: a second answer shows that it has not interrupted for the first one.
    echo(&driver, b"d", 4);
    assert!(!driver.interrupts.pin());
}

#[test]
fn features_are_negotiated_as_the_standard_has_it() {
    let driver = Driver::new(Echo);
    assert_eq!(driver.offered(), VERSION_1 | EVENT_IDX | 1 << 28 | 1 << 5);
    driver.set(0, 4, 2);
    assert_eq!(driver.get(4, 4), 0);
    for (features, accepted) in [
        (VERSION_1, true),
        (VERSION_1 | 1 << 5, true),
        (0, false),
        (1 << 5, false),
        (VERSION_1 | 1 << 6, false),
        (VERSION_1 | 1 << 40, false),
    ] {
        driver.set(STATUS, 1, 0);
        driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER).into());
        driver.accept(features);
        driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER | FEATURES_OK).into());
        assert_eq!(driver.status() & FEATURES_OK != 0, accepted, "{features:#x}");
        // DRIVER_OK without agreed features starts nothing.
        driver.set(STATUS, 1, READY.into());
        assert_eq!(driver.status() & DRIVER_OK != 0, accepted, "{features:#x}");
    }
    // Negotiated features stay.
    driver.start(!0);
    driver.accept(0);
    driver.set(8, 4, 1);
    assert_eq!(driver.get(12, 4), VERSION_1 >> 32);
}

#[test]
fn status_bits_are_only_cleared_by_a_reset() {
    let driver = Driver::started(Echo);
    for value in [ACKNOWLEDGE, NEEDS_RESET, DRIVER_OK] {
        driver.set(STATUS, 1, value.into());
        assert_eq!(driver.status(), READY);
    }
    driver.set(STATUS, 1, 0x80);
    assert_eq!(driver.status(), READY | 0x80);
    driver.set(STATUS, 1, 0);
    assert_eq!(driver.status(), 0);
    driver.set(QUEUE_SELECT, 2, 1);
    assert_eq!((driver.get(QUEUE_ENABLE, 2), driver.get(QUEUE_SIZE, 2)), (0, 4));
    assert_eq!((driver.get(QUEUE_DESC, 8), driver.get(QUEUE_VECTOR, 2)), (0, 0xffff));
    // And everything works again.
    driver.start(!0);
    assert_eq!(echo(&driver, b"again", 1), b"again");
}

#[test]
fn the_common_structure_reads_and_writes_the_same_in_every_width() {
    let driver = Driver::new(Echo);
    driver.set(QUEUE_SELECT, 2, 1);
    driver.set(QUEUE_DESC, 4, 0x1122_3340);
    driver.set(QUEUE_DESC + 4, 4, 0x99aa_bbcc);
    driver.set(QUEUE_DRIVER, 8, 0x0102_0304_0506_0708);
    for (offset, byte) in (0..8).zip([0x70, 0x60, 0x50, 0x40, 0x30, 0x20, 0x10, 0x00]) {
        driver.set(QUEUE_DEVICE + offset, 1, byte);
    }
    assert_eq!(driver.get(QUEUE_DESC, 8), 0x99aa_bbcc_1122_3340);
    assert_eq!(driver.get(QUEUE_DEVICE, 8), 0x0010_2030_4050_6070);
    let bytes: Vec<u8> = (0..0x50).map(|at| driver.get(at, 1) as u8).collect();
    assert_eq!(bytes[0x12..0x16], [2, 0, 0, 0]);
    assert_eq!(bytes[0x16..0x20], [1, 0, 4, 0, 0xff, 0xff, 0, 0, 1, 0]);
    for width in [2, 4, 8] {
        for offset in 0..0x48 {
            let mut expected = [0; 8];
            expected[..width].copy_from_slice(&bytes[offset..offset + width]);
            assert_eq!(
                driver.get(offset as u64, width),
                u64::from_le_bytes(expected),
                "{width} at {offset:#x}"
            );
        }
    }
    // A queue that does not exist.
    driver.set(QUEUE_SELECT, 2, 2);
    driver.set(QUEUE_SIZE, 2, 8);
    driver.set(QUEUE_ENABLE, 2, 1);
    assert_eq!((driver.get(QUEUE_SIZE, 2), driver.get(QUEUE_ENABLE, 2), driver.get(0x1e, 2)), (0, 0, 0));
    // A vector that does not exist.
    driver.set(0x10, 2, 3);
    assert_eq!(driver.get(0x10, 2), 0xffff);
    driver.set(0x10, 2, 2);
    assert_eq!(driver.get(0x10, 2), 2);
}

#[test]
fn every_access_anywhere_in_the_bar_is_survived() {
    let driver = Driver::started(Echo);
    for fill in [0xff, 0, 0x5a] {
        for width in [1, 2, 4, 8] {
            for offset in (0..0x4000).filter(|offset| offset & 0x7ff < 0x60 || offset & 0x7ff > 0x7f0) {
                driver.function.write(0, offset, &vec![fill; width]);
                driver.function.read(0, offset, &mut vec![0; width]);
            }
        }
    }
    driver.start(!0);
    assert_eq!(echo(&driver, b"still", 1), b"still");
    // The device's own configuration is read only.
    let config: Vec<u8> = (0..14).map(|at| driver.get(0x1000 + at, 1) as u8).collect();
    assert_eq!(config, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]);
}

#[test]
fn capabilities_name_the_structures() {
    let driver = Driver::new(Echo);
    assert_eq!((driver.config(0, 4), driver.config(8, 4)), (0x106a_1af4, 0xff00_0001));
    for (kind, offset, length) in [(1, 0, 0x3c), (2, 0x2000, 8), (3, 0x800, 1), (4, 0x1000, 12), (5, 0, 0)] {
        let at = driver.capability(9, Some(kind));
        let minimum = if matches!(kind, 2 | 5) { 20 } else { 16 };
        assert_eq!(driver.config(at + 2, 1), minimum, "capability {kind}");
        assert_eq!(
            (driver.config(at + 8, 4), driver.config(at + 12, 4)),
            (offset, length),
            "capability {kind}"
        );
    }
    assert_eq!(driver.config(driver.capability(9, Some(2)) + 16, 4), 4);
}

#[test]
fn the_window_in_configuration_space_reaches_the_bar() {
    let driver = Driver::new(Echo);
    let at = driver.capability(9, Some(5));
    let window = |bar: u8, offset: u32, length: u32| {
        driver.function.config_write(at + 4, &[bar]);
        driver.function.config_write(at + 8, &offset.to_le_bytes());
        driver.function.config_write(at + 12, &length.to_le_bytes());
    };
    window(0, 0x1000, 4);
    assert_eq!(driver.config(at + 16, 4), 0x0403_0201);
    window(0, 0x14, 1);
    driver.function.config_write(at + 16, &[ACKNOWLEDGE]);
    assert_eq!(driver.status(), ACKNOWLEDGE);
    assert_eq!(driver.config(at + 16, 1), u32::from(ACKNOWLEDGE));
    for (bar, offset, length) in
        [(1, 0x14, 1), (0, 0x15, 2), (0, 0x14, 3), (0, 0x4000, 4), (0, !0, 1), (0, !3, 4), (0, 0x14, !0)]
    {
        window(bar, offset, length);
        driver.function.config_write(at + 16, &[0xff; 4]);
        driver.config(at + 16, 4);
        assert_eq!(driver.status(), ACKNOWLEDGE, "{length} bytes at {offset:#x} of BAR {bar}");
    }
}

#[test]
fn queues_that_are_none_put_the_device_out_of_service() {
    type Case = (&'static str, u64, usize, u64);
    let cases: [Case; 10] = [
        ("no entries", QUEUE_SIZE, 2, 0),
        ("3 entries", QUEUE_SIZE, 2, 3),
        ("more entries than there may be", QUEUE_SIZE, 2, 16),
        ("descriptors outside of memory", QUEUE_DESC, 8, RAM),
        ("descriptors across the end of memory", QUEUE_DESC, 8, RAM - 16),
        ("descriptors at the end of all addresses", QUEUE_DESC, 8, !0xf),
        ("descriptors that are not aligned", QUEUE_DESC, 8, 0x2008),
        ("available ring that is not aligned", QUEUE_DRIVER, 8, 0x2001),
        ("used ring that was not set up", QUEUE_DEVICE, 8, 0),
        ("used ring that is not aligned", QUEUE_DEVICE, 8, 0x2002),
    ];
    for (what, register, width, value) in cases {
        let driver = Driver::new(Echo);
        driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER).into());
        driver.accept(VERSION_1);
        driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER | FEATURES_OK).into());
        for (register, value) in
            [(QUEUE_DESC, 0x10_0000), (QUEUE_DRIVER, 0x11_0000), (QUEUE_DEVICE, 0x12_0000)]
        {
            driver.set(register, 8, value);
        }
        driver.set(register, width, value);
        driver.set(QUEUE_ENABLE, 2, 1);
        driver.wait_for_needs_reset(what);
        assert_eq!(driver.get(QUEUE_ENABLE, 2), 0, "{what}");
        driver.start(!0);
        assert_eq!(echo(&driver, b"well", 1), b"well");
    }
}

#[test]
fn chains_that_are_none_put_the_device_out_of_service_and_tell_the_driver() {
    type Make = fn(&Driver);
    let cases: [(&str, Make); 10] = [
        ("a chain that comes back to itself", |driver| {
            driver.describe(0, 0, (BUFFERS, 4, NEXT), 1);
            driver.describe(0, 1, (BUFFERS, 4, NEXT), 0);
            driver.offer(0, 0);
        }),
        ("a head outside of the table", |driver| driver.offer(0, 8)),
        ("a next outside of the table", |driver| {
            driver.describe(0, 0, (BUFFERS, 4, NEXT), 99);
            driver.offer(0, 0);
        }),
        ("a buffer outside of memory", |driver| driver.add(0, 0, &[(RAM, 1, 0)])),
        ("a buffer across the end of memory", |driver| driver.add(0, 0, &[(RAM - 8, 9, WRITE)])),
        ("a buffer at the end of all addresses", |driver| driver.add(0, 0, &[(!0 - 3, !0, WRITE)])),
        ("a readable buffer behind a writable one", |driver| {
            driver.add(0, 0, &[(BUFFERS, 4, WRITE), (BUFFERS, 4, 0)]);
        }),
        ("an indirect table in an indirect table", |driver| {
            driver.put(BUFFERS, &BUFFERS.to_le_bytes());
            driver.put(BUFFERS + 8, &16u32.to_le_bytes());
            driver.put(BUFFERS + 12, &INDIRECT.to_le_bytes());
            driver.add(0, 0, &[(BUFFERS, 16, INDIRECT)]);
        }),
        ("an indirect table of no whole descriptors", |driver| driver.add(0, 0, &[(BUFFERS, 17, INDIRECT)])),
        ("an indirect table outside of memory", |driver| driver.add(0, 0, &[(!0 - 255, 256, INDIRECT)])),
    ];
    let driver = Driver::started(Echo);
    for (what, make) in cases {
        driver.start(!0);
        make(&driver);
        driver.wait_for_needs_reset(what);
        wait(|| driver.get(0x800, 1) & 2 != 0, "the interrupt of the configuration");
        let before = driver.used_index(0);
        driver.notify(0);
        driver.add(0, 0, &[(BUFFERS, 4, 0)]);
        assert_eq!(driver.used_index(0), before, "{what}");
    }
    // The available index is far ahead.
    driver.start(!0);
    driver.store(driver.rings(0).avail + 2, 9u16);
    driver.notify(0);
    driver.wait_for_needs_reset("an index that runs away");
    driver.start(!0);
    assert_eq!(echo(&driver, b"well", 1), b"well");
}

#[test]
fn absurdly_long_chains_and_lengths_are_refused_or_survived() {
    let driver = Driver::started(Echo);
    // An indirect table of 2000 buffers.
    let table: Vec<u8> = (0..2000u16)
        .flat_map(|at| {
            let mut entry = Vec::from(BUFFERS.to_le_bytes());
            entry.extend(4096u32.to_le_bytes());
            entry.extend(if at < 1999 { NEXT } else { 0 }.to_le_bytes());
            entry.extend((at + 1).to_le_bytes());
            entry
        })
        .collect();
    driver.put(BUFFERS + 0x10_0000, &table);
    driver.add(0, 0, &[(BUFFERS + 0x10_0000, table.len() as u32, INDIRECT)]);
    driver.wait_for_needs_reset("a chain of 2000 buffers");
    // 8 buffers, each of all memory.
    driver.start(!0);
    driver.add(0, 0, &[(0, RAM as u32, 0); 8]);
    assert_eq!(driver.used(0, 1), (0, 0));
    // Buffers of no length.
    driver.put(BUFFERS, b"x");
    driver.add(0, 0, &[(BUFFERS, 0, 0), (BUFFERS, 1, 0), (BUFFERS + 8, 0, WRITE), (BUFFERS + 9, 4, WRITE)]);
    assert_eq!(driver.used(0, 2), (0, 1));
    assert_eq!(driver.take(BUFFERS + 9, 1), b"x");
}

#[test]
fn queues_that_are_not_enabled_and_notifications_of_no_queue_are_nothing() {
    let driver = Driver::new(Echo);
    driver.notify(0);
    driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER).into());
    driver.accept(VERSION_1);
    driver.set(STATUS, 1, (ACKNOWLEDGE | DRIVER | FEATURES_OK).into());
    driver.enable(1);
    driver.set(STATUS, 1, READY.into());
    for queue in [0, 1, 2, 100, 511] {
        driver.notify(queue);
    }
    // Queues are set up before the driver is ready, or not at all.
    driver.enable(0);
    assert_eq!(driver.get(QUEUE_ENABLE, 2), 0);
    driver.start(!0);
    assert_eq!(echo(&driver, b"well", 1), b"well");
}

#[test]
fn devices_that_may_not_use_the_bus_wait_until_they_may() {
    let driver = Driver::started(Echo);
    driver.function.config_write(4, &[2, 0]);
    driver.put(BUFFERS, b"later");
    driver.add(0, 0, &[(BUFFERS, 5, 0), (BUFFERS + 64, 5, WRITE)]);
    driver.notify(0);
    assert_eq!(driver.used_index(0), 0);
    driver.function.config_write(4, &[6, 0]);
    assert_eq!(driver.used(0, 1), (0, 5));
}

#[test]
fn resets_in_a_loop_with_requests_in_flight_leave_a_device_that_works() {
    let driver = Driver::started(Echo);
    for _ in 0..500 {
        driver.start(!0);
        driver.add(0, 0, &[(BUFFERS, 4096, 0), (BUFFERS + 4096, 4096, WRITE)]);
        driver.set(STATUS, 1, 0);
        assert_eq!(driver.status(), 0);
        // After a reset, nothing is written.
        let index = driver.used_index(0);
        driver.notify(0);
        assert_eq!(driver.used_index(0), index);
    }
    driver.start(!0);
    assert_eq!(echo(&driver, b"well", 1), b"well");
}

#[test]
fn a_bug_in_a_device_is_not_the_end_of_the_machine() {
    let driver = Driver::started(Echo);
    driver.add(0, 0, &[(BUFFERS, 0, 0)]);
    driver.wait_for_needs_reset("a panic");
    driver.start(!0);
    assert_eq!(echo(&driver, b"well", 1), b"well");
}

impl Driver {
    fn config(&self, offset: usize, width: usize) -> u32 {
        let mut data = [0; 4];
        self.function.config_read(offset, &mut data[..width]);
        u32::from_le_bytes(data)
    }

    /// Returns the offset of a capability; of virtio's own, that of a type.
    fn capability(&self, id: u32, kind: Option<u32>) -> usize {
        let mut at = self.config(0x34, 1) as usize;
        for _ in 0..16 {
            if self.config(at, 1) == id && kind.is_none_or(|kind| self.config(at + 3, 1) == kind) {
                return at;
            }
            at = self.config(at + 1, 1) as usize;
        }
        panic!("no capability {id:#x} of type {kind:?}");
    }
}
