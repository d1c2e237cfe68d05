//! Run lists: the HIQ, the lists on it, and the queues of the last one.

use belfry_abi::mqd::v9;
use belfry_abi::pm4::{Opcode, Pm4Header};

use super::{Driver, HIQ_MQDS, LISTED_MQDS, LISTS, PASID, QUEUES, TABLES, kernel};
use belfry_abi::gpuvm::PTE_VALID;

/// Place of KIQs: micro engine, pipe, queue.
pub(super) const KIQ_PLACE: [u32; 3] = [2, 1, 0];
/// VMIDs that processes get, and hardware queues of the first pipe's micro engine.
const VMIDS: u32 = 0xfff8;
const QUEUE_MASK: u32 = 0xffff;
/// UNMAP_QUEUES: queues that are not static, or the named ones.
const NOT_STATIC: u32 = 3 << 4;
const ONE: u32 = 1 << 29;
/// Bytes from the MQD of an XCC to the next one's, and of all MQDs of a queue.
const STRIDE: u64 = 4096;
const MQDS: u64 = 8 * STRIDE;
const _: () = assert!(LISTED_MQDS + QUEUES as u64 * MQDS <= LISTS);

/// A packet of a list or of the HIQ.
#[must_use]
pub fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    let mut packet = vec![Pm4Header::type3(opcode, body.len() as u32).bits()];
    packet.extend(body);
    packet
}

impl Driver<'_> {
    /// Address of the MQDs of a queue.
    pub(super) fn listed_mqds(nth: usize) -> u64 {
        LISTED_MQDS + nth as u64 * MQDS
    }

    /// Puts a queue's MQD into memory for each XCC.
    pub(super) fn put_mqds(&self, nth: usize) {
        let mut mqd = self.mqd(nth);
        mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, STRIDE as u32);
        mqd.set_v9(v9::COMPUTE_TG_CHUNK_SIZE, 1);
        for xcc in 0..self.rig.choice.shape.xccs {
            mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, xcc);
            self.rig.put(Self::listed_mqds(nth) + u64::from(xcc) * STRIDE, &mqd);
        }
    }

    /// Has each XCC's KIQ map the HIQ, as `kgd_gfx_v9_hiq_mqd_load` does.
    pub(super) fn start_hiq(&mut self) {
        let mut mqd = self.mes.mqd();
        mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, STRIDE as u32);
        for xcc in 0..self.rig.choice.shape.xccs as usize {
            let at = HIQ_MQDS + xcc as u64 * STRIDE;
            self.rig.put(at, &mqd);
            // Micro engine 2, pipe 0, queue 0; engine 1 is the HIQ's.
            let (address, bell) = (kernel(at), self.mes.doorbell.dwords() << 2);
            let map = packet(
                Opcode::MAP_QUEUES,
                &[1 << 18 | 1 << 26 | ONE, bell, address as u32, (address >> 32) as u32, 0, 0],
            );
            match xcc.checked_sub(1) {
                None => self.kiq.submit(self.rig, &map),
                Some(other) => self.others[other].submit(self.rig, &map),
            }
            self.rig.settle(0);
        }
    }

    pub(super) fn give_resources(&mut self) -> bool {
        self.mes_dwords(&packet(Opcode::SET_RESOURCES, &[1 << 29 | VMIDS, QUEUE_MASK, 0, 0, 0, 0, 0]));
        self.hiq_works()
    }

    /// Returns true if the HIQ writes a fence.
    pub(super) fn hiq_works(&mut self) -> bool {
        let (memory, status) = self.fence();
        let (at, value) = (status.api_completion_fence_addr.get(), status.api_completion_fence_value.get());
        let body = [2 << 30, 0, at as u32, (at >> 32) as u32, value as u32, (value >> 32) as u32];
        self.mes_dwords(&packet(Opcode::QUERY_STATUS, &body));
        self.rig.take::<u64>(memory) == value
    }

    /// MAP_PROCESS.
    #[must_use]
    pub fn map_process(&self) -> Vec<u32> {
        let mut body = [0; 20];
        body[0] = PASID | 10 << 25;
        body[1] = (TABLES | PTE_VALID) as u32;
        // Apertures, unaligned accesses, RETRY_DISABLE.
        (body[3], body[4]) = (0x0001_0002, 3 << 3 | 1 << 12);
        packet(Opcode::MAP_PROCESS, &body)
    }

    /// MAP_QUEUES of a queue.
    #[must_use]
    pub fn map_queue(&self, nth: usize) -> Vec<u32> {
        let (mqd, wptr) = (kernel(self.queue(nth)[2]), self.mqd(nth).pq_wptr_poll_addr());
        let bell = Self::doorbell(nth).dwords() << 2 | 2;
        let [mqd, wptr] = [mqd, wptr].map(|at| [at as u32, (at >> 32) as u32]);
        packet(Opcode::MAP_QUEUES, &[1 << 4 | ONE, bell, mqd[0], mqd[1], wptr[0], wptr[1]])
    }

    /// The list of all queues that are to be there.
    #[must_use]
    pub fn list(&self) -> Vec<u32> {
        let mut list = self.map_process();
        self.listed.iter().for_each(|&nth| list.extend(self.map_queue(nth)));
        list
    }

    /// Takes everything off and runs a list.
    pub fn run_list(&mut self, list: &[u32]) {
        self.mes_dwords(&packet(Opcode::UNMAP_QUEUES, &[NOT_STATIC, 0, 0, 0, 0]));
        self.rig.put(LISTS, list);
        let at = kernel(LISTS);
        let body = [at as u32, (at >> 32) as u32, list.len() as u32 | 1 << 23];
        self.mes_dwords(&packet(Opcode::RUN_LIST, &body));
    }

    /// Runs a list with one more queue, with the packet that maps it as given. Returns true if the queue listens.
    pub fn add_listed(&mut self, nth: usize, map: &[u32]) -> bool {
        self.listed.remove(&nth);
        let mut list = self.list();
        self.listed.insert(nth);
        list.extend(map);
        self.run_list(&list);
        self.hiq_works() && self.listening().contains(&Self::doorbell(nth).offset().bytes())
    }

    /// Takes the queue with a doorbell off. Returns true if one was there, and is no more.
    pub(super) fn remove_listed(&mut self, doorbell: u64) -> bool {
        let before = self.listening().contains(&doorbell);
        self.listed.retain(|&nth| Self::doorbell(nth).offset().bytes() != doorbell);
        self.mes_dwords(&packet(Opcode::UNMAP_QUEUES, &[ONE, doorbell as u32, 0, 0, 0]));
        self.hiq_works() && before && !self.listening().contains(&doorbell)
    }
}
