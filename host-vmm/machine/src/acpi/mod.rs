//! The tables of ACPI: processors, interrupt controllers, configuration space, power-off, and the devices of the board.
//!
//! ACPI Specification 6.5, chapter 5; MCFG: PCI Firmware Specification 3.3, section 4.1.2.

mod dsdt;

use acpi_tables::Aml;
use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADTBuilder, Flags, PmProfile};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::mcfg::MCFG;
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use belfry_bus::{Apertures, ECAM};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::boot::{ACPI, ACPI_SIZE};
use super::power;
use crate::error::KernelError;

const OEM: [u8; 6] = *b"BELFRY";
const TABLE: [u8; 8] = *b"BELFRYVM";
const REVISION: u32 = 1;
const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
/// The line of ACPI's own interrupt, which is never raised.
const SCI: u8 = 9;
/// Flag: there are also two 8259.
const PCAT_COMPAT: u32 = 1;
/// Flag: devices of the AT bus are found by their ports; no VGA. The keyboard controller only resets, and is not
/// announced.
const LEGACY_DEVICES: u16 = 1;
const VGA_NOT_PRESENT: u16 = 1 << 2;
/// Index of the century in the clock's memory.
const CENTURY: u8 = super::cmos::CENTURY;

/// Facts of the machine that the tables report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) cpus: u8,
    pub(super) apertures: Apertures,
}

impl Tables {
    /// Writes the tables to the place where the guest looks for them.
    pub(super) fn write(&self, memory: &GuestMemoryMmap) -> Result<(), KernelError> {
        memory.write_slice(&self.build(), GuestAddress(ACPI)).map_err(|_| KernelError::NoMemory)
    }

    /// Returns all tables as they lie in memory from [`ACPI`] on.
    fn build(&self) -> Vec<u8> {
        let mut image = Image(vec![0; Rsdp::len()]);
        let facs = image.add(&FACS::new());
        let dsdt = image.add(&dsdt::table(self.cpus, self.apertures));
        let tables = [image.add(&fadt(facs, dsdt)), image.add(&madt(self.cpus)), image.add(&mcfg())];
        let mut xsdt = XSDT::new(OEM, TABLE, REVISION);
        tables.iter().for_each(|&table| xsdt.add_entry(table));
        let xsdt = image.add(&xsdt);
        let mut rsdp = Vec::new();
        Rsdp::new(OEM, xsdt).to_aml_bytes(&mut rsdp);
        image.0[..rsdp.len()].copy_from_slice(&rsdp);
        debug_assert!(
            image.0.len() as u64 <= ACPI_SIZE,
            "the tables fit their place for any number of vCPUs"
        );
        image.0
    }
}

struct Image(Vec<u8>);

impl Image {
    /// Appends a table; returns its address.
    fn add(&mut self, table: &impl Aml) -> u64 {
        // FACS needs an alignment of 64 bytes; the others do not mind.
        self.0.resize(self.0.len().next_multiple_of(64), 0);
        let at = ACPI + self.0.len() as u64;
        table.to_aml_bytes(&mut self.0);
        at
    }
}

fn port(address: u16, bits: u8, access: AccessSize) -> GAS {
    GAS::new(AddressSpace::SystemIo, bits, 0, access, address.into())
}

fn fadt(facs: u64, dsdt: u64) -> impl Aml {
    let mut fadt = FADTBuilder::new(OEM, TABLE, REVISION)
        .firmware_ctrl_32(facs as u32)
        .preferred_pm_profile(PmProfile::EnterpriseServer)
        .flag(Flags::Wbinvd)
        .flag(Flags::ProcC1)
        // The fixed events have no buttons and no alarm.
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::FixRtc)
        .flag(Flags::ResetRegSup);
    (fadt.dsdt, fadt.x_dsdt) = ((dsdt as u32).into(), dsdt.into());
    fadt.sci_int = u16::from(SCI).into();
    fadt.pm1a_evt_blk = u32::from(power::EVENT).into();
    fadt.pm1_evt_len = power::EVENT_SIZE as u8;
    fadt.x_pm1a_evt_blk = port(power::EVENT, power::EVENT_SIZE as u8 * 8, AccessSize::WordAccess);
    fadt.pm1a_cnt_blk = u32::from(power::CONTROL).into();
    fadt.pm1_cnt_len = power::CONTROL_SIZE as u8;
    fadt.x_pm1a_cnt_blk = port(power::CONTROL, power::CONTROL_SIZE as u8 * 8, AccessSize::WordAccess);
    // The states C2 and C3 do not exist.
    fadt.p_lvl2_lat = 101.into();
    fadt.p_lvl3_lat = 1001.into();
    fadt.century = CENTURY;
    fadt.iapc_boot_arch = (LEGACY_DEVICES | VGA_NOT_PRESENT).into();
    fadt.reset_reg = port(power::RESET_CONTROL, 8, AccessSize::ByteAccess);
    fadt.reset_value = power::RESET_VALUE;
    fadt.finalize()
}

