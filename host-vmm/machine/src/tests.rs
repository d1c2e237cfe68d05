//! The bus as vCPUs see it, over a real device and a real VM; needs a /dev/kvm that can be used.

mod doorbells;
mod interrupts;
mod virtio;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use belfry_abi::pci;
use belfry_abi::regs::nbio::RCC_DOORBELL_APER_EN;
use belfry_bus::{Apertures, ECAM, Function, Interrupts as _, RootBus, Routes, Vectors};
use belfry_device::chip::gfx1100::dword;
use belfry_device::{Gpu, GpuConfig, MsixTable, Resources};
use kvm_ioctls::{Kvm, VmFd};
use vm_memory::GuestMemoryAtomic;

use super::config::DoorbellMode;
use super::doorbells::{Doorbells, Watcher};
use super::gpu::GpuFunction;
use super::memory::{self, SharedMemory, Window};
use crate::config::HugePages;

const VRAM: u64 = 16 << 20;
const VRAM_AT: u64 = 0x8_0000_0000;
const DOORBELLS_AT: u64 = 0xc800_0000;
const REGISTERS_AT: u64 = 0xc700_0000;
/// Address of the GPU's configuration space in ECAM.
const GPU_ECAM: u64 = ECAM + (1 << 15);

struct Bus {
    bus: RootBus,
    /// The host's end of the channel, which is device 2.
    host: UnixStream,
    vectors: Arc<Vectors>,
    gpu: Arc<Gpu>,
    doorbells: Option<Doorbells>,
    vm: Arc<VmFd>,
    _watcher: Option<Watcher>,
}

impl Bus {
    fn new() -> Self {
        Self::with(DoorbellMode::default())
    }

    fn with(mode: DoorbellMode) -> Self {
        let kvm = Kvm::new().expect("/dev/kvm has to be usable for this test");
        let vm = Arc::new(kvm.create_vm().unwrap());
        vm.create_irq_chip().unwrap();
        let routes = Routes::new(Arc::clone(&vm)).unwrap();
        let vectors = routes.vectors(1, pci::MSIX_VECTORS).unwrap();
        let (vram, bells) = (
            SharedMemory::new("vram", VRAM).unwrap(),
            SharedMemory::new("bells", pci::DOORBELL_BAR_SIZE).unwrap(),
        );
        let resources = Resources {
            vram: vram.map().unwrap(),
            doorbells: bells.map().unwrap(),
            system: GuestMemoryAtomic::new(memory::ram(4 << 20, HugePages::Off).unwrap()),
            interrupts: vectors.clone(),
        };
        let config = GpuConfig {
            vram_size: VRAM,
            msix_table: MsixTable::Device,
            interrupt_pin: true,
            workers: 1,
            ..GpuConfig::default()
        };
        let gpu = Gpu::new(config, resources).unwrap();
        let doorbells = Doorbells::new(mode, &vm, &gpu, &bells, 2).unwrap();
        let window = Window::new(Arc::clone(&vm), 1, vram.map().unwrap());
        let apertures = Apertures([(0xc000_0000, ECAM - 1), (1 << 32, (1 << 40) - 1)]);
        let function = GpuFunction::new(Arc::clone(&gpu), vectors.clone(), window, doorbells.clone(), false);
        let watcher = doorbells.as_ref().map(|doorbells| doorbells.start().unwrap());
        let (host, channel) = virtio::channel(&vm, &routes);
        let functions: [(u8, Arc<dyn Function>); 2] = [(1, Arc::new(function)), (2, Arc::new(channel))];
        Self {
            bus: RootBus::new(apertures, BTreeMap::from(functions)),
            host,
            vectors,
            gpu,
            doorbells,
            vm,
            _watcher: watcher,
        }
    }

    /// Makes a bus whose BARs decode.
    fn placed() -> Self {
        Self::placed_with(DoorbellMode::default())
    }

    fn placed_with(mode: DoorbellMode) -> Self {
        let bus = Self::with(mode);
        bus.place();
        bus
    }

