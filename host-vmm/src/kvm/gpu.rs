//! The GPU as a function on the root bus: where its BARs are, what is behind them, where its messages go.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use belfry_abi::pci;
use belfry_device::Gpu;

use super::doorbells::Doorbells;
use super::interrupts::{Message, Routes};
use super::memory::Window;

const COMMAND: usize = 0x04;
const COMMAND_MEMORY: u8 = 1 << 1;
const BARS: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const CAP_MSI: u8 = 0x05;
const CAP_MSIX: u8 = 0x11;
const VECTORS: usize = pci::MSIX_VECTORS as usize;
const TABLE: usize = VECTORS * 16;

/// Addresses a host bridge passes on to its bus, first and last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apertures(pub(super) [(u64, u64); 2]);

impl Apertures {
    fn holds(&self, base: u64, size: u64) -> bool {
        base.checked_add(size - 1)
            .is_some_and(|last| self.0.iter().any(|&(from, to)| from <= base && last <= to))
    }
}

/// A BAR that decodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Bar {
    pub(super) number: u8,
    pub(super) base: u64,
    pub(super) size: u64,
}

/// The three BARs: number, size, 64 bits wide.
fn bars(vram: u64) -> [(u8, u64, bool); 3] {
    [
        (pci::BAR_VRAM, vram, true),
        (pci::BAR_DOORBELLS, pci::DOORBELL_BAR_SIZE, true),
        (pci::BAR_REGISTERS, pci::REGISTER_BAR_SIZE, false),
    ]
}

/// Which BARs decode where, from the first 64 bytes of configuration space.
///
/// A BAR outside of the bridge's apertures gets no accesses; of two that overlap, the first one decodes.
pub(super) fn decode(header: &[u8; 64], vram: u64, apertures: Apertures) -> [Option<Bar>; 3] {
    let mut decoded = [None; 3];
    if header[COMMAND] & COMMAND_MEMORY == 0 {
        return decoded;
    }
    for (at, (number, size, wide)) in bars(vram).into_iter().enumerate() {
        let word = |index: usize| {
            let from = BARS + index * 4;
            u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]])
        };
        let index = usize::from(number);
        let base = u64::from(word(index) & !0xf) | if wide { u64::from(word(index + 1)) << 32 } else { 0 };
        let bar = Bar { number, base, size };
        let overlaps = |other: &Bar| bar.base < other.base + other.size && other.base < bar.base + bar.size;
        if !apertures.holds(base, size) {
            log::debug!(target: "kvm", "BAR {number} at {base:#x} is outside of what the host bridge passes on");
        } else if decoded.iter().flatten().any(overlaps) {
            log::debug!(target: "kvm", "BAR {number} at {base:#x} overlaps another BAR and does not decode");
        } else {
            decoded[at] = Some(bar);
        }
    }
    decoded
}

#[derive(Debug)]
struct Placed {
    vram: Window,
    bars: [Option<Bar>; 3],
}

/// The function.
#[derive(Debug)]
pub(super) struct GpuFunction {
    gpu: Arc<Gpu>,
    apertures: Apertures,
    routes: Arc<Routes>,
    doorbells: Option<Arc<Doorbells>>,
    placed: Mutex<Placed>,
    /// A copy of `placed.bars` for accesses.
    bars: RwLock<[Option<Bar>; 3]>,
    /// Accesses to the message table, one at a time.
    table: Mutex<()>,
}

impl GpuFunction {
    pub(super) fn new(
        gpu: Arc<Gpu>,
        apertures: Apertures,
        routes: Arc<Routes>,
        vram: Window,
        doorbells: Option<Arc<Doorbells>>,
    ) -> Self {
        let placed = Mutex::new(Placed { vram, bars: [None; 3] });
        let (bars, table) = (RwLock::new([None; 3]), Mutex::new(()));
        Self { gpu, apertures, routes, doorbells, placed, bars, table }
    }

