//! The rings of the KIQ and the MES, and the frames of the MES.

use std::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{
    self, ApiStatus, Header, Misc, MiscOpcode, Opcode, QueryStatus, RemoveQueue, SetHwResources,
};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pci::doorbell;
use belfry_abi::regs::{Register, gc};
use belfry_device::chip::gfx1100::dword;
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::Driver;

/// A ring in guest memory, seen through the GART.
#[derive(Clone, Copy, Default)]
pub struct KernelRing {
    memory: u64,
    dwords: u64,
    wptr: u64,
    rptr_memory: u64,
    wptr_memory: u64,
    pub doorbell: DoorbellIndex,
    pub mqd: u64,
}

impl Driver {
    pub fn kernel_ring(&mut self, bytes: u64, doorbell: DoorbellIndex) -> (KernelRing, ComputeMqd) {
        let (memory, address) = self.gart_alloc(bytes);
        let (page, page_address) = self.gart_alloc(4096);
        let (mqd_memory, mqd_address) = self.gart_alloc(4096);
        let mut mqd = ComputeMqd::new();
        mqd.set_mqd_base(mqd_address);
        mqd.set_pq_base(address);
        mqd.set_pq_rptr_report_addr(page_address);
        mqd.set_pq_wptr_poll_addr(page_address + 8);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size((bytes / 4).ilog2() - 1);
        mqd.cp_hqd_pq_control = control.bits();
        let mut bell = gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(0);
        bell.set_doorbell_offset(doorbell.dwords());
        bell.set_doorbell_en(true);
        mqd.cp_hqd_pq_doorbell_control = bell.bits();
        self.put_ram(mqd_memory, &mqd);
        let ring = KernelRing {
            memory,
            dwords: bytes / 4,
            wptr: 0,
            rptr_memory: page,
            wptr_memory: page + 8,
            doorbell,
            mqd: mqd_address,
        };
        (ring, mqd)
    }

    pub fn submit(&self, ring: &mut KernelRing, dwords: &[u32]) {
        for &dword in dwords {
            let at = ring.memory + (ring.wptr % ring.dwords) * 4;
            self.ram.store(dword, GuestAddress(at), Ordering::Relaxed).unwrap();
            ring.wptr += 1;
        }
        self.set_ram_u64(ring.wptr_memory, ring.wptr);
        self.ring(ring.doorbell.offset().bytes(), ring.wptr);
    }

    pub fn start_kiq(&mut self) {
        let (ring, mqd) = self.kernel_ring(4096, doorbell::MES_RING1);
        self.kiq = ring;
        self.write(dword::<gc::RLC_CP_SCHEDULERS>(), 3 << 5 | 1 << 3 | 0x80);
        self.select(3, 1, 0, 0);
        self.pair(dword::<gc::CP_MQD_BASE_ADDR>(), mqd.mqd_base());
        self.write(dword::<gc::CP_HQD_PQ_BASE>(), mqd.cp_hqd_pq_base_lo);
        self.write(dword::<gc::CP_HQD_PQ_BASE_HI>(), mqd.cp_hqd_pq_base_hi);
        self.write(dword::<gc::CP_HQD_PQ_CONTROL>(), mqd.cp_hqd_pq_control);
        self.pair(dword::<gc::CP_HQD_PQ_RPTR_REPORT_ADDR>(), mqd.pq_rptr_report_addr());
        self.pair(dword::<gc::CP_HQD_PQ_WPTR_POLL_ADDR>(), mqd.pq_wptr_poll_addr());
        self.write(dword::<gc::CP_HQD_PQ_DOORBELL_CONTROL>(), mqd.cp_hqd_pq_doorbell_control);
        self.write(dword::<gc::CP_HQD_PQ_RPTR>(), 0);
        self.pair(dword::<gc::CP_HQD_PQ_WPTR_LO>(), 0);
        self.write(dword::<gc::CP_HQD_VMID>(), 0);
        self.write(dword::<gc::CP_HQD_ACTIVE>(), 1);
        self.select(0, 0, 0, 0);
    }

    pub fn kiq(&mut self, dwords: &[u32]) {
        let mut ring = self.kiq;
        self.submit(&mut ring, dwords);
        self.kiq = ring;
    }

    /// Read pointer that the KIQ has reported, and the write pointer.
    pub fn kiq_pointers(&self) -> (u64, u64) {
        (u64::from(self.ram_u32(self.kiq.rptr_memory)), self.kiq.wptr % self.kiq.dwords)
    }