    fn place(&self) {
        for (at, value) in [
            (0x10, VRAM_AT as u32),
            (0x14, (VRAM_AT >> 32) as u32),
            (0x18, DOORBELLS_AT as u32),
            (0x1c, 0),
            (0x24, REGISTERS_AT as u32),
            (0x04, 6),
        ] {
            self.config_write(at, &value.to_le_bytes());
        }
    }

    fn select(&self, device: u32, offset: u32) {
        let address: u32 = 1 << 31 | device << 11 | offset & 0xfc;
        self.bus.port_write(0xcf8, &address.to_le_bytes());
    }

    fn config_read(&self, offset: u32, data: &mut [u8]) {
        self.select(1, offset);
        self.bus.port_read(0xcfc + (offset & 3) as u16, data);
    }

    fn config_write(&self, offset: u32, data: &[u8]) {
        self.select(1, offset);
        self.bus.port_write(0xcfc + (offset & 3) as u16, data);
    }

    fn read(&self, address: u64) -> Option<u32> {
        let mut data = [0; 4];
        self.bus.read(address, &mut data).then(|| u32::from_le_bytes(data))
    }
}

#[test]
fn both_mechanisms_read_the_same_in_every_width() {
    let bus = Bus::new();
    let mut whole = [0; 256];
    bus.gpu.config_read(0, &mut whole);
    assert_eq!(whole[..4], [0x02, 0x10, 0x4c, 0x74]);
    for width in [1, 2, 4, 8] {
        for offset in (0..256 - width).step_by(width) {
            let mut data = vec![0; width];
            assert!(bus.bus.read(GPU_ECAM + offset as u64, &mut data));
            assert_eq!(data, whole[offset..offset + width], "ECAM, {width} bytes at {offset:#x}");
            if width <= 4 {
                bus.config_read(offset as u32, &mut data);
                assert_eq!(data, whole[offset..offset + width], "mechanism 1, {width} bytes at {offset:#x}");
            }
        }
    }
}

#[test]
fn what_is_not_there_reads_all_ones() {
    let bus = Bus::new();
    for device in (0..32).filter(|device| *device > 2) {
        bus.select(device, 0);
        let mut data = [0; 4];
        bus.bus.port_read(0xcfc, &mut data);
        assert_eq!(data, [0xff; 4], "device {device}");
    }
    // Another function, another bus, an access that leaves its dword, an address that was never enabled.
    assert_eq!(bus.read(GPU_ECAM + 0x1000), Some(!0));
    assert_eq!(bus.read(ECAM + 0xf_fffc), Some(!0));
    bus.select(1, 0);
    let mut data = [0; 4];
    bus.bus.port_read(0xcfe, &mut data);
    assert_eq!(data, [0xff; 4]);
    bus.bus.port_write(0xcf8, &[0; 4]);
    bus.bus.port_read(0xcfc, &mut data);
    assert_eq!(data, [0xff; 4]);
    // The bridge is there.
    bus.select(0, 8);
    bus.bus.port_read(0xcfc, &mut data);
    assert_eq!(u32::from_le_bytes(data) >> 8, 0x06_0000);
}

#[test]
fn bars_are_sized_and_moved_and_memory_follows() {
    let bus = Bus::placed();
    assert!(bus.bus.write(VRAM_AT + 0x100, &7u32.to_le_bytes()));
    assert_eq!(bus.read(VRAM_AT + 0x100), Some(7));
    // With decoding off, no device answers; the size is in the bits that stay 0.
    bus.config_write(4, &[0, 0]);
    assert_eq!(bus.read(VRAM_AT + 0x100), None);
    for (bar, size) in [(0x10, VRAM), (0x18, pci::DOORBELL_BAR_SIZE), (0x24, pci::REGISTER_BAR_SIZE)] {
        bus.config_write(bar, &[0xff; 4]);
        let mut data = [0; 4];
        bus.config_read(bar, &mut data);
        assert_eq!(u64::from(!(u32::from_le_bytes(data) & !0xf)) + 1, size);
    }
    bus.config_write(0x10, &0xd000_0000u32.to_le_bytes());
    bus.config_write(0x14, &[0; 4]);
    bus.config_write(4, &[6, 0]);
    assert_eq!(bus.read(0xd000_0100), Some(7));
    assert_eq!(bus.read(VRAM_AT + 0x100), None);
}

