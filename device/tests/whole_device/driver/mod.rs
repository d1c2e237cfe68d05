//! A driver in miniature: brings the device up through accesses alone, as amdgpu does, and maps user queues.

#![expect(unsafe_code, reason = "hands a doorbell page to the device that the test also writes itself")]

pub mod context;
mod continued;
pub mod kernels;
mod rings;
mod user_queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belfry_abi::gpuvm::{
    PDE_PTE, PTE_EXECUTABLE, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE,
};
use belfry_abi::ih::IhEntry;
use belfry_abi::pci::{self, doorbell};
use belfry_abi::regs::{Register, gc, nbio, osssys};
use belfry_device::chip::gfx1100::dword;
use belfry_device::{Gpu, GpuConfig, InterruptSink, Resources};
use vm_memory::{Bytes, GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};
use zerocopy::{Immutable, IntoBytes};

use context::TRAP_HANDLER;
pub use rings::KernelRing;
pub use user_queue::UserQueue;

pub const VRAM: u64 = 64 << 20;
pub const RAM: u64 = 32 << 20;
pub const FB: u64 = 0x80_0000_0000;
pub const GART: u64 = 0x7fff_0000_0000;
/// Longest wait for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interrupts so far, and the pin.
#[derive(Default)]
pub struct Counter(pub AtomicU32, pub AtomicBool);

impl InterruptSink for Counter {
    fn raise(&self, vector: u16) {
        assert_eq!(vector, 0);
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn set_pin(&self, asserted: bool) {
        assert_ne!(self.1.swap(asserted, Ordering::SeqCst), asserted, "the pin changes");
    }
}

/// Waits until `condition` holds; panics with the name of the event if it never does.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

pub struct Driver {
    pub gpu: Arc<Gpu>,
    pub ram: GuestMemoryMmap,
    pub interrupts: Arc<Counter>,
    /// The doorbell BAR as a guest maps it.
    pub doorbell_page: &'static [AtomicU64],
    next_ram: u64,
    next_vram: u64,
    gart_pages: u64,
    kiq: KernelRing,
    mes: KernelRing,
    pub ih_ring: u64,
    pub ih_wptr: u64,
    ih_rptr: u32,
    fence: u64,
    fences: AtomicU64,
    /// True if the device has no threads: it works while the test waits for it.
    on_caller: bool,
}

pub const IH_ENTRIES: u32 = 64;

impl Driver {
    pub fn new() -> Self {
        Self::with(GpuConfig::default())
    }

    /// A fresh device.
    pub fn with(config: GpuConfig) -> Self {
        let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
        let interrupts = Arc::new(Counter::default());
        // Leaked, so that the page always outlives the device.
        let doorbell_page: &'static [AtomicU64] =
            Vec::leak((0..pci::DOORBELL_BAR_SIZE / 8 + 512).map(|_| AtomicU64::new(0)).collect());
        let aligned = doorbell_page.as_ptr().addr().next_multiple_of(4096) - doorbell_page.as_ptr().addr();
        let doorbell_page = &doorbell_page[aligned / 8..][..(pci::DOORBELL_BAR_SIZE / 8) as usize];
        let (page, size) = (doorbell_page.as_ptr().cast_mut().cast(), size_of_val(doorbell_page));
        // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS: the allocator's mapping.
        // SAFETY: the words are never freed, and both sides access them atomically.
        let doorbells = unsafe { MmapRegion::build_raw(page, size, 3, 0x22).unwrap() };
        let resources = Resources {
            vram: MmapRegion::new(VRAM as usize).unwrap(),
            doorbells,
            system: GuestMemoryAtomic::new(ram.clone()),
            interrupts: Arc::clone(&interrupts) as Arc<dyn InterruptSink>,
        };
        let config = GpuConfig { vram_size: VRAM, workers: 2, ..config };
        let gpu = Gpu::new(config, resources).unwrap();
        Self {
            gpu,
            ram,
            interrupts,
            doorbell_page,
            next_ram: 0x1000,
            // The first MiB holds the GART.
            next_vram: 1 << 20,
            gart_pages: 0,
            kiq: KernelRing::default(),
            mes: KernelRing::default(),
            ih_ring: 0,
            ih_wptr: 0,
            ih_rptr: 0,
            fence: 0,
            fences: AtomicU64::new(1),
            on_caller: false,
        }
    }

