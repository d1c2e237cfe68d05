//! The DSDT: the PCI root bridge with its windows and interrupts, the serial port, the clock, and how to power off.

use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Interrupt, Memory32Fixed, Name, Package,
    PackageBuilder, ResourceTemplate, Scope,
};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, aml};
use belfry_bus::{Apertures, ECAM, ECAM_SIZE, line_of};

use super::{OEM, REVISION, TABLE};
use crate::power;

/// Number of devices that a bus can have; each has four pins.
const DEVICES: u8 = 32;
const PINS: u8 = 4;

/// Ports of PCI functions; no function has any so far.
const PORTS: (u16, u16) = (0x1000, 0xffff);

pub(super) fn table(cpus: u8, apertures: Apertures) -> Sdt {
    let mut body = Vec::new();
    let pci = root_bridge(apertures);
    let (com1, clock, board) = (serial(), clock(), board());
    scope("_SB_", &[&pci, &com1, &clock, &board]).to_aml_bytes(&mut body);
    for number in 0..cpus {
        scope("_SB_", &[&processor(number)]).to_aml_bytes(&mut body);
    }
    let off = power::SLEEP_TYPE_OFF;
    Name::new("_S5_".into(), &Package::new(vec![&off, &off, &aml::ZERO, &aml::ZERO])).to_aml_bytes(&mut body);
    let mut dsdt = Sdt::new(*b"DSDT", 36, 6, OEM, TABLE, REVISION);
    dsdt.append_slice(&body);
    dsdt
}

/// Objects that own their bytes, so that they can be put together in any order.
struct Bytes(Vec<u8>);

impl Aml for Bytes {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        sink.vec(&self.0);
    }
}

fn bytes(object: &dyn Aml) -> Bytes {
    let mut bytes = Vec::new();
    object.to_aml_bytes(&mut bytes);
    Bytes(bytes)
}

fn scope(name: &str, children: &[&dyn Aml]) -> Bytes {
    bytes(&Scope::new(name.into(), children.to_vec()))
}

fn device(name: &str, id: &str, number: u8, resources: Vec<&dyn Aml>) -> Bytes {
    let id = Name::new("_HID".into(), &EISAName::new(id));
    let number = Name::new("_UID".into(), &number);
    let resources = Name::new("_CRS".into(), &ResourceTemplate::new(resources));
    bytes(&Device::new(name.into(), vec![&id, &number, &resources]))
}

fn root_bridge(apertures: Apertures) -> Bytes {
    let [low, high] = apertures.0;
    let memory = AddressSpaceCacheable::NotCacheable;
    // The low aperture lies below 4 GiB.
    let low = AddressSpace::new_memory(memory, true, low.0 as u32, low.1 as u32, None);
    let high = AddressSpace::new_memory(AddressSpaceCacheable::PreFetchable, true, high.0, high.1, None);
    let buses = AddressSpace::new_bus_number(0u16, 0u16);
    let configuration = IO::new(0xcf8, 0xcf8, 1, 8);
    let ports = AddressSpace::new_io(PORTS.0, PORTS.1, None);
    let resources = ResourceTemplate::new(vec![&buses, &configuration, &ports, &low, &high]);
    bytes(&Device::new(
        "PCI0".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0A08")),
            &Name::new("_CID".into(), &EISAName::new("PNP0A03")),
            &Name::new("_UID".into(), &aml::ZERO),
            &Name::new("_SEG".into(), &aml::ZERO),
            &Name::new("_BBN".into(), &aml::ZERO),
            // Caches see the writes of devices.
            &Name::new("_CCA".into(), &aml::ONE),
            &Name::new("_CRS".into(), &resources),
            &Name::new("_PRT".into(), &routing()),
        ],
    ))
}

/// Returns the table of section 6.2.13: the line of the I/O APIC that each pin of each device is connected to.
fn routing() -> PackageBuilder {
    let mut routing = PackageBuilder::new();
    for device in 0..DEVICES {
        for pin in 0..PINS {
            let (address, line) = (u32::from(device) << 16 | 0xffff, line_of(device, pin));
            routing.add_element(&Package::new(vec![&address, &pin, &aml::ZERO, &line]));
        }
    }
    routing
}

fn serial() -> Bytes {
    let line = Interrupt::new(true, true, false, false, crate::board::COM1_IRQ);
    device("COM1", "PNP0501", 0, vec![&IO::new(0x3f8, 0x3f8, 0, 8), &line])
}

fn clock() -> Bytes {
    let line = Interrupt::new(true, true, false, false, 8);
    device("RTC0", "PNP0B00", 0, vec![&IO::new(0x70, 0x70, 0, 2), &line])
}

/// Returns the addresses of the board, at which no function may be placed.
fn board() -> Bytes {
    let ecam = Memory32Fixed::new(true, ECAM as u32, ECAM_SIZE as u32);
    let size = power::EVENT_SIZE + power::CONTROL_SIZE;
    device("BRD0", "PNP0C02", 0, vec![&ecam, &IO::new(power::EVENT, power::EVENT, 0, size as u8)])
}

fn processor(number: u8) -> Bytes {
    let name = format!("C{number:03}");
    let id = Name::new("_HID".into(), &"ACPI0007");
    let number = Name::new("_UID".into(), &number);
    bytes(&Device::new(name.as_str().into(), vec![&id, &number]))
}
