//! A driver in miniature for the rig: brings the device up as amdgpu does, and maps user queues.
//!
//! All of guest memory's first range is mapped by the GART, and all but what the kernel keeps to itself by the tables of
//! one process, twice: as it is, and for reading alone. What lies behind it in either is not mapped.

mod programs;
mod queues;
mod ring;

use belfry_abi::gpuvm::{PTE_EXECUTABLE, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE};
use belfry_abi::mes::{self, ApiStatus, FRAME_SIZE, Header, Opcode, QueryStatus, SetHwResources};
use belfry_abi::pci::doorbell;
use belfry_abi::regs::{Register as _, gc, nbio, osssys};
use belfry_device::chip::gfx1100::dword;
use zerocopy::{FromZeros as _, Immutable, IntoBytes};

use crate::device::COMMAND;
use crate::rig::{RAM, Rig};
pub use ring::KernelRing;

/// The first range of guest memory.
pub const BASE: u64 = RAM[0].0;
/// Its bytes.
pub const SIZE: u64 = RAM[0].1 as u64;
/// Where the kernel has it.
pub const GART: u64 = 0x7fff_0000_0000;
/// Where the process has it.
pub const USER: u64 = 0x7f00_0000_0000;
/// Where the process has it for reading alone.
pub const USER_READ_ONLY: u64 = USER + (1 << 20);

/// Queues of the process there is room for.
pub const QUEUES: usize = 8;
/// Packets of a queue.
pub const PACKETS: u64 = 64;

const KIQ: u64 = BASE;
const MES: u64 = BASE + 0x3000;
/// The interrupt ring, and the page of its write pointer.
pub const IH_RING: u64 = BASE + 0x7000;
/// Of that ring: bytes.
pub const IH_SIZE: u64 = 2048;
/// Where its write pointer is reported.
pub const IH_WPTR: u64 = BASE + 0x8000;
/// Fences of frames.
pub const FENCES: u64 = BASE + 0x9000;
const MQD: u64 = BASE + 0xa000;
/// What the process can reach begins here; before it, all is the kernel's.
pub const PROCESS: u64 = BASE + 0x1_2000;
const QUEUE: u64 = PROCESS;
/// A page of signals, 64 bytes each.
pub const SIGNALS: u64 = BASE + 0x2_2000;
/// Kernel arguments, two pages.
pub const KERNARG: u64 = BASE + 0x2_3000;
/// Indirect buffers, 12 KiB.
pub const BUFFERS: u64 = BASE + 0x2_5000;
/// Data, 64 KiB.
pub const DATA: u64 = BASE + 0x2_8000;
/// Code, 64 KiB.
pub const CODE: u64 = BASE + 0x4_0000;
/// Scratch memory, 64 KiB.
pub const SCRATCH: u64 = BASE + 0x6_0000;
/// Where VRAM has page tables: directories of three levels, and a table.
const TABLES: u64 = 1 << 20;
const PASID: u32 = 0x8001;
/// Key of the process.
pub const CONTEXT: u64 = 0x1234_5000;

/// Address the kernel has for guest memory.
#[must_use]
pub fn kernel(memory: u64) -> u64 {
    GART + (memory - BASE)
}

/// Address the process has for guest memory.
#[must_use]
pub fn user(memory: u64) -> u64 {
    USER + (memory - BASE)
}

/// The driver.
#[derive(Debug)]
pub struct Driver<'a> {
    /// The device.
    pub rig: &'a Rig,
    /// The ring that maps queues.
    pub kiq: KernelRing,
    /// The scheduler's ring.
    pub mes: KernelRing,
    fences: u64,
    written: [u64; QUEUES],
}

impl<'a> Driver<'a> {
    /// Brings a device up that was reset: everything up to `SET_HW_RSRC`.
    #[must_use]
    pub fn new(rig: &'a Rig) -> Self {
        let kiq = KernelRing::new(KIQ, 1024, doorbell::MES_RING1);
        let mes = KernelRing::new(MES, 2048, doorbell::MES_RING0);
        // The device takes a ring's first write pointer from memory, where an earlier driver may have left one.
        for ring in [&kiq, &mes] {
            rig.put(ring.page, &[0u8; 4096]);
        }
        let mut driver = Self { rig, kiq, mes, fences: 0, written: [0; QUEUES] };
        driver.enable();
        driver.map_memory();
        driver.start_interrupts();
        driver.start_kiq();
        driver.start_mes();
        driver.set_resources();
        driver
    }

