//! Names of all registers BAR5 decodes, for reports: a chip's `names.txt` holds one per line, with the distance in dwords
//! (hexadecimal) from the line before. Generated from the `asic_reg` headers of Linux for the blocks and bases the IP
//! discovery table declares.

use std::collections::HashMap;

use once_cell::race::OnceBox;

/// The names of a chip's registers.
#[derive(Debug)]
pub(in crate::chip) struct Names {
    text: &'static str,
    /// Made without waiting for another thread that makes it: a forked child may not have that thread.
    table: OnceBox<HashMap<u32, &'static str>>,
}

impl Names {
    /// Names from the text of a `names.txt`.
    pub(in crate::chip) const fn new(text: &'static str) -> Self {
        Self { text, table: OnceBox::new() }
    }

    fn table(&self) -> &HashMap<u32, &'static str> {
        self.table.get_or_init(|| {
            let mut index = 0u32;
            let names = self.text.lines().filter_map(|line| {
                let (distance, name) = line.split_once(' ')?;
                index += u32::from_str_radix(distance, 16).ok()?;
                Some((index, name))
            });
            Box::new(names.collect())
        })
    }

    /// Name of the register at an absolute dword index.
    pub(in crate::chip) fn name(&self, index: u32) -> Option<&'static str> {
        self.table().get(&index).copied()
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs;

    use crate::chip::{Chip as _, gfx1100, gfx1151, gfx1201};

    #[test]
    fn declared_registers_are_where_their_names_say() {
        let blocks = [
            (regs::gc::IP, regs::gc::ALL),
            (regs::mmhub::IP, regs::mmhub::ALL),
            (regs::osssys::IP, regs::osssys::ALL),
            (regs::nbio::IP, regs::nbio::ALL),
            (regs::smuio::IP, regs::smuio::ALL),
            (regs::mp::IP, regs::mp::ALL),
        ];
        // Registers that gfx12 gives another name.
        let renamed = |name: &'static str| match name {
            "GCVM_L2_PROTECTION_FAULT_STATUS" => "GCVM_L2_PROTECTION_FAULT_STATUS_LO32",
            _ => name.strip_prefix("MP0_").unwrap_or(name),
        };
        for chip in [gfx1100::chip(64), gfx1151::chip(40), gfx1201::chip(64)] {
            for (ip, all) in blocks {
                for register in all {
                    let place = chip.dword(ip, 0, register.at);
                    let name = place.and_then(|place| chip.register_name(place)).unwrap_or("none");
                    let tail = register.name.rsplit("RCC_").next().unwrap_or(register.name);
                    assert!(
                        name.ends_with(tail)
                            || name.ends_with(renamed(tail))
                            || register.name == "RCC_STRAP0",
                        "{name} is not {}",
                        register.name
                    );
                }
            }
        }
    }

    #[test]
    fn registers_of_gfx1100_alone_are_where_their_names_say() {
        let chip = gfx1100::chip(64);
        for (ip, all) in [(regs::mp1::IP, regs::mp1::ALL), (regs::sdma::IP, regs::sdma::ALL)] {
            for register in all {
                let place = chip.dword(ip, 0, register.at).expect("it has the block");
                assert_eq!(chip.register_name(place), Some(register.name));
            }
        }
    }

    #[test]
    fn every_line_has_a_name_of_its_own_place() {
        for names in [&gfx1100::SPEC.names, &gfx1151::SPEC.names, &gfx1201::SPEC.names] {
            assert_eq!(names.table().len(), names.text.lines().count());
            assert_eq!((names.name(0), names.name(0x3_ffff)), (Some("MM_INDEX"), None));
        }
    }
}
