//! Snapshots that are damaged, or of another device.

use std::cell::Cell;

use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, SavedGpu, SnapshotError};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::Numbers;
use super::guest::{Guest, config};
use crate::driver::{Driver, RAM};

thread_local! {
    /// Panics of this thread, caught or not: the shader engine survives its own.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Makes devices from damaged snapshots: each is refused, or is a device that works without a panic.
#[test]
fn damaged_snapshots_are_refused_or_run_without_panic() {
    let mut guest = Guest::new();
    while guest.steps < 200 {
        guest.step();
    }
    let saved = guest.driver.gpu.save().unwrap();
    assert!(saved.waves() > 0);
    let good = saved.to_bytes().unwrap();
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
    ram.write_slice(&guest.driver.used_ram(), GuestAddress(0)).unwrap();
    let mut numbers = Numbers(2);
    let mut damaged = |round: u64| {
        let mut bytes = good.clone();
        let at = numbers.next();
        // Everything but memory lies at the end: most of the damage is done there.
        let range = if round.is_multiple_of(4) { good.len() } else { 120_000.min(good.len()) } as u64;
        let at = good.len() - 1 - (at % range) as usize;
        match round % 5 {
            0 => bytes.truncate(at),
            1 => bytes[at] = 0xff,
            2 => bytes[at] = 0,
            3 => drop(bytes.splice(at..at, [0xff; 9])),
            _ => bytes[at] ^= 1 << (numbers.next() % 8),
        }
        bytes
    };
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        before(info);
    }));
    let (mut refused, mut taken) = (0, 0);
    for round in 0..300 {
        let restored = SavedGpu::from_bytes(&damaged(round)).and_then(|saved| {
            let config = GpuConfig { time: TimeSource::manual(), ..saved.config() };
            guest.driver.in_memory(ram.clone(), &saved, config)
        });
        match restored {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(driver) => {
                for _ in 0..20 {
                    driver.gpu.turn();
                    driver.gpu.pass();
                }
                taken += 1;
            }
        }
        assert_eq!(PANICS.get(), 0, "round {round}");
    }
    assert!(refused > 50 && taken > 50, "{refused} were refused, {taken} taken");
}

#[test]
fn snapshots_of_other_versions_chips_and_configurations_are_refused_by_name() {
    let driver = Driver::with(config());
    let saved = driver.gpu.save().unwrap();
    let good = saved.to_bytes().unwrap();
    let error = |bytes: &[u8]| SavedGpu::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(&[]), SnapshotError::Magic));
    assert!(matches!(error(&good[1..]), SnapshotError::Magic));
    assert!(matches!(error(&good[..good.len() - 1]), SnapshotError::Encoding(_)));
    assert!(matches!(error(&[&good[..], &[0]].concat()), SnapshotError::Trailing(1)));
    let mut other = good.clone();
    other[8] += 1;
    assert!(matches!(error(&other), SnapshotError::Version { found } if found == u32::from(other[8])));
    let chip = good.windows(7).position(|name| name == b"gfx1100").unwrap();
    other.clone_from(&good);
    other[chip + 6] = b'1';
    assert!(matches!(error(&other), SnapshotError::Chip(_)));
    let refused = |config| {
        let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
        driver.in_memory(ram, &saved, config).err().map(|error| error.to_string()).unwrap()
    };
    let config = || GpuConfig { time: TimeSource::manual(), ..saved.config() };
    assert!(refused(GpuConfig { cus: 2, ..config() }).starts_with("cus is 2, but was 4 when"));
    let seed = refused(GpuConfig { deterministic: None, ..config() });
    assert!(seed.starts_with("deterministic is none, but was 7 when"), "{seed}");
    driver.gpu.stop();
    assert!(matches!(driver.gpu.save(), Err(SnapshotError::Stopped)));
}