    pub fn start_mes(&mut self) {
        let (ring, _) = self.kernel_ring(8192, doorbell::MES_RING0);
        self.mes = ring;
        let (fence, _) = (self.alloc_ram(4096), ());
        self.fence = fence;
        let packet = [
            3 << 30 | 5 << 16 | 0xa2 << 8,
            2 << 18 | 5 << 26 | 1 << 29,
            ring.doorbell.dwords() << 2,
            ring.mqd as u32,
            (ring.mqd >> 32) as u32,
            0,
            0,
        ];
        self.kiq(&packet);
        self.kiq_test();
    }

    /// amdgpu's ring test: a register gets a value.
    pub fn kiq_test(&mut self) {
        self.write(dword::<gc::SCRATCH_REG0>(), 0xcafe_dead);
        self.kiq(&[3 << 30 | 3 << 16 | 0x37 << 8, 1 << 16, dword::<gc::SCRATCH_REG0>(), 0, 0xdead_beef]);
        self.wait("the KIQ ring test", || self.read(dword::<gc::SCRATCH_REG0>()) == 0xdead_beef);
    }

    /// Puts a frame on the MES ring without changes.
    pub fn mes_raw(&mut self, frame: &[u32]) {
        let mut ring = self.mes;
        self.submit(&mut ring, frame);
        self.mes = ring;
    }

    /// Writes a dword of the last frame that was put on the MES ring.
    pub fn change_last_frame(&self, dword: u64, value: u32) {
        let first = self.mes.wptr - mes::FRAME_SIZE as u64 / 4;
        let at = self.mes.memory + (first + dword) % self.mes.dwords * 4;
        self.ram.store(value, GuestAddress(at), Ordering::Relaxed).unwrap();
    }

    /// A fence for one frame: its memory, and the status fields with its address in VMID 0.
    pub fn new_fence(&mut self) -> (u64, ApiStatus) {
        let (memory, address) = self.gart_alloc(8);
        let value = self.fences.fetch_add(1, Ordering::Relaxed);
        let status =
            ApiStatus { api_completion_fence_addr: address.into(), api_completion_fence_value: value.into() };
        (memory, status)
    }

    /// Sends a frame; returns true if it was answered before a later query was.
    pub fn mes<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> bool {
        let (fence, status) = self.new_fence();
        let mut bytes = [0u8; mes::FRAME_SIZE];
        bytes.copy_from_slice(frame.as_bytes());
        let at = mes::api_status_offset(opcode).unwrap();
        bytes[at..at + 16].copy_from_slice(status.as_bytes());
        self.mes_bytes(&bytes);
        self.mes_query();
        self.ram_u64(fence) == status.api_completion_fence_value.get()
    }

    pub fn mes_bytes(&mut self, bytes: &[u8; mes::FRAME_SIZE]) {
        let dwords: Vec<u32> =
            bytes.chunks_exact(4).map(|dword| u32::from_le_bytes(dword.try_into().unwrap())).collect();
        self.mes_raw(&dwords);
    }

    /// Sends a query and waits for its answer, which comes after everything before it.
    pub fn mes_query(&mut self) {
        let (fence, status) = self.new_fence();
        let mut query = QueryStatus::new_zeroed();
        query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
        query.api_status = status;
        self.mes_bytes(query.as_bytes().try_into().unwrap());
        self.wait("the answer to QUERY_SCHEDULER_STATUS", || {
            self.ram_u64(fence) == status.api_completion_fence_value.get()
        });
    }

    pub fn set_hw_resources(&mut self, vmids: u32, queues: u32) {
        let mut frame = SetHwResources::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_gfxhub = vmids;
        frame.compute_hqd_mask[..4].fill(queues);
        frame.sdma_hqd_mask = [0xfc; 2];
        assert!(self.mes(&frame, Opcode::SET_HW_RSRC));
    }

    pub fn misc(&mut self, opcode: MiscOpcode, data: &[u32]) -> bool {
        let mut frame = Misc::new_zeroed();
        frame.header = Header::new(Opcode::MISC);
        frame.opcode = opcode.0;
        frame.data[..data.len()].copy_from_slice(data);
        self.mes(&frame, Opcode::MISC)
    }

    pub fn remove(&mut self, doorbell: u32, gang: u64) -> bool {
        let mut frame = RemoveQueue::new_zeroed();
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        frame.doorbell_offset = DoorbellIndex::from_dwords(doorbell);
        frame.gang_context_addr = gang.into();
        self.mes(&frame, Opcode::REMOVE_QUEUE)
    }
}
