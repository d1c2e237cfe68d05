//! The PCI function, as bus code treats it: enabling, and function level reset.

use belfry_device::Gpu;
use belfry_kfd_core::{Errno, Result};

/// Command register, and its memory and bus master bits.
const COMMAND: usize = 0x04;
const COMMAND_MEMORY_MASTER: u16 = 0x6;
/// First capability.
const CAPABILITIES: usize = 0x34;
/// Capability ids.
const CAP_PM: u8 = 0x01;
const CAP_PCIE: u8 = 0x10;
const CAP_MSIX: u8 = 0x11;
/// Device control of the PCI Express capability, and its reset bit.
const PCIE_DEVCTL: usize = 8;
const DEVCTL_RESET: u16 = 1 << 15;
/// Control and status of the power management capability, and its states.
const PM_CONTROL: usize = 4;
const PM_STATE: u16 = 3;
const D0: u16 = 0;
const D3HOT: u16 = 3;
/// Message control of the MSI-X capability, and its enable bit.
const MSIX_CONTROL: usize = 2;
const MSIX_ENABLE: u16 = 1 << 15;

pub(crate) fn read_u32(gpu: &Gpu, offset: usize) -> u32 {
    let mut bytes = [0; 4];
    gpu.config_read(offset, &mut bytes);
    u32::from_le_bytes(bytes)
}

fn read_u16(gpu: &Gpu, offset: usize) -> u16 {
    let mut bytes = [0; 2];
    gpu.config_read(offset, &mut bytes);
    u16::from_le_bytes(bytes)
}

fn capability(gpu: &Gpu, id: u8) -> Option<usize> {
    let mut at = (read_u32(gpu, CAPABILITIES) & 0xfc) as usize;
    // A list that bites its own tail ends after as many entries as there is room for.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        let header = read_u16(gpu, at);
        if header as u8 == id {
            return Some(at);
        }
        at = usize::from(header >> 8) & 0xfc;
    }
    None
}

fn set_power(gpu: &Gpu, state: u16) {
    if let Some(power) = capability(gpu, CAP_PM) {
        let control = read_u16(gpu, power + PM_CONTROL) & !PM_STATE | state;
        gpu.config_write(power + PM_CONTROL, &control.to_le_bytes());
    }
}

/// Powers the function, and lets it decode memory, master the bus and send MSI-X messages.
pub(crate) fn enable(gpu: &Gpu) {
    set_power(gpu, D0);
    let command = read_u16(gpu, COMMAND) | COMMAND_MEMORY_MASTER;
    gpu.config_write(COMMAND, &command.to_le_bytes());
    if let Some(msix) = capability(gpu, CAP_MSIX) {
        let control = read_u16(gpu, msix + MSIX_CONTROL) | MSIX_ENABLE;
        gpu.config_write(msix + MSIX_CONTROL, &control.to_le_bytes());
    }
}

/// Takes the function off the bus.
pub(crate) fn disable(gpu: &Gpu) {
    let command = read_u16(gpu, COMMAND) & !COMMAND_MEMORY_MASTER;
    gpu.config_write(COMMAND, &command.to_le_bytes());
}

/// Resets the function and enables it again.
///
/// # Errors
///
/// `EOPNOTSUPP` without a PCI Express capability.
pub(crate) fn reset(gpu: &Gpu) -> Result<()> {
    let pcie = capability(gpu, CAP_PCIE).ok_or(Errno::EOPNOTSUPP)?;
    let control = read_u16(gpu, pcie + PCIE_DEVCTL) | DEVCTL_RESET;
    gpu.config_write(pcie + PCIE_DEVCTL, &control.to_le_bytes());
    enable(gpu);
    Ok(())
}

/// Takes the function off the bus, and its power as far as it goes.
pub(crate) fn suspend(gpu: &Gpu) {
    disable(gpu);
    set_power(gpu, D3HOT);
}

/// Powers the function again; it has lost its registers, and has kept VRAM.
///
/// # Errors
///
/// As for [`reset`].
pub(crate) fn resume(gpu: &Gpu) -> Result<()> {
    set_power(gpu, D0);
    reset(gpu)
}
