//! The root bus: a host bridge and functions behind it, configured by mechanism 1 and by ECAM.
//!
//! PCI Local Bus 3.0 section 3.2.2.3.2 (mechanism 1); PCI Express Base 4.0 section 7.2.2 (ECAM).

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_lock::{Mutex, RwLock, rank};

use vm_allocator::{AddressAllocator, AllocPolicy};

use crate::bar::Bar;
use crate::decode::{self, Apertures};
use crate::function::Function;

/// `CONFIG_ADDRESS` and the four bytes of `CONFIG_DATA`.
const ADDRESS_PORT: u16 = 0xcf8;
const DATA_PORT: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
/// Address of bus 0's configuration space in memory.
pub const ECAM: u64 = 0xe000_0000;
/// Bytes of it: one bus.
pub const ECAM_SIZE: u64 = 1 << 20;
/// Device number of the bridge.
const BRIDGE: u8 = 0;
/// Header of the bridge: QEMU's generic PCI Express host bridge, class 0x060000.
const BRIDGE_HEADER: [u8; 12] = [0x36, 0x1b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06];

/// The bus.
#[derive(Debug)]
pub struct RootBus {
    /// Functions by device number, from 1 to 31.
    functions: BTreeMap<u8, Arc<dyn Function>>,
    apertures: Apertures,
    address: AtomicU32,
    /// Held during a configuration write: one at a time.
    configuring: Mutex<(), rank::RootBusConfiguring>,
    /// BARs of each function that decode, by device number.
    decoded: RwLock<BTreeMap<u8, Vec<Bar>>, rank::RootBusDecoded>,
}

impl RootBus {
    /// Makes a bus of functions by device number; none of them decodes yet.
    pub fn new(apertures: Apertures, functions: BTreeMap<u8, Arc<dyn Function>>) -> Self {
        debug_assert!(functions.keys().all(|device| (1..32).contains(device)), "no such device numbers");
        let (configuring, decoded) = (Mutex::default(), RwLock::default());
        Self { functions, apertures, address: AtomicU32::new(0), configuring, decoded }
    }

