//! A process: page tables in VRAM.

use belfry_abi::gpuvm::{
    PTE_ADDRESS_MASK, PTE_EXECUTABLE, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE,
};

use crate::gpu::Gpu;
use crate::memory::{PAGE, pages, peek, poke};
use crate::rings::Rings;

/// First address the process is given.
const FIRST_VA: u64 = 0x7f00_0000_0000;
/// Three levels of directories above the page table.
pub const DEPTH: u32 = 3;

/// An address space.
pub struct Process {
    /// Its number for the device.
    pub pasid: u16,
    /// Place of the first page directory in VRAM; 0 before anything is mapped.
    pub root: u64,
    next: u64,
}

/// Addresses of memory, for the processor and for the process.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Physical.
    pub cpu: u64,
    /// In the process.
    pub gpu: u64,
}

impl Process {
    /// An empty one.
    pub fn new(pasid: u16) -> Self {
        Self { pasid, root: 0, next: FIRST_VA }
    }

    /// Pages of RAM of the process.
    pub fn alloc(&mut self, gpu: &Gpu, rings: &mut Rings, bytes: u64) -> Shared {
        let cpu = pages(bytes);
        let va = self.reserve(bytes);
        for page in (0..bytes).step_by(PAGE as usize) {
            self.map(gpu, rings, va + page, cpu + page);
        }
        Shared { cpu, gpu: va }
    }

    /// Addresses at which nothing is mapped yet, with a gap after them.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let va = self.next;
        self.next += bytes.next_multiple_of(PAGE) + PAGE;
        va
    }

    /// Maps a page of RAM.
    pub fn map(&mut self, gpu: &Gpu, rings: &mut Rings, va: u64, memory: u64) {
        if self.root == 0 {
            self.root = rings.vram_page();
        }
        let mut table = self.root;
        for level in (1..=DEPTH).rev() {
            let entry = gpu.vram + table + (va >> (12 + 9 * level) & 0x1ff) * 8;
            if peek(entry) & PTE_VALID == 0 {
                poke(entry, rings.vram_page() | PTE_VALID);
            }
            table = peek(entry) & PTE_ADDRESS_MASK;
        }
        let flags = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_EXECUTABLE | PTE_READABLE | PTE_WRITEABLE;
        poke(gpu.vram + table + (va >> 12 & 0x1ff) * 8, memory | flags);
        gpu.flush();
    }
}