    /// Gives the scheduler what amdgpu gives it.
    pub fn set_resources(&mut self) {
        let mut frame = SetHwResources::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_gfxhub = 0xff00;
        frame.compute_hqd_mask[..4].fill(0xc);
        assert!(self.mes(&frame, Opcode::SET_HW_RSRC), "SET_HW_RSRC of a good driver");
    }

    /// Memory space, bus mastering and doorbells on.
    pub fn enable(&self) {
        self.rig.gpu.config_write(COMMAND, &[6, 0]);
        self.rig.write(dword::<nbio::RCC_DOORBELL_APER_EN>(), 1);
    }

    fn map_memory(&self) {
        let rw = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE;
        let page = |nth: u64, flags: u64| ((BASE + nth * 4096) | flags).to_le_bytes();
        let pages = SIZE / 4096;
        let gart: Vec<u8> = (0..pages).flat_map(|nth| page(nth, rw)).collect();
        self.rig.put_vram(0, &gart);
        for level in 0..3 {
            let index = USER >> (39 - 9 * level) & 0x1ff;
            let next = (TABLES + (level + 1) * 4096) | PTE_VALID;
            self.rig.put_vram(TABLES + level * 4096 + index * 8, &next.to_le_bytes());
        }
        let first = (PROCESS - BASE) / 4096;
        for (va, flags) in [(USER, rw | PTE_EXECUTABLE), (USER_READ_ONLY, rw & !PTE_WRITEABLE)] {
            let table: Vec<u8> = (first..pages).flat_map(|nth| page(nth, flags)).collect();
            self.rig.put_vram(TABLES + 3 * 4096 + ((va - USER) / 4096 + first) * 8, &table);
        }
        for vmid in 8..16 {
            self.select(0, 0, 0, vmid);
            self.rig.write(dword::<gc::SH_MEM_BASES>(), 0x0001_0002);
        }
        self.select(0, 0, 0, 0);
        self.rig.write_pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>(), 1);
        self.rig.write_pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(), GART >> 12);
        self.rig.write_pair(dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(), (GART >> 12) + pages - 1);
        let mut cntl = self.rig.get::<gc::GCVM_CONTEXT0_CNTL>();
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(0);
        self.rig.set(cntl);
    }

    /// Selects whose registers the banked ones are.
    pub fn select(&self, me: u32, pipe: u32, queue: u32, vmid: u32) {
        let mut select = gc::GRBM_GFX_CNTL::from_bits(0);
        select.set_meid(me);
        select.set_pipeid(pipe);
        select.set_queueid(queue);
        select.set_vmid(vmid);
        self.rig.set(select);
    }

    fn start_interrupts(&self) {
        let rig = self.rig;
        rig.write(dword::<osssys::IH_RB_BASE>(), (kernel(IH_RING) >> 8) as u32);
        rig.write(dword::<osssys::IH_RB_BASE_HI>(), (kernel(IH_RING) >> 40) as u32);
        rig.write(dword::<osssys::IH_RB_WPTR_ADDR_LO>(), kernel(IH_WPTR) as u32);
        rig.write(dword::<osssys::IH_RB_WPTR_ADDR_HI>(), (kernel(IH_WPTR) >> 32) as u32);
        let mut bell = osssys::IH_DOORBELL_RPTR::from_bits(0);
        bell.set_offset(doorbell::IH.dwords());
        bell.set_enable(true);
        rig.set(bell);
        let mut cntl = osssys::IH_RB_CNTL::from_bits(0);
        cntl.set_rb_size((IH_SIZE as u32 / 4).ilog2());
        cntl.set_wptr_writeback_enable(true);
        cntl.set_wptr_overflow_enable(true);
        cntl.set_rptr_rearm(true);
        cntl.set_enable_intr(true);
        cntl.set_rb_enable(true);
        rig.set(cntl);
    }

    fn start_kiq(&self) {
        let (rig, mqd) = (self.rig, self.kiq.mqd());
        rig.put(self.kiq.mqd_memory(), &mqd);
        self.select(3, 1, 0, 0);
        rig.write_pair(dword::<gc::CP_MQD_BASE_ADDR>(), mqd.mqd_base());
        rig.write(dword::<gc::CP_HQD_PQ_BASE>(), mqd.cp_hqd_pq_base_lo);
        rig.write(dword::<gc::CP_HQD_PQ_BASE_HI>(), mqd.cp_hqd_pq_base_hi);
        rig.write(dword::<gc::CP_HQD_PQ_CONTROL>(), mqd.cp_hqd_pq_control);
        rig.write_pair(dword::<gc::CP_HQD_PQ_RPTR_REPORT_ADDR>(), mqd.pq_rptr_report_addr());
        rig.write_pair(dword::<gc::CP_HQD_PQ_WPTR_POLL_ADDR>(), mqd.pq_wptr_poll_addr());
        rig.write(dword::<gc::CP_HQD_PQ_DOORBELL_CONTROL>(), mqd.cp_hqd_pq_doorbell_control);
        rig.write(dword::<gc::CP_HQD_VMID>(), 0);
        rig.write(dword::<gc::CP_HQD_ACTIVE>(), 1);
        self.select(0, 0, 0, 0);
    }

    fn start_mes(&mut self) {
        self.rig.put(self.mes.mqd_memory(), &self.mes.mqd());
        let mqd = kernel(self.mes.mqd_memory());
        let bell = self.mes.doorbell.dwords();
        self.kiq(&[
            3 << 30 | 5 << 16 | 0xa2 << 8,
            2 << 18 | 5 << 26 | 1 << 29,
            bell << 2,
            mqd as u32,
            (mqd >> 32) as u32,
            0,
            0,
        ]);
    }

    /// Puts dwords on the KIQ's ring and has them executed.
    pub fn kiq(&mut self, dwords: &[u32]) {
        self.kiq.submit(self.rig, dwords);
        self.rig.settle(0);
    }

    /// Whether the KIQ still takes packets: a register gets a value.
    pub fn kiq_works(&mut self) -> bool {
        self.fences += 1;
        let value = 0xcafe_0000 | self.fences as u32;
        self.kiq(&[3 << 30 | 3 << 16 | 0x37 << 8, 1 << 16, dword::<gc::SCRATCH_REG0>(), 0, value]);
        self.rig.read(dword::<gc::SCRATCH_REG0>()) == value
    }

    /// A fence that says nothing yet: where, and what a frame is given.
    pub fn fence(&mut self) -> (u64, ApiStatus) {
        self.fences += 1;
        let memory = FENCES + self.fences % 512 * 8;
        self.rig.put(memory, &0u64);
        let (address, value) = (kernel(memory).into(), self.fences.into());
        (memory, ApiStatus { api_completion_fence_addr: address, api_completion_fence_value: value })
    }

    /// Sends a frame as it is and has it executed.
    pub fn frame(&mut self, frame: &[u8; FRAME_SIZE]) {
        let dwords: Vec<u32> = frame.as_chunks().0.iter().map(|dword| u32::from_le_bytes(*dword)).collect();
        self.mes_dwords(&dwords);
    }

    /// Puts dwords on the scheduler's ring.
    pub fn mes_dwords(&mut self, dwords: &[u32]) {
        self.mes.submit(self.rig, dwords);
        self.rig.settle(0);
    }

    /// Sends a frame with a fence of its own; whether it was answered.
    pub fn mes<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> bool {
        let mut bytes = [0; FRAME_SIZE];
        bytes.copy_from_slice(frame.as_bytes());
        let (fence, status) = self.fence();
        let at = mes::api_status_offset(opcode).expect("an opcode with an answer");
        bytes[at..at + 16].copy_from_slice(status.as_bytes());
        self.frame(&bytes);
        self.rig.take::<u64>(fence) == status.api_completion_fence_value.get()
    }

    /// Whether the scheduler still answers.
    pub fn mes_works(&mut self) -> bool {
        let mut query = QueryStatus::new_zeroed();
        query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
        self.mes(&query, Opcode::QUERY_SCHEDULER_STATUS)
    }
}