    /// Gives the BARs their first addresses, as firmware does, and leaves decoding to the guest.
    ///
    /// # Errors
    ///
    /// The apertures have no room for them.
    pub fn assign(&self) -> io::Result<()> {
        let failed = |error: vm_allocator::Error| io::Error::other(error.to_string());
        let make = |(from, to): (u64, u64)| AddressAllocator::new(from, to - from + 1).map_err(failed);
        let [low, high] = self.apertures.0;
        let (mut low, mut high) = (make(low)?, make(high)?);
        for function in self.functions.values() {
            for bar in function.bars() {
                let allocator = if bar.wide { &mut high } else { &mut low };
                let range = allocator.allocate(bar.size, bar.size, AllocPolicy::FirstMatch);
                let base = range.map_err(failed)?.start();
                let at = bar.offset();
                function.config_write(at, &(base as u32).to_le_bytes());
                if bar.wide {
                    function.config_write(at + 4, &((base >> 32) as u32).to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// Returns `CONFIG_ADDRESS`.
    #[must_use]
    pub fn address(&self) -> u32 {
        self.address.load(Ordering::Relaxed)
    }

    /// Goes on with functions that were restored: BARs decode as their configuration spaces have them.
    pub fn restore(&self, address: u32) {
        self.address.store(address, Ordering::Relaxed);
        self.place();
    }

    /// Returns true if a port belongs to mechanism 1.
    #[must_use]
    pub fn has_port(port: u16) -> bool {
        (ADDRESS_PORT..DATA_PORT + 4).contains(&port)
    }

    /// Reads a port of mechanism 1.
    pub fn port_read(&self, port: u16, data: &mut [u8]) {
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
    pub fn port_write(&self, port: u16, data: &[u8]) {
        if port >= DATA_PORT {
            if let Some((device, offset)) = self.selected(port, data.len()) {
                self.config_write(device, offset, data);
            }
        } else if let (&[a, b, c, d], ADDRESS_PORT) = (data, port) {
            self.address.store(u32::from_le_bytes([a, b, c, d]), Ordering::Relaxed);
        }
    }

    /// Returns the function and offset that `CONFIG_ADDRESS` selects: bus 0, function 0 of a device, within one
    /// dword.
    fn selected(&self, port: u16, len: usize) -> Option<(u8, usize)> {
        let address = self.address.load(Ordering::Relaxed);
        let within = usize::from(port - DATA_PORT);
        if address & ENABLE == 0 || within + len > 4 {
            return None;
        }
        self.locate(address >> 8 & 0xffff).map(|device| (device, (address & 0xfc) as usize + within))
    }

    /// Reads the bus's memory space; returns false for other addresses.
    pub fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some(offset) = address.checked_sub(ECAM).filter(|&offset| offset < ECAM_SIZE) else {
            let Some((function, bar, offset)) = self.find(address) else { return false };
            function.read(bar, offset, data);
            return true;
        };
        data.fill(0xff);
        if let Some(device) = self.locate((offset >> 12) as u32) {
            self.config_read(device, (offset & 0xfff) as usize, data);
        }
        true
    }

    /// Writes the bus's memory space; returns false for other addresses.
    pub fn write(&self, address: u64, data: &[u8]) -> bool {
        let Some(offset) = address.checked_sub(ECAM).filter(|&offset| offset < ECAM_SIZE) else {
            let Some((function, bar, offset)) = self.find(address) else { return false };
            function.write(bar, offset, data);
            return true;
        };
        if let Some(device) = self.locate((offset >> 12) as u32) {
            self.config_write(device, (offset & 0xfff) as usize, data);
        }
        true
    }

    /// Returns the function, BAR and offset that answer at an address.
    fn find(&self, address: u64) -> Option<(&dyn Function, u8, u64)> {
        let decoded = self.decoded.read().unwrap_or_else(PoisonError::into_inner);
        let (device, bar, offset) = decoded.iter().find_map(|(device, bars)| {
            bars.iter().find_map(|bar| Some((*device, bar.number, bar.offset(address)?)))
        })?;
        Some((self.function(device)?, bar, offset))
    }

    fn config_read(&self, device: u8, offset: usize, data: &mut [u8]) {
        if let Some(function) = self.function(device) {
            return function.config_read(offset, data);
        }
        for (at, byte) in (offset..).zip(data) {
            *byte = BRIDGE_HEADER.get(at).copied().unwrap_or(0);
        }
    }

    fn config_write(&self, device: u8, offset: usize, data: &[u8]) {
        // The bridge has nothing to configure.
        let Some(function) = self.function(device) else { return };
        let _one = self.configuring.lock().unwrap_or_else(PoisonError::into_inner);
        function.config_write(offset, data);
        self.place();
    }

    /// Lets the BARs decode as configuration space has them.
    fn place(&self) {
        let now = decode::decode(&self.functions, self.apertures);
        let before = {
            let mut decoded = self.decoded.write().unwrap_or_else(PoisonError::into_inner);
            if *decoded == now {
                return;
            }
            std::mem::replace(&mut *decoded, now.clone())
        };
        let of = |decoded: &BTreeMap<u8, Vec<Bar>>, device| decoded.get(device).cloned().unwrap_or_default();
        // Old ranges are removed before new ones are placed: another function may be placed at their addresses.
        for (device, function) in &self.functions {
            let (before, mut stay) = (of(&before, device), of(&now, device));
            stay.retain(|bar| before.contains(bar));
            if stay.len() < before.len() {
                function.place(&stay);
            }
        }
        for (device, function) in &self.functions {
            let (before, now) = (of(&before, device), of(&now, device));
            if now.iter().any(|bar| !before.contains(bar)) {
                function.place(&now);
            }
        }
    }

    fn function(&self, device: u8) -> Option<&dyn Function> {
        self.functions.get(&device).map(|function| &**function)
    }

    /// Returns the device at a bus, device and function number, if there is one.
    fn locate(&self, bdf: u32) -> Option<u8> {
        let device = u8::try_from(bdf >> 3).ok()?;
        (bdf & 7 == 0 && (device == BRIDGE || self.function(device).is_some())).then_some(device)
    }
}
