//! The kernel's side of the device: its address space (VMID 0), the interrupt ring, the KIQ and the MES.
//!
//! As Linux amdgpu brings a Navi 31 up (`gfxhub_v3_0.c`, `ih_v6_0.c`, `gfx_v11_0.c`, `mes_v11_0.c`), without the steps
//! that this device does not need.

use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::gpuvm::{PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE};
use belfry_abi::ih::{ENTRY_SIZE, IhEntry};
use belfry_abi::mes::{
    AddQueue, ApiStatus, FRAME_SIZE, Header, Opcode, RemoveQueue, SetHwResources, api_status_offset,
};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pci::doorbell;
use belfry_abi::regs::{Register, gc, nbio, osssys};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::gpu::Gpu;
use crate::memory::{PAGE, get, pages, peek, poke, put, word};
use crate::registers;

/// First address of the GART; its table is at the start of VRAM.
const GART: u64 = 0x7fff_0000_0000;
const GART_PAGES: u64 = 1024;
/// VRAM after the GART's table.
const FIRST_VRAM: u64 = 1 << 20;
/// Entries of the interrupt ring.
const IH_ENTRIES: u32 = 64;
const RING_SIZE: u64 = 4096;
/// VMIDs for processes: 8 to 15; two hardware queues of each pipe.
const VMIDS: u32 = 0xff00;
const QUEUES: u32 = 0xc;
/// Group memory at 1 << 48, private memory at 2 << 48.
const SH_MEM_BASES: u32 = 0x0001_0002;
const PM4_WRITE_DATA: u32 = 0x37;
const PM4_MAP_QUEUES: u32 = 0xa2;
const TESTED: u32 = 0xdead_beef;

fn pm4(opcode: u32, count: u32) -> u32 {
    3 << 30 | count << 16 | opcode << 8
}

/// A ring of the kernel's own.
#[derive(Clone, Copy)]
struct Ring {
    ring: u64,
    wptr_address: u64,
    written: u64,
    doorbell: DoorbellIndex,
    mqd: u64,
}

impl Ring {
    fn submit(&mut self, gpu: &Gpu, dwords: &[u32]) {
        for dword in dwords {
            word(self.ring + self.written * 4 % RING_SIZE).store(*dword, Ordering::Relaxed);
            self.written += 1;
        }
        poke(self.wptr_address, self.written);
        gpu.ring(self.doorbell, self.written);
    }
}

/// All of it, brought up.
pub struct Rings {
    gart_used: u64,
    vram_used: u64,
    kiq: Ring,
    mes: Ring,
    fence: (u64, u64),
    fences: u64,
    ih_ring: u64,
    ih_wptr: u64,
    ih_rptr: u32,
}

/// Addresses of memory, for the processor and for the device.
#[derive(Clone, Copy)]
pub struct Place {
    /// Physical.
    pub cpu: u64,
    /// In VMID 0.
    pub gpu: u64,
}

impl Rings {
    /// Brings the device up until its scheduler answers.
    pub fn bring_up(gpu: &Gpu) -> Self {
        let none = Ring { ring: 0, wptr_address: 0, written: 0, doorbell: DoorbellIndex::default(), mqd: 0 };
        let mut rings = Self {
            gart_used: 0,
            vram_used: FIRST_VRAM,
            kiq: none,
            mes: none,
            fence: (0, 0),
            fences: 0,
            ih_ring: 0,
            ih_wptr: 0,
            ih_rptr: 0,
        };
        gpu.write(nbio::RCC_DOORBELL_APER_EN::from_bits(1));
        rings.start_gart(gpu);
        rings.start_interrupts(gpu);
        rings.start_kiq(gpu);
        rings.start_mes(gpu);
        for vmid in 8..16 {
            gpu.select(0, 0, vmid);
            gpu.write(gc::SH_MEM_BASES::from_bits(SH_MEM_BASES));
        }
        gpu.select(0, 0, 0);
        rings
    }

    /// Pages of RAM that VMID 0 sees.
    pub fn share(&mut self, gpu: &Gpu, bytes: u64) -> Place {
        let cpu = pages(bytes);
        Place { cpu, gpu: self.map(gpu, cpu, bytes) }
    }

