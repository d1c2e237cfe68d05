//! A second reader of page tables.

use belfry_abi::gpuvm::{
    LEVEL_BITS, PAGE_SHIFT, PDE_ADDRESS_MASK, PDE_PTE, PTE_ADDRESS_MASK, PTE_PRT, PTE_VALID,
};

use super::FakeOs;
use crate::hw::Hw;
use crate::os::PAGE_SIZE;

/// Level of the root; that of the last tables is 0.
const ROOT_LEVEL: u32 = 3;

fn index(va: u64, level: u32) -> u64 {
    va >> (PAGE_SHIFT + LEVEL_BITS * level) & ((1 << LEVEL_BITS) - 1)
}

/// Walks the tables as the device does; returns the physical address and the entry.
pub(crate) fn walk(hw: &Hw<FakeOs>, root: u64, va: u64) -> Option<(u64, u64)> {
    let mut table = root;
    for level in (0..=ROOT_LEVEL).rev() {
        let mut bytes = [0; 8];
        hw.os().vram_read((table & PDE_ADDRESS_MASK) + index(va, level) * 8, &mut bytes);
        let entry = u64::from_le_bytes(bytes);
        // A page that is not resident is not valid, and is no hole.
        if entry & (PTE_VALID | PTE_PRT) == 0 {
            return None;
        }
        if level == 0 || entry & PDE_PTE != 0 {
            let span = PAGE_SIZE << (LEVEL_BITS * level);
            return Some(((entry & PTE_ADDRESS_MASK) + va % span, entry));
        }
        table = entry;
    }
    None
}
