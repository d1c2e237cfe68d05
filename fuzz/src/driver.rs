//! A driver in miniature for the rig: brings the device up as amdgpu does, and maps user queues.
//!
//! All of guest memory's first range is mapped by the GART, and all but what the kernel keeps to itself by the tables of
//! one process, twice: as it is, and for reading alone. What lies behind it in either is not mapped.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use belfry_abi::aql::{AmdQueue, BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType};
use belfry_abi::gpuvm::{PTE_EXECUTABLE, PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE};
use belfry_abi::mes::{
    self, AddQueue, AddQueueFlags, ApiStatus, FRAME_SIZE, Header, Opcode, QueryStatus, QueueType,
    RemoveQueue, SetHwResources,
};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pci::{DOORBELL_BAR_SIZE, doorbell};
use belfry_abi::regs::{Register as _, gc, nbio, osssys};
use belfry_device::chip::gfx1100::dword;
use belfry_runtime::code_object::CodeObject;
use zerocopy::{FromZeros as _, Immutable, IntoBytes};

use crate::device::COMMAND;
use crate::rig::{RAM, Rig};

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
const QUEUE_AREA: u64 = 0x2000;

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

/// Turns at waves of a well-behaved kernel.
const TURNS: usize = 4096;

static VECADD: LazyLock<(Vec<u8>, u64)> = LazyLock::new(|| {
    let file = include_bytes!("../../guest-runtime/kernels/vecadd.gfx1100.hsaco");
    let object = CodeObject::parse(file).expect("a bundled kernel");
    let image = object.relocated(user(CODE)).expect("a bundled kernel");
    (image, object.kernel("vecadd").expect("it has it").descriptor)
});

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

/// A ring of the kernel's.
#[derive(Debug)]
pub struct KernelRing {
    memory: u64,
    dwords: u64,
    page: u64,
    /// Dwords written so far.
    pub wptr: u64,
    /// Byte offset of the doorbell.
    pub doorbell: u64,
}

impl KernelRing {
    fn new(area: u64, dwords: u64, doorbell: u32) -> Self {
        let doorbell = u64::from(doorbell) * 8;
        Self { memory: area, dwords, page: area + dwords * 4, wptr: 0, doorbell }
    }

    fn mqd_memory(&self) -> u64 {
        self.page + 0x1000
    }

    fn mqd(&self) -> ComputeMqd {
        let mut mqd = ComputeMqd::new();
        mqd.set_mqd_base(kernel(self.mqd_memory()));
        mqd.set_pq_base(kernel(self.memory));
        mqd.set_pq_rptr_report_addr(kernel(self.page));
        mqd.set_pq_wptr_poll_addr(kernel(self.page + 8));
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(self.dwords.ilog2() - 1);
        mqd.cp_hqd_pq_control = control.bits();
        let mut bell = gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(0);
        bell.set_doorbell_offset((self.doorbell / 4) as u32);
        bell.set_doorbell_en(true);
        mqd.cp_hqd_pq_doorbell_control = bell.bits();
        mqd
    }

    /// Dwords the device has taken, modulo the ring.
    #[must_use]
    pub fn read(&self, rig: &Rig) -> u64 {
        rig.take::<u32>(self.page).into()
    }

    fn submit(&mut self, rig: &Rig, dwords: &[u32]) {
        for dword in dwords {
            rig.put(self.memory + self.wptr % self.dwords * 4, dword);
            self.wptr += 1;
        }
        rig.put(self.page + 8, &self.wptr);
        rig.ring(self.doorbell, self.wptr);
    }
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
        bell.set_offset(doorbell::IH * 2);
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
        let bell = (self.mes.doorbell / 4) as u32;
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

    /// Where a queue's ring, `amd_queue_t` and MQD are.
    #[must_use]
    pub fn queue(nth: usize) -> [u64; 3] {
        let area = QUEUE + nth as u64 * QUEUE_AREA;
        [area, area + 0x1000, MQD + nth as u64 * 0x1000]
    }

    /// A queue's doorbell, a dword index.
    #[must_use]
    pub fn doorbell(nth: usize) -> u32 {
        0x800 + nth as u32 * 2
    }

