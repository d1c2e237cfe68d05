//! The root bus: a host bridge and the GPU, configured by mechanism 1 and by ECAM.
//!
//! PCI Local Bus 3.0 section 3.2.2.3.2 (mechanism 1); PCI Express Base 4.0 section 7.2.2 (ECAM).

use std::sync::atomic::{AtomicU32, Ordering};

use super::gpu::GpuFunction;

/// `CONFIG_ADDRESS` and the four bytes of `CONFIG_DATA`.
const ADDRESS_PORT: u16 = 0xcf8;
const DATA_PORT: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
/// Where the configuration space of bus 0 is in memory.
pub(super) const ECAM: u64 = 0xe000_0000;
/// Bytes of it: one bus.
pub(super) const ECAM_SIZE: u64 = 1 << 20;
/// Device numbers on bus 0.
const BRIDGE: u32 = 0;
const GPU: u32 = 1;
/// Header of the bridge: QEMU's generic PCI Express host bridge, class 0x060000.
const BRIDGE_HEADER: [u8; 12] = [0x36, 0x1b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06];

/// The bus.
#[derive(Debug)]
pub(super) struct RootBus {
    gpu: Option<GpuFunction>,
    address: AtomicU32,
}

impl RootBus {
    pub(super) fn new(gpu: Option<GpuFunction>) -> Self {
        Self { gpu, address: AtomicU32::new(0) }
    }

    /// Whether a port belongs to mechanism 1.
    pub(super) fn has_port(port: u16) -> bool {
        (ADDRESS_PORT..DATA_PORT + 4).contains(&port)
    }

    /// Reads a port of mechanism 1.
    pub(super) fn port_read(&self, port: u16, data: &mut [u8]) {
        data.fill(0xff);
        if port >= DATA_PORT {
            if let Some((device, offset)) = self.selected(port, data.len()) {
                self.config_read(device, offset, data);
            }
        } else if let ([a, b, c, d], ADDRESS_PORT) = (data, port) {
            [*a, *b, *c, *d] = self.address.load(Ordering::Relaxed).to_le_bytes();
        }
    }

    /// Writes a port of mechanism 1.
    pub(super) fn port_write(&self, port: u16, data: &[u8]) {
        if port >= DATA_PORT {
            if let Some((device, offset)) = self.selected(port, data.len()) {
                self.config_write(device, offset, data);
            }
        } else if let (&[a, b, c, d], ADDRESS_PORT) = (data, port) {
            self.address.store(u32::from_le_bytes([a, b, c, d]), Ordering::Relaxed);
        }
    }

    /// The function and offset `CONFIG_ADDRESS` names: bus 0, function 0 of a device, within one dword.
    fn selected(&self, port: u16, len: usize) -> Option<(u32, usize)> {
        let address = self.address.load(Ordering::Relaxed);
        let within = usize::from(port - DATA_PORT);
        if address & ENABLE == 0 || within + len > 4 {
            return None;
        }
        locate(address >> 8 & 0xffff).map(|device| (device, (address & 0xfc) as usize + within))
    }

    /// Reads memory space that is the bus's; whether it is.
    pub(super) fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some(offset) = address.checked_sub(ECAM).filter(|&offset| offset < ECAM_SIZE) else {
            return self.gpu.as_ref().is_some_and(|gpu| gpu.read(address, data));
        };
        data.fill(0xff);
        if let Some(device) = locate((offset >> 12) as u32) {
            self.config_read(device, (offset & 0xfff) as usize, data);
        }
        true
    }

    /// Writes memory space that is the bus's; whether it is.
    pub(super) fn write(&self, address: u64, data: &[u8]) -> bool {
        let Some(offset) = address.checked_sub(ECAM).filter(|&offset| offset < ECAM_SIZE) else {
            return self.gpu.as_ref().is_some_and(|gpu| gpu.write(address, data));
        };
        if let Some(device) = locate((offset >> 12) as u32) {
            self.config_write(device, (offset & 0xfff) as usize, data);
        }
        true
    }

    fn config_read(&self, device: u32, offset: usize, data: &mut [u8]) {
        if device == GPU {
            match &self.gpu {
                Some(gpu) => gpu.config_read(offset, data),
                None => data.fill(0xff),
            }
            return;
        }
        for (at, byte) in (offset..).zip(data) {
            *byte = BRIDGE_HEADER.get(at).copied().unwrap_or(0);
        }
    }

    fn config_write(&self, device: u32, offset: usize, data: &[u8]) {
        // The bridge has nothing to configure.
        if let (GPU, Some(gpu)) = (device, &self.gpu) {
            gpu.config_write(offset, data);
        }
    }
}

/// The device at a bus, device and function number, if there is one.
fn locate(bdf: u32) -> Option<u32> {
    match bdf {
        0 => Some(BRIDGE),
        0x08 => Some(GPU),
        _ => None,
    }
}
