//! Page-table entries of gfx11 (`gmc_v11_0_get_vm_pde`; bits: [`belfry_abi::gpuvm`]).

use belfry_abi::gpuvm::PteFlags;

use crate::chip::{Entry, Page, Table};
use crate::memory::Physical;

/// Returns the place of an address in an entry: memory of the system by the entry's bit, else VRAM.
#[inline]
fn place(entry: PteFlags, address: u64) -> Physical {
    if entry.system() { Physical::system(address) } else { Physical::local(address) }
}

#[inline]
pub(in crate::chip) fn table(bits: u64) -> Table {
    let entry = PteFlags::from_bits(bits);
    Table { at: place(entry, entry.table_address()) }
}

#[inline]
pub(in crate::chip) fn entry(bits: u64, level: u32) -> Entry {
    let entry = PteFlags::from_bits(bits);
    if !entry.valid() {
        let is_page = level == 0 || entry.pde_pte();
        return if entry.prt() && is_page { Entry::NotResident } else { Entry::Absent };
    }
    if level != 0 && !entry.pde_pte() {
        return Entry::Table(table(bits));
    }
    // Drivers write a page that is not resident as not valid; one that is valid is not modelled. Nor are
    // translate-further tables.
    if entry.prt() || entry.translate_further() {
        return Entry::Unmodelled;
    }
    Entry::Page(page(entry))
}

/// The page that an entry maps.
#[inline]
pub(in crate::chip) fn page(entry: PteFlags) -> Page {
    Page {
        at: place(entry, entry.address()),
        readable: entry.readable(),
        writable: entry.writeable(),
        executable: entry.executable(),
        fragment: entry.fragment(),
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::gpuvm::{
        PDE_PTE, PTE_EXECUTABLE, PTE_PRT, PTE_READABLE, PTE_SYSTEM, PTE_TF, PTE_VALID, PTE_WRITEABLE,
        pte_fragment,
    };

    use super::*;

    #[test]
    fn entries_above_the_last_level_are_tables_unless_they_say_otherwise() {
        let bits = PTE_VALID | PTE_SYSTEM | PTE_READABLE | 0x1234_5000;
        let page = Page {
            at: Physical::system(0x1234_5000),
            readable: true,
            writable: false,
            executable: false,
            fragment: 0,
        };
        assert_eq!(entry(bits, 0), Entry::Page(page));
        assert_eq!(entry(bits, 1), Entry::Table(Table { at: Physical::system(0x1234_5000) }));
        assert_eq!(entry(bits | PDE_PTE, 1), Entry::Page(page));
        assert_eq!(entry(bits & !PTE_VALID, 0), Entry::Absent);
        let not_resident = bits & !PTE_VALID | PTE_PRT;
        assert_eq!((entry(not_resident, 0), entry(not_resident, 1)), (Entry::NotResident, Entry::Absent));
        assert_eq!(entry(not_resident | PDE_PTE, 1), Entry::NotResident);
        for level in [0, 1] {
            assert_eq!(entry(bits | PDE_PTE | PTE_PRT, level), Entry::Unmodelled);
            assert_eq!(entry(bits | PDE_PTE | PTE_TF, level), Entry::Unmodelled);
        }
    }

    #[test]
    fn rights_and_fragment_are_the_page_s_own() {
        let Entry::Page(page) = entry(PTE_VALID | PTE_WRITEABLE | PTE_EXECUTABLE | pte_fragment(9), 0) else {
            panic!("a page")
        };
        assert_eq!((page.readable, page.writable, page.executable, page.fragment), (false, true, true, 9));
    }
}
