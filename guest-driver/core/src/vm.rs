//! Page tables of one process: four levels in VRAM, written through the BAR.
//!
//! Shape: Linux `amdgpu/amdgpu_vm_pt.c`; entries: [`belfry_abi::gpuvm`]. A shadow of the tree in kernel memory says which
//! tables exist, so that nothing the driver relies on is read back from the device.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::gpuvm::{LEVEL_BITS, PAGE_SHIFT, PDE_PTE, PTE_ADDRESS_MASK, PTE_VALID};
use zerocopy::IntoBytes;

use crate::errno::Result;
use crate::os::Os;
use crate::os::PAGE_SIZE;
use crate::vram::{Vram, VramMemory};

/// Entries of a table.
const ENTRIES: usize = 1 << LEVEL_BITS;
/// Bytes a PDB0 entry covers: a huge page.
const HUGE: u64 = PAGE_SIZE << LEVEL_BITS;
/// Level of the root (PDB2); PDB0 is 1, PTB is 0.
const ROOT_LEVEL: u32 = 3;
/// Entries written at once from the stack.
const BATCH: usize = 32;

fn index(va: u64, level: u32) -> usize {
    (va >> (PAGE_SHIFT + LEVEL_BITS * level)) as usize & (ENTRIES - 1)
}

/// One table and the tables below it.
struct Table<O: Os> {
    memory: VramMemory<O>,
    /// Tables below, by entry.
    children: BTreeMap<u16, Box<Table<O>>>,
    /// Entries that map memory themselves, one bit each.
    mapped: [u64; ENTRIES / 64],
}

impl<O: Os> Table<O> {
    fn new(vram: &Arc<Vram<O>>) -> Result<Box<Self>> {
        Ok(Box::new(Self {
            memory: vram.allocate(PAGE_SIZE, true)?,
            children: BTreeMap::new(),
            mapped: [0; ENTRIES / 64],
        }))
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
            let table = Table::new(vram)?;
            let entry = table.memory.offset() | PTE_VALID;
            self.write(index, &[entry]);
            self.children.insert(index as u16, table);
        }
        self.children.get_mut(&(index as u16)).map(|table| &mut **table).ok_or(crate::Errno::ENOMEM)
    }

    /// Writes `count` entries from `first` for consecutive pages of `pa`; `pa` of `None` clears them.
    #[inline(never)]
    fn fill(&mut self, first: usize, count: usize, pa: Option<u64>, flags: u64) {
        let mut batch = [0u64; BATCH];
        let mut done = 0;
        while done < count {
            let n = (count - done).min(BATCH);
            for (at, entry) in batch[..n].iter_mut().enumerate() {
                *entry = pa.map_or(0, |pa| (pa + (done + at) as u64 * PAGE_SIZE) & PTE_ADDRESS_MASK | flags);
                self.set_mapped(first + done + at, pa.is_some());
            }
            self.write(first + done, &batch[..n]);
            done += n;
        }
    }

    /// Clears what maps `va..va + len`, and moves tables that became empty to `retired`.
    #[expect(
        clippy::vec_box,
        reason = "tables move between the tree and here; by value they would move through the stack"
    )]
    fn clear(&mut self, level: u32, va: u64, len: u64, retired: &mut Vec<Box<Table<O>>>) {
        if level == 0 {
            self.fill(index(va, 0), (len / PAGE_SIZE) as usize, None, 0);
            return;
        }
        let span = PAGE_SIZE << (LEVEL_BITS * level);
        let mut at = va;
        while at < va + len {
            let piece = (span - at % span).min(va + len - at);
            let entry = index(at, level);
            if level == 1 && self.is_mapped(entry) {
                self.fill(entry, 1, None, 0);
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
        Ok(Self { vram: vram.clone(), root: Table::new(vram)?, retired: Vec::new() })
    }

    /// What goes into `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(crate) fn root(&self) -> u64 {
        self.root.memory.offset() | PTE_VALID
    }

    /// Maps `len` bytes at `va` to consecutive physical pages from `pa`; huge entries are used where both allow it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; a part may be mapped, and the caller unmaps the whole.
    pub(crate) fn map(&mut self, mut va: u64, mut pa: u64, mut len: u64, flags: u64) -> Result<()> {
        while len > 0 {
            let mut table = &mut *self.root;
            for level in (2..=ROOT_LEVEL).rev() {
                table = table.child(&self.vram, index(va, level))?;
            }
            let entry = index(va, 1);
            let huge = va.is_multiple_of(HUGE)
                && pa.is_multiple_of(HUGE)
                && len >= HUGE
                && !table.children.contains_key(&(entry as u16));
            let piece = if huge { HUGE } else { (HUGE - va % HUGE).min(len) };
            if huge {
                table.fill(entry, 1, Some(pa), flags | PDE_PTE);
            } else {
                let leaf = table.child(&self.vram, entry)?;
                leaf.fill(index(va, 0), (piece / PAGE_SIZE) as usize, Some(pa), flags);
            }
            va += piece;
            pa += piece;
            len -= piece;
        }
        Ok(())
    }

    /// Unmaps `len` bytes at `va`, a range that was mapped as a whole. Call [`Vm::flushed`] after the TLBs are flushed.
    pub(crate) fn unmap(&mut self, va: u64, len: u64) {
        self.root.clear(ROOT_LEVEL, va, len, &mut self.retired);
    }

    /// Gives tables back that no walker can have cached any more.
    pub(crate) fn flushed(&mut self) {
        self.retired.clear();
    }
}