/// Makes the table of section 5.2.12.
fn madt(cpus: u8) -> impl Aml {
    let mut madt = Sdt::new(*b"APIC", 36, 5, OEM, TABLE, REVISION);
    let mut body = Vec::new();
    body.extend(LOCAL_APIC.to_le_bytes());
    body.extend(PCAT_COMPAT.to_le_bytes());
    for number in 0..cpus {
        // Local APIC: identifier of the processor and of its APIC, enabled.
        body.extend([0, 8, number, number, 1, 0, 0, 0]);
    }
    // I/O APIC 0, from interrupt 0 on.
    body.extend([1, 12, 0, 0]);
    body.extend(IO_APIC.to_le_bytes());
    body.extend([0; 4]);
    // The timer is at pin 2, edge-triggered and active high, as on its bus.
    body.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
    // ACPI's own interrupt is active high and level-triggered.
    body.extend([2, 10, 0, SCI, SCI, 0, 0, 0, 0x0d, 0]);
    // LINT1 of all processors is the NMI.
    body.extend([4, 6, 0xff, 0, 0, 1]);
    madt.append_slice(&body);
    madt
}

fn mcfg() -> impl Aml {
    let mut mcfg = MCFG::new(OEM, TABLE, REVISION);
    mcfg.add_ecam(ECAM, 0, 0, 0);
    mcfg
}

#[cfg(test)]
mod tests {
    use super::*;

    const APERTURES: Apertures = Apertures([(0xc000_0000, ECAM - 1), (1 << 32, (1 << 40) - 1)]);

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn quad(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    /// Follows the pointers as a kernel does; returns the tables by their signatures.
    fn follow(image: &[u8]) -> Vec<(String, &[u8])> {
        let at = |address: u64| &image[usize::try_from(address - ACPI).unwrap()..];
        let table = |address: u64| {
            let table = at(address);
            let table = &table[..word(table, 4) as usize];
            (String::from_utf8(table[..4].to_vec()).unwrap(), table)
        };
        assert_eq!(&image[..8], b"RSD PTR ");
        assert_eq!((sum(&image[..20]), sum(&image[..36])), (0, 0));
        let xsdt = table(quad(image, 24));
        let mut tables = vec![xsdt.clone()];
        for entry in xsdt.1[36..].chunks_exact(8) {
            tables.push(table(quad(entry, 0)));
        }
        let fadt = tables.iter().find(|(name, _)| name == "FACP").unwrap().1;
        let (facs, dsdt) = (u64::from(word(fadt, 36)), quad(fadt, 140));
        assert_eq!(u64::from(word(fadt, 40)), dsdt);
        assert_eq!(facs % 64, 0, "FACS is aligned");
        assert_eq!(&at(facs)[..8], b"FACS\x40\0\0\0");
        tables.push(table(dsdt));
        tables
    }

    #[test]
    fn tables_are_found_and_sum_up_for_any_number_of_cpus() {
        for cpus in [1, 2, 64] {
            let image = Tables { cpus, apertures: APERTURES }.build();
            assert!(image.len() as u64 <= ACPI_SIZE);
            let tables = follow(&image);
            let names: Vec<_> = tables.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["XSDT", "FACP", "APIC", "MCFG", "DSDT"]);
            for (name, table) in &tables {
                assert_eq!(sum(table), 0, "{name}");
                assert_eq!(&table[10..16], b"BELFRY", "{name}");
            }
        }
    }

    #[test]
    fn every_processor_has_its_apic() {
        let image = Tables { cpus: 3, apertures: APERTURES }.build();
        let tables = follow(&image);
        let madt = tables.iter().find(|(name, _)| name == "APIC").unwrap().1;
        let (mut at, mut apics) = (44, Vec::new());
        while at < madt.len() {
            let (kind, length) = (madt[at], usize::from(madt[at + 1]));
            assert!(length >= 2 && at + length <= madt.len());
            if kind == 0 {
                assert_eq!(word(madt, at + 4), 1, "enabled");
                apics.push((madt[at + 2], madt[at + 3]));
            }
            at += length;
        }
        assert_eq!(apics, [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn configuration_space_is_where_the_bus_has_it() {
        let image = Tables { cpus: 1, apertures: APERTURES }.build();
        let tables = follow(&image);
        let mcfg = tables.iter().find(|(name, _)| name == "MCFG").unwrap().1;
        assert_eq!((mcfg.len(), quad(mcfg, 44)), (60, ECAM));
        assert_eq!(mcfg[52..56], [0, 0, 0, 0], "segment 0, bus 0 to 0");
    }
}
