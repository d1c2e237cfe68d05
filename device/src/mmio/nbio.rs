//! Windows of the bus interface: VRAM through MM_INDEX/MM_DATA, far registers through two index/data pairs.

use belfry_abi::pci::REGISTER_BAR_SIZE;
use belfry_abi::regs::Register;
use belfry_abi::regs::nbio::{
    MM_DATA, MM_INDEX, MM_INDEX_HI, PCIE_DATA2, PCIE_INDEX2, RSMU_DATA, RSMU_INDEX,
};

use super::Mmio;
use crate::memory::Location;

/// `MP1_FIRMWARE_FLAGS` in the system management network: bit 0, the SMU's firmware runs.
const MP1_FIRMWARE_FLAGS: u32 = 0x03b1_0024;
/// Far registers kept at most; a driver uses a few dozen.
const MAX_INDIRECT: usize = 4096;
/// Bit of MM_INDEX: the window is on VRAM, not on registers.
const MM_APER: u32 = 1 << 31;

/// A data register behind which something else lies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Window {
    /// VRAM, or registers.
    Memory,
    /// Registers by byte address; the field is where the address is.
    Indirect(u32),
}

/// The window a register opens, if it does.
pub(super) fn decode(index: u32) -> Option<Window> {
    match index {
        MM_DATA::INDEX => Some(Window::Memory),
        RSMU_DATA::INDEX => Some(Window::Indirect(RSMU_INDEX::INDEX)),
        PCIE_DATA2::INDEX => Some(Window::Indirect(PCIE_INDEX2::INDEX)),
        _ => None,
    }
}

enum Target {
    Vram(u64),
    Register(u32),
    Far(u32),
    Nothing,
}

fn target(mmio: &Mmio, window: Window) -> Target {
    let state = mmio.lock();
    let register = |byte: u32| match byte {
        // A window onto a window: the hardware would not do that, and nothing good comes of it.
        byte if decode(byte / 4).is_some() => Target::Nothing,
        byte if u64::from(byte) < REGISTER_BAR_SIZE => Target::Register(byte / 4),
        byte => Target::Far(byte & !3),
    };
    match window {
        Window::Memory => {
            let low = state.storage[MM_INDEX::INDEX as usize];
            let high = state.storage[MM_INDEX_HI::INDEX as usize];
            if low & MM_APER != 0 {
                Target::Vram(u64::from(high) << 31 | u64::from(low & !MM_APER & !3))
            } else {
                register(low)
            }
        }
        Window::Indirect(address) => register(state.storage[address as usize]),
    }
}

pub(super) fn read(mmio: &Mmio, window: Window) -> u32 {
    match target(mmio, window) {
        Target::Vram(offset) => mmio.memory.load_u32(Location::Vram(offset)).unwrap_or(0),
        Target::Register(index) => mmio.read_direct(index),
        Target::Far(MP1_FIRMWARE_FLAGS) => 1,
        Target::Far(address) => mmio.lock().indirect.get(&address).copied().unwrap_or(0),
        Target::Nothing => 0,
    }
}

pub(super) fn write(mmio: &Mmio, window: Window, value: u32) -> bool {
    match target(mmio, window) {
        Target::Vram(offset) => {
            if mmio.memory.store_u32(Location::Vram(offset), value).is_err() {
                mmio.counters.error("window outside of VRAM", format_args!("offset={offset:#x}"));
            }
            false
        }
        Target::Register(index) => mmio.write_direct(index, value),
        Target::Far(address) => {
            let mut state = mmio.lock();
            if state.indirect.len() < MAX_INDIRECT || state.indirect.contains_key(&address) {
                state.indirect.insert(address, value);
            } else {
                drop(state);
                mmio.counters.error("too many far registers", format_args!("address={address:#x}"));
            }
            false
        }
        Target::Nothing => false,
    }
}
