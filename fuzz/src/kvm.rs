//! Parts of Belfry's own machine: a bus with functions on it, virtio devices, routed messages.

pub mod driver;
pub mod messages;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belfry_abi::pci as abi;
use belfry_bus::{Apertures, Bar, Function, RootBus};
use belfry_device::Gpu;
use belfry_pci::{BarLayout, ConfigSpace, Identity};

use crate::device::VRAM;

/// Address and size of the bus's configuration space in memory.
pub const ECAM: (u64, u64) = (belfry_bus::ECAM, belfry_bus::ECAM_SIZE);
/// Addresses BARs may have, first and last.
pub const APERTURES: [(u64, u64); 2] = [(0xc000_0000, belfry_bus::ECAM - 1), (1 << 32, (1 << 40) - 1)];
/// The functions' device numbers.
pub const GPU: u8 = 1;
/// The other function: smaller BARs, which can come to lie in and over the GPU's.
pub const OTHER: u8 = 2;

/// BARs that decode: device, BAR, first address, bytes.
pub type Decoded = Vec<(u8, u8, u64, u64)>;

/// BARs by device, checked whenever some are placed.
#[derive(Clone, Debug, Default)]
struct Placed(Arc<Mutex<BTreeMap<u8, Vec<Bar>>>>);

impl Placed {
    fn set(&self, device: u8, bars: &[Bar]) {
        let mut placed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        placed.insert(device, bars.to_vec());
        drop(placed);
        let all = self.all();
        for (at, &(device, number, base, size)) in all.iter().enumerate() {
            let inside = APERTURES.iter().any(|&(from, to)| from <= base && base + (size - 1) <= to);
            assert!(inside, "BAR {number} of device {device} at {base:#x} is outside of the apertures");
            assert!(base.is_multiple_of(size), "BAR {number} of device {device} at {base:#x}");
            let overlapped =
                all[at + 1..].iter().find(|other| base < other.2 + other.3 && other.2 < base + size);
            assert_eq!(overlapped, None, "BAR {number} of device {device} at {base:#x} is over another");
        }
    }

    fn all(&self) -> Decoded {
        let placed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bars = placed.iter().flat_map(|(device, bars)| bars.iter().map(move |bar| (*device, bar)));
        bars.map(|(device, bar)| (device, bar.number, bar.base, bar.size)).collect()
    }
}

#[derive(Debug)]
struct GpuFunction(Arc<Gpu>, Placed);

const GPU_BARS: [BarLayout; 3] = [
    BarLayout { number: abi::BAR_VRAM, size: VRAM, wide: true },
    BarLayout { number: abi::BAR_DOORBELLS, size: abi::DOORBELL_BAR_SIZE, wide: true },
    BarLayout { number: abi::BAR_REGISTERS, size: abi::REGISTER_BAR_SIZE, wide: false },
];

impl Function for GpuFunction {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.0.config_read(offset, data);
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        self.0.config_write(offset, data);
    }

    fn bars(&self) -> &[BarLayout] {
        &GPU_BARS
    }

    fn place(&self, bars: &[Bar]) {
        self.1.set(GPU, bars);
    }

    fn read(&self, bar: u8, offset: u64, data: &mut [u8]) {
        // It returns its refusals to the caller; the bus ignores them.
        let _refused = self.0.bar_read(bar, offset, data);
    }

    fn write(&self, bar: u8, offset: u64, data: &[u8]) {
        let _refused = self.0.bar_write(bar, offset, data);
    }
}

/// A function with two BARs, which have no memory.
#[derive(Debug)]
struct Other(Mutex<ConfigSpace>, Placed);

const OTHER_BARS: [BarLayout; 2] =
    [BarLayout { number: 0, size: 1 << 12, wide: false }, BarLayout { number: 4, size: 1 << 14, wide: true }];

impl Other {
    fn new(placed: Placed) -> Self {
        let identity = Identity {
            vendor: 0x1b36,
            device: 1,
            class: 0xff_0000,
            revision: 0,
            subsystem_vendor: 0,
            subsystem: 0,
        };
        let mut config = ConfigSpace::new(belfry_pci::CONVENTIONAL, &identity);
        OTHER_BARS.iter().for_each(|bar| config.bar(bar));
        Self(Mutex::new(config), placed)
    }

    fn config(&self) -> MutexGuard<'_, ConfigSpace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Function for Other {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.config().read(offset, data);
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        self.config().write(offset, data);
    }

    fn bars(&self) -> &[BarLayout] {
        &OTHER_BARS
    }

    fn place(&self, bars: &[Bar]) {
        self.1.set(OTHER, bars);
    }

    fn read(&self, _: u8, _: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, _: u8, _: u64, _: &[u8]) {}
}

/// The bus, with two functions on it.
#[derive(Debug)]
pub struct Bus {
    bus: RootBus,
    placed: Placed,
}

impl Bus {
    /// A bus as firmware leaves it.
    #[must_use]
    pub fn new(gpu: Arc<Gpu>) -> Self {
        let placed = Placed::default();
        let mut functions: BTreeMap<u8, Arc<dyn Function>> = BTreeMap::new();
        functions.insert(GPU, Arc::new(GpuFunction(gpu, placed.clone())));
        functions.insert(OTHER, Arc::new(Other::new(placed.clone())));
        let bus = RootBus::new(Apertures(APERTURES), functions);
        bus.assign().expect("addresses for all BARs");
        Self { bus, placed }
    }

    /// BARs that decode.
    #[must_use]
    pub fn decoded(&self) -> Decoded {
        self.placed.all()
    }

    /// Reads a port, if it is the bus's.
    pub fn port_read(&self, port: u16, data: &mut [u8]) {
        if RootBus::has_port(port) {
            self.bus.port_read(port, data);
        }
    }

    /// Writes a port, if it is the bus's.
    pub fn port_write(&self, port: u16, data: &[u8]) {
        if RootBus::has_port(port) {
            self.bus.port_write(port, data);
        }
    }

    /// Reads memory. Returns true if the address is the bus's.
    pub fn read(&self, address: u64, data: &mut [u8]) -> bool {
        self.bus.read(address, data)
    }

    /// Writes memory. Returns true if the address is the bus's.
    pub fn write(&self, address: u64, data: &[u8]) -> bool {
        self.bus.write(address, data)
    }
}
