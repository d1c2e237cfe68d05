//! Tests that need the inside of the device.

use std::sync::Arc;

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::{Gpu, Resources, SavedGpu, SnapshotError};
use crate::GpuConfig;
use crate::chip::gfx942;
use crate::memory::{Hive, Physical};
use crate::time::TimeSource;

const VRAM: u64 = 16 << 20;

fn resources() -> Resources {
    Resources {
        vram: MmapRegion::new(VRAM as usize).expect("anonymous memory"),
        doorbells: MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory"),
        system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        interrupts: Arc::new(DropsInterrupts),
    }
}

/// A device without its thread that may touch memory: it looks only when the test says so.
fn still(config: GpuConfig) -> Arc<Gpu> {
    let config = GpuConfig { vram_size: VRAM, workers: 1, ..config };
    let gpu = Gpu::new(config, resources()).expect("a valid configuration");
    gpu.config_write(4, &[6, 0]);
    gpu.serve_on_caller();
    gpu
}

#[test]
fn doorbell_hint_makes_looks_frequent_again() {
    let gpu = still(GpuConfig { poll_doorbells: true, ..GpuConfig::default() });
    let look = || gpu.runner.look();
    gpu.doorbell_hint();
    let shortest = look();
    for _ in 0..64 {
        look();
    }
    let longest = look();
    assert!(longest > shortest * 100, "{longest:?} after {shortest:?}");
    assert_eq!(look(), longest);
    gpu.doorbell_hint();
    assert_eq!(look(), shortest);
    // From there on as after a doorbell.
    assert_eq!(look(), shortest * 2);
}

/// Has each device of a hive of two write to the other one's VRAM and read its own, by the addresses of the frame buffer.
fn write_across(gpus: &[Arc<Gpu>], value: u64) {
    for (near, gpu) in gpus.iter().enumerate() {
        let first = gpu.chip.fb_base();
        let space = gpu.contexts.space(0).expect("VMID 0 is always there");
        let at = |node: usize| first + node as u64 * VRAM + 8 * (1 + near as u64);
        space.write(at(1 - near), &(value + near as u64)).expect("in the segment of the other one");
        let offset = 8 * (1 + near as u64);
        let there = gpus[1 - near].memory.load_u64(Physical::local(offset));
        assert_eq!((there, gpu.memory.load_u64(Physical::local(offset))), (Ok(value + near as u64), Ok(0)));
        assert_eq!(space.read::<u64>(at(near)), Ok(0));
        space.read::<u64>(at(2)).expect_err("behind the last segment");
    }
}

#[test]
fn hive_goes_on_from_snapshots_of_its_devices() {
    let places = Hive::places(0, &[(0, VRAM), (1, VRAM)]).expect("two devices");
    let config = |number: u8| {
        let hive = Some(places[usize::from(number)]);
        let time = TimeSource::manual();
        GpuConfig { chip: &gfx942::MODEL, number, hive, time, ..GpuConfig::default() }
    };
    let gpus = [0, 1].map(|number| still(config(number)));
    Gpu::connect(&gpus.each_ref().map(|gpu| &**gpu)).expect("two devices");
    write_across(&gpus, 0x100);
    let bytes = gpus.each_ref().map(|gpu| gpu.save().expect("it runs").to_bytes().expect("no error"));
    let again = [0u8, 1].map(|number| {
        let bytes = &bytes[usize::from(number)];
        let saved = SavedGpu::from_bytes(bytes).expect("a snapshot");
        assert_eq!(saved.config().hive, Some(places[usize::from(number)]));
        for other in [None, Some(places[usize::from(1 - number)])] {
            let other = GpuConfig { hive: other, workers: 1, ..saved.config() };
            let refused = Gpu::restore(&saved, other, resources()).expect_err("another place");
            assert!(matches!(refused, SnapshotError::Differs { field: "hive", .. }), "{refused}");
        }
        let time = TimeSource::manual();
        let config = GpuConfig { number, time, workers: 1, ..saved.config() };
        let gpu = Gpu::restore(&saved, config, resources()).expect("as it was");
        assert!(gpu.save().expect("it runs").to_bytes().expect("no error") == *bytes, "another device");
        gpu
    });
    for (near, gpu) in again.iter().enumerate() {
        let value = gpu.memory.load_u64(Physical::local(8 * (2 - near as u64)));
        assert_eq!(value, Ok(0x100 + 1 - near as u64));
        gpu.memory.store_u64(Physical::local(8 * (1 + near as u64)), 0).expect("in VRAM");
    }
    Gpu::connect(&again.each_ref().map(|gpu| &**gpu)).expect("two devices");
    write_across(&again, 0x200);
}

#[test]
fn peer_is_reached_at_the_addresses_of_its_bars_until_it_is_taken_away() {
    const AT: u64 = 0x40_0000_0000;
    const DOORBELLS: u64 = 0x50_0000_0000;
    let [near, far] = [0, 1].map(|number| still(GpuConfig { number, ..GpuConfig::default() }));
    near.set_peer(1, Some(far.as_peer())).expect("a number of the fabric");
    let at = Physical::system(AT + 8);
    assert!(near.memory.load_u64(at).is_err(), "its BARs are nowhere");
    far.place_bars(AT, DOORBELLS);
    near.memory.store_u64(at, 5).expect("in the peer's VRAM");
    assert_eq!(near.memory.fetch_add_u64(at, 2), Ok(5));
    assert_eq!(
        (far.memory.load_u64(Physical::local(8)), near.memory.load_u64(Physical::local(8))),
        (Ok(7), Ok(0))
    );
    assert_eq!(near.memory.load_u64(Physical::peer(1, 8)), Ok(7), "by either way");
    near.memory.store_u64(Physical::system(DOORBELLS + 16), 3).expect("a doorbell of the peer");
    assert_eq!(far.memory.load_u64(Physical::system(DOORBELLS + 16)), Ok(3));
    for nowhere in [AT - 8, AT + VRAM, DOORBELLS + DOORBELL_BAR_SIZE] {
        assert!(near.memory.load_u64(Physical::system(nowhere)).is_err(), "{nowhere:#x}");
    }
    assert!(far.memory.load_u64(at).is_err(), "VRAM of its own is nearer");
    // It leaves once the work that may use it is over.
    std::thread::scope(|scope| {
        let slice = near.memory.enter();
        let (host, _) = near.memory.host_pointer(&slice, at).expect("there");
        let leaving = scope.spawn(|| near.set_peer(1, None));
        while near.memory.load_u64(at).is_ok() {
            std::thread::yield_now();
        }
        assert!(!host.is_null() && !leaving.is_finished(), "the peer left while a slice was in progress");
        drop(slice);
        assert_eq!(leaving.join().expect("it leaves once the slice is over"), Ok(()));
    });
}
