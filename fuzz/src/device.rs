//! A device of its own for every input, and rules that must hold of any access to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chips::Choice;
use belfry_abi::pci;
use belfry_device::{Gpu, GpuConfig, InterruptSink, IoError, MsixTable, Resources};
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

/// Bytes of VRAM: as little as there can be.
pub const VRAM: u64 = 16 << 20;
/// Bytes of guest memory.
const RAM: usize = 1 << 20;

/// Offset in the configuration space of the command register.
pub const COMMAND: usize = 0x04;
/// Base address registers.
pub const BARS: usize = 0x10;
/// Byte with the bit that resets the function, which reads 0.
pub const FLR: usize = 0x6d;
/// Bit of that byte that resets the function.
pub const FLR_BIT: u8 = 0x80;

/// Counts interrupts.
#[derive(Debug, Default)]
pub struct Raised(AtomicU64);

impl InterruptSink for Raised {
    fn raise(&self, vector: u16) {
        assert!(vector < pci::MSIX_VECTORS, "vector {vector} does not exist");
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Raised {
    /// Interrupts since the last call.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

/// A device whose interrupts are counted.
#[derive(Debug)]
pub struct Device {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// Its interrupts.
    pub raised: Arc<Raised>,
    /// Its chip.
    pub chip: Choice,
}

impl Default for Device {
    fn default() -> Self {
        Self::new()
    }
}

impl Device {
    /// A device as at power on.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Choice::of(0))
    }

    /// A device of a chip, as at power on.
    #[must_use]
    pub fn of(chip: Choice) -> Self {
        let raised = Arc::new(Raised::default());
        Self { gpu: gpu_of(chip, raised.clone(), false), raised, chip }
    }

    /// All of configuration space.
    #[must_use]
    pub fn config(&self) -> Box<[u8; pci::CONFIG_SPACE_SIZE]> {
        let mut bytes = Box::new([0; pci::CONFIG_SPACE_SIZE]);
        self.gpu.config_read(0, &mut bytes[..]);
        bytes
    }

    /// Returns true if the function may access memory and send interrupts.
    #[must_use]
    pub fn is_bus_master(&self) -> bool {
        let mut command = [0];
        self.gpu.config_read(COMMAND, &mut command);
        command[0] & 4 != 0
    }

    /// Reads a BAR and checks that the answer is as it has to be. Returns the bytes, if the read is taken.
    pub fn bar_read(&self, bar: u8, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut data = vec![0xa5; len];
        let result = self.gpu.bar_read(bar, offset, &mut data);
        assert_eq!(result.err(), self.expected_error(bar, offset, len, false));
        if result.is_err() {
            assert!(data.iter().all(|&byte| byte == 0), "a read that failed gave {data:x?}");
        }
        result.is_ok().then_some(data)
    }

    /// Writes a BAR and checks that the answer is as it has to be. Returns true if the write is taken.
    pub fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> bool {
        let result = self.gpu.bar_write(bar, offset, data);
        assert_eq!(result.err(), self.expected_error(bar, offset, data.len(), true));
        result.is_ok()
    }

    fn size(&self, bar: u8) -> Option<u64> {
        Some(match bar {
            pci::BAR_VRAM => VRAM,
            pci::BAR_DOORBELLS => pci::DOORBELL_BAR_SIZE,
            pci::BAR_REGISTERS => self.chip.model.generation.register_bar.size,
            _ => return None,
        })
    }

    /// Error that [`Gpu::bar_read`] or [`Gpu::bar_write`] must return for an access.
    fn expected_error(&self, bar: u8, offset: u64, len: usize, write: bool) -> Option<IoError> {
        let Some(size) = self.size(bar) else { return Some(IoError::NoSuchBar(bar)) };
        if offset > size || len as u64 > size - offset {
            return Some(IoError::OutOfRange { bar, offset, len });
        }
        let aligned = offset.is_multiple_of(4);
        let taken = match bar {
            pci::BAR_VRAM => true,
            pci::BAR_DOORBELLS => matches!(len, 4 | 8) && offset.is_multiple_of(len as u64),
            _ if is_msix(offset) => true,
            _ if write => matches!(len, 4 | 8) && aligned,
            _ => len == 8 && aligned || offset % 4 + len as u64 <= 4,
        };
        (!taken).then_some(IoError::Unsupported { bar, offset, len })
    }
}

/// A device with one shader worker that answers its own MSI-X table; the pin is one of its interrupts, or is not.
#[must_use]
pub fn gpu(interrupts: Arc<dyn InterruptSink>, pin: bool) -> Arc<Gpu> {
    gpu_of(Choice::of(0), interrupts, pin)
}

/// A device of any chip.
fn gpu_of(chip: Choice, interrupts: Arc<dyn InterruptSink>, pin: bool) -> Arc<Gpu> {
    let region = |bytes: u64| MmapRegion::new(bytes as usize).expect("memory for the device");
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).expect("memory for the guest");
    let resources = Resources {
        vram: region(VRAM),
        doorbells: region(pci::DOORBELL_BAR_SIZE),
        system: GuestMemoryAtomic::new(ram),
        interrupts,
    };
    let config = GpuConfig {
        chip: chip.model,
        cus: chip.shape.cus,
        xccs: chip.shape.xccs,
        vram_size: VRAM,
        workers: 1,
        msix_table: MsixTable::Device,
        interrupt_pin: pin,
        ..GpuConfig::default()
    };
    Gpu::new(config, resources).expect("a device")
}

/// Returns true if an offset in the register BAR is in the message table or its pending bits.
#[must_use]
pub fn is_msix(offset: u64) -> bool {
    let table = pci::MSIX_TABLE_OFFSET..pci::MSIX_TABLE_OFFSET + 16 * u64::from(pci::MSIX_VECTORS);
    table.contains(&offset) || (pci::MSIX_PBA_OFFSET..pci::MSIX_PBA_OFFSET + 8).contains(&offset)
}