    pub(super) fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.gpu.config_read(offset, data);
    }

    pub(super) fn config_write(&self, offset: usize, data: &[u8]) {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        {
            // Routes come first: the write may let an interrupt out.
            let _table = self.lock_table();
            self.route(None, Some((offset, data)));
            self.gpu.config_write(offset, data);
        }
        let mut header = [0; 64];
        self.gpu.config_read(0, &mut header);
        let bars = decode(&header, self.gpu.config().vram_size, self.apertures);
        if bars != placed.bars {
            self.place(&mut placed, bars);
        }
    }

    /// Moves what is mapped; accesses in between exit and are answered by the device.
    fn place(&self, placed: &mut Placed, bars: [Option<Bar>; 3]) {
        placed.bars = bars;
        *self.bars.write().unwrap_or_else(PoisonError::into_inner) = bars;
        let vram = bars[0].map(|bar| (bar.base, 0, bar.size));
        if let Err(error) = placed.vram.place(vram) {
            log::debug!(target: "kvm", "VRAM at {vram:x?} is reached by exits only: {error}");
        }
        if let Some(doorbells) = &self.doorbells {
            doorbells.set_base(bars[1].map(|bar| bar.base));
        }
    }

    /// Which BAR an address belongs to, and where in it.
    fn find(&self, address: u64) -> Option<(u8, u64)> {
        let bars = self.bars.read().unwrap_or_else(PoisonError::into_inner);
        bars.iter().flatten().find_map(|bar| {
            let offset = address.checked_sub(bar.base).filter(|&offset| offset < bar.size)?;
            Some((bar.number, offset))
        })
    }

    /// Reads memory space; whether the address is the function's.
    pub(super) fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some((bar, offset)) = self.find(address) else { return false };
        if let Err(error) = self.gpu.bar_read(bar, offset, data) {
            log::debug!(target: "kvm", "read: {error}");
        }
        true
    }

    /// Writes memory space; whether the address is the function's.
    pub(super) fn write(&self, address: u64, data: &[u8]) -> bool {
        let Some((bar, offset)) = self.find(address) else { return false };
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
        true
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
        self.routes.set(messages);
    }

    /// Gives the BARs their first addresses, as firmware does, and leaves decoding to the guest.
    pub(super) fn assign(&self, allocate: &mut dyn FnMut(u64, bool) -> io::Result<u64>) -> io::Result<()> {
        for (number, size, wide) in bars(self.gpu.config().vram_size) {
            let base = allocate(size, wide)?;
            let at = BARS + usize::from(number) * 4;
            self.config_write(at, &(base as u32).to_le_bytes());
            if wide {
                self.config_write(at + 4, &((base >> 32) as u32).to_le_bytes());
            }
        }
        Ok(())
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

    const VRAM: u64 = 64 << 20;
    const APERTURES: Apertures = Apertures([(0xc000_0000, 0xdfff_ffff), (0x8_0000_0000, 0xff_ffff_ffff)]);

    fn header(command: u8, words: [u32; 6]) -> [u8; 64] {
        let mut header = [0; 64];
        header[COMMAND] = command;
        for (at, word) in words.into_iter().enumerate() {
            header[BARS + at * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        header
    }

    fn bases(header: &[u8; 64]) -> [Option<u64>; 3] {
        decode(header, VRAM, APERTURES).map(|bar| bar.map(|bar| bar.base))
    }

    #[test]
    fn bars_decode_where_they_are_put() {
        let words = [0xc, 0x8, 0xc000_000c, 0, 0, 0xc020_0000];
        assert_eq!(bases(&header(0, words)), [None; 3]);
        assert_eq!(bases(&header(2, words)), [Some(0x8_0000_0000), Some(0xc000_0000), Some(0xc020_0000)]);
    }

    #[test]
    fn absurd_bars_do_not_decode() {
        for (what, words, expected) in [
            ("unassigned", [0xc, 0, 0xc, 0, 0, 0], [None, None, None]),
            ("being sized", [!0xf | 0xc, !0, !0xf | 0xc, !0, 0, !0xf], [None, None, None]),
            ("over RAM", [0x10_000c, 0, 0xc, 0, 0, 0x1000], [None, None, None]),
            ("over the interrupt controllers", [0xc, 0, 0xc, 0, 0, 0xfee0_0000], [None, None, None]),
            ("half outside", [0xde00_000c, 0, 0xc, 0, 0, 0xdff0_0000], [None, None, Some(0xdff0_0000)]),
            (
                "over each other",
                [0xc000_000c, 0, 0xc100_000c, 0, 0, 0xd000_0000],
                [Some(0xc000_0000), None, Some(0xd000_0000)],
            ),
            ("at the end of all addresses", [0xfc00_000c, !0, 0xc, 0, 0, 0], [None, None, None]),
        ] {
            assert_eq!(bases(&header(2, words)), expected, "{what}");
        }
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
}