    /// Makes VMID 0 see pages of RAM.
    pub fn map(&mut self, gpu: &Gpu, memory: u64, bytes: u64) -> u64 {
        let first = self.gart_used;
        for page in 0..bytes.div_ceil(PAGE) {
            let flags = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE;
            assert!(self.gart_used < GART_PAGES, "out of GART");
            poke(gpu.vram + self.gart_used * 8, (memory + page * PAGE) | flags);
            self.gart_used += 1;
        }
        gpu.flush();
        GART + first * PAGE
    }

    /// A zeroed page of VRAM; gives its offset.
    pub fn vram_page(&mut self) -> u64 {
        self.vram_used += PAGE;
        self.vram_used - PAGE
    }

    fn start_gart(&mut self, gpu: &Gpu) {
        type Lo = gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32;
        type Hi = gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32;
        gpu.write_pair::<Lo, Hi>(PTE_VALID);
        type StartLo = gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32;
        type StartHi = gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32;
        gpu.write_pair::<StartLo, StartHi>(GART / PAGE);
        type EndLo = gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32;
        type EndHi = gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32;
        gpu.write_pair::<EndLo, EndHi>(GART / PAGE + GART_PAGES - 1);
        let mut control: gc::GCVM_CONTEXT0_CNTL = gpu.read();
        control.set_enable_context(true);
        control.set_page_table_depth(0);
        gpu.write(control);
    }

    fn start_interrupts(&mut self, gpu: &Gpu) {
        let ring = self.share(gpu, u64::from(IH_ENTRIES * ENTRY_SIZE));
        let wptr = self.share(gpu, PAGE);
        (self.ih_ring, self.ih_wptr) = (ring.cpu, wptr.cpu);
        gpu.write(osssys::IH_RB_BASE::from_bits((ring.gpu >> 8) as u32));
        gpu.write(osssys::IH_RB_BASE_HI::from_bits((ring.gpu >> 40) as u32));
        gpu.write_pair::<osssys::IH_RB_WPTR_ADDR_LO, osssys::IH_RB_WPTR_ADDR_HI>(wptr.gpu);
        let mut control = osssys::IH_RB_CNTL::from_bits(0);
        control.set_rb_size((IH_ENTRIES * ENTRY_SIZE / 4).ilog2());
        control.set_wptr_writeback_enable(true);
        control.set_enable_intr(true);
        control.set_rptr_rearm(true);
        control.set_rb_enable(true);
        gpu.write(control);
    }

    /// Takes one entry off the interrupt ring.
    pub fn interrupt(&mut self, gpu: &Gpu) -> Option<IhEntry> {
        let wptr = word(self.ih_wptr).load(Ordering::Acquire);
        if wptr == self.ih_rptr {
            return None;
        }
        let entry = get(self.ih_ring + u64::from(self.ih_rptr));
        self.ih_rptr = (self.ih_rptr + ENTRY_SIZE) % (IH_ENTRIES * ENTRY_SIZE);
        gpu.write(osssys::IH_RB_RPTR::from_bits(self.ih_rptr));
        Some(entry)
    }

    /// A ring and its queue descriptor, not yet running.
    fn ring(&mut self, gpu: &Gpu, doorbell: DoorbellIndex) -> (Ring, ComputeMqd) {
        let (ring, pointers, descriptor) =
            (self.share(gpu, RING_SIZE), self.share(gpu, PAGE), self.share(gpu, PAGE));
        let mut mqd = ComputeMqd::new();
        mqd.set_mqd_base(descriptor.gpu);
        mqd.set_pq_base(ring.gpu);
        mqd.set_pq_rptr_report_addr(pointers.gpu);
        mqd.set_pq_wptr_poll_addr(pointers.gpu + 8);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size((RING_SIZE as u32 / 4).ilog2() - 1);
        mqd.cp_hqd_pq_control = control.bits();
        let mut bell = gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(0);
        bell.set_doorbell_offset(doorbell.dwords());
        bell.set_doorbell_en(true);
        mqd.cp_hqd_pq_doorbell_control = bell.bits();
        put(descriptor.cpu, &mqd);
        let ring = Ring {
            ring: ring.cpu,
            wptr_address: pointers.cpu + 8,
            written: 0,
            doorbell,
            mqd: descriptor.gpu,
        };
        (ring, mqd)
    }