    /// A queue's MQD as KFD makes it.
    #[must_use]
    pub fn mqd(nth: usize) -> ComputeMqd {
        let [ring, queue, _] = Self::queue(nth);
        let mut mqd = ComputeMqd::new();
        mqd.set_pq_base(user(ring));
        mqd.set_pq_rptr_report_addr(user(queue) + 0x80);
        mqd.set_pq_wptr_poll_addr(user(queue) + 0x38);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size((PACKETS as u32 * 16).ilog2() - 1);
        control.set_slot_based_wptr(2);
        mqd.cp_hqd_pq_control = control.bits();
        mqd.cp_hqd_aql_control = 1;
        mqd.cp_hqd_ctx_save_base_addr_hi = 0x7e00;
        mqd.cp_hqd_ctx_save_size = 0x1_0000;
        mqd.cp_hqd_pq_doorbell_control = Self::doorbell(nth) << 2;
        mqd
    }

    /// Puts a queue's ring, `amd_queue_t` and MQD into memory, empty.
    pub fn prepare_queue(&mut self, nth: usize) {
        let [ring, queue, mqd] = Self::queue(nth);
        for packet in 0..PACKETS {
            self.rig.put(ring + packet * 64, &1u16);
        }
        let mut amd = AmdQueue::new_zeroed();
        amd.base_address = user(ring);
        amd.size = PACKETS as u32;
        amd.read_dispatch_id_field_base_byte_offset = 0x80;
        self.rig.put(queue, &amd);
        self.rig.put(mqd, &Self::mqd(nth));
        self.written[nth] = 0;
    }

    /// The frame that adds a queue.
    #[must_use]
    pub fn add_frame(nth: usize) -> AddQueue {
        let [_, queue, mqd] = Self::queue(nth);
        let mut frame = AddQueue::new_zeroed();
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.process_id = PASID;
        frame.page_table_base_addr = (TABLES | PTE_VALID).into();
        frame.process_va_end = ((1u64 << 36) - 1).into();
        frame.process_context_addr = CONTEXT.into();
        frame.gang_context_addr = (CONTEXT + 0x1000 + nth as u64).into();
        frame.doorbell_offset = Self::doorbell(nth);
        frame.mqd_addr = kernel(mqd).into();
        frame.wptr_addr = (kernel(queue) + 0x38).into();
        frame.queue_type = QueueType::COMPUTE.0;
        frame.gds_size = PACKETS as u32 * 16;
        let mut cntl = gc::GCVM_CONTEXT0_CNTL::from_bits(0);
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(3);
        frame.vm_context_cntl = cntl.bits();
        frame.flags = AddQueueFlags::IS_KFD_PROCESS | AddQueueFlags::IS_AQL_QUEUE;
        frame
    }

    /// The frame that removes a queue.
    #[must_use]
    pub fn remove_frame(nth: usize) -> RemoveQueue {
        let mut frame = RemoveQueue::new_zeroed();
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        frame.doorbell_offset = Self::doorbell(nth);
        frame.gang_context_addr = (CONTEXT + 0x1000 + nth as u64).into();
        frame
    }

    /// Prepares a queue and adds it; whether that was answered.
    pub fn add_queue(&mut self, nth: usize) -> bool {
        self.prepare_queue(nth);
        self.mes(&Self::add_frame(nth), Opcode::ADD_QUEUE)
    }

    /// Removes a queue; whether that was answered.
    pub fn remove_queue(&mut self, nth: usize) -> bool {
        self.mes(&Self::remove_frame(nth), Opcode::REMOVE_QUEUE)
    }

    /// Doorbells that queues listen to, in bytes, other than the kernel's own.
    #[must_use]
    pub fn listening(&self) -> BTreeSet<u64> {
        let pages = (0..DOORBELL_BAR_SIZE).step_by(4096);
        let all = pages.flat_map(|page| self.rig.gpu.doorbells(page)).map(|(offset, _)| offset);
        all.filter(|offset| ![self.kiq.doorbell, self.mes.doorbell].contains(offset)).collect()
    }

    /// Removes the queue that listens to a doorbell, in bytes; whether that was answered.
    pub fn remove_doorbell(&mut self, offset: u64) -> bool {
        let mut frame = Self::remove_frame(0);
        frame.doorbell_offset = (offset / 4) as u32;
        self.mes(&frame, Opcode::REMOVE_QUEUE)
    }

    /// Publishes a packet and rings.
    pub fn packet(&mut self, nth: usize, packet: &[u8; 64]) {
        let [ring, queue, _] = Self::queue(nth);
        self.rig.put(ring + self.written[nth] % PACKETS * 64, packet);
        self.written[nth] += 1;
        self.rig.put(queue + 0x38, &self.written[nth]);
        self.rig.ring(u64::from(Self::doorbell(nth)) * 4, self.written[nth] - 1);
    }

