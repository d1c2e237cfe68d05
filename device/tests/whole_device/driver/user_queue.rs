//! A user queue of the driver in miniature.

use std::sync::atomic::Ordering;

use belfry_abi::aql::AmdQueue;
use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode, QueueType};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::regs::{Register, gc};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::context::{AREA_SIZE, STACK_SIZE};
use super::{Driver, Process};

/// An AQL queue with its `amd_queue_t`, ring and MQD.
#[derive(Clone, Copy)]
pub struct UserQueue {
    pub doorbell: u32,
    pub gang: u64,
    pub ring: u64,
    pub queue: u64,
    pub mqd: u64,
    pub mqd_memory: u64,
    pub packets: u64,
    pub written: u64,
}

impl UserQueue {
    pub fn new(driver: &mut Driver, process: &mut Process, doorbell: u32) -> Self {
        Self::with_area(driver, process, doorbell, AREA_SIZE)
    }

    /// As [`UserQueue::new`], with a context save area of this size.
    pub fn with_area(driver: &mut Driver, process: &mut Process, doorbell: u32, area_size: u32) -> Self {
        let packets = 64;
        let (ring, ring_va) = process.alloc(driver, packets * 64);
        let (queue, queue_va) = process.alloc(driver, 4096);
        for packet in 0..packets {
            driver.put_ram(ring + packet * 64, &1u16);
        }
        let mut amd = AmdQueue::new_zeroed();
        amd.base_address = ring_va;
        amd.size = packets as u32;
        amd.read_dispatch_id_field_base_byte_offset = 0x80;
        driver.put_ram(queue, &amd);
        let mut mqd = ComputeMqd::new();
        mqd.set_static_thread_mgmt(&[u32::MAX; 8]);
        mqd.set_pq_base(ring_va);
        mqd.set_pq_rptr_report_addr(queue_va + 0x80);
        mqd.set_pq_wptr_poll_addr(queue_va + 0x38);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(((packets * 16) as u32).ilog2() - 1);
        control.set_slot_based_wptr(2);
        mqd.cp_hqd_pq_control = control.bits();
        mqd.cp_hqd_aql_control = 1;
        let (_, area_va) = process.alloc(driver, area_size.into());
        mqd.cp_hqd_ctx_save_base_addr_lo = area_va as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (area_va >> 32) as u32;
        mqd.cp_hqd_ctx_save_size = area_size;
        mqd.cp_hqd_cntl_stack_size = STACK_SIZE;
        (mqd.cp_hqd_cntl_stack_offset, mqd.cp_hqd_wg_state_offset) = (STACK_SIZE, STACK_SIZE);
        mqd.cp_hqd_pq_doorbell_control = doorbell << 2;
        let (mqd_memory, mqd_address) = driver.gart_alloc(4096);
        driver.put_ram(mqd_memory, &mqd);
        let gang = process.context + 0x800_0000 + u64::from(doorbell);
        Self { doorbell, gang, ring, queue, mqd: mqd_address, mqd_memory, packets, written: 0 }
    }

    pub fn frame(&self, driver: &mut Driver, process: &Process) -> AddQueue {
        let wptr = driver.gart(self.queue, 4096) + 0x38;
        let mut frame = AddQueue::new_zeroed();
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.process_id = process.pasid.into();
        frame.page_table_base_addr = process.root().into();
        frame.process_va_end = ((1u64 << 36) - 1).into();
        frame.process_quantum = 100_000.into();
        frame.process_context_addr = process.context.into();
        frame.gang_quantum = 10_000.into();
        frame.gang_context_addr = self.gang.into();
        frame.doorbell_offset = DoorbellIndex::from_dwords(self.doorbell);
        frame.mqd_addr = self.mqd.into();
        frame.wptr_addr = wptr.into();
        frame.queue_type = QueueType::COMPUTE.0;
        frame.gds_size = (self.packets * 16) as u32;
        frame.trap_handler_addr = process.trap_handler.into();
        frame.vm_context_cntl = Process::cntl();
        frame.flags = AddQueueFlags::IS_KFD_PROCESS | AddQueueFlags::IS_AQL_QUEUE;
        frame
    }

    pub fn add(&self, driver: &mut Driver, process: &Process) -> bool {
        let frame = self.frame(driver, process);
        driver.mes(&frame, Opcode::ADD_QUEUE)
    }

    /// Publishes a packet (header last) and rings.
    pub fn put<T: IntoBytes + Immutable>(&mut self, driver: &Driver, packet: &T) {
        self.publish(driver, packet);
        driver.ring(u64::from(self.doorbell) * 4, self.written - 1);
    }

    /// Publishes a packet, and rings by a store to the mapped page, of which the device is not told.
    pub fn put_silently<T: IntoBytes + Immutable>(&mut self, driver: &Driver, packet: &T) {
        self.publish(driver, packet);
        driver.doorbell_page[self.doorbell as usize / 2].store(self.written, Ordering::Release);
    }

    fn publish<T: IntoBytes + Immutable>(&mut self, driver: &Driver, packet: &T) {
        let at = self.ring + self.written % self.packets * 64;
        let bytes = packet.as_bytes();
        driver.ram.write_slice(&bytes[4..64], GuestAddress(at + 4)).unwrap();
        let header = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        self.written += 1;
        driver.set_ram_u64(self.queue + 0x38, self.written);
        driver.ram.store(header, GuestAddress(at), Ordering::Release).unwrap();
    }

    pub fn read_index(&self, driver: &Driver) -> u64 {
        driver.ram_u64(self.queue + 0x80)
    }
}
