//! Page-table entries of gfx9 with `translate_further` (`gmc_v9_0_get_vm_pde`; bits: [`belfry_abi::gpuvm::gfx9`]).

use belfry_abi::gpuvm::{PteFlags, gfx9};

use crate::chip::Entry;
#[cfg(test)]
use crate::chip::Table;
use crate::chip::gfx1100;
#[cfg(test)]
use crate::memory::{Aperture, Physical};

pub(in crate::chip) use gfx1100::pte::table;

/// Level of a PDB1, which leads to PDB0s.
const PDB1: u32 = 2;
/// Level of a PDB0, whose entries are pages unless they are to be translated further.
const PDB0: u32 = 1;
/// log2 of the entries of a PDB0.
const PDB0_ENTRIES: u64 = 9;

#[inline]
pub(in crate::chip) fn entry(bits: u64, level: u32) -> Entry {
    let entry = PteFlags::from_bits(bits);
    if !entry.valid() {
        let is_page = match level {
            0 | PDB0 => !entry.translate_further(),
            _ => entry.pde_pte(),
        };
        return if entry.prt() && is_page { Entry::NotResident } else { Entry::Absent };
    }
    let page = || if entry.prt() { Entry::Unmodelled } else { Entry::Page(gfx1100::pte::page(entry)) };
    match level {
        0 if entry.translate_further() => Entry::Unmodelled,
        0 => page(),
        PDB0 if entry.translate_further() => Entry::Table(table(bits)),
        PDB0 => page(),
        _ if entry.pde_pte() => page(),
        PDB1 if bits >> gfx9::PDE_BFS_SHIFT != PDB0_ENTRIES => Entry::Unmodelled,
        _ => Entry::Table(table(bits)),
    }
}

/// Levels of directories, and log2 of the pages of a PTB, of a context with these fields in its `CNTL`. A
/// root with directories has the form of [`translate_further`](self); the flat table of VMID 0 has no
/// directories.
#[inline]
pub(in crate::chip) fn shape(depth: u32, block_size: u32) -> Option<(u32, u32)> {
    match (depth, block_size) {
        (0, _) => Some((0, block_size + 9)),
        // The last level of directories is not counted, but its 9 bits are.
        (_, 9) => Some((depth + 1, 9)),
        _ => None,
    }
}

/// A directory entry's table, for tests of the walk.
#[cfg(test)]
pub(in crate::chip) fn directory(table: Table, level: u32) -> u64 {
    use belfry_abi::gpuvm::{PTE_SYSTEM, PTE_TF, PTE_VALID};
    let flags = PTE_VALID | if table.at.aperture == Aperture::System { PTE_SYSTEM } else { 0 };
    let own = match level {
        PDB1 => gfx9::pde_bfs(PDB0_ENTRIES),
        PDB0 => PTE_TF,
        _ => 0,
    };
    table.at.offset | flags | own
}

#[cfg(test)]
mod tests {
    use belfry_abi::gpuvm::{PDE_PTE, PTE_PRT, PTE_READABLE, PTE_TF, PTE_VALID};

    use super::*;

    #[test]
    fn directories_lead_further_by_the_bit_of_their_level() {
        let next = Table { at: Physical::local(0x1234_5000) };
        for level in 1..=3 {
            assert_eq!(entry(directory(next, level), level), Entry::Table(next), "level {level}");
        }
        let plain = PTE_VALID | PTE_READABLE | 0x20_0000;
        assert!(matches!(entry(plain, 0), Entry::Page(_)), "a page");
        assert!(matches!(entry(plain, 1), Entry::Page(_)), "2 MiB");
        assert!(matches!(entry(plain | PDE_PTE, 2), Entry::Page(_)), "1 GiB");
        // A directory with entries of another size, a page table that leads further, and pages that are not
        // resident.
        for (bits, level) in [(plain, 2), (plain | PTE_TF, 0), (plain | PTE_PRT, 1)] {
            assert_eq!(entry(bits, level), Entry::Unmodelled, "level {level}");
        }
        assert_eq!(entry(directory(next, 1) & !PTE_VALID, 1), Entry::Absent);
        for (bits, level) in [(PTE_PRT, 0), (PTE_PRT, 1), (PTE_PRT | PDE_PTE, 2)] {
            assert_eq!(entry(bits, level), Entry::NotResident, "level {level}");
        }
        for (bits, level) in [(PTE_PRT | PTE_TF, 0), (PTE_PRT | PTE_TF, 1), (PTE_PRT, 2)] {
            assert_eq!(entry(bits, level), Entry::Absent, "level {level}");
        }
    }

    #[test]
    fn directories_of_a_context_are_one_more_than_it_counts() {
        assert_eq!((shape(2, 9), shape(0, 0), shape(3, 0)), (Some((3, 9)), Some((0, 9)), None));
    }
}
