//! Things that the GPUs of a machine have in common, and the parts of a GPU before there is a device.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use belfry_abi::pci;
use belfry_device::GpuConfig;
use belfry_device::time::TimeSource;
use belfry_kfd_core::os::{Numa, PAGE_SIZE};
use belfry_kfd_core::{Kfd, KfdDevice};
use belfry_lock::{Mutex, rank};

use crate::arena::Arena;
use crate::bars::Bars;
use crate::config::{HostedConfig, Place, Reach};
use crate::dmabuf;
use crate::error::Error;
use crate::flush_page::Flushes;
use crate::os::HostedOs;
use crate::pins::Pins;
use crate::shared::{Shared, memory_file};
use crate::sync::lock;

/// Parts of a GPU before there is a device.
pub(crate) struct Parts {
    pub(crate) gpu: GpuConfig,
    pub(crate) place: Place,
    pub(crate) pid: u32,
    /// The file that VRAM and the driver's memory are mapped from.
    pub(crate) memory: File,
    pub(crate) bars: Arc<Bars>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) reach: Reach,
}

impl Parts {
    pub(crate) fn new(config: HostedConfig) -> Result<Self, Error> {
        let HostedConfig { mut gpu, system_memory, place, links: _, numa: _, reach, pins: _, pid } = config;
        if gpu.explorer.is_some() {
            gpu.time = TimeSource::manual();
        }
        gpu.validate().map_err(belfry_device::Error::Config)?;
        // One file for all memory that can be shared.
        let vram_size = gpu.vram_size;
        let memory = memory_file(dmabuf::NAME, vram_size.saturating_add(system_memory as u64))?;
        let bars = Arc::new(Bars {
            vram: Shared::part(&memory, 0, vram_size as usize)?,
            doorbells: Shared::new(c"belfry-doorbells", pci::DOORBELL_BAR_SIZE as usize)?,
            flushes: Arc::new(Flushes::new()?),
        });
        let arena = Arena::new(Shared::part(&memory, vram_size, system_memory)?);
        Ok(Self { gpu, place, pid, memory, bars, arena, reach })
    }

    /// Memory of the driver's own, which every GPU of the machine reaches: ranges of addresses.
    pub(crate) fn driver_memory(&self) -> [(u64, u64); 2] {
        let (system, flushes) = (self.arena.memory(), self.bars.flushes.0.address());
        [(system.address(), system.address() + system.size() as u64), (flushes, flushes + PAGE_SIZE)]
    }

    /// Addresses of maps that are no memory of programs.
    pub(crate) fn maps(&self) -> [u64; 3] {
        [self.bars.vram.address(), self.bars.doorbells.address(), self.arena.memory().address()]
    }
}

/// Drivers that are bound.
#[derive(Default)]
pub(crate) struct Drivers {
    /// While there is a device.
    pub(crate) kfd: Option<Arc<Kfd<HostedOs>>>,
    /// By the numbers of the GPUs.
    pub(crate) devices: BTreeMap<usize, Arc<KfdDevice<HostedOs>>>,
}

impl Drivers {
    /// Takes the device of a GPU out; the driver goes with the last one.
    pub(crate) fn take(&mut self, index: usize) -> Option<Arc<KfdDevice<HostedOs>>> {
        let device = self.devices.remove(&index);
        if self.devices.is_empty() {
            self.kfd = None;
        }
        device
    }
}

/// Things that all GPUs of a machine have in common.
pub(crate) struct Host {
    pub(crate) drivers: Mutex<Drivers, rank::HostedKfd>,
    pub(crate) pins: Arc<Pins>,
    /// The GPUs reach each other over the bus.
    pub(crate) peers: bool,
    /// Memory nodes of the machine.
    pub(crate) numa: Numa,
    /// Addresses of maps that are no memory of programs.
    pub(crate) memory: Arc<[u64]>,
    pub(crate) next_process: AtomicU64,
}

impl Host {
    /// Returns the device that the driver has of a GPU, if it is bound.
    pub(crate) fn device(&self, index: usize) -> Option<Arc<KfdDevice<HostedOs>>> {
        lock(&self.drivers).devices.get(&index).cloned()
    }
}
