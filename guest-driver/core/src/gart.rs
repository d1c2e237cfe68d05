//! GART: the flat page table of VMID 0, and the kernel's buffers in system memory behind it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use belfry_abi::gpuvm::{PAGE_SHIFT, PTE_ADDRESS_MASK, VA_BITS};
use belfry_abi::regs::{gc, mmhub};

use crate::asic::{PageRights, VMIDS};
use crate::errno::{Errno, Result};
use crate::hw::Hw;
use crate::os::{LockRank, Os, PAGE_SIZE, SystemPages};
use crate::sync::Mutex;
use crate::vram::{Vram, VramMemory};

/// First address of the GART in VMID 0, where amdgpu puts it on a card of this kind.
pub(crate) const GART_START: u64 = 0x7fff_0000_0000;
/// Pages of the GART: 256 MiB.
const GART_PAGES: usize = 1 << 16;

/// The table in VRAM, a copy of it that survives a reset, and which of its pages are taken.
pub(crate) struct Gart<O: Os> {
    hw: Arc<Hw<O>>,
    table: VramMemory<O>,
    entries: Mutex<O, Vec<u64>>,
}

/// Pages of the kernel's own: everything is allowed, and no cache of the GPU keeps them.
const KERNEL_PAGE: PageRights =
    PageRights { readable: true, writable: true, executable: true, system: true, uncached: true };

impl<O: Os> Gart<O> {
    #[inline(never)]
    pub(crate) fn new(hw: Arc<Hw<O>>, vram: &Arc<Vram<O>>) -> Result<Arc<Self>> {
        let table = vram.allocate(GART_PAGES as u64 * 8, true)?;
        let mut entries = Vec::new();
        entries.try_reserve_exact(GART_PAGES).map_err(|_| Errno::ENOMEM)?;
        entries.resize(GART_PAGES, 0);
        let entries = Mutex::new(hw.os(), LockRank::Gart, entries)?;
        Ok(Arc::new(Self { hw, table, entries }))
    }

    /// Writes the whole table and points VMID 0 of both hubs at it (`gfxhub_v3_0_gart_enable`).
    pub(crate) fn enable(&self) {
        {
            let entries = self.entries.lock();
            for (index, chunk) in entries.chunks(512).enumerate() {
                self.write_entries(index * 512, chunk);
            }
        }
        let base = (self.hw.vram_base() + self.table.offset()) | self.hw.asic().pte.root();
        let first = GART_START / PAGE_SIZE;
        let last = first + GART_PAGES as u64 - 1;
        for xcc in self.hw.xccs() {
            xcc.write_pair::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32>(base);
            xcc.write_pair::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32>(first);
            xcc.write_pair::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32>(last);
        }
        for hub in self.hw.mm_hubs() {
            hub.write_pair::<mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32>(base);
            hub.write_pair::<mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32>(
                first,
            );
            hub.write_pair::<mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32>(last);
        }
        for xcc in self.hw.xccs() {
            let mut cntl: gc::GCVM_CONTEXT0_CNTL = xcc.read();
            cntl.set_enable_context(true);
            cntl.set_page_table_depth(0);
            xcc.write(cntl);
        }
        for hub in self.hw.mm_hubs() {
            let mut cntl: mmhub::MMVM_CONTEXT0_CNTL = hub.read();
            cntl.set_enable_context(true);
            cntl.set_page_table_depth(0);
            hub.write(cntl);
        }
    }

    /// Programs of the VMIDs of processes, in all hubs, what firmware does not: that they translate all addresses, in tables of
    /// the chip's form (`gfxhub_v1_2_xcc_setup_vmid_config`).
    pub(crate) fn enable_processes(&self, control: u32) {
        let last = (1 << (VA_BITS - PAGE_SHIFT)) - 1;
        for vmid in 1..VMIDS {
            for xcc in self.hw.xccs() {
                xcc.write_at(vmid, gc::GCVM_CONTEXT0_CNTL(control));
                xcc.write_pair_at::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32>(vmid, 0);
                xcc.write_pair_at::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32>(vmid, last);
            }
            for hub in self.hw.mm_hubs() {
                hub.write_at(vmid, mmhub::MMVM_CONTEXT0_CNTL(control));
                hub.write_pair_at::<mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32>(vmid, 0);
                hub.write_pair_at::<mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32>(vmid, last);
            }
        }
    }

    /// Turns VMID 0's translation off.
    pub(crate) fn disable(&self) {
        self.hw.xccs().for_each(|xcc| xcc.write(gc::GCVM_CONTEXT0_CNTL(0)));
        self.hw.mm_hubs().for_each(|hub| hub.write(mmhub::MMVM_CONTEXT0_CNTL(0)));
    }

    fn write_entries(&self, index: usize, entries: &[u64]) {
        self.hw.vram_write(self.table.offset() + index as u64 * 8, zerocopy::IntoBytes::as_bytes(entries));
    }

