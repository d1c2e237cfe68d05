//! Page-table entries of gfx12 (`gmc_v12_0_get_vm_pde`; bits: [`belfry_abi::gpuvm::gfx12`]).

use belfry_abi::gpuvm::PteFlags;
use belfry_abi::gpuvm::gfx12::{PTE_IS_PTE, PTE_PRT};

use crate::chip::{Entry, gfx1100};

#[inline]
pub(in crate::chip) fn entry(bits: u64, level: u32) -> Entry {
    let entry = PteFlags::from_bits(bits);
    if !entry.valid() {
        let is_page = level == 0 || bits & PTE_IS_PTE != 0;
        return if bits & PTE_PRT != 0 && is_page { Entry::NotResident } else { Entry::Absent };
    }
    // In the last level some drivers leave the bit out and others set it.
    if level != 0 && bits & PTE_IS_PTE == 0 {
        return Entry::Table(gfx1100::pte::table(bits));
    }
    // Drivers write a page that is not resident as not valid; one that is valid is not modelled.
    if bits & PTE_PRT != 0 {
        return Entry::Unmodelled;
    }
    Entry::Page(gfx1100::pte::page(entry))
}

#[cfg(test)]
mod tests {
    use belfry_abi::gpuvm::{MTYPE_UC, PDE_PTE, PTE_READABLE, PTE_SYSTEM, PTE_VALID, gfx12};

    use super::*;
    use crate::chip::{Page, Table};
    use crate::memory::Physical;

    #[test]
    fn entries_above_the_last_level_are_tables_unless_they_say_otherwise() {
        let bits = PTE_VALID | PTE_SYSTEM | PTE_READABLE | 0x1234_5000 | gfx12::pte_mtype(MTYPE_UC);
        let page = Page {
            at: Physical::system(0x1234_5000),
            readable: true,
            writable: false,
            executable: false,
            fragment: 0,
        };
        assert_eq!((entry(bits, 0), entry(bits | PTE_IS_PTE, 0)), (Entry::Page(page), Entry::Page(page)));
        let table = Table { at: Physical::system(0x1234_5000) };
        assert_eq!(entry(bits, 1), Entry::Table(table));
        assert_eq!(entry(bits | PDE_PTE, 1), Entry::Table(table), "the bit of gfx11 is one of the type");
        assert_eq!(entry(bits | PTE_IS_PTE, 2), Entry::Page(page));
        let not_resident = bits & !PTE_VALID | PTE_PRT;
        assert_eq!((entry(not_resident, 0), entry(not_resident, 1)), (Entry::NotResident, Entry::Absent));
        assert_eq!(entry(not_resident | PTE_IS_PTE, 1), Entry::NotResident);
        assert_eq!(entry(bits & !PTE_VALID | PTE_IS_PTE, 0), Entry::Absent);
        assert_eq!(entry(bits | PTE_PRT, 0), Entry::Unmodelled);
    }
}
