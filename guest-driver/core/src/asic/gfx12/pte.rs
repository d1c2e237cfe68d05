//! Page-table entries of gfx12 (`gmc_v12_0_get_vm_pte`; bits: [`belfry_abi::gpuvm::gfx12`]).

use belfry_abi::gpuvm::gfx12::{PTE_IS_PTE, PTE_PRT, pte_mtype};
use belfry_abi::gpuvm::{MTYPE_NC, MTYPE_UC, PTE_VALID};

use crate::asic::{LEVELS, PageRights, PteFormat, gfx11};

pub(super) const FORMAT: PteFormat = PteFormat {
    page,
    not_resident: PTE_PRT | PTE_IS_PTE | gfx11::NOT_RESIDENT,
    huge: PTE_IS_PTE,
    tables: [PTE_VALID; LEVELS],
};

fn page(rights: PageRights) -> u64 {
    gfx11::allowed(rights) | pte_mtype(if rights.uncached { MTYPE_UC } else { MTYPE_NC })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_rights() {
        let none =
            PageRights { readable: true, writable: false, executable: false, system: false, uncached: false };
        assert_eq!(page(none), 0x21);
        assert_eq!(page(PageRights { writable: true, executable: true, ..none }), 0x71);
        assert_eq!(page(PageRights { system: true, ..none }), 0x27);
        assert_eq!(page(PageRights { uncached: true, ..none }), 3 << 54 | 0x21);
        assert_eq!(FORMAT.huge, 1 << 63);
        assert_eq!(FORMAT.not_resident, 1 << 63 | 1 << 56 | 1 << 55 | 0x6);
    }
}
