//! Page tables of one process: four levels in VRAM, written through the BAR.
//!
//! Shape: Linux `amdgpu/amdgpu_vm_pt.c`; entries: `pte` of [`crate::asic`]. A shadow of the tree in kernel memory says which
//! tables exist, so that nothing the driver relies on is read back from the device.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use belfry_abi::gpuvm::{LEVEL_BITS, PAGE_SHIFT, PTE_ADDRESS_MASK, pte_fragment};
use zerocopy::IntoBytes;

use crate::asic::{LEVELS, PageRights};
use crate::errno::{Errno, Result};
use crate::hw::Hw;
use crate::os::{Function as _, Os, OwnPlace, PAGE_SIZE};
use crate::vram::{Vram, VramMemory};

/// Entries of a table.
const ENTRIES: usize = 1 << LEVEL_BITS;
/// Bytes a PDB0 entry covers: a huge page.
pub(crate) const HUGE: u64 = PAGE_SIZE << LEVEL_BITS;
/// Level of the root (PDB2); PDB0 is 1, PTB is 0.
const ROOT_LEVEL: u32 = LEVELS as u32 - 1;
/// Entries written at once from the stack.
const BATCH: usize = 32;

fn index(va: u64, level: u32) -> usize {
    (va >> (PAGE_SHIFT + LEVEL_BITS * level)) as usize & (ENTRIES - 1)
}

/// Consecutive pages, for entries that follow each other.
#[derive(Clone, Copy)]
struct Pages {
    pa: u64,
    flags: u64,
    /// Their entries say in fragments that others follow (`amdgpu_vm_pte_fragment`): they are unmapped together.
    joined: bool,
}

/// One table and the tables below it.
struct Table<O: Os> {
    memory: VramMemory<O>,
    level: u32,
    /// Tables below, by entry.
    children: BTreeMap<u16, Box<Table<O>>>,
    /// Entries that map memory themselves, one bit each.
    mapped: [u64; ENTRIES / 64],
}

impl<O: Os> Table<O> {
    fn new(vram: &Arc<Vram<O>>, level: u32) -> Result<Box<Self>> {
        Ok(Box::new(Self {
            memory: vram.allocate(PAGE_SIZE, true)?,
            level,
            children: BTreeMap::new(),
            mapped: [0; ENTRIES / 64],
        }))
    }

    /// Returns the entry of a directory, or the root, that leads to it.
    fn entry(&self) -> u64 {
        (self.memory.hw().vram_base() + self.memory.offset())
            | self.memory.hw().asic().pte.tables[self.level as usize % LEVELS]
    }

    fn write(&self, first: usize, entries: &[u64]) {
        self.memory.hw().vram_write(self.memory.offset() + first as u64 * 8, entries.as_bytes());
    }

    fn is_mapped(&self, index: usize) -> bool {
        self.mapped[index / 64] >> (index % 64) & 1 != 0
    }

    fn set_mapped(&mut self, index: usize, mapped: bool) {
        let bit = 1 << (index % 64);
        if mapped {
            self.mapped[index / 64] |= bit;
        } else {
            self.mapped[index / 64] &= !bit;
        }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty() && self.mapped.iter().all(|&word| word == 0)
    }

    /// The table below entry `index`, made if need be.
    fn child(&mut self, vram: &Arc<Vram<O>>, index: usize) -> Result<&mut Table<O>> {
        if !self.children.contains_key(&(index as u16)) {
            let table = Table::new(vram, self.level.saturating_sub(1))?;
            let entry = table.entry();
            self.write(index, &[entry]);
            self.children.insert(index as u16, table);
        }
        self.children.get_mut(&(index as u16)).map(|table| &mut **table).ok_or(Errno::ENOMEM)
    }

