//! Queues of the process: where they are, the frames that add and remove them, packets on them.

use std::collections::BTreeSet;

use belfry_abi::aql::AmdQueue;
use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_abi::gpuvm::PTE_VALID;
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode, QueueType, RemoveQueue, RemoveQueueFlags};
use belfry_abi::mqd::{ComputeMqd, v9};
use belfry_abi::pci::DOORBELL_BAR_SIZE;
use belfry_abi::regs::{Register as _, gc};
use zerocopy::FromZeros as _;

use super::{CONTEXT, Driver, MQD, PACKETS, PASID, QUEUE, TABLES, kernel, user};

/// Bytes of guest memory for a queue.
const QUEUE_AREA: u64 = 0x2000;

impl Driver<'_> {
    /// Addresses of a queue's ring, `amd_queue_t` and MQD; of several MQDs, the first one.
    #[must_use]
    pub fn queue(&self, nth: usize) -> [u64; 3] {
        let area = QUEUE + nth as u64 * QUEUE_AREA;
        let own = MQD + nth as u64 * 0x1000;
        let mqd = if self.rig.choice.has_run_lists() { Self::listed_mqds(nth) } else { own };
        [area, area + 0x1000, mqd]
    }

    /// A queue's doorbell.
    #[must_use]
    pub fn doorbell(nth: usize) -> DoorbellIndex {
        DoorbellIndex::from_dwords(0x800 + nth as u32 * 2)
    }

    /// A queue's MQD as KFD makes it.
    #[must_use]
    pub fn mqd(&self, nth: usize) -> ComputeMqd {
        let [ring, queue, _] = self.queue(nth);
        let mut mqd = ComputeMqd::new();
        mqd.set_static_thread_mgmt(&[u32::MAX; 8]);
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
        mqd.cp_hqd_pq_doorbell_control = Self::doorbell(nth).dwords() << 2;
        mqd
    }

    /// Adds a queue of PM4 packets, whose ring has [`PACKETS`] times 16 dwords. Returns true if that was answered.
    pub fn add_pm4_queue(&mut self, nth: usize) -> bool {
        self.prepare_queue(nth);
        let [_, queue, at] = self.queue(nth);
        self.rig.put(queue, &[0u8; 4096]);
        let mut mqd = self.mqd(nth);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(mqd.cp_hqd_pq_control);
        control.set_slot_based_wptr(0);
        (mqd.cp_hqd_pq_control, mqd.cp_hqd_aql_control) = (control.bits(), 0);
        self.rig.put(at, &mqd);
        if self.rig.choice.has_run_lists() {
            // The first XCC executes it.
            for xcc in 0..u64::from(self.rig.choice.shape.xccs) {
                mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, 4096);
                self.rig.put(at + xcc * 4096, &mqd);
            }
            let map = self.map_queue(nth);
            return self.add_listed(nth, &map);
        }
        let mut frame = self.add_frame(nth);
        frame.flags &= !AddQueueFlags::IS_AQL_QUEUE;
        self.mes(&frame, Opcode::ADD_QUEUE)
    }

    /// Puts dwords on the ring of a PM4 queue, and rings.
    pub fn dwords(&mut self, nth: usize, dwords: &[u32]) {
        let [ring, queue, _] = self.queue(nth);
        for dword in dwords {
            self.rig.put(ring + self.written[nth] % (PACKETS * 16) * 4, dword);
            self.written[nth] += 1;
        }
        self.rig.put(queue + 0x38, &self.written[nth]);
        self.rig.ring(Self::doorbell(nth).offset().bytes(), self.written[nth]);
    }

    /// Puts a queue's ring, `amd_queue_t` and MQD into memory, empty.
    pub fn prepare_queue(&mut self, nth: usize) {
        let [ring, queue, mqd] = self.queue(nth);
        for packet in 0..PACKETS {
            self.rig.put(ring + packet * 64, &1u16);
        }
        let mut amd = AmdQueue::new_zeroed();
        amd.base_address = user(ring);
        amd.size = PACKETS as u32;
        amd.read_dispatch_id_field_base_byte_offset = 0x80;
        self.rig.put(queue, &amd);
        if self.rig.choice.has_run_lists() {
            self.put_mqds(nth);
        } else {
            self.rig.put(mqd, &self.mqd(nth));
        }
        self.written[nth] = 0;
    }

    /// The frame that adds a queue.
    #[must_use]
    pub fn add_frame(&self, nth: usize) -> AddQueue {
        let [_, queue, mqd] = self.queue(nth);
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

    /// Prepares a queue and adds it. Returns true if that was answered.
    pub fn add_queue(&mut self, nth: usize) -> bool {
        self.prepare_queue(nth);
        self.add_prepared(nth)
    }

    /// Adds a queue as it is in memory. Returns true if that was answered.
    pub fn add_prepared(&mut self, nth: usize) -> bool {
        if self.rig.choice.has_run_lists() {
            let map = self.map_queue(nth);
            return self.add_listed(nth, &map);
        }
        let frame = self.add_frame(nth);
        self.mes(&frame, Opcode::ADD_QUEUE)
    }

    /// Removes a queue. Returns true if that was answered.
    pub fn remove_queue(&mut self, nth: usize) -> bool {
        if self.rig.choice.has_run_lists() {
            return self.remove_listed(Self::doorbell(nth).offset().bytes());
        }
        self.mes(&Self::remove_frame(nth), Opcode::REMOVE_QUEUE)
    }

    /// Doorbells that queues listen to, in bytes, other than the kernel's own.
    #[must_use]
    pub fn listening(&self) -> BTreeSet<u64> {
        let pages = (0..DOORBELL_BAR_SIZE).step_by(4096);
        let all = pages.flat_map(|page| self.rig.gpu.doorbells(page)).map(|(offset, _)| offset);
        let kernel = [&self.kiq, &self.mes].into_iter().chain(&self.others);
        let kernel: Vec<DoorbellOffset> = kernel.map(|ring| ring.doorbell.offset()).collect();
        all.filter(|offset| !kernel.contains(offset)).map(DoorbellOffset::bytes).collect()
    }

    /// Removes the queue that listens to a doorbell, in bytes: a process's, or else one that a frame mapped as the
    /// kernel's. Returns true if that was answered.
    pub fn remove_doorbell(&mut self, offset: u64) -> bool {
        if self.rig.choice.has_run_lists() {
            return self.remove_listed(offset);
        }
        let mut frame = Self::remove_frame(0);
        frame.doorbell_offset = DoorbellOffset::from_bytes(offset).index().unwrap_or_default();
        if self.mes(&frame, Opcode::REMOVE_QUEUE) {
            return true;
        }
        frame.flags = RemoveQueueFlags::UNMAP_LEGACY_QUEUE;
        self.mes(&frame, Opcode::REMOVE_QUEUE)
    }

    /// Publishes a packet and rings.
    pub fn packet(&mut self, nth: usize, packet: &[u8; 64]) {
        let [ring, queue, _] = self.queue(nth);
        self.rig.put(ring + self.written[nth] % PACKETS * 64, packet);
        self.written[nth] += 1;
        self.rig.put(queue + 0x38, &self.written[nth]);
        self.rig.ring(Self::doorbell(nth).offset().bytes(), self.written[nth] - 1);
    }

    /// Number of packets published to a queue, and of those that the device says are done.
    #[must_use]
    pub fn indices(&self, nth: usize) -> (u64, u64) {
        let [_, queue, _] = self.queue(nth);
        (self.written[nth], self.rig.take(queue + 0x80))
    }
}
