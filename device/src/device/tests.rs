//! Tests that need the inside of the device.

use std::sync::Arc;

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::{Gpu, Resources};
use crate::GpuConfig;

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