    /// Writes `count` entries from `first` for consecutive pages; `None` clears them.
    #[inline(never)]
    fn fill(&mut self, first: usize, count: usize, pages: Option<Pages>) {
        let mut batch = [0u64; BATCH];
        let mut done = 0;
        // log2 of the pages of the fragment at hand, and where it ends.
        let mut fragment = (0, 0);
        while done < count {
            let n = (count - done).min(BATCH);
            for (at, entry) in (done..).zip(&mut batch[..n]) {
                *entry = 0;
                if let Some(pages) = pages {
                    let pa = pages.pa + at as u64 * PAGE_SIZE;
                    if pages.joined && at >= fragment.1 {
                        let aligned = ((first + at) as u64 | pa >> PAGE_SHIFT).trailing_zeros();
                        let pages = aligned.min((count - at).ilog2());
                        fragment = (pages, at + (1 << pages));
                    }
                    *entry = pa & PTE_ADDRESS_MASK | pages.flags | pte_fragment(fragment.0.into());
                }
                self.set_mapped(first + at, pages.is_some());
            }
            self.write(first + done, &batch[..n]);
            done += n;
        }
    }

    /// Makes the entries of small pages invalid that map `va..va + len`, and keeps their places.
    fn block(&mut self, level: u32, va: u64, len: u64) {
        let span = PAGE_SIZE << (LEVEL_BITS * level);
        let mut at = va;
        while at < va + len {
            let piece = (span - at % span).min(va + len - at);
            if level > 1 {
                if let Some(child) = self.children.get_mut(&(index(at, level) as u16)) {
                    child.block(level - 1, at, piece);
                }
            } else if let Some(leaf) = self.children.get(&(index(at, 1) as u16)) {
                let (first, count) = (index(at, 0), (piece / PAGE_SIZE) as usize);
                for done in (0..count).step_by(BATCH) {
                    leaf.write(first + done, &[0; BATCH][..(count - done).min(BATCH)]);
                }
            }
            at += piece;
        }
    }

    /// Clears what maps `va..va + len`, and moves tables that became empty to `retired`.
    #[expect(
        clippy::vec_box,
        reason = "tables move between the tree and here; by value they would move through the stack"
    )]
    fn clear(&mut self, level: u32, va: u64, len: u64, retired: &mut Vec<Box<Table<O>>>) {
        if level == 0 {
            self.fill(index(va, 0), (len / PAGE_SIZE) as usize, None);
            return;
        }
        let span = PAGE_SIZE << (LEVEL_BITS * level);
        let mut at = va;
        while at < va + len {
            let piece = (span - at % span).min(va + len - at);
            let entry = index(at, level);
            if level == 1 && self.is_mapped(entry) {
                self.fill(entry, 1, None);
            } else if let Some(child) = self.children.get_mut(&(entry as u16)) {
                child.clear(level - 1, at, piece, retired);
                if child.is_empty()
                    && let Some(child) = self.children.remove(&(entry as u16))
                {
                    self.write(entry, &[0]);
                    retired.push(child);
                }
            }
            at += piece;
        }
    }
}

/// Shows what a table and the tables below it hold.
#[derive(Debug, Default)]
struct Held {
    tables: usize,
    pages: u32,
    huge_pages: u32,
}

impl Held {
    fn add<O: Os>(&mut self, table: &Table<O>, level: u32) {
        self.tables += 1;
        let mapped: u32 = table.mapped.iter().map(|word| word.count_ones()).sum();
        *if level == 0 { &mut self.pages } else { &mut self.huge_pages } += mapped;
        table.children.values().for_each(|child| self.add(child, level.saturating_sub(1)));
    }
}

impl<O: Os> fmt::Debug for Vm<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut held = Held::default();
        held.add(&self.root, ROOT_LEVEL);
        f.debug_struct("Vm")
            .field("root", &format_args!("{:#x}", self.root()))
            .field("held", &format_args!("{held:?}"))
            .field("tables_until_a_flush", &format_args!("{}", self.retired.len()))
            .finish_non_exhaustive()
    }
}

