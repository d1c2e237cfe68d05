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

/// Name of the register at an absolute dword index, or its offset where it has none.
pub(crate) fn name(index: u32) -> String {
    match table().get(&index) {
        Some(name) => (*name).to_owned(),
        None => format!("register at dword {index:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs;

    use super::*;

    #[test]
    fn names_agree_with_the_registers_the_device_knows() {
        let blocks = [
            regs::gc::ALL,
            regs::mmhub::ALL,
            regs::osssys::ALL,
            regs::nbio::ALL,
            regs::smuio::ALL,
            regs::mp::ALL,
        ];
        for register in blocks.into_iter().flatten() {
            let name = name(register.index);
            let tail = register.name.rsplit("RCC_").next().unwrap_or(register.name);
            assert!(name.ends_with(tail) || register.name == "RCC_STRAP0", "{name} is not {}", register.name);
        }
    }

    #[test]
    fn every_line_has_a_name_of_its_own_place() {
        assert_eq!(table().len(), TEXT.lines().count());
        assert!(name(0x3_ffff).contains("0x3ffff"));
    }
}