    /// Bus mastering, GART, interrupts, KIQ, MES: everything up to SET_HW_RSRC.
    pub fn up() -> Self {
        Self::up_with(GpuConfig::default())
    }

    pub fn up_with(config: GpuConfig) -> Self {
        let mut driver = Self::with(config);
        driver.bring_up();
        driver
    }

    pub fn bring_up(&mut self) {
        self.enable();
        self.start_gart();
        self.start_interrupts();
        self.start_kiq();
        self.start_mes();
        self.set_hw_resources(0xff00, 0xc);
    }

    pub fn read(&self, index: u32) -> u32 {
        let mut data = [0; 4];
        self.gpu.bar_read(pci::BAR_REGISTERS, u64::from(index) * 4, &mut data).unwrap();
        u32::from_le_bytes(data)
    }

    pub fn write(&self, index: u32, value: u32) {
        self.gpu.bar_write(pci::BAR_REGISTERS, u64::from(index) * 4, &value.to_le_bytes()).unwrap();
    }

    pub fn get<R: Register>(&self) -> R {
        R::from_bits(self.read(dword::<R>()))
    }

    pub fn set<R: Register>(&self, register: R) {
        self.write(dword::<R>(), register.bits());
    }

    pub fn ring(&self, byte_offset: u64, value: u64) {
        self.gpu.bar_write(pci::BAR_DOORBELLS, byte_offset, &value.to_le_bytes()).unwrap();
    }

    /// Memory space and bus mastering on.
    pub fn enable(&self) {
        self.gpu.config_write(4, &[6, 0]);
        self.write(dword::<nbio::RCC_DOORBELL_APER_EN>(), 1);
    }

    pub fn select(&self, me: u32, pipe: u32, queue: u32, vmid: u32) {
        let mut select = gc::GRBM_GFX_CNTL::from_bits(0);
        select.set_meid(me);
        select.set_pipeid(pipe);
        select.set_queueid(queue);
        select.set_vmid(vmid);
        self.set(select);
    }

    // Memory.

    pub fn alloc_ram(&mut self, bytes: u64) -> u64 {
        let at = self.next_ram;
        self.next_ram += bytes.next_multiple_of(4096);
        assert!(self.next_ram <= RAM, "the test's guest memory is used up");
        at
    }

    pub fn alloc_vram(&mut self, bytes: u64) -> u64 {
        let at = self.next_vram;
        self.next_vram += bytes.next_multiple_of(4096);
        assert!(self.next_vram <= VRAM - (1 << 20), "the test's VRAM is used up");
        at
    }

    pub fn ram_u64(&self, at: u64) -> u64 {
        self.ram.load(GuestAddress(at), Ordering::Acquire).unwrap()
    }

    pub fn ram_u32(&self, at: u64) -> u32 {
        self.ram.load(GuestAddress(at), Ordering::Acquire).unwrap()
    }

    pub fn set_ram_u64(&self, at: u64, value: u64) {
        self.ram.store(value, GuestAddress(at), Ordering::Release).unwrap();
    }

    pub fn put_ram<T: IntoBytes + Immutable>(&self, at: u64, value: &T) {
        self.ram.write_slice(value.as_bytes(), GuestAddress(at)).unwrap();
    }

    pub fn put_vram(&self, at: u64, bytes: &[u8]) {
        self.gpu.bar_write(pci::BAR_VRAM, at, bytes).unwrap();
    }

    /// Maps guest pages into VMID 0; returns their address.
    pub fn gart(&mut self, memory: u64, bytes: u64) -> u64 {
        let first = self.gart_pages;
        for page in 0..bytes.div_ceil(4096) {
            let pte =
                (memory + page * 4096) | PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE;
            self.put_vram((first + page) * 8, &pte.to_le_bytes());
        }
        self.gart_pages += bytes.div_ceil(4096);
        GART + first * 4096 + memory % 4096
    }