    /// Maps pages at `count` free, consecutive places and returns the first's index. The caller flushes VMID 0.
    fn map(&self, count: usize, bus: impl Fn(usize) -> u64) -> Result<usize> {
        if count == 0 || count > GART_PAGES {
            return Err(Errno::ENOMEM);
        }
        let bits = (self.hw.asic().pte.page)(KERNEL_PAGE);
        let mut entries = self.entries.lock();
        let mut run = 0;
        for index in 0..GART_PAGES {
            run = if entries[index] == 0 { run + 1 } else { 0 };
            if run == count {
                let first = index + 1 - count;
                for page in 0..count {
                    entries[first + page] = bus(page) & PTE_ADDRESS_MASK | bits;
                    self.write_entries(first + page, &entries[first + page..=first + page]);
                }
                self.hw.write_barrier();
                return Ok(first);
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Returns how many of its pages are mapped.
    pub(crate) fn mapped_pages(&self) -> usize {
        self.entries.lock().iter().filter(|&&entry| entry != 0).count()
    }

    fn unmap(&self, first: usize, count: usize) {
        let mut entries = self.entries.lock();
        for index in first..first + count {
            entries[index] = 0;
            self.write_entries(index, &[0]);
        }
        self.hw.write_barrier();
    }

    /// Maps one page of memory that is not the driver's, which has to stay where it is until the mapping is dropped.
    pub(crate) fn map_page(self: &Arc<Self>, bus: u64) -> Result<GartMapping<O>> {
        let first = self.map(1, |_| bus)?;
        Ok(GartMapping { gart: self.clone(), first, count: 1 })
    }

    /// Allocates and maps zeroed pages of the driver's own.
    #[inline(never)]
    pub(crate) fn allocate(self: &Arc<Self>, pages: usize) -> Result<KernelBuffer<O>> {
        let pages = self.hw.os().pages_alloc(pages)?;
        let first = self.map(pages.count(), |page| pages.bus(page))?;
        let mapping = GartMapping { gart: self.clone(), first, count: pages.count() };
        Ok(KernelBuffer { mapping, pages })
    }
}

/// Pages mapped in VMID 0; unmapped when dropped.
pub(crate) struct GartMapping<O: Os> {
    gart: Arc<Gart<O>>,
    first: usize,
    count: usize,
}

impl<O: Os> GartMapping<O> {
    pub(crate) fn gpu_address(&self) -> u64 {
        GART_START + self.first as u64 * PAGE_SIZE
    }
}

impl<O: Os> Drop for GartMapping<O> {
    fn drop(&mut self) {
        self.gart.unmap(self.first, self.count);
    }
}

/// A zeroed buffer in system memory that VMID 0 reaches too.
pub(crate) struct KernelBuffer<O: Os> {
    // Declared first: the translation goes before the pages.
    mapping: GartMapping<O>,
    pages: O::Pages,
}

impl<O: Os> KernelBuffer<O> {
    pub(crate) fn gpu_address(&self) -> u64 {
        self.mapping.gpu_address()
    }

    /// The bus address of a page of it.
    pub(crate) fn bus(&self, page: usize) -> u64 {
        self.pages.bus(page)
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        word(&self.pages, offset)
    }

    pub(crate) fn quad(&self, offset: usize) -> &AtomicU64 {
        quad(&self.pages, offset)
    }

    /// Copies in, dword by dword; `offset` and the length are multiples of 4.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        for (index, dword) in bytes.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([dword[0], dword[1], dword[2], dword[3]]);
            self.word(offset + index * 4).store(value, Ordering::Relaxed);
        }
        fence(Ordering::Release);
    }

    /// Copies out, dword by dword; `offset` and the length are multiples of 4.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        fence(Ordering::Acquire);
        for (index, dword) in bytes.chunks_exact_mut(4).enumerate() {
            dword.copy_from_slice(&self.word(offset + index * 4).load(Ordering::Relaxed).to_le_bytes());
        }
    }
}

/// The dword at byte `offset` of pages the device shares.
#[expect(unsafe_code, reason = "memory the device shares is reached by address")]
pub(crate) fn word<P: SystemPages>(pages: &P, offset: usize) -> &AtomicU32 {
    assert!(offset.is_multiple_of(4) && offset + 4 <= pages.count() * PAGE_SIZE as usize);
    // SAFETY: inside the mapping of `pages`, aligned, alive as long as the borrow, and only ever reached atomically.
    unsafe { AtomicU32::from_ptr(pages.cpu().as_ptr().add(offset).cast()) }
}

/// The quadword at byte `offset` of pages the device shares.
#[expect(unsafe_code, reason = "memory the device shares is reached by address")]
pub(crate) fn quad<P: SystemPages>(pages: &P, offset: usize) -> &AtomicU64 {
    assert!(offset.is_multiple_of(8) && offset + 8 <= pages.count() * PAGE_SIZE as usize);
    // SAFETY: inside the mapping of `pages`, aligned, alive as long as the borrow, and only ever reached atomically.
    unsafe { AtomicU64::from_ptr(pages.cpu().as_ptr().add(offset).cast()) }
}