#[test]
fn bars_over_each_other_and_over_ram_leave_the_first_one() {
    let bus = Bus::placed();
    bus.bus.write(VRAM_AT, &7u32.to_le_bytes());
    bus.config_write(0x18, &(VRAM_AT as u32).to_le_bytes());
    bus.config_write(0x1c, &((VRAM_AT >> 32) as u32).to_le_bytes());
    bus.config_write(0x24, &0x10_0000u32.to_le_bytes());
    assert_eq!(bus.read(VRAM_AT), Some(7));
    assert_eq!((bus.read(DOORBELLS_AT), bus.read(REGISTERS_AT), bus.read(0x10_0000)), (None, None, None));
    bus.config_write(0x24, &(REGISTERS_AT as u32).to_le_bytes());
    assert!(bus.read(REGISTERS_AT).is_some());
}

#[test]
fn configuration_writes_of_every_width_anywhere_are_survived() {
    let bus = Bus::placed();
    for fill in [0xff, 0, 0xa5] {
        for width in [1, 2, 4, 8] {
            for offset in 0..0x110u64 {
                bus.bus.write(GPU_ECAM + offset, &vec![fill; width]);
                if width <= 4 {
                    bus.config_write(offset as u32 & 0xff, &vec![fill; width]);
                }
            }
        }
        for offset in 0xff8..0x1008 {
            bus.bus.write(GPU_ECAM + offset, &[fill; 8]);
        }
    }
    let mut data = [0; 4];
    bus.config_read(0, &mut data);
    assert_eq!(data, [0x02, 0x10, 0x4c, 0x74]);
}

#[test]
fn accesses_at_the_ends_of_bars_are_answered_or_not_ours() {
    let bus = Bus::placed();
    for (base, size) in
        [(VRAM_AT, VRAM), (DOORBELLS_AT, pci::DOORBELL_BAR_SIZE), (REGISTERS_AT, pci::REGISTER_BAR_SIZE)]
    {
        for width in [1, 2, 4, 8] {
            for back in 1..=8 {
                let mut data = vec![0xee; width];
                assert!(bus.bus.read(base + size - back, &mut data));
                assert!(bus.bus.write(base + size - back, &data));
            }
            assert!(!bus.bus.read(base + size, &mut vec![0; width]));
        }
    }
    // A doorbell without a queue, on the last page, once the device listens to doorbells at all.
    bus.gpu
        .bar_write(pci::BAR_REGISTERS, u64::from(dword::<RCC_DOORBELL_APER_EN>()) * 4, &1u32.to_le_bytes())
        .unwrap();
    let before = bus.gpu.stats().doorbells_unknown;
    assert!(bus.bus.write(DOORBELLS_AT + pci::DOORBELL_BAR_SIZE - 8, &1u64.to_le_bytes()));
    assert_eq!(bus.gpu.stats().doorbells_unknown, before + 1);
}

#[test]
fn messages_to_nowhere_are_dropped() {
    let bus = Bus::placed();
    let table = REGISTERS_AT + pci::MSIX_TABLE_OFFSET;
    for (address, data) in [(0u64, 0u32), (!0, !0), (0xfee0_0000, 0x40), (0x1234_5678_9abc_def0, 0xff)] {
        for vector in 0..u64::from(pci::MSIX_VECTORS) {
            let entry = table + vector * 16;
            assert!(bus.bus.write(entry, &address.to_le_bytes()));
            assert!(bus.bus.write(entry + 8, &data.to_le_bytes()));
            assert!(bus.bus.write(entry + 12, &[0; 4]));
        }
        bus.config_write(0xc2, &[0x03, 0x80]);
        for vector in [0, 1, 3, 4, u16::MAX] {
            bus.vectors.raise(vector);
        }
        // Also without the table, through MSI.
        bus.config_write(0xc2, &[0x03, 0x00]);
        bus.config_write(0xa4, &(address as u32).to_le_bytes());
        bus.config_write(0xa2, &[1, 0]);
        bus.vectors.raise(0);
        bus.config_write(0xa2, &[0, 0]);
    }
}