/// One process's GPU address space.
pub(crate) struct Vm<O: Os> {
    vram: Arc<Vram<O>>,
    root: Box<Table<O>>,
    /// Tables the walkers may still have cached.
    #[expect(
        clippy::vec_box,
        reason = "tables move between the tree and here; by value they would move through the stack"
    )]
    retired: Vec<Box<Table<O>>>,
}

impl<O: Os> Vm<O> {
    pub(crate) fn new(vram: &Arc<Vram<O>>) -> Result<Self> {
        Ok(Self { vram: vram.clone(), root: Table::new(vram, ROOT_LEVEL)?, retired: Vec::new() })
    }

    /// Returns the value for `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(crate) fn root(&self) -> u64 {
        self.root.entry()
    }

    /// Bits of the entries of pages with these rights, for [`Vm::map`].
    pub(crate) fn page_bits(&self, rights: PageRights) -> u64 {
        (self.root.memory.hw().asic().pte.page)(rights)
    }

    /// Bits of the entries of pages that are not resident, for [`Vm::map`]: reads of them are 0, and stores go nowhere.
    pub(crate) fn not_resident_bits(&self) -> u64 {
        self.root.memory.hw().asic().pte.not_resident
    }

    /// Returns where this device's page tables have VRAM of a device: the address, and whether it is that of system memory.
    ///
    /// VRAM of a device of the same hive is in its segment (`amdgpu_vm_bo_update`), of any other one at the address of its BAR on the bus
    /// (`amdgpu_vram_mgr_alloc_sgt`).
    pub(crate) fn place_of(&self, owner: &Hw<O>, offset: u64) -> (u64, bool) {
        let own = self.root.memory.hw();
        if core::ptr::eq(own, owner) || own.shares_hive(owner) {
            return (owner.vram_base() + offset, false);
        }
        (owner.function().own_bus_address(OwnPlace::Vram(offset)), true)
    }

    /// Returns the address of this device's own VRAM at a byte offset.
    pub(crate) fn own_place(&self, offset: u64) -> u64 {
        self.root.memory.hw().vram_base() + offset
    }

    /// Maps `len` bytes at `va` to consecutive physical pages from `pa`; huge entries and fragments are used where both allow it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; a part may be mapped, and the caller unmaps the whole.
    pub(crate) fn map(&mut self, va: u64, pa: u64, len: u64, flags: u64) -> Result<()> {
        self.map_as(va, pa, len, flags, true)
    }

    /// Maps like [`Vm::map`], in small pages that stand for themselves, of which any may be unmapped; those of [`Vm::map`] that
    /// are there become such.
    ///
    /// # Errors
    ///
    /// As [`Vm::map`].
    pub(crate) fn map_small(&mut self, va: u64, pa: u64, len: u64, flags: u64) -> Result<()> {
        self.map_as(va, pa, len, flags, false)
    }

    fn map_as(&mut self, mut va: u64, mut pa: u64, mut len: u64, flags: u64, joined: bool) -> Result<()> {
        while len > 0 {
            let mut table = &mut *self.root;
            for level in (2..=ROOT_LEVEL).rev() {
                table = table.child(&self.vram, index(va, level))?;
            }
            let entry = index(va, 1);
            let huge = joined
                && va.is_multiple_of(HUGE)
                && pa.is_multiple_of(HUGE)
                && len >= HUGE
                && !table.children.contains_key(&(entry as u16));
            let piece = if huge { HUGE } else { (HUGE - va % HUGE).min(len) };
            if huge {
                let huge = table.memory.hw().asic().pte.huge;
                table.fill(entry, 1, Some(Pages { pa, flags: flags | huge, joined: false }));
            } else {
                let leaf = table.child(&self.vram, entry)?;
                let pages = Pages { pa, flags, joined };
                leaf.fill(index(va, 0), (piece / PAGE_SIZE) as usize, Some(pages));
            }
            va += piece;
            pa += piece;
            len -= piece;
        }
        // Who may use what was absent needs no invalidation.
        self.root.memory.hw().flush_hdp();
        Ok(())
    }

    /// Makes the huge page at `va`, if there is one, small ones; it maps `pa` with `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing is changed then.
    pub(crate) fn split(&mut self, va: u64, pa: u64, flags: u64) -> Result<()> {
        let mut table = &mut *self.root;
        for level in (2..=ROOT_LEVEL).rev() {
            match table.children.get_mut(&(index(va, level) as u16)) {
                Some(child) => table = child,
                None => return Ok(()),
            }
        }
        let entry = index(va, 1);
        if !table.is_mapped(entry) {
            return Ok(());
        }
        let mut leaf = Table::new(&self.vram, 0)?;
        leaf.fill(0, ENTRIES, Some(Pages { pa, flags, joined: false }));
        // In this order: the walker sees either the huge page or all of the small ones.
        table.memory.hw().flush_hdp();
        table.memory.hw().write_barrier();
        table.write(entry, &[leaf.entry()]);
        table.set_mapped(entry, false);
        table.children.insert(entry as u16, leaf);
        table.memory.hw().flush_hdp();
        Ok(())
    }

    /// Unmaps `len` bytes at `va`, a range that was mapped as a whole. Call [`Vm::flushed`] after the TLBs are flushed.
    pub(crate) fn unmap(&mut self, va: u64, len: u64) {
        self.root.clear(ROOT_LEVEL, va, len, &mut self.retired);
    }

    /// Takes `len` bytes at `va` from the GPU, a range that was mapped in small pages; the caller has the TLBs flushed.
    ///
    /// The range counts as mapped and keeps its tables: to map it anew needs no memory.
    pub(crate) fn block(&mut self, va: u64, len: u64) {
        self.root.block(ROOT_LEVEL, va, len);
    }

    /// Gives tables back that no walker can have cached any more.
    pub(crate) fn flushed(&mut self) {
        self.retired.clear();
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::gpuvm::{PDE_PTE, PTE_READABLE, PTE_SYSTEM, PTE_VALID};

    use super::*;
    use crate::asic;
    use crate::hw::Hw;
    use crate::testing::{FakeOs, walk};

    const MIB: u64 = 1 << 20;
    const VA: u64 = 0x7f12_3460_0000;
    const FLAGS: u64 = PTE_VALID | PTE_READABLE;

    fn vram() -> (Arc<Hw<FakeOs>>, Arc<Vram<FakeOs>>) {
        let hw = Arc::new(Hw::new(FakeOs::new(8 << 20).pair(), crate::testing::registers(), asic::ANY));
        let vram = Vram::new(hw.clone(), 8 * MIB).unwrap();
        (hw, vram)
    }

    #[test]
    fn aligned_two_mib_become_one_entry_and_the_rest_pages() {
        let (hw, vram) = vram();
        let mut vm = Vm::new(&vram).unwrap();
        let len = 4 * MIB + 3 * PAGE_SIZE;
        vm.map(VA, 6 * MIB, len, FLAGS).unwrap();
        for (offset, huge) in
            [(0, true), (MIB + 8, true), (4 * MIB - 1, true), (4 * MIB, false), (len - 1, false)]
        {
            let (pa, entry) = walk(&hw, vm.root(), VA + offset).unwrap();
            assert_eq!(pa, 6 * MIB + offset);
            assert_eq!(entry & PDE_PTE != 0, huge, "{offset:#x}");
        }
        assert_eq!(walk(&hw, vm.root(), VA + len), None);
        assert_eq!(walk(&hw, vm.root(), VA - 1), None);
        // Where only one side is aligned there are pages.
        vm.map(VA + 8 * MIB, MIB, 2 * MIB, FLAGS | PTE_SYSTEM).unwrap();
        let (pa, entry) = walk(&hw, vm.root(), VA + 9 * MIB).unwrap();
        assert_eq!((pa, entry & (PDE_PTE | PTE_SYSTEM)), (2 * MIB, PTE_SYSTEM));
    }

    #[test]
    fn small_pages_are_joined_as_far_as_both_sides_are_aligned() {
        let (hw, vram) = vram();
        let mut vm = Vm::new(&vram).unwrap();
        let fragments = |vm: &Vm<FakeOs>, va: u64, pages: u64| -> Vec<u64> {
            let entries = (0..pages).map(|page| walk(&hw, vm.root(), va + page * PAGE_SIZE).unwrap());
            entries.map(|(_, entry)| entry >> 7 & 0x1f).collect()
        };
        // One page, then two, then eight, and what is left.
        vm.map(VA + 0x5000, 0x5000, 13 * PAGE_SIZE, FLAGS).unwrap();
        assert_eq!(fragments(&vm, VA + 0x5000, 13), [0, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1]);
        vm.map(VA + 0x20_0000, 0x10_1000, 4 * PAGE_SIZE, FLAGS).unwrap();
        assert_eq!(fragments(&vm, VA + 0x20_0000, 4), [0; 4], "aligned on one side alone");
        vm.map(VA + 0x40_0000, 0x10_0000, 0x10_0000, FLAGS).unwrap();
        assert_eq!(fragments(&vm, VA + 0x40_0000, 256), [8; 256]);
        // Where any page may go, none speaks for another.
        vm.map_small(VA + 0x40_0000, 0x10_0000, 0x8_0000, FLAGS).unwrap();
        assert_eq!(fragments(&vm, VA + 0x40_0000, 128), [0; 128]);
        let (pa, _) = walk(&hw, vm.root(), VA + 0x41_2345).unwrap();
        assert_eq!(pa, 0x11_2345);
    }

    #[test]
    fn unmapping_leaves_nothing_and_tables_come_back_after_the_flush() {
        let (hw, vram) = vram();
        let mut vm = Vm::new(&vram).unwrap();
        let before = vram.free_bytes();
        let ranges =
            [(VA, 6 * MIB, 5 * MIB), (VA + 5 * MIB, MIB, 3 * PAGE_SIZE), (1 << 46, 0x5000, PAGE_SIZE)];
        for (va, pa, len) in ranges {
            vm.map(va, pa, len, FLAGS).unwrap();
        }
        vm.unmap(ranges[0].0, ranges[0].2);
        assert_eq!(walk(&hw, vm.root(), VA), None);
        assert_eq!(walk(&hw, vm.root(), VA + 5 * MIB).map(|(pa, _)| pa), Some(MIB), "the neighbour stays");
        for (va, _, len) in &ranges[1..] {
            vm.unmap(*va, *len);
            assert_eq!(walk(&hw, vm.root(), *va), None);
        }
        assert!(vram.free_bytes() < before, "walkers may still know the tables");
        vm.flushed();
        assert_eq!(vram.free_bytes(), before);
    }

    #[test]
    fn running_out_of_tables_is_an_error_that_can_be_undone() {
        let (hw, vram) = vram();
        let mut vm = Vm::new(&vram).unwrap();
        let hold = vram.allocate(vram.free_bytes() - 4 * PAGE_SIZE, false).unwrap();
        // Each of these needs three tables of its own.
        vm.map(VA, 0, PAGE_SIZE, FLAGS).unwrap();
        assert!(vm.map(1 << 45, 0, PAGE_SIZE, FLAGS).is_err());
        vm.unmap(1 << 45, PAGE_SIZE);
        vm.unmap(VA, PAGE_SIZE);
        vm.flushed();
        drop(hold);
        assert_eq!(walk(&hw, vm.root(), VA), None);
        drop(vm);
        assert_eq!(vram.free_bytes(), vram.size());
    }
}