    /// Guest memory that VMID 0 sees: memory, address.
    pub fn gart_alloc(&mut self, bytes: u64) -> (u64, u64) {
        let memory = self.alloc_ram(bytes);
        (memory, self.gart(memory, bytes))
    }

    fn pair(&self, index: u32, value: u64) {
        self.write(index, value as u32);
        self.write(index + 1, (value >> 32) as u32);
    }

    pub fn start_gart(&mut self) {
        // A flat table at the start of VRAM for 512 MiB, as gfxhub_v3_0_gart_enable programs it.
        self.pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>(), 1);
        self.pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(), GART >> 12);
        self.pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(), (GART >> 12) + 0x1_ffff);
        let mut cntl = self.get::<gc::GCVM_CONTEXT0_CNTL>();
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(0);
        self.set(cntl);
        self.flush_by_register(1);
    }

    /// Invalidates by engine 17, as amdgpu does before the scheduler runs.
    pub fn flush_by_register(&self, vmids: u32) {
        let semaphore = dword::<gc::GCVM_INVALIDATE_ENG0_SEM>() + 17;
        assert_eq!(self.read(semaphore), 1);
        self.write(dword::<gc::GCVM_INVALIDATE_ENG0_REQ>() + 17, vmids | 1 << 19);
        assert_eq!(self.read(dword::<gc::GCVM_INVALIDATE_ENG0_ACK>() + 17) & vmids, vmids);
        self.write(semaphore, 0);
    }

    pub fn start_interrupts(&mut self) {
        let (_, ring) = self.gart_alloc(u64::from(IH_ENTRIES) * 32);
        let (wptr, wptr_address) = self.gart_alloc(4096);
        self.ih_ring = self.next_ram - 2 * 4096;
        self.ih_wptr = wptr;
        self.ih_rptr = 0;
        self.write(dword::<osssys::IH_RB_BASE>(), (ring >> 8) as u32);
        self.write(dword::<osssys::IH_RB_BASE_HI>(), (ring >> 40) as u32);
        self.write(dword::<osssys::IH_RB_WPTR_ADDR_LO>(), wptr_address as u32);
        self.write(dword::<osssys::IH_RB_WPTR_ADDR_HI>(), (wptr_address >> 32) as u32);
        self.write(dword::<osssys::IH_RB_RPTR>(), 0);
        self.write(dword::<osssys::IH_RB_WPTR>(), 0);
        let mut bell = osssys::IH_DOORBELL_RPTR::from_bits(0);
        bell.set_offset(doorbell::IH.dwords());
        bell.set_enable(true);
        self.set(bell);
        let mut cntl = osssys::IH_RB_CNTL::from_bits(0);
        cntl.set_rb_size((IH_ENTRIES * 8).ilog2());
        cntl.set_wptr_writeback_enable(true);
        cntl.set_wptr_overflow_enable(true);
        cntl.set_rptr_rearm(true);
        cntl.set_enable_intr(true);
        cntl.set_rb_enable(true);
        self.set(cntl);
    }

    /// Takes all entries from the interrupt ring and acknowledges them.
    pub fn drain_interrupts(&mut self) -> Vec<IhEntry> {
        let mut entries = Vec::new();
        let wptr = self.ram_u32(self.ih_wptr);
        while self.ih_rptr != wptr {
            let mut entry = IhEntry::default();
            self.ram
                .read_slice(entry.as_mut_bytes(), GuestAddress(self.ih_ring + u64::from(self.ih_rptr)))
                .unwrap();
            entries.push(entry);
            self.ih_rptr = (self.ih_rptr + 32) % (IH_ENTRIES * 32);
        }
        self.gpu
            .bar_write(pci::BAR_DOORBELLS, doorbell::IH.offset().bytes(), &self.ih_rptr.to_le_bytes())
            .unwrap();
        entries
    }

    /// Returns when the scheduler has looked at its queues, from beginning to end, after the call.
    pub fn runner_passes(&self) {
        // One look may have begun before.
        let enough = self.gpu.stats().runner_passes + 2;
        eventually("the scheduler looks", || {
            self.gpu.doorbell_hint();
            self.gpu.stats().runner_passes >= enough
        });
    }

    pub fn errors(&self, name: &str) -> u64 {
        let errors = self.gpu.stats().errors;
        errors.into_iter().find(|(error, _)| error.name() == name).map_or(0, |(_, count)| count)
    }
}

