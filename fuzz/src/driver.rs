//! A driver in miniature for the rig: brings the device up as amdgpu does, and maps user queues.
//!
//! The GART maps all of guest memory's first range. The tables of one process map all of it but the part that the
//! kernel keeps to itself, twice: as it is, and for reading alone. Addresses after it are not mapped in either. Chips
//! with run lists have more memory of the kernel's: it is in the last range, and in the GART far after the first range.

mod lists;
mod programs;
mod queues;
mod ring;
mod tables;

use std::collections::BTreeSet;

use belfry_abi::mes::{
    self, AddQueue, AddQueueFlags, ApiStatus, FRAME_SIZE, Header, Opcode, QueryStatus, QueueType,
    SetHwResources, v12,
};
use belfry_abi::pci::{doorbell, doorbell_layout1};
use belfry_abi::regs::{Register as _, gc, nbio, osssys};
use belfry_device::chip::MesFrames;
use zerocopy::{FromZeros as _, Immutable, IntoBytes};

use crate::device::COMMAND;
use crate::rig::{RAM, Rig};
pub use lists::packet;
pub use ring::KernelRing;

/// The first range of guest memory.
pub const BASE: u64 = RAM[0].0;
/// Its bytes.
pub const SIZE: u64 = RAM[0].1 as u64;
/// Address that the kernel has for it.
pub const GART: u64 = 0x7fff_0000_0000;
/// Address that the process has for it.
pub const USER: u64 = 0x7f00_0000_0000;
/// Address that the process has for it, for reading alone.
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
/// Address to which its write pointer is reported.
pub const IH_WPTR: u64 = BASE + 0x8000;
/// Fences of frames.
pub const FENCES: u64 = BASE + 0x9000;
const MQD: u64 = BASE + 0xa000;
/// First address that the process can reach; all before it is the kernel's.
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
/// Guest memory of the kernel's on chips with run lists, and where the kernel has it.
pub const MORE: u64 = RAM[2].0;
const MORE_GART: u64 = GART + 0x20_0000;
/// Of that: rings of the KIQs of all XCCs but the first.
const KIQS: u64 = MORE;
/// Bytes of each.
const KIQ_AREA: u64 = 0x3000;
/// The MQDs of the HIQ.
const HIQ_MQDS: u64 = MORE + 0x1_8000;
/// MQDs of the process's queues, each with one for every XCC.
const LISTED_MQDS: u64 = MORE + 0x2_0000;
/// Run lists.
pub const LISTS: u64 = MORE + 0x6_0000;
/// Offset in VRAM of page tables: directories of three levels, and a table.
const TABLES: u64 = 1 << 20;
const PASID: u32 = 0x8001;
/// VMIDs that processes get by frames.
const QUEUES_VMIDS: std::ops::Range<u32> = 8..16;
/// Key of the process.
pub const CONTEXT: u64 = 0x1234_5000;

/// Address the kernel has for guest memory.
#[must_use]
pub fn kernel(memory: u64) -> u64 {
    if memory >= MORE { MORE_GART + (memory - MORE) } else { GART + (memory - BASE) }
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
    /// The KIQs of all XCCs but the first.
    others: Vec<KernelRing>,
    /// The scheduler's ring: of frames, or of packets on chips with run lists.
    pub mes: KernelRing,
    /// Queues that the last list had.
    listed: BTreeSet<usize>,
    fences: u64,
    written: [u64; QUEUES],
}

impl<'a> Driver<'a> {
    /// Brings a device up that was reset: everything up to `SET_HW_RSRC`, or `SET_RESOURCES`.
    #[must_use]
    pub fn new(rig: &'a Rig) -> Self {
        let lists = rig.choice.has_run_lists();
        let (kiq, mes) = if lists {
            (doorbell_layout1::kiq(0), doorbell_layout1::HIQ)
        } else {
            (doorbell::MES_RING1, doorbell::MES_RING0)
        };
        let (kiq, mes) = (KernelRing::new(KIQ, 1024, kiq), KernelRing::new(MES, 2048, mes));
        let others = (1..rig.choice.shape.xccs)
            .map(|xcc| {
                let area = KIQS + u64::from(xcc - 1) * KIQ_AREA;
                KernelRing::new(area, 1024, doorbell_layout1::kiq(xcc))
            })
            .collect();
        let listed = BTreeSet::new();
        let mut driver = Self { rig, kiq, others, mes, listed, fences: 0, written: [0; QUEUES] };
        // The device takes a ring's first write pointer from memory, where an earlier driver may have left one.
        for ring in [&driver.kiq, &driver.mes].into_iter().chain(&driver.others) {
            rig.put(ring.page, &[0u8; 4096]);
        }
        driver.enable();
        driver.map_memory();
        driver.start_interrupts();
        driver.start_kiqs();
        if lists {
            driver.start_hiq();
        } else {
            driver.start_mes();
        }
        driver.set_resources();
        driver
    }

