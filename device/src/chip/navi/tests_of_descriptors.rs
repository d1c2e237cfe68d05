//! The documented tables of kernel descriptors, for the tests of each chip.

use belfry_abi::kernel_descriptor::{
    ComputePgmRsrc1, ComputePgmRsrc2, ComputePgmRsrc3, KernelCodeProperties, KernelDescriptor,
};
use zerocopy::FromZeros;

use super::Register;
use crate::chip::DescriptorError;

const TABLE: &str = include_str!("../../../../docs/kernel-descriptor.md");

/// A row of the documented table.
struct Row {
    register: String,
    first: u32,
    last: u32,
    field: String,
    effect: String,
}

/// Rows that are about a chip: those of all chips, and those that name it.
fn rows(chip: &str) -> Vec<Row> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let bits: Vec<u32> = cells[1].split(':').map(|bit| bit.parse().expect("a bit")).collect();
        let (last, first) = (bits[0], *bits.last().expect("one"));
        let name = |cell: &str| cell.trim_matches('`').to_owned();
        let (register, field, effect) = (name(cells[0]), name(cells[2]), cells[4].to_owned());
        (cells[3] == "all" || cells[3] == chip).then_some(Row { register, first, last, field, effect })
    })
    .collect()
}

/// An empty descriptor with one register.
pub(in crate::chip) fn with(register: Register, value: u32) -> KernelDescriptor {
    let mut descriptor = KernelDescriptor::new_zeroed();
    match register {
        Register::Rsrc1 => descriptor.compute_pgm_rsrc1 = ComputePgmRsrc1::from_bits(value),
        Register::Rsrc2 => descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(value),
        Register::Rsrc3 => descriptor.compute_pgm_rsrc3 = ComputePgmRsrc3::from_bits(value),
        Register::Properties => {
            descriptor.kernel_code_properties = KernelCodeProperties::from_bits(value as u16);
        }
        Register::KernargPreload => descriptor.kernarg_preload = value as u16,
    }
    descriptor
}

/// Checks that every bit has one row, and that exactly the bits are refused whose row says so.
pub(in crate::chip) fn assert_documented(
    chip: &str,
    check: fn(&KernelDescriptor) -> Result<(), DescriptorError>,
) {
    let rows = rows(chip);
    for (register, width) in [
        (Register::Rsrc1, 32),
        (Register::Rsrc2, 32),
        (Register::Rsrc3, 32),
        (Register::Properties, 16),
        (Register::KernargPreload, 16),
    ] {
        let rows: Vec<_> = rows.iter().filter(|row| row.register == register.name()).collect();
        for bit in 0..width {
            let row: Vec<_> = rows.iter().filter(|row| (row.first..=row.last).contains(&bit)).collect();
            assert_eq!(row.len(), 1, "{} bit {bit}", register.name());
            let Row { field, effect, .. } = row[0];
            // A bit that only waves of 32 lanes may set is not refused.
            let mut in_wave32 = with(register, 1 << bit);
            in_wave32.kernel_code_properties.set_enable_wavefront_size32(true);
            let result =
                check(&with(register, 1 << bit)).or_else(|error| check(&in_wave32).map_err(|_| error));
            assert_eq!(result.is_err(), effect.starts_with("Refused"), "{field} bit {bit}: {result:?}");
            match result {
                Err(DescriptorError::Field { field: named, .. }) => assert_eq!(named, field),
                Err(error) => assert!(error.to_string().contains(field.as_str()), "{field}: {error}"),
                Ok(()) => {}
            }
        }
    }
}
