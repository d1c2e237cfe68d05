//! Where the GPU's messages go: what its MSI-X table or its MSI capability says, told to KVM before the device can send any.

use std::sync::{Arc, Mutex, PoisonError};

use belfry_abi::pci;
use belfry_device::{Gpu, IoError};

use super::interrupts::{Interrupts, Message};

const CAPABILITIES: usize = 0x34;
const CAP_MSI: u8 = 0x05;
const CAP_MSIX: u8 = 0x11;
const VECTORS: usize = pci::MSIX_VECTORS as usize;
const TABLE: usize = VECTORS * 16;

/// A write that may change where messages go.
#[derive(Clone, Copy, Debug)]
enum Write<'a> {
    /// To configuration space.
    Config(usize, &'a [u8]),
    /// To the register BAR.
    Registers(u64, &'a [u8]),
}

/// The device's messages, and all writes that can change them.
#[derive(Debug)]
pub(super) struct GpuMessages {
    gpu: Arc<Gpu>,
    interrupts: Arc<dyn Interrupts>,
    /// Such writes come one at a time.
    writing: Mutex<()>,
}

impl GpuMessages {
    /// Messages of a device, which nobody has programmed yet.
    pub(super) fn new(gpu: Arc<Gpu>, interrupts: Arc<dyn Interrupts>) -> Self {
        Self { gpu, interrupts, writing: Mutex::new(()) }
    }

    /// Writes configuration space.
    pub(super) fn config_write(&self, offset: usize, data: &[u8]) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Routes come first: the write may let an interrupt out.
        self.route(Write::Config(offset, data));
        self.gpu.config_write(offset, data);
    }

    /// Writes the register BAR.
    pub(super) fn register_write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let table = pci::MSIX_TABLE_OFFSET;
        let message = offset < table + TABLE as u64 && table < offset.saturating_add(data.len() as u64);
        let _one = message.then(|| self.writing.lock().unwrap_or_else(PoisonError::into_inner));
        if message {
            self.route(Write::Registers(offset, data));
        }
        self.gpu.bar_write(pci::BAR_REGISTERS, offset, data)
    }

    /// Sets the routes to what they will be after a write.
    fn route(&self, write: Write<'_>) {
        let mut config = [0u8; 256];
        self.gpu.config_read(0, &mut config);
        let (msi, msix) = (capability(&config, CAP_MSI), capability(&config, CAP_MSIX));
        if let Write::Config(offset, data) = write {
            let touches = |cap: Option<usize>| {
                cap.is_some_and(|cap| offset < cap + 16 && cap < offset.saturating_add(data.len()))
            };
            if !touches(msi) && !touches(msix) {
                return;
            }
            overlay(&mut config, 0, offset as u64, data);
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
            if let Write::Registers(offset, data) = write {
                overlay(&mut table, pci::MSIX_TABLE_OFFSET, offset, data);
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
        self.interrupts.route(&messages);
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

/// Puts what is written at `offset` into bytes that start at `start`.
fn overlay(bytes: &mut [u8], start: u64, offset: u64, data: &[u8]) {
    for (at, target) in (start..).zip(bytes) {
        let source = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
        if let Some(&byte) = source.and_then(|at| data.get(at)) {
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

    #[test]
    fn writes_are_laid_over_what_they_reach() {
        let mut bytes = [0; 4];
        overlay(&mut bytes, 0x100, 0xfe, &[1, 2, 3]);
        overlay(&mut bytes, 0x100, 0x103, &[4, 5]);
        overlay(&mut bytes, 0x100, u64::MAX, &[6]);
        assert_eq!(bytes, [3, 0, 0, 4]);
    }
}
