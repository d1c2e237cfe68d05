//! Page tables: the kernel's flat one, and the process's.

use belfry_abi::gpuvm::{
    PTE_EXECUTABLE, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_TF, PTE_VALID, PTE_WRITEABLE, gfx9,
};
use belfry_abi::regs::{Register as _, gc};
use belfry_device::chip::PteFormat;

use super::{BASE, Driver, GART, MORE, MORE_GART, PROCESS, QUEUES_VMIDS, SIZE, TABLES, USER, USER_READ_ONLY};
use crate::rig::RAM;

/// Bits of directories beside addresses, by level.
fn directory(format: PteFormat, level: u32) -> u64 {
    match (format, level) {
        (PteFormat::Gfx9, 2) => PTE_VALID | gfx9::pde_bfs(9),
        (PteFormat::Gfx9, 1) => PTE_VALID | PTE_TF,
        _ => PTE_VALID,
    }
}

impl Driver<'_> {
    pub(super) fn map_memory(&self) {
        let rw = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE;
        let page = |nth: u64, flags: u64| ((BASE + nth * 4096) | flags).to_le_bytes();
        let pages = SIZE / 4096;
        let gart: Vec<u8> = (0..pages).flat_map(|nth| page(nth, rw)).collect();
        self.rig.put_vram(0, &gart);
        let format = self.rig.choice.model.generation.pte;
        for level in 0..3 {
            let index = USER >> (39 - 9 * level) & 0x1ff;
            let next = (TABLES + (level + 1) * 4096) | directory(format, 3 - level as u32);
            self.rig.put_vram(TABLES + level * 4096 + index * 8, &next.to_le_bytes());
        }
        let first = (PROCESS - BASE) / 4096;
        for (va, flags) in [(USER, rw | PTE_EXECUTABLE), (USER_READ_ONLY, rw & !PTE_WRITEABLE)] {
            let table: Vec<u8> = (first..pages).flat_map(|nth| page(nth, flags)).collect();
            self.rig.put_vram(TABLES + 3 * 4096 + ((va - USER) / 4096 + first) * 8, &table);
        }
        if self.rig.choice.has_run_lists() {
            self.map_more(rw);
            (0..self.rig.choice.shape.xccs as u8).for_each(|xcc| self.start_contexts(xcc));
            return;
        }
        for vmid in QUEUES_VMIDS {
            self.select(0, 0, 0, vmid);
            self.rig.write(self.rig.dword::<gc::SH_MEM_BASES>(), 0x0001_0002);
        }
        self.select(0, 0, 0, 0);
        self.start_gart(0, pages);
    }

    /// Gives VMID 0 of a hub `pages` pages.
    fn start_gart(&self, xcc: u8, pages: u64) {
        let rig = self.rig;
        rig.write_pair(rig.dword_of::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>(xcc), 1);
        rig.write_pair(rig.dword_of::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(xcc), GART >> 12);
        let end = rig.dword_of::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(xcc);
        rig.write_pair(end, (GART >> 12) + pages - 1);
        let at = rig.dword_of::<gc::GCVM_CONTEXT0_CNTL>(xcc);
        let mut cntl = gc::GCVM_CONTEXT0_CNTL::from_bits(rig.read(at));
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(0);
        rig.write(at, cntl.bits());
    }

    /// Maps the other guest memory of the kernel's.
    fn map_more(&self, flags: u64) {
        let (base, size) = RAM[2];
        let pages = size as u64 / 4096;
        let table: Vec<u8> = (0..pages).flat_map(|nth| ((base + nth * 4096) | flags).to_le_bytes()).collect();
        self.rig.put_vram((MORE_GART - GART) / 4096 * 8, &table);
        debug_assert_eq!(base, MORE);
    }

    /// Every context has its shape before it has tables, as `gfxhub_v1_2_xcc_setup_vmid_config` has it.
    fn start_contexts(&self, xcc: u8) {
        self.start_gart(xcc, (MORE_GART - GART + RAM[2].1 as u64) / 4096);
        let rig = self.rig;
        let mut cntl = gc::GCVM_CONTEXT0_CNTL::default();
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(2);
        cntl.set_page_table_block_size(9);
        for vmid in 1..16 {
            rig.write(rig.dword_of::<gc::GCVM_CONTEXT0_CNTL>(xcc) + vmid, cntl.bits());
            let start = rig.dword_of::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(xcc);
            rig.write_pair(start + 2 * vmid, 0);
            let end = rig.dword_of::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(xcc);
            rig.write_pair(end + 2 * vmid, (1 << 36) - 1);
        }
    }
}