    /// Gives the scheduler the resources that amdgpu gives it.
    pub fn set_resources(&mut self) {
        if self.rig.choice.has_run_lists() {
            assert!(self.give_resources(), "SET_RESOURCES of a good driver");
            return;
        }
        let mut frame = SetHwResources::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_gfxhub = 0xff00;
        frame.compute_hqd_mask[..4].fill(0xc);
        assert!(self.mes(&frame, Opcode::SET_HW_RSRC), "SET_HW_RSRC of a good driver");
    }

    /// Memory space, bus mastering and doorbells on.
    pub fn enable(&self) {
        self.rig.gpu.config_write(COMMAND, &[6, 0]);
        self.rig.write(self.rig.dword::<nbio::RCC_DOORBELL_APER_EN>(), 1);
    }

    /// Selects whose registers the banked ones of the first XCC are.
    pub fn select(&self, me: u32, pipe: u32, queue: u32, vmid: u32) {
        self.select_of(0, [me, pipe, queue], vmid);
    }

    fn select_of(&self, xcc: u8, [me, pipe, queue]: [u32; 3], vmid: u32) {
        let mut select = gc::GRBM_GFX_CNTL::from_bits(0);
        select.set_meid(me);
        select.set_pipeid(pipe);
        select.set_queueid(queue);
        select.set_vmid(vmid);
        self.rig.set_of(xcc, select);
    }