    /// Packets published to a queue, and how many the device says it is done with.
    #[must_use]
    pub fn indices(&self, nth: usize) -> (u64, u64) {
        let [_, queue, _] = Self::queue(nth);
        (self.written[nth], self.rig.take(queue + 0x80))
    }

    /// Sets a signal up that nobody sleeps on; its address for the process.
    pub fn signal(&self, nth: usize, value: i64) -> u64 {
        let at = SIGNALS + nth as u64 % 64 * 64;
        self.rig.put(at, &[1i64, value, 0, 0, 0, 0, 0, 0]);
        user(at)
    }

    /// A signal's value.
    #[must_use]
    pub fn signal_value(&self, nth: usize) -> i64 {
        self.rig.take(SIGNALS + nth as u64 % 64 * 64 + 8)
    }

    /// Puts the kernel that adds vectors into code memory: its descriptor's address.
    pub fn load_vecadd(&self) -> u64 {
        let (image, descriptor) = &*VECADD;
        self.rig.put(CODE, &image[..]);
        user(CODE) + descriptor
    }

    /// A dispatch of that kernel for so many elements, with its arguments and data in place.
    #[must_use]
    pub fn vecadd(&self, count: u32, signal: u64) -> KernelDispatchPacket {
        let kernel_object = self.load_vecadd();
        for nth in 0..count {
            let at = DATA + u64::from(nth) * 4;
            self.rig.put(at, &[nth as f32 * 0.5]);
            self.rig.put(at + 0x1000, &[nth as f32 * 2.0]);
            self.rig.put(at + 0x2000, &0u32);
        }
        let arguments = [user(DATA), user(DATA) + 0x1000, user(DATA) + 0x2000, count.into()];
        self.rig.put(KERNARG, &arguments);
        let groups = count.div_ceil(32);
        let mut hidden = [0u8; 96];
        hidden[..12].copy_from_slice([groups, 1, 1].as_bytes());
        hidden[12..24].copy_from_slice([32u16, 1, 1, 0, 0, 0].as_bytes());
        hidden[64] = 1;
        self.rig.put(KERNARG + 32, &hidden);
        let mut packet = KernelDispatchPacket::new_zeroed();
        packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, true, 2, 2).bits();
        packet.setup = 1;
        (packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z) = (32, 1, 1);
        (packet.grid_size_x, packet.grid_size_y, packet.grid_size_z) = (groups * 32, 1, 1);
        packet.kernel_object = kernel_object;
        packet.kernarg_address = user(KERNARG);
        packet.completion_signal = signal;
        packet
    }

    /// Runs that kernel on a queue and checks the sums.
    pub fn verify(&mut self, nth: usize) {
        const COUNT: u32 = 50;
        let signal = self.signal(63, 1);
        let packet = self.vecadd(COUNT, signal);
        self.packet(nth, packet.as_bytes().first_chunk().expect("64 bytes"));
        assert!(self.rig.settle(TURNS), "a kernel that adds vectors ends");
        let errors = || self.rig.gpu.stats().errors;
        assert_eq!(self.signal_value(63), 0, "the signal of a good dispatch; errors so far: {:?}", errors());
        for nth in 0..COUNT {
            let sum: [f32; 1] = self.rig.take(DATA + 0x2000 + u64::from(nth) * 4);
            assert!((sum[0] - nth as f32 * 2.5).abs() < f32::EPSILON, "element {nth} is {}", sum[0]);
        }
    }

    /// Resets the device and uses it as a driver that knows nothing of what was before.
    pub fn verify_anew(rig: &'a Rig) {
        rig.reset();
        let mut driver = Self::new(rig);
        assert!(driver.add_queue(0), "ADD_QUEUE after a reset");
        driver.verify(0);
        assert!(driver.remove_queue(0), "REMOVE_QUEUE after a reset");
    }

    /// A barrier that waits for nothing.
    #[must_use]
    pub fn barrier(signal: u64) -> [u8; 64] {
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketHeader::new(PacketType::BARRIER_AND, false, 0, 0).bits();
        packet.completion_signal = signal;
        *packet.as_bytes().first_chunk().expect("64 bytes")
    }
}
