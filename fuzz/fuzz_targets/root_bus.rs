//! The root bus: configuration mechanism 1, ECAM, and BARs of two functions, put anywhere.

#![no_main]

use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::device::Device;
use belfry_fuzz::kvm::{Bus, ECAM, GPU, OTHER};
use libfuzzer_sys::fuzz_target;

const ADDRESS_PORT: u16 = 0xcf8;
const DATA_PORT: u16 = 0xcfc;

fuzz_target!(|input: &[u8]| {
    let device = Device::new();
    let bus = Bus::new(device.gpu.clone());
    assert!(bus.decoded().is_empty(), "firmware leaves decoding to the guest");
    for access in accesses(input) {
        match access.kind & 7 {
            0 => bus.port_write(ADDRESS_PORT + (access.offset & 7) as u16, access.data()),
            1 => {
                let mut data = vec![0; access.len()];
                bus.port_read(ADDRESS_PORT + (access.offset & 7) as u16, &mut data);
            }
            2 | 3 => write_config(&bus, &access),
            4 => memory(&bus, access.offset << (access.kind >> 3), &access),
            5 => inside(&bus, &access),
            6 => same(&bus, &access),
            _ => absent(&bus, &access),
        }
    }
});

fn function(access: &Access) -> u64 {
    u64::from(if access.kind & 8 == 0 { GPU } else { OTHER })
}

/// Writes configuration space of a function by either mechanism, mostly its header.
fn write_config(bus: &Bus, access: &Access) {
    let mask = if access.kind & 0x10 == 0 { 0x3f } else { 0xfff };
    let offset = access.offset & mask;
    if access.kind & 0x20 == 0 {
        assert!(bus.write(ECAM.0 + (function(access) << 15) + offset, access.data()), "ECAM is the bus's");
    } else {
        select(bus, function(access), offset);
        bus.port_write(DATA_PORT + (offset & 3) as u16, access.data());
    }
}

fn select(bus: &Bus, device: u64, offset: u64) {
    let address = 1 << 31 | (device as u32) << 11 | offset as u32 & 0xfc;
    bus.port_write(ADDRESS_PORT, &address.to_le_bytes());
}

/// Accesses memory anywhere: the bus answers where something decodes, and nowhere else.
fn memory(bus: &Bus, address: u64, access: &Access) {
    let contains = |&(_, _, base, size): &(u8, u8, u64, u64)| address.wrapping_sub(base) < size;
    let expected = address.wrapping_sub(ECAM.0) < ECAM.1 || bus.decoded().iter().any(contains);
    let mut data = vec![0; access.len()];
    assert_eq!(bus.read(address, &mut data), expected, "a read at {address:#x}");
    assert_eq!(bus.write(address, access.data()), expected, "a write at {address:#x}");
}

/// Accesses a BAR that decodes, and addresses just outside of it.
fn inside(bus: &Bus, access: &Access) {
    let decoded = bus.decoded();
    let Some(&(_, _, base, size)) = decoded.get(usize::from(access.kind >> 3) % decoded.len().max(1)) else {
        return;
    };
    memory(bus, base + access.offset % size, access);
    memory(bus, base.wrapping_sub(1), access);
    memory(bus, base + size, access);
}

/// Both mechanisms read the same of the first 256 bytes, within a dword.
fn same(bus: &Bus, access: &Access) {
    let offset = access.offset & 0xff;
    let len = access.len().min(4 - (offset & 3) as usize);
    let (mut ports, mut ecam) = (vec![0; len], vec![1; len]);
    select(bus, function(access), offset);
    bus.port_read(DATA_PORT + (offset & 3) as u16, &mut ports);
    assert!(bus.read(ECAM.0 + (function(access) << 15) + offset, &mut ecam));
    assert_eq!(ports, ecam, "{len} bytes at {offset:#x}");
}

/// Functions that are absent read all ones, and take writes.
fn absent(bus: &Bus, access: &Access) {
    let number = access.offset >> 12 & 0xff;
    if number & 7 == 0 && number >> 3 <= u64::from(OTHER) {
        return;
    }
    let address = ECAM.0 + (access.offset & 0xf_ffff);
    let mut data = vec![0; access.len()];
    assert!(bus.read(address, &mut data) && bus.write(address, access.data()));
    assert!(data.iter().all(|&byte| byte == 0xff), "function {number:#x} reads {data:x?}");
}
