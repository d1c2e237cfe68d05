//! Tests that need the inside of the device.

use std::sync::Arc;

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::{Gpu, Resources};
use crate::GpuConfig;
use crate::memory::Physical;

/// A device without its thread that may touch memory: it looks only when the test says so.
fn still(config: GpuConfig) -> Arc<Gpu> {
    let config = GpuConfig { vram_size: 16 << 20, workers: 1, ..config };
    let resources = Resources {
        vram: MmapRegion::new(16 << 20).expect("anonymous memory"),
        doorbells: MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory"),
        system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        interrupts: Arc::new(DropsInterrupts),
    };
    let gpu = Gpu::new(config, resources).expect("a valid configuration");
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

#[test]
fn peer_is_reached_at_the_addresses_of_its_bars_until_it_is_taken_away() {
    const VRAM: u64 = 0x40_0000_0000;
    const DOORBELLS: u64 = 0x50_0000_0000;
    let [near, far] = [0, 1].map(|number| still(GpuConfig { number, ..GpuConfig::default() }));
    near.set_peer(1, Some(far.as_peer())).expect("a number of the fabric");
    let at = Physical::system(VRAM + 8);
    assert!(near.memory.load_u64(at).is_err(), "its BARs are nowhere");
    far.place_bars(VRAM, DOORBELLS);
    near.memory.store_u64(at, 5).expect("in the peer's VRAM");
    assert_eq!(near.memory.fetch_add_u64(at, 2), Ok(5));
    assert_eq!(
        (far.memory.load_u64(Physical::local(8)), near.memory.load_u64(Physical::local(8))),
        (Ok(7), Ok(0))
    );
    assert_eq!(near.memory.load_u64(Physical::peer(1, 8)), Ok(7), "by either way");
    near.memory.store_u64(Physical::system(DOORBELLS + 16), 3).expect("a doorbell of the peer");
    assert_eq!(far.memory.load_u64(Physical::system(DOORBELLS + 16)), Ok(3));
    for nowhere in [VRAM - 8, VRAM + (16 << 20), DOORBELLS + DOORBELL_BAR_SIZE] {
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