/// A process: page tables in VRAM, guest pages mapped where asked.
pub struct Process {
    pub pasid: u16,
    root: u64,
    pub context: u64,
    /// The driver's trap handler in its memory; 0 for none.
    pub trap_handler: u64,
    next_va: u64,
    /// Bits that entries of a directory have beside the address, by its level.
    directory: fn(level: u32) -> u64,
}

impl Process {
    pub fn new(driver: &mut Driver, pasid: u16) -> Self {
        for vmid in 8..16 {
            driver.select(0, 0, 0, vmid);
            driver.write(dword::<gc::SH_MEM_BASES>(), 0x0001_0002);
        }
        driver.select(0, 0, 0, 0);
        let mut process = Self::with(driver, pasid, |_| 0);
        let (memory, va) = process.alloc(driver, TRAP_HANDLER.len() as u64);
        driver.ram.write_slice(TRAP_HANDLER, GuestAddress(memory)).unwrap();
        process.trap_handler = va;
        process
    }

    /// A process without a trap handler, whose directories have these bits.
    pub fn with(driver: &mut Driver, pasid: u16, directory: fn(level: u32) -> u64) -> Self {
        let root = driver.alloc_vram(4096);
        driver.put_vram(root, &[0; 4096]);
        let context = 0x10_0000 + u64::from(pasid) * 0x1000;
        Self { pasid, root, context, trap_handler: 0, next_va: 0x7f00_0000_0000, directory }
    }

    pub fn root(&self) -> u64 {
        self.root | PTE_VALID
    }

    /// Maps one page of guest memory.
    pub fn map_page(&self, driver: &mut Driver, va: u64, memory: u64) {
        let flags = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE | PTE_EXECUTABLE;
        self.set_page(driver, va, memory | flags);
    }

    /// Reserves `bytes` bytes of addresses that are not mapped.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let va = self.next_va;
        self.next_va += bytes.next_multiple_of(4096) + 4096;
        va
    }

    /// Writes the entry of a page; returns the old one.
    pub fn set_page(&self, driver: &mut Driver, va: u64, entry: u64) -> u64 {
        let mut table = self.root;
        for level in (1..4).rev() {
            let entry = table + (va >> (12 + 9 * level) & 0x1ff) * 8;
            let mut bytes = [0; 8];
            driver.gpu.bar_read(pci::BAR_VRAM, entry, &mut bytes).unwrap();
            let mut next = u64::from_le_bytes(bytes);
            if next & PTE_VALID == 0 {
                let page = driver.alloc_vram(4096);
                driver.put_vram(page, &[0; 4096]);
                next = page | PTE_VALID | (self.directory)(level);
                driver.put_vram(entry, &next.to_le_bytes());
            }
            assert_eq!(next & PDE_PTE, 0);
            table = next & 0xffff_ffff_f000;
        }
        let (at, mut before) = (table + (va >> 12 & 0x1ff) * 8, [0; 8]);
        driver.gpu.bar_read(pci::BAR_VRAM, at, &mut before).unwrap();
        driver.put_vram(at, &entry.to_le_bytes());
        u64::from_le_bytes(before)
    }

    /// Guest memory mapped into the process: memory, virtual address.
    pub fn alloc(&mut self, driver: &mut Driver, bytes: u64) -> (u64, u64) {
        let memory = driver.alloc_ram(bytes);
        let va = self.next_va;
        for page in 0..bytes.div_ceil(4096) {
            self.map_page(driver, va + page * 4096, memory + page * 4096);
        }
        // A gap after each, so that overruns fault.
        self.next_va += bytes.next_multiple_of(4096) + 4096;
        (memory, va)
    }

    pub fn cntl() -> u32 {
        let mut cntl = gc::GCVM_CONTEXT0_CNTL::from_bits(0);
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(3);
        cntl.bits()
    }
}
