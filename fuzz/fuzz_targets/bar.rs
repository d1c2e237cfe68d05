//! Registers, doorbells and VRAM, in any size and anywhere, while the command processor may be running.

#![no_main]

use belfry_abi::pci;
use belfry_abi::regs::Register as _;
use belfry_abi::regs::nbio::RCC_DOORBELL_APER_EN;
use belfry_device::ResetKind;
use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::chips::Choice;
use belfry_fuzz::device::Device;
use libfuzzer_sys::fuzz_target;

const BARS: [u8; 8] = [pci::BAR_REGISTERS, pci::BAR_DOORBELLS, pci::BAR_VRAM, pci::BAR_REGISTERS, 1, 3, 4, 6];

fuzz_target!(|input: &[u8]| {
    let Some((chip, input)) = Choice::split(input) else { return };
    let device = Device::of(chip);
    // As long as the function was never bus master, only these accesses change the memory and registers of the BARs.
    let mut quiet = true;
    for access in accesses(input) {
        let bar = BARS[usize::from(access.kind >> 3 & 7)];
        match access.kind & 7 {
            0..4 => write(&device, bar, &access, quiet),
            4 => {
                device.bar_read(bar, access.offset, access.len());
            }
            5 => {
                device.gpu.config_write((access.offset & 0xff) as usize, access.data());
                quiet &= !device.is_bus_master();
            }
            6 => device.gpu.doorbell_hint(),
            _ => match access.kind >> 3 & 7 {
                0 => device.gpu.reset(ResetKind::Flr),
                1 => device.gpu.pause(),
                2 => device.gpu.resume(),
                3 => device.gpu.memory_changed(),
                // Everything a driver does to use the function at all.
                _ => {
                    device.gpu.config_write(4, &[6, 0]);
                    quiet = false;
                }
            },
        }
    }
    // After any input, the device can report its errors and be taken apart.
    let stats = device.gpu.stats();
    assert!(stats.errors.len() < 256, "{} kinds of errors", stats.errors.len());
    device.gpu.stop();
});

fn write(device: &Device, bar: u8, access: &Access, quiet: bool) {
    let (offset, data) = (access.offset, access.data());
    let enabled = bar == pci::BAR_DOORBELLS && {
        let chip = device.chip.model.chip(device.chip.shape);
        let at = chip.dword(RCC_DOORBELL_APER_EN::IP, 0, RCC_DOORBELL_APER_EN::AT).expect("the chip has it");
        let register = device.bar_read(pci::BAR_REGISTERS, u64::from(at) * 4, 4);
        register.is_some_and(|value| value[0] & 1 == 1)
    };
    let before = device.bar_read(bar, offset, data.len());
    if !device.bar_write(bar, offset, data) || !quiet {
        return;
    }
    let after = device.bar_read(bar, offset, data.len());
    match bar {
        pci::BAR_VRAM => assert_eq!(after.as_deref(), Some(data), "VRAM at {offset:#x}"),
        pci::BAR_DOORBELLS if enabled => assert_eq!(after.as_deref(), Some(data), "doorbell {offset:#x}"),
        pci::BAR_DOORBELLS => assert_eq!(after, before, "doorbell {offset:#x} while doorbells are off"),
        // What a register reads after a write is its own business; that the device answers is all that holds.
        _ => {}
    }
}
