//! The routes of the GPU's messages: the contents of its MSI-X table or its MSI capability, given to KVM before the
//! device can send any.

use std::sync::{Arc, PoisonError};

use belfry_abi::pci;
use belfry_device::{Gpu, IoError};
use belfry_lock::{Mutex, rank};
use belfry_pci::Message;

use crate::message::Interrupts;

const CAPABILITIES: usize = 0x34;
const CAP_MSI: u8 = 0x05;
const CAP_MSIX: u8 = 0x11;
const VECTORS: usize = pci::MSIX_VECTORS as usize;
const TABLE: usize = VECTORS * 16;

/// A write that may change the routes of messages.
#[derive(Clone, Copy, Debug)]
enum Write<'a> {
    /// To configuration space.
    Config(usize, &'a [u8]),
    /// To the register BAR.
    Registers(u64, &'a [u8]),
}

/// The device's messages, and all writes that can change them.
#[derive(Debug)]
pub struct GpuMessages {
    gpu: Arc<Gpu>,
    interrupts: Arc<dyn Interrupts>,
    /// Held during such a write: they come one at a time.
    writing: Mutex<(), rank::GpuMessagesWriting>,
}

impl GpuMessages {
    /// Makes the messages of a device, which the guest has not programmed yet.
    #[must_use]
    pub fn new(gpu: Arc<Gpu>, interrupts: Arc<dyn Interrupts>) -> Self {
        Self { gpu, interrupts, writing: Mutex::new(()) }
    }

    /// Gives KVM the messages of a device that was restored.
    pub fn restore(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.interrupts.route(&self.messages(None));
    }

    /// Writes configuration space.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.around(Write::Config(offset, data), || self.gpu.config_write(offset, data));
    }

    /// Writes the register BAR.
    ///
    /// # Errors
    ///
    /// The device's, for an access that it refuses.
    pub fn register_write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let table = pci::MSIX_TABLE_OFFSET;
        let write = || self.gpu.bar_write(pci::BAR_REGISTERS, offset, data);
        if offset >= table + TABLE as u64 || table >= offset.saturating_add(data.len() as u64) {
            return write();
        }
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.around(Write::Registers(offset, data), write)
    }

    /// Sets the routes to those that will hold after a write, which may release an interrupt, and then does the
    /// write.
    fn around<T>(&self, write: Write<'_>, device: impl FnOnce() -> T) -> T {
        let mut config = [0u8; 256];
        self.gpu.config_read(0, &mut config);
        let touches = |cap: Option<usize>| match (cap, write) {
            (Some(cap), Write::Config(offset, data)) => {
                offset < cap + 16 && cap < offset.saturating_add(data.len())
            }
            (_, Write::Registers(..)) => true,
            (None, _) => false,
        };
        if !touches(capability(&config, CAP_MSI)) && !touches(capability(&config, CAP_MSIX)) {
            return device();
        }
        let expected = self.messages(Some(write));
        self.interrupts.route(&expected);
        let result = device();
        // The device may refuse the write, or some bits of it.
        let messages = self.messages(None);
        if messages != expected {
            self.interrupts.route(&messages);
        }
        result
    }

    /// Returns the message of each vector: the present one, or the one after a write that the device takes without
    /// change.
    fn messages(&self, write: Option<Write<'_>>) -> [Option<Message>; VECTORS] {
        let mut config = [0u8; 256];
        self.gpu.config_read(0, &mut config);
        let (msi, msix) = (capability(&config, CAP_MSI), capability(&config, CAP_MSIX));
        if let Some(Write::Config(offset, data)) = write {
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
            if let Some(Write::Registers(offset, data)) = write {
                overlay(&mut table, pci::MSIX_TABLE_OFFSET, offset, data);
            }
            for (message, entry) in messages.iter_mut().zip(table.chunks_exact(16)) {
                let word =
                    |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
                let address = u64::from(word(4)) << 32 | u64::from(word(0) & !3);
                *message = Some(Message { address, data: word(8) });
            }
        } else if let Some(msi) = enabled(msi, 1 << 16) {
            // The capability has 64-bit addresses and one vector.
            let address = u64::from(word(msi + 8)) << 32 | u64::from(word(msi + 4) & !3);
            messages[0] = Some(Message { address, data: word(msi + 12) & 0xffff });
        }
        messages
    }
}

/// Returns the offset of a capability.
fn capability(config: &[u8; 256], id: u8) -> Option<usize> {
    let mut at = usize::from(config[CAPABILITIES]);
    for _ in 0..16 {
        // The longest capability that is read has 16 bytes.
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

/// Copies the bytes written at `offset` into bytes that start at `start`.
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
    use std::collections::VecDeque;

    use belfry_device::{GpuConfig, MsixTable, Resources};
    use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;

    /// Routes that were set, latest last.
    #[derive(Debug, Default)]
    struct Routed(std::sync::Mutex<VecDeque<Vec<Option<Message>>>>);

    impl Interrupts for Routed {
        fn route(&self, messages: &[Option<Message>]) {
            self.0.lock().unwrap().push_back(messages.to_vec());
        }

        fn raise(&self, _vector: u16) {}

        fn set_pin(&self, _asserted: bool) {}
    }

    impl belfry_device::InterruptSink for Routed {
        fn raise(&self, _vector: u16) {}
    }

    #[test]
    fn writes_the_device_does_not_take_change_no_route() {
        let routed = Arc::new(Routed::default());
        let ram = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
        let resources = Resources {
            vram: MmapRegion::new(16 << 20).unwrap(),
            doorbells: MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize).unwrap(),
            system: GuestMemoryAtomic::new(ram),
            interrupts: routed.clone(),
        };
        let config = GpuConfig {
            vram_size: 16 << 20,
            msix_table: MsixTable::Device,
            workers: 1,
            ..GpuConfig::default()
        };
        let gpu = Gpu::new(config, resources).unwrap();
        let messages = GpuMessages::new(gpu, routed.clone());
        let entry = |word: u64| pci::MSIX_TABLE_OFFSET + word * 4;
        messages.register_write(entry(0), &0xfee0_1000_u32.to_le_bytes()).unwrap();
        messages.register_write(entry(2), &0x41_u32.to_le_bytes()).unwrap();
        messages.config_write(0xc2, &0x8000_u16.to_le_bytes());
        let last = || routed.0.lock().unwrap().back().cloned().unwrap();
        let first = Some(Message { address: 0xfee0_1000, data: 0x41 });
        assert_eq!(last()[0], first);
        // These writes cross the beginning of the table; the device refuses them.
        for data in [&[0x77_u8; 17][..], &[0x77; 24], &[0x77; 31]] {
            assert!(messages.register_write(entry(0) - 14, data).is_err(), "{data:?}");
            assert_eq!(last()[0], first, "{data:?}");
        }
        // Read-only: the capability's ID and the pointer to the next one.
        messages.config_write(0xc0, &[0xff; 2]);
        assert_eq!(last()[0], first);
    }

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