    /// The KIQ's registers are written by hand: micro engine 3, pipe 1.
    fn start_kiq(&mut self, gpu: &Gpu) {
        let (ring, mqd) = self.ring(gpu, doorbell::MES_RING1);
        self.kiq = ring;
        gpu.write(gc::RLC_CP_SCHEDULERS::from_bits(0x80 | 3 << 5 | 1 << 3));
        gpu.select(3, 1, 0);
        gpu.write_pair::<gc::CP_MQD_BASE_ADDR, gc::CP_MQD_BASE_ADDR_HI>(mqd.mqd_base());
        gpu.write(gc::CP_HQD_PQ_BASE::from_bits(mqd.cp_hqd_pq_base_lo));
        gpu.write(gc::CP_HQD_PQ_BASE_HI::from_bits(mqd.cp_hqd_pq_base_hi));
        gpu.write(gc::CP_HQD_PQ_CONTROL::from_bits(mqd.cp_hqd_pq_control));
        type RptrLo = gc::CP_HQD_PQ_RPTR_REPORT_ADDR;
        type RptrHi = gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI;
        gpu.write_pair::<RptrLo, RptrHi>(mqd.pq_rptr_report_addr());
        type WptrLo = gc::CP_HQD_PQ_WPTR_POLL_ADDR;
        type WptrHi = gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI;
        gpu.write_pair::<WptrLo, WptrHi>(mqd.pq_wptr_poll_addr());
        gpu.write(gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(mqd.cp_hqd_pq_doorbell_control));
        gpu.write(gc::CP_HQD_VMID::from_bits(0));
        gpu.write(gc::CP_HQD_ACTIVE::from_bits(1));
        gpu.select(0, 0, 0);
        self.test_kiq(gpu);
    }

    /// Has the KIQ write a scratch register, and waits for it.
    fn test_kiq(&mut self, gpu: &Gpu) {
        gpu.write(gc::SCRATCH_REG0::from_bits(0));
        self.kiq.submit(
            gpu,
            &[pm4(PM4_WRITE_DATA, 3), 1 << 16, registers::dword::<gc::SCRATCH_REG0>(), 0, TESTED],
        );
        while gpu.read::<gc::SCRATCH_REG0>().bits() != TESTED {}
    }

    /// The KIQ maps the scheduler's ring: one queue, engine 5, micro engine field 2.
    fn start_mes(&mut self, gpu: &Gpu) {
        let fence = self.share(gpu, PAGE);
        self.fence = (fence.cpu, fence.gpu);
        let (ring, _) = self.ring(gpu, doorbell::MES_RING0);
        self.mes = ring;
        let (lo, hi) = (ring.mqd as u32, (ring.mqd >> 32) as u32);
        let queue = 1 << 29 | 5 << 26 | 2 << 18;
        self.kiq.submit(gpu, &[pm4(PM4_MAP_QUEUES, 5), queue, ring.doorbell.dwords() << 2, lo, hi, 0, 0]);
        self.test_kiq(gpu);
        let mut frame = SetHwResources::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_gfxhub = VMIDS;
        frame.compute_hqd_mask[..4].fill(QUEUES);
        self.schedule(gpu, &frame, Opcode::SET_HW_RSRC);
    }

    /// Sends the scheduler a frame and waits for its fence.
    fn schedule<T: IntoBytes + Immutable>(&mut self, gpu: &Gpu, frame: &T, opcode: Opcode) {
        let mut dwords = [0u32; FRAME_SIZE / 4];
        let bytes = frame.as_bytes();
        dwords.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        self.fences += 1;
        let status = ApiStatus {
            api_completion_fence_addr: self.fence.1.into(),
            api_completion_fence_value: self.fences.into(),
        };
        let at = api_status_offset(opcode).expect("a frame with a status");
        dwords.as_mut_bytes()[at..at + size_of::<ApiStatus>()].copy_from_slice(status.as_bytes());
        self.mes.submit(gpu, &dwords);
        while peek(self.fence.0) != self.fences {}
    }

    /// Makes a queue known to the scheduler, which maps it.
    pub fn add_queue(&mut self, gpu: &Gpu, frame: &AddQueue) {
        self.schedule(gpu, frame, Opcode::ADD_QUEUE);
    }

    /// Takes a queue off the hardware.
    pub fn remove_queue(&mut self, gpu: &Gpu, doorbell: DoorbellIndex, gang: u64) {
        let mut frame = RemoveQueue::new_zeroed();
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        frame.doorbell_offset = doorbell;
        frame.gang_context_addr = gang.into();
        self.schedule(gpu, &frame, Opcode::REMOVE_QUEUE);
    }
}
