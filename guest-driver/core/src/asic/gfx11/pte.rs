//! Page-table entries of gfx11 (`gmc_v11_0_get_vm_pte`; bits: [`belfry_abi::gpuvm`]).

use belfry_abi::gpuvm::{
    MTYPE_NC, MTYPE_UC, PDE_PTE, PTE_EXECUTABLE, PTE_LOG, PTE_PRT, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM,
    PTE_VALID, PTE_WRITEABLE, pte_mtype,
};

use crate::asic::{LEVELS, PageRights, PteFormat};

pub(super) const FORMAT: PteFormat =
    PteFormat { page, not_resident: PTE_PRT | NOT_RESIDENT, huge: PDE_PTE, tables: [PTE_VALID; LEVELS] };

/// Bits of a page that is not resident beside the one that says so.
pub(in crate::asic) const NOT_RESIDENT: u64 = PTE_SNOOPED | PTE_LOG | PTE_SYSTEM;

fn page(rights: PageRights) -> u64 {
    allowed(rights) | pte_mtype(if rights.uncached { MTYPE_UC } else { MTYPE_NC })
}

/// The bits of a page that all generations have in the same place: all but those of its memory type.
pub(in crate::asic) fn allowed(rights: PageRights) -> u64 {
    let flags = [
        (rights.readable, PTE_READABLE),
        (rights.writable, PTE_WRITEABLE),
        (rights.executable, PTE_EXECUTABLE),
        (rights.system, PTE_SYSTEM | PTE_SNOOPED),
    ];
    flags.into_iter().filter(|(set, _)| *set).fold(PTE_VALID, |bits, (_, flag)| bits | flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_rights() {
        let none =
            PageRights { readable: true, writable: false, executable: false, system: false, uncached: false };
        assert_eq!(page(none), 0x21);
        assert_eq!(page(PageRights { readable: false, ..none }), 1);
        assert_eq!(page(PageRights { writable: true, executable: true, ..none }), 0x71);
        assert_eq!(page(PageRights { system: true, ..none }), 0x27);
        assert_eq!(page(PageRights { uncached: true, ..none }), 3 << 48 | 0x21);
        assert_eq!(FORMAT.not_resident, 1 << 55 | 1 << 51 | 0x6);
    }
}
