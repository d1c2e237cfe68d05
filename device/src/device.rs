//! The device as its host sees it.

use std::sync::Arc;

use vm_memory::MmapRegion;

use crate::config::GpuConfig;
use crate::error::Error;
use crate::interrupt::InterruptSink;
use crate::io::IoResult;
use crate::memory::SystemMemory;
use crate::stats::Stats;

/// What a host hands to the device; regions are shared memory where a guest is to map them.
pub struct Resources {
    /// BAR0: as large as [`GpuConfig::vram_size`].
    pub vram: MmapRegion,
    /// BAR2: the doorbell pages, [`belfry_abi::pci::DOORBELL_BAR_SIZE`] bytes, the single copy of every doorbell's value.
    pub doorbells: MmapRegion,
    /// Guest memory; tell the device with [`Gpu::memory_changed`] after replacing it.
    pub system: SystemMemory,
    /// Where interrupts go.
    pub interrupts: Arc<dyn InterruptSink>,
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}

/// Kinds of reset a host may ask for; function level resets also arrive as configuration writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResetKind {
    /// The function alone: configuration space, registers and queues; memory is kept.
    Flr,
    /// With the whole system, as at power on; VRAM is kept here too, as it is on a card that stays powered.
    System,
}

/// One GPU.
#[derive(Debug)]
pub struct Gpu {
    config: GpuConfig,
}

impl Gpu {
    /// Makes a device and starts its threads.
    ///
    /// # Errors
    ///
    /// A configuration out of range, regions of the wrong size, or threads that cannot be started.
    pub fn new(config: GpuConfig, resources: Resources) -> Result<Arc<Self>, Error> {
        config.validate().map_err(Error::Config)?;
        let _ = resources;
        Ok(Arc::new(Self { config }))
    }

    /// The configuration the device was made with.
    #[must_use]
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// Reads the configuration space; what lies beyond its 4096 bytes reads as 0.
    pub fn config_read(&self, offset: usize, data: &mut [u8]) {
        let _ = offset;
        data.fill(0);
    }

    /// Writes the configuration space; read-only bits keep their value, what lies beyond is ignored.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        let _ = (offset, data);
    }

    /// Reads a BAR; on an error, `data` is zeroed.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> IoResult {
        let _ = (bar, offset);
        data.fill(0);
        Ok(())
    }

    /// Writes a BAR; on an error, nothing is written.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> IoResult {
        let _ = (bar, offset, data);
        Ok(())
    }

    /// Tells the device that the guest's memory map was replaced; returns when nothing uses the old one.
    pub fn memory_changed(&self) {}

    /// Tells the device that a doorbell page may have been written behind its back.
    pub fn doorbell_hint(&self) {}

    /// Resets the device: queues gone, registers as at power on, memory kept, discovery table in place.
    pub fn reset(&self, kind: ResetKind) {
        let _ = kind;
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Registers that were used and have no behaviour here: name, reads, writes; most used first.
    #[must_use]
    pub fn unmodelled(&self) -> Vec<(String, u64, u64)> {
        Vec::new()
    }

    /// Stops fetching packets; running dispatches end by themselves.
    pub fn pause(&self) {}

    /// Undoes [`Self::pause`].
    pub fn resume(&self) {}

    /// Stops every queue and thread; the device answers accesses but does nothing any more.
    pub fn stop(&self) {}
}
