//! The GPU as a function on the root bus: where its BARs are, what is behind them, where its messages go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belfry_abi::pci;
use belfry_device::Gpu;

use super::doorbells::Doorbells;
use super::interrupts::{Interrupts as _, Message, Vectors};
use super::memory::Window;
use super::pci::{Bar, BarLayout, Function};

const CAPABILITIES: usize = 0x34;
const CAP_MSI: u8 = 0x05;
const CAP_MSIX: u8 = 0x11;
const VECTORS: usize = pci::MSIX_VECTORS as usize;
const TABLE: usize = VECTORS * 16;

/// The three BARs.
fn bars(vram: u64) -> [BarLayout; 3] {
    [
        BarLayout { number: pci::BAR_VRAM, size: vram, wide: true },
        BarLayout { number: pci::BAR_DOORBELLS, size: pci::DOORBELL_BAR_SIZE, wide: true },
        BarLayout { number: pci::BAR_REGISTERS, size: pci::REGISTER_BAR_SIZE, wide: false },
    ]
}

/// The function.
#[derive(Debug)]
pub(super) struct GpuFunction {
    gpu: Arc<Gpu>,
    bars: [BarLayout; 3],
    vectors: Arc<Vectors>,
    doorbells: Option<Doorbells>,
    vram: Mutex<Window>,
    /// Accesses to the message table, one at a time.
    table: Mutex<()>,
}

impl GpuFunction {
    pub(super) fn new(
        gpu: Arc<Gpu>,
        vectors: Arc<Vectors>,
        vram: Window,
        doorbells: Option<Doorbells>,
    ) -> Self {
        let bars = bars(gpu.config().vram_size);
        Self { gpu, bars, vectors, doorbells, vram: Mutex::new(vram), table: Mutex::new(()) }
    }

    fn lock_table(&self) -> MutexGuard<'_, ()> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the routes to what they will be after a write to the table or to configuration space.
    fn route(&self, table_write: Option<(usize, &[u8])>, config_write: Option<(usize, &[u8])>) {
        let mut config = [0u8; 256];
        self.gpu.config_read(0, &mut config);
        let (msi, msix) = (capability(&config, CAP_MSI), capability(&config, CAP_MSIX));
        if let Some((offset, data)) = config_write {
            let touches = |cap: Option<usize>| {
                cap.is_some_and(|cap| offset < cap + 16 && cap < offset.saturating_add(data.len()))
            };
            if !touches(msi) && !touches(msix) {
                return;
            }
            overlay(&mut config, offset, data);
        }
        let word =
            |at: usize| u32::from_le_bytes([config[at], config[at + 1], config[at + 2], config[at + 3]]);
        let enabled = |cap: Option<usize>, bit: u32| cap.filter(|&cap| word(cap) & bit != 0);
        let mut messages = [None; VECTORS];
        if enabled(msix, 1 << 31).is_some() {
            let mut table = [0u8; TABLE];
            for (at, part) in table.chunks_exact_mut(8).enumerate() {
                let offset = pci::MSIX_TABLE_OFFSET + at as u64 * 8;
                if let Err(error) = self.gpu.bar_read(pci::BAR_REGISTERS, offset, part) {
                    log::error!(target: "kvm", "the message table cannot be read: {error}");
                }
            }
            if let Some((offset, data)) = table_write {
                overlay(&mut table, offset, data);
            }
            for (message, entry) in messages.iter_mut().zip(table.chunks_exact(16)) {
                let word =
                    |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
                let address = u64::from(word(4)) << 32 | u64::from(word(0) & !3);
                *message = Some(Message { address, data: word(8) });
            }
        } else if let Some(msi) = enabled(msi, 1 << 16) {
            // 64-bit addresses, one vector: as the capability says.
            let address = u64::from(word(msi + 8)) << 32 | u64::from(word(msi + 4) & !3);
            messages[0] = Some(Message { address, data: word(msi + 12) & 0xffff });
        }
        self.vectors.route(&messages);
    }
}

impl Function for GpuFunction {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.gpu.config_read(offset, data);
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        // Routes come first: the write may let an interrupt out.
        let _table = self.lock_table();
        self.route(None, Some((offset, data)));
        self.gpu.config_write(offset, data);
    }

    fn bars(&self) -> &[BarLayout] {
        &self.bars
    }

    /// Moves what is mapped; accesses in between exit and are answered by the device.
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
        let table = pci::MSIX_TABLE_OFFSET;
        let message = bar == pci::BAR_REGISTERS && (table..table + TABLE as u64).contains(&offset);
        let guard = message.then(|| self.lock_table());
        if message {
            self.route(Some(((offset - table) as usize, data)), None);
        }
        let written = self.gpu.bar_write(bar, offset, data);
        drop(guard);
        match (written, &self.doorbells) {
            (Ok(()), Some(doorbells)) if bar == pci::BAR_DOORBELLS => doorbells.rung(offset),
            (Ok(()), _) => {}
            (Err(error), _) => log::debug!(target: "kvm", "write: {error}"),
        }
    }
}

/// Where a capability is.
fn capability(config: &[u8; 256], id: u8) -> Option<usize> {
    let mut at = usize::from(config[CAPABILITIES]);
    for _ in 0..16 {
        // The longest one looked at has 16 bytes.
        if !(0x40..=0xf0).contains(&at) {
            return None;
        }
        if config[at] == id {
            return Some(at);
        }
        at = usize::from(config[at + 1]);
    }
    None
}

fn overlay(bytes: &mut [u8], offset: usize, data: &[u8]) {
    for (at, &byte) in (offset..).zip(data) {
        if let Some(target) = bytes.get_mut(at) {
            *target = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_lists_may_be_circular() {
        let mut config = [0; 256];
        config[CAPABILITIES] = 0x40;
        config[0x40] = 9;
        config[0x41] = 0x40;
        assert_eq!(capability(&config, CAP_MSI), None);
        config[0x41] = 0xff;
        assert_eq!(capability(&config, CAP_MSI), None);
        config[0x40] = CAP_MSI;
        assert_eq!(capability(&config, CAP_MSI), Some(0x40));
    }
}
