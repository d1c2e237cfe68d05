//! Windows of the bus interface: VRAM through MM_INDEX/MM_DATA, far registers through two index/data pairs.
//!
//! A far register reads what was last written, 0 at first. It is counted like a register of the BAR without a model.

use std::sync::PoisonError;

use belfry_abi::pci::REGISTER_BAR_SIZE;
use belfry_abi::regs::Register;
use belfry_abi::regs::nbio::{
    MM_DATA, MM_INDEX, MM_INDEX_HI, PCIE_DATA2, PCIE_INDEX2, RSMU_DATA, RSMU_INDEX,
};

use super::Mmio;
use crate::memory::Location;

/// `MP1_FIRMWARE_FLAGS` in the system management network: bit 0, the SMU's firmware runs.
const MP1_FIRMWARE_FLAGS: u32 = 0x03b1_0024;
/// Far registers kept (and counted) at most; a driver uses a few dozen.
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

/// Name of a far register, for reports.
pub(super) fn far_name(address: u32) -> String {
    format!("far register {address:#x}")
}

/// Counts a use of a far register that only stores.
fn note(mmio: &Mmio, address: u32, add: impl FnOnce(&mut (u64, u64))) {
    let mut far = mmio.far.lock().unwrap_or_else(PoisonError::into_inner);
    if far.len() >= MAX_INDIRECT && !far.contains_key(&address) {
        drop(far);
        mmio.counters.error("too many far registers", format_args!("address={address:#x}"));
        return;
    }
    let uses = far.entry(address).or_insert((0, 0));
    let first = *uses == (0, 0);
    add(uses);
    drop(far);
    if first {
        log::debug!(target: "gpu::mmio", "register without behaviour: {}", far_name(address));
    }
}

fn outside_of_vram(mmio: &Mmio, offset: u64) {
    mmio.counters.error("window outside of VRAM", format_args!("offset={offset:#x}"));
}

fn onto_a_window(mmio: &Mmio, window: Window) {
    mmio.counters.error("window onto a window", format_args!("{window:?}"));
}

pub(super) fn read(mmio: &Mmio, window: Window) -> u32 {
    match target(mmio, window) {
        Target::Vram(offset) => mmio.memory.load_u32(Location::Vram(offset)).unwrap_or_else(|_| {
            outside_of_vram(mmio, offset);
            0
        }),
        Target::Register(index) => mmio.read_direct(index),
        Target::Far(MP1_FIRMWARE_FLAGS) => 1,
        Target::Far(address) => {
            note(mmio, address, |uses| uses.0 += 1);
            mmio.lock().indirect.get(&address).copied().unwrap_or(0)
        }
        Target::Nothing => {
            onto_a_window(mmio, window);
            0
        }
    }
}

pub(super) fn write(mmio: &Mmio, window: Window, value: u32) -> bool {
    match target(mmio, window) {
        Target::Vram(offset) => {
            if mmio.memory.store_u32(Location::Vram(offset), value).is_err() {
                outside_of_vram(mmio, offset);
            }
            false
        }
        Target::Register(index) => mmio.write_direct(index, value),
        Target::Far(address) => {
            note(mmio, address, |uses| uses.1 += 1);
            let mut state = mmio.lock();
            if state.indirect.len() < MAX_INDIRECT || state.indirect.contains_key(&address) {
                state.indirect.insert(address, value);
            }
            false
        }
        Target::Nothing => {
            onto_a_window(mmio, window);
            false
        }
    }
}
