//! Page-table entries of gfx9, in the form in which `translate_further` has them (`gmc_v9_0_get_vm_pde`,
//! `gmc_v9_0_get_coherence_flags`; bits: [`belfry_abi::gpuvm::gfx9`]).

use belfry_abi::gpuvm::gfx9::{MTYPE_RW, pde_bfs, pte_mtype};
use belfry_abi::gpuvm::{MTYPE_UC, PTE_PRT, PTE_SNOOPED, PTE_TF, PTE_VALID};

use crate::asic::{PageRights, PteFormat, gfx11};

/// Entries of a PDB0 that map a huge page have no bit for it; those that lead to a PTB have one.
pub(super) const FORMAT: PteFormat = PteFormat {
    page,
    not_resident: PTE_PRT,
    huge: 0,
    tables: [PTE_VALID | PTE_TF, PTE_VALID | pde_bfs(9), PTE_VALID, PTE_VALID],
};

/// Memory of the GPU itself is cached, system memory is not.
fn page(rights: PageRights) -> u64 {
    let mtype = if rights.uncached || rights.system { MTYPE_UC } else { MTYPE_RW };
    gfx11::allowed(rights) | PTE_SNOOPED | pte_mtype(mtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_rights() {
        let none =
            PageRights { readable: true, writable: false, executable: false, system: false, uncached: false };
        assert_eq!(page(none), 1 << 57 | 0x25);
        assert_eq!(page(PageRights { writable: true, executable: true, ..none }), 1 << 57 | 0x75);
        assert_eq!(page(PageRights { system: true, ..none }), 3 << 57 | 0x27);
        assert_eq!(page(PageRights { uncached: true, ..none }), 3 << 57 | 0x25);
    }

    #[test]
    fn tables_are_led_to_as_translate_further_wants_it() {
        assert_eq!(FORMAT.tables, [1 << 56 | 1, 9 << 59 | 1, 1, 1]);
        assert_eq!((FORMAT.root(), FORMAT.huge), (1, 0));
        assert_eq!(FORMAT.not_resident, 1 << 51);
    }
}
