//! Names of all registers BAR5 decodes, for reports: `names.txt` holds one per line, with the distance in dwords
//! (hexadecimal) from the line before. Generated from the `asic_reg` headers of Linux for the blocks and bases the IP
//! discovery table declares.

use std::collections::HashMap;
use std::sync::OnceLock;

static TEXT: &str = include_str!("names.txt");

fn table() -> &'static HashMap<u32, &'static str> {
    static TABLE: OnceLock<HashMap<u32, &'static str>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut index = 0u32;
        TEXT.lines()
            .filter_map(|line| {
                let (distance, name) = line.split_once(' ')?;
                index += u32::from_str_radix(distance, 16).ok()?;
                Some((index, name))
            })
            .collect()
    })
}

/// Name of the register at an absolute dword index.
pub(super) fn name(index: u32) -> Option<&'static str> {
    table().get(&index).copied()
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs;

    use super::*;
    use crate::chip::Chip as _;
    use crate::chip::gfx1100::Gfx1100;

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
        let chip = Gfx1100::new(96);
        for (ip, all) in blocks {
            for register in all {
                let name = chip.dword(ip, 0, register.at).and_then(name).unwrap_or("none");
                let tail = register.name.rsplit("RCC_").next().unwrap_or(register.name);
                assert!(
                    name.ends_with(tail) || register.name == "RCC_STRAP0",
                    "{name} is not {}",
                    register.name
                );
            }
        }
    }

    #[test]
    fn every_line_has_a_name_of_its_own_place() {
        assert_eq!(table().len(), TEXT.lines().count());
        assert_eq!((name(0), name(0x3_ffff)), (Some("MM_INDEX"), None));
    }
}
