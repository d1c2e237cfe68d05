//! A device without threads, and one that goes on from a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::pci;
use belfry_device::{Gpu, GpuConfig, InterruptSink, Resources, SavedGpu, SnapshotError};
use vm_memory::{Bytes, GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion, VolatileMemory as _};

use super::{Counter, Driver, RAM, VRAM, eventually};

impl Driver {
    /// Ends the device's threads; from then on it works on the thread that waits.
    pub fn work_on_caller(&mut self) {
        self.gpu.work_on_caller();
        self.on_caller = true;
    }

    /// Waits as [`eventually`] does, and lets a device without threads work.
    pub fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        eventually(what, || {
            if self.on_caller {
                self.gpu.pass();
                self.gpu.turn();
            }
            condition()
        });
    }

    /// This guest in memory of its own, with a device that goes on from a snapshot. The device has no threads
    /// if this guest's has none.
    pub fn continued(&self, saved: &SavedGpu, config: GpuConfig) -> Self {
        let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
        ram.write_slice(&self.used_ram(), GuestAddress(0)).unwrap();
        self.in_memory(ram, saved, config).unwrap()
    }

    /// As [`Self::continued`], in this guest memory.
    pub fn in_memory(
        &self,
        ram: GuestMemoryMmap,
        saved: &SavedGpu,
        config: GpuConfig,
    ) -> Result<Self, SnapshotError> {
        let interrupts = Arc::new(Counter::default());
        let resources = Resources {
            vram: if saved.has_vram() { MmapRegion::new(VRAM as usize).unwrap() } else { self.vram() },
            doorbells: MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize).unwrap(),
            system: GuestMemoryAtomic::new(ram.clone()),
            interrupts: Arc::clone(&interrupts) as Arc<dyn InterruptSink>,
        };
        let gpu = Gpu::restore(saved, config, resources)?;
        if self.on_caller {
            gpu.work_on_caller();
        }
        gpu.resume();
        let fences = AtomicU64::new(self.fences.load(Ordering::Relaxed));
        Ok(Self { gpu, ram, interrupts, doorbell_page: &[], fences, ..*self })
    }

    /// A copy of VRAM, like that of a host that saves the device without VRAM.
    fn vram(&self) -> MmapRegion {
        let copy = MmapRegion::new(VRAM as usize).unwrap();
        let mut page = [0; 4096];
        for at in (0..VRAM).step_by(page.len()) {
            self.gpu.bar_read(pci::BAR_VRAM, at, &mut page).unwrap();
            if page != [0; 4096] {
                copy.get_slice(at as usize, page.len()).unwrap().copy_from(&page);
            }
        }
        copy
    }

    /// Guest memory, up to the last byte in use.
    pub fn used_ram(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.next_ram as usize];
        self.ram.read_slice(&mut bytes, GuestAddress(0)).unwrap();
        bytes
    }
}
