//! The GPU as a function on the root bus: the addresses of its BARs, and the targets of accesses to them.

use std::sync::{Arc, PoisonError};

use belfry_abi::pci;
use belfry_bus::{Bar, Function, GpuMessages, Vectors};
use belfry_device::{Gpu, GpuConfig, Rom};
use belfry_lock::{Mutex, rank};
use belfry_pci::BarLayout;

use super::doorbells::Doorbells;
use super::memory::Window;

const INTERRUPT_LINE: usize = 0x3c;

/// Returns the layouts of the BARs, and of the expansion ROM if there is one.
fn bars(config: &GpuConfig) -> Vec<BarLayout> {
    let mut bars = vec![
        BarLayout { number: pci::BAR_VRAM, size: config.vram_size, wide: true },
        BarLayout { number: pci::BAR_DOORBELLS, size: pci::DOORBELL_BAR_SIZE, wide: true },
        BarLayout { number: pci::BAR_REGISTERS, size: config.chip.generation.register_bar.size, wide: false },
    ];
    bars.extend(config.rom.as_ref().map(Rom::layout));
    bars
}

/// The function.
#[derive(Debug)]
pub(super) struct GpuFunction {
    gpu: Arc<Gpu>,
    bars: Vec<BarLayout>,
    messages: GpuMessages,
    doorbells: Option<Doorbells>,
    vram: Mutex<Window, rank::GpuFunctionVram>,
}

impl GpuFunction {
    pub(super) fn new(
        gpu: Arc<Gpu>,
        vectors: Arc<Vectors>,
        vram: Window,
        doorbells: Option<Doorbells>,
        restored: bool,
    ) -> Self {
        let bars = bars(gpu.config());
        let line = vectors.line() as u8;
        let messages = GpuMessages::new(Arc::clone(&gpu), vectors);
        if restored {
            messages.restore();
        } else {
            // The line, for drivers that do not read the ACPI tables.
            gpu.config_write(INTERRUPT_LINE, &[line]);
        }
        Self { gpu, bars, messages, doorbells, vram: Mutex::new(vram) }
    }
}

impl Function for GpuFunction {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.gpu.config_read(offset, data);
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        self.messages.config_write(offset, data);
    }

    fn bars(&self) -> &[BarLayout] {
        &self.bars
    }

    /// Moves mapped BARs; accesses during the change exit, and the device answers them.
    fn place(&self, bars: &[Bar]) {
        let find = |number: u8| bars.iter().find(|bar| bar.number == number);
        let vram = find(pci::BAR_VRAM).map(|bar| (bar.base, 0, bar.size));
        if let Err(error) = self.vram.lock().unwrap_or_else(PoisonError::into_inner).place(vram) {
            log::debug!(target: "kvm", "VRAM at {vram:x?} is reached by exits only: {error}");
        }
        if let Some(doorbells) = &self.doorbells {
            doorbells.set_base(find(pci::BAR_DOORBELLS).map(|bar| bar.base));
        }
    }

    fn read(&self, bar: u8, offset: u64, data: &mut [u8]) {
        if let Err(error) = self.gpu.bar_read(bar, offset, data) {
            log::debug!(target: "kvm", "read: {error}");
        }
    }

    fn write(&self, bar: u8, offset: u64, data: &[u8]) {
        let written = match bar {
            pci::BAR_REGISTERS => self.messages.register_write(offset, data),
            _ => self.gpu.bar_write(bar, offset, data),
        };
        match (written, &self.doorbells) {
            (Ok(()), Some(doorbells)) if bar == pci::BAR_DOORBELLS => doorbells.rung(offset),
            (Ok(()), _) => {}
            (Err(error), _) => log::debug!(target: "kvm", "write: {error}"),
        }
    }
}
