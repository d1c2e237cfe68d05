//! The driver's PCI function, hosted: accesses to the BARs of a device in the same process.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci;
use belfry_device::Gpu;
use belfry_device::sanitize::Sanitizer;
use belfry_kfd_core::Result;
use belfry_kfd_core::os::{DeviceInfo, Function, OwnPlace, PAGE_SIZE};
use belfry_lock::{RwLock, rank};

use crate::config::Place;
use crate::exploring::Exploring;
use crate::flush_page::Flushes;
use crate::function;
use crate::shared::Shared;

/// Bytes of a contiguous piece of VRAM that are marked as not written; the rest of the piece is not checked.
const MAX_MARKED: u64 = 64 << 20;

/// Memory behind the BARs.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) vram: Shared,
    pub(crate) doorbells: Shared,
    pub(crate) flushes: Arc<Flushes>,
}

/// The function of one hosted GPU. Cheap to make: one per load of the driver.
pub struct HostedFunction {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) bars: Arc<Bars>,
    pub(crate) place: Place,
    pub(crate) exploring: Option<Arc<Exploring>>,
    /// Held by accesses to the device; a save of the device holds it alone.
    pub(crate) access: Arc<RwLock<(), rank::HostedAccess>>,
}

impl std::fmt::Debug for HostedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedFunction").finish_non_exhaustive()
    }
}

impl HostedFunction {
    /// Others may go on here, in a schedule that is explored.
    fn point(&self) {
        if let Some(exploring) = &self.exploring {
            exploring.point();
        }
    }

    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) {
        let _access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.gpu.bar_read(bar, offset, data) {
            log::warn!(target: "kfd", "read of BAR {bar} at {offset:#x}: {error}");
            data.fill(0xff);
        }
    }

    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) {
        let _access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.gpu.bar_write(bar, offset, data) {
            log::warn!(target: "kfd", "write of BAR {bar} at {offset:#x}: {error}");
        }
    }
}

impl Function for HostedFunction {
    fn device_info(&self) -> DeviceInfo {
        let config = |offset: usize| function::read_u32(&self.gpu, offset);
        let (ids, class, subsystem) = (config(0x00), config(0x08), config(0x2c));
        DeviceInfo {
            vendor_id: ids as u16,
            device_id: (ids >> 16) as u16,
            revision_id: class as u8,
            subsystem_vendor_id: subsystem as u16,
            subsystem_id: (subsystem >> 16) as u16,
            domain: self.place.domain,
            location_id: self.place.location_id,
            render_minor: self.place.render_minor,
            partition_minors: self.place.partition_minors(self.gpu.config()),
            numa_node: self.place.numa_node,
            hive: self.gpu.config().hive.map_or(0, |hive| hive.id.into()),
        }
    }

    fn reg_read(&self, offset: u32) -> u32 {
        let mut bytes = [0; 4];
        self.point();
        self.bar_read(pci::BAR_REGISTERS, u64::from(offset), &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn reg_write(&self, offset: u32, value: u32) {
        self.bar_write(pci::BAR_REGISTERS, u64::from(offset), &value.to_le_bytes());
        // A flush of flushed memory changes nothing, so that no schedule depends on it.
        if u64::from(offset) != self.gpu.config().chip.generation.register_bar.hdp_remap {
            self.point();
        }
    }

    fn doorbell_size(&self) -> u64 {
        pci::DOORBELL_BAR_SIZE
    }

    fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        self.bar_write(pci::BAR_DOORBELLS, offset.bytes(), &value.to_le_bytes());
        self.point();
    }

    fn own_bus_address(&self, place: OwnPlace) -> u64 {
        match place {
            OwnPlace::Doorbells(offset) => self.bars.doorbells.address() + offset,
            OwnPlace::Flushes(_) => self.bars.flushes.0.address(),
            OwnPlace::Vram(offset) => self.bars.vram.address() + offset,
        }
    }

    fn vram_size(&self) -> u64 {
        self.gpu.config().vram_size
    }

    fn vram_read(&self, offset: u64, data: &mut [u8]) {
        self.bar_read(pci::BAR_VRAM, offset, data);
    }

    fn vram_write(&self, offset: u64, data: &[u8]) {
        self.bar_write(pci::BAR_VRAM, offset, data);
    }

    fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        let mut done = 0;
        if byte == 0 && offset.is_multiple_of(PAGE_SIZE) {
            // Whole pages become holes: the cost of a fill with zeros does not depend on the size.
            done = len & !(PAGE_SIZE - 1);
            self.bars.vram.punch(offset as usize, done as usize);
        }
        let block = [byte; 4096];
        while done < len {
            let piece = (len - done).min(4096);
            self.vram_write(offset + done, &block[..piece as usize]);
            done += piece;
        }
    }

    fn vram_unwritten(&self, va: u64, offset: u64, bytes: u64) {
        if !self.gpu.config().sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.marks_memory()) {
            return;
        }
        let mut block = [0; 4096];
        for done in (0..bytes.min(MAX_MARKED)).step_by(block.len()) {
            Sanitizer::mark(va.wrapping_add(done), &mut block);
            self.vram_write(offset + done, &block);
        }
    }

    fn used_by_others(&self) -> (u64, u64) {
        self.gpu.config().activity.others_memory()
    }

    fn write_barrier(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    fn reset_function(&self) -> Result<()> {
        function::reset(&self.gpu)
    }
}
