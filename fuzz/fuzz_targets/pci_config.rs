//! Configuration space in every width and at every offset, with accesses to BARs and resets in between.

#![no_main]

use belfry_abi::pci;
use belfry_device::ResetKind;
use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::device::{BARS, Device, FLR, FLR_BIT, VRAM};
use libfuzzer_sys::fuzz_target;

/// Bytes that describe the function: identity, class, header type, subsystem, offset of the capabilities.
const CONSTANT: [std::ops::Range<usize>; 5] = [0x00..0x04, 0x08..0x0c, 0x0e..0x0f, 0x2c..0x35, 0x3d..0x40];
const CAPABILITIES: [u8; 4] = [0x01, 0x10, 0x05, 0x11];
const SIZES: [(usize, u64); 2] = [(BARS, VRAM), (BARS + 8, pci::DOORBELL_BAR_SIZE)];

type Config = [u8; pci::CONFIG_SPACE_SIZE];

fuzz_target!(|input: &[u8]| {
    let device = Device::new();
    let fresh = device.config();
    for access in accesses(input) {
        match access.kind & 7 {
            0..4 => write(&device, &fresh, &access),
            4 => read(&device, &access),
            5 => {
                device.bar_write(access.kind >> 3 & 7, access.offset, access.data());
            }
            6 => {
                device.bar_read(access.kind >> 3 & 7, access.offset, access.len());
            }
            _ if access.kind & 0x18 == 0 => {
                device.gpu.reset(if access.kind & 0x20 == 0 { ResetKind::Flr } else { ResetKind::System });
                assert!(device.config() == fresh, "configuration space after a reset");
            }
            // Writes back the values that are there, as drivers that save and restore do.
            _ => {
                let mut data = [0; 32];
                let data = &mut data[..access.len()];
                device.gpu.config_read(access.offset as usize, data);
                write_bytes(&device, &fresh, access.offset as usize, data);
            }
        }
    }
});

fn write(device: &Device, fresh: &Config, access: &Access) {
    // Mostly where something is.
    let offset = if access.kind & 8 == 0 { access.offset & 0xff } else { access.offset };
    write_bytes(device, fresh, offset as usize, access.data());
}

fn write_bytes(device: &Device, fresh: &Config, offset: usize, data: &[u8]) {
    let before = device.config();
    device.gpu.config_write(offset, data);
    let after = device.config();
    let written = |at: usize| at.checked_sub(offset).and_then(|at| data.get(at)).copied();
    if written(FLR).is_some_and(|byte| byte & FLR_BIT != 0) {
        assert!(*after == *fresh, "configuration space after a function level reset");
        return;
    }
    for (at, (&before, &after)) in before.iter().zip(after.iter()).enumerate() {
        match written(at) {
            None => assert_eq!(before, after, "byte {at:#x} was not written"),
            // Each bit keeps its value, takes the written value, or is cleared by a one.
            Some(byte) => assert_eq!((after ^ before) & (after ^ byte) & !(before & byte), 0, "byte {at:#x}"),
        }
    }
    check(fresh, &after);
}

fn check(fresh: &Config, config: &Config) {
    for range in CONSTANT {
        assert_eq!(config[range.clone()], fresh[range], "what never changes");
    }
    assert_eq!(config[FLR] & FLR_BIT, 0, "the bit that resets reads 0");
    for (offset, size) in SIZES {
        let value = u64::from_le_bytes(*config[offset..].first_chunk().unwrap());
        assert_eq!((value & (size - 1), value & 0xf), (0xc, 0xc), "BAR at {offset:#x}");
    }
    let registers = u32::from_le_bytes(*config[BARS + 0x14..].first_chunk().unwrap());
    assert_eq!(u64::from(registers) & (pci::REGISTER_BAR_SIZE - 1), 0, "the register BAR");
    let mut at = usize::from(config[0x34]);
    for id in CAPABILITIES {
        assert_eq!(config[at], id, "the capability at {at:#x}");
        at = usize::from(config[at + 1]);
    }
    assert_eq!(at, 0, "the last capability");
}

fn read(device: &Device, access: &Access) {
    let whole = device.config();
    let mut data = vec![0xa5; access.len()];
    device.gpu.config_read(access.offset as usize, &mut data);
    for (at, &byte) in (0u64..).zip(&data) {
        let expected = access.offset.checked_add(at).and_then(|at| whole.get(at as usize));
        assert_eq!(byte, expected.copied().unwrap_or(0), "{} bytes at {:#x}", data.len(), access.offset);
    }
}
