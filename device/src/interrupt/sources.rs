//! The packet processor's interrupts as entries of the ring.
//!
//! Context words as Linux `amdkfd/kfd_int_process_v11.c` decodes them (`SQ_INTERRUPT_WORD_*`, `KFD_CTXID0_*`).

use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::{
    Client, FAULT_RING_READ, FAULT_RING_VALID, FAULT_RING_WRITE, IhEntry, Source, sq_encoding,
};

use super::Interrupts;
use crate::cp::{CpInterrupts, SqInterrupt};
use crate::guest_error::GuestError;
use crate::queue::QueueIdentity;
use crate::stats::Counters;
use crate::time::Clock;
use crate::vm::{Contexts, Fault, fault_page};

/// `SQ_INTERRUPT_ERROR_TYPE_ILLEGAL_INST` and `_MEMVIOL`.
const ILLEGAL_INSTRUCTION: u32 = 1;
const MEMORY_VIOLATION: u32 = 2;
/// `SQ_INTERRUPT_WORD_ERROR_CTXID0.TYPE`.
const ERROR_TYPE_SHIFT: u32 = 21;
/// `SQ_INTERRUPT_WORD_WAVE_CTXID0.PRIV`.
const PRIVILEGED: u32 = 1 << 26;
/// `SQ_INTERRUPT_WORD_WAVE_CTXID1.ENCODING`.
const ENCODING_SHIFT: u32 = 6;

/// Turns what happens on queues into ring entries.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
}

impl Sources {
    fn push(&self, entry: IhEntry) {
        self.interrupts.push(self.contexts.space(0).as_deref(), entry, (self.clock)());
    }
}

impl Sources {
    /// `CP_BAD_OPCODE` of a kernel queue, by its doorbell.
    pub(crate) fn kernel_packet_refused(&self, doorbell: DoorbellIndex) {
        let mut entry = IhEntry::new(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, 0, 0);
        entry.data[0] = doorbell.dwords() & 0x3ff;
        self.push(entry);
    }
}

/// Ring id of CP interrupts: queue 6:4, micro engine 3:2, pipe 1:0.
fn cp_ring(queue: &QueueIdentity) -> u8 {
    (queue.queue & 7) << 4 | (queue.me & 3) << 2 | queue.pipe & 3
}

fn entry(client: Client, source: Source, ring: u8, queue: &QueueIdentity) -> IhEntry {
    IhEntry::new(client, source, ring, queue.vmid, queue.pasid as u16)
}

impl CpInterrupts for Sources {
    fn cp_eop(&self, queue: &QueueIdentity, event_id: u32) {
        let mut entry = entry(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, cp_ring(queue), queue);
        entry.data[0] = event_id;
        self.push(entry);
    }

    fn sq_interrupt(&self, queue: &QueueIdentity, interrupt: SqInterrupt) {
        let mut entry = entry(Client::GFX, Source::SQ_INTERRUPT, 0, queue);
        let (encoding, data) = match interrupt {
            SqInterrupt::Message(m0) => (sq_encoding::INST, m0 & 0x00ff_ffff),
            SqInterrupt::HandlerMessage(m0) => (sq_encoding::INST, PRIVILEGED | m0 & 0x00ff_ffff),
            SqInterrupt::IllegalInstruction => (sq_encoding::ERROR, ILLEGAL_INSTRUCTION << ERROR_TYPE_SHIFT),
            SqInterrupt::MemoryViolation => (sq_encoding::ERROR, MEMORY_VIOLATION << ERROR_TYPE_SHIFT),
        };
        entry.data = [data, encoding << ENCODING_SHIFT, 0, 0];
        self.push(entry);
    }

    fn bad_opcode(&self, queue: &QueueIdentity, code: u32) {
        let mut entry = entry(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, cp_ring(queue), queue);
        entry.data[0] = (code & 0xffff) << 10 | queue.doorbell_id();
        self.counters
            .error(GuestError::PacketRefused, format_args!("doorbell={:#x} code={code}", queue.doorbell));
        self.push(entry);
    }

    fn vm_fault(&self, queue: &QueueIdentity, fault: &Fault) {
        let write = fault.access.is_write();
        let page = fault_page(fault);
        self.counters.error(
            GuestError::PageFault,
            format_args!(
                "doorbell={:#x} vmid={} pasid={:#x}: {fault}",
                queue.doorbell, queue.vmid, queue.pasid
            ),
        );
        self.contexts.record_fault(queue.vmid, fault);
        let ring = match (fault.kind.is_permission(), write) {
            (false, _) => FAULT_RING_VALID,
            (true, true) => FAULT_RING_WRITE,
            (true, false) => FAULT_RING_READ,
        };
        let mut entry = entry(Client::GFX, Source::UTCL2_FAULT, ring, queue);
        entry.data[0] = page as u32;
        entry.data[1] = (page >> 32) as u32 | u32::from(write) << 5;
        self.push(entry);
    }
}