    fn start_interrupts(&self) {
        let rig = self.rig;
        rig.write(rig.dword::<osssys::IH_RB_BASE>(), (kernel(IH_RING) >> 8) as u32);
        rig.write(rig.dword::<osssys::IH_RB_BASE_HI>(), (kernel(IH_RING) >> 40) as u32);
        rig.write(rig.dword::<osssys::IH_RB_WPTR_ADDR_LO>(), kernel(IH_WPTR) as u32);
        rig.write(rig.dword::<osssys::IH_RB_WPTR_ADDR_HI>(), (kernel(IH_WPTR) >> 32) as u32);
        let mut bell = osssys::IH_DOORBELL_RPTR::from_bits(0);
        let lists = rig.choice.has_run_lists();
        bell.set_offset(if lists { doorbell_layout1::IH } else { doorbell::IH }.dwords());
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

    fn start_kiqs(&self) {
        self.start_kiq(0, &self.kiq);
        (1..).zip(&self.others).for_each(|(xcc, ring)| self.start_kiq(xcc, ring));
    }

    fn start_kiq(&self, xcc: u8, ring: &KernelRing) {
        let (rig, mqd) = (self.rig, ring.mqd());
        rig.put(ring.mqd_memory(), &mqd);
        let place = if self.rig.choice.has_run_lists() { lists::KIQ_PLACE } else { [3, 1, 0] };
        if self.rig.choice.has_run_lists() {
            let [me, pipe, queue] = place;
            rig.set_of(xcc, gc::RLC_CP_SCHEDULERS::from_bits(0x80 | me << 5 | pipe << 3 | queue));
        }
        self.select_of(xcc, place, 0);
        rig.write_pair(rig.dword_of::<gc::CP_MQD_BASE_ADDR>(xcc), mqd.mqd_base());
        rig.write(rig.dword_of::<gc::CP_HQD_PQ_BASE>(xcc), mqd.cp_hqd_pq_base_lo);
        rig.write(rig.dword_of::<gc::CP_HQD_PQ_BASE_HI>(xcc), mqd.cp_hqd_pq_base_hi);
        rig.write(rig.dword_of::<gc::CP_HQD_PQ_CONTROL>(xcc), mqd.cp_hqd_pq_control);
        rig.write_pair(rig.dword_of::<gc::CP_HQD_PQ_RPTR_REPORT_ADDR>(xcc), mqd.pq_rptr_report_addr());
        rig.write_pair(rig.dword_of::<gc::CP_HQD_PQ_WPTR_POLL_ADDR>(xcc), mqd.pq_wptr_poll_addr());
        rig.write(rig.dword_of::<gc::CP_HQD_PQ_DOORBELL_CONTROL>(xcc), mqd.cp_hqd_pq_doorbell_control);
        rig.write(rig.dword_of::<gc::CP_HQD_VMID>(xcc), 0);
        rig.write(rig.dword_of::<gc::CP_HQD_ACTIVE>(xcc), 1);
        self.select_of(xcc, [0; 3], 0);
    }

    /// Has the scheduler's ring mapped: by a packet of the KIQ, or by the firmware of the second pipe.
    fn start_mes(&mut self) {
        self.rig.put(self.mes.mqd_memory(), &self.mes.mqd());
        let mqd = kernel(self.mes.mqd_memory());
        if !self.rig.choice.has_kiq() {
            let mut frame = AddQueue::new_zeroed();
            frame.header = Header::new(Opcode::ADD_QUEUE);
            frame.doorbell_offset = self.mes.doorbell;
            frame.mqd_addr = mqd.into();
            frame.queue_type = QueueType::SCHQ.0;
            frame.flags = AddQueueFlags::MAP_LEGACY_KQ;
            assert!(self.frame_of_second_pipe(&frame, Opcode::ADD_QUEUE), "the scheduler's ring is mapped");
            return;
        }
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

    /// Sends a frame on the ring that is the KIQ's on other chips. Returns true if it was answered.
    fn frame_of_second_pipe<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> bool {
        let (fence, bytes) = self.fenced(frame, opcode);
        let dwords = self.encoded(&bytes);
        self.kiq(&dwords);
        self.rig.take::<u64>(fence) == self.fences
    }

    /// Puts dwords on the KIQ's ring and has them executed.
    pub fn kiq(&mut self, dwords: &[u32]) {
        self.kiq.submit(self.rig, dwords);
        self.rig.settle(0);
    }

    /// Returns true if the KIQ still takes packets: a register gets a value.
    pub fn kiq_works(&mut self) -> bool {
        if !self.rig.choice.has_kiq() {
            let mut query = QueryStatus::new_zeroed();
            query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
            return self.frame_of_second_pipe(&query, Opcode::QUERY_SCHEDULER_STATUS);
        }
        self.fences += 1;
        let value = 0xcafe_0000 | self.fences as u32;
        self.kiq(&[3 << 30 | 3 << 16 | 0x37 << 8, 1 << 16, self.rig.dword::<gc::SCRATCH_REG0>(), 0, value]);
        self.rig.read(self.rig.dword::<gc::SCRATCH_REG0>()) == value
    }

    /// A fence that is not written yet: its address in guest memory, and the status that a frame is given.
    pub fn fence(&mut self) -> (u64, ApiStatus) {
        self.fences += 1;
        let memory = FENCES + self.fences % 512 * 8;
        self.rig.put(memory, &0u64);
        let (address, value) = (kernel(memory).into(), self.fences.into());
        (memory, ApiStatus { api_completion_fence_addr: address, api_completion_fence_value: value })
    }

    /// Sends a frame, given as version 11 has it, and has it executed.
    pub fn frame(&mut self, frame: &[u8; FRAME_SIZE]) {
        let dwords = self.encoded(frame);
        self.mes_dwords(&dwords);
    }

    /// A frame as the chip's scheduler has it.
    fn encoded(&self, frame: &[u8; FRAME_SIZE]) -> Vec<u32> {
        let frame = match self.rig.choice.model.generation.firmware.mes() {
            Some(firmware) if firmware.frames == MesFrames::V12 => v12::from_v11(frame),
            _ => *frame,
        };
        frame.as_chunks().0.iter().map(|dword| u32::from_le_bytes(*dword)).collect()
    }

    /// Puts dwords on the scheduler's ring.
    pub fn mes_dwords(&mut self, dwords: &[u32]) {
        self.mes.submit(self.rig, dwords);
        self.rig.settle(0);
    }

    /// A frame with a fence of its own, and where that is.
    fn fenced<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> (u64, [u8; FRAME_SIZE]) {
        let mut bytes = [0; FRAME_SIZE];
        bytes.copy_from_slice(frame.as_bytes());
        let (fence, status) = self.fence();
        let at = mes::api_status_offset(opcode).expect("an opcode with an answer");
        bytes[at..at + 16].copy_from_slice(status.as_bytes());
        (fence, bytes)
    }

    /// Sends a frame with a fence of its own. Returns true if it was answered.
    pub fn mes<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> bool {
        let (fence, bytes) = self.fenced(frame, opcode);
        self.frame(&bytes);
        self.rig.take::<u64>(fence) == self.fences
    }

    /// Returns true if the scheduler still answers.
    pub fn mes_works(&mut self) -> bool {
        if self.rig.choice.has_run_lists() {
            return self.hiq_works();
        }
        let mut query = QueryStatus::new_zeroed();
        query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
        self.mes(&query, Opcode::QUERY_SCHEDULER_STATUS)
    }
}
