//! Rings of the kernel's: the KIQ's and the scheduler's.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::regs::{Register as _, gc};

use super::kernel;
use crate::rig::Rig;

/// A ring of the kernel's.
#[derive(Debug)]
pub struct KernelRing {
    memory: u64,
    dwords: u64,
    pub(super) page: u64,
    /// Dwords written so far.
    pub wptr: u64,
    /// Its doorbell.
    pub doorbell: DoorbellIndex,
}

impl KernelRing {
    pub(super) fn new(area: u64, dwords: u64, doorbell: DoorbellIndex) -> Self {
        Self { memory: area, dwords, page: area + dwords * 4, wptr: 0, doorbell }
    }

    pub(super) fn mqd_memory(&self) -> u64 {
        self.page + 0x1000
    }

    pub(super) fn mqd(&self) -> ComputeMqd {
        let mut mqd = ComputeMqd::new();
        mqd.set_mqd_base(kernel(self.mqd_memory()));
        mqd.set_pq_base(kernel(self.memory));
        mqd.set_pq_rptr_report_addr(kernel(self.page));
        mqd.set_pq_wptr_poll_addr(kernel(self.page + 8));
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(self.dwords.ilog2() - 1);
        mqd.cp_hqd_pq_control = control.bits();
        let mut bell = gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(0);
        bell.set_doorbell_offset(self.doorbell.dwords());
        bell.set_doorbell_en(true);
        mqd.cp_hqd_pq_doorbell_control = bell.bits();
        mqd
    }

    /// Dwords the device has taken, modulo the ring.
    #[must_use]
    pub fn read(&self, rig: &Rig) -> u64 {
        rig.take::<u32>(self.page).into()
    }

    pub(super) fn submit(&mut self, rig: &Rig, dwords: &[u32]) {
        for dword in dwords {
            rig.put(self.memory + self.wptr % self.dwords * 4, dword);
            self.wptr += 1;
        }
        rig.put(self.page + 8, &self.wptr);
        rig.ring(self.doorbell.offset().bytes(), self.wptr);
    }
}
