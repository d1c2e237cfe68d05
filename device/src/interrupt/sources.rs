//! The packet processor's interrupts as entries of the ring, in the chip's format.

use std::fmt;
use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::{Client, IhEntry, Source};
use belfry_isa::exec::{FaultCause, WaveFault};

use super::Interrupts;
use crate::chip::{InterruptFormat, Origin, PageFault, SqInterrupt};
use crate::cp::CpInterrupts;
use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::queue::QueueIdentity;
use crate::shader::{Reason, WaveFailure};
use crate::stats::{Counters, count};
use crate::time::Clock;
use crate::tools::Tools;
use crate::trace::Engine;
use crate::vm::{Contexts, Fault, fault_page};

/// Most graphics cores of any chip.
const MAX_XCCS: u8 = 8;

/// Returns the graphics core that reports the events of a queue: the first one of the queue's partition.
fn core(queue: &QueueIdentity) -> Origin {
    // A snapshot may name any core.
    Origin::Xcc(queue.xcc % MAX_XCCS)
}

/// Turns the events of queues into ring entries.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) format: &'static InterruptFormat,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tools: Tools,
}

impl Sources {
    fn push(&self, entry: IhEntry) {
        self.interrupts.push_to_kernel(&self.contexts, entry, self.clock.ticks());
    }
}

impl Sources {
    /// Pushes `CP_BAD_OPCODE` of a kernel queue of a graphics core, by its doorbell.
    pub(crate) fn kernel_packet_refused(&self, xcc: u8, doorbell: DoorbellIndex) {
        let (client, source) = self.format.bad_opcode;
        let mut entry = IhEntry::new(client, source, 0, 0, 0);
        entry.data[0] = (self.format.bad_opcode_word)(0, doorbell.dwords());
        self.push(entry.from_node((self.format.node)(Origin::Xcc(xcc))));
    }

    /// Makes an entry of a user's queue.
    fn entry(
        &self,
        (client, source): (Client, Source),
        queue: &QueueIdentity,
        (ring, data): (u8, [u32; 4]),
        origin: Origin,
    ) -> IhEntry {
        let mut entry = IhEntry::new(client, source, ring, queue.vmid, queue.pasid as u16);
        entry.data = data;
        entry.from_node((self.format.node)(origin))
    }

    /// Pushes an entry of a user's queue.
    fn tell(
        &self,
        (client, source): (Client, Source),
        queue: &QueueIdentity,
        (ring, data): (u8, [u32; 4]),
        origin: Origin,
    ) {
        self.push(self.entry((client, source), queue, (ring, data), origin));
    }

    /// Keeps a page fault in the hub's registers, and reports it.
    fn fault(&self, queue: &QueueIdentity, fault: &Fault, origin: Origin) {
        self.counters.error(
            GuestError::PageFault,
            format_args!(
                "doorbell={:#x} vmid={} pasid={:#x}: {fault}",
                queue.doorbell, queue.vmid, queue.pasid
            ),
        );
        self.contexts.record_fault(queue.vmid, fault);
        self.tell_fault(queue, fault, origin, false);
    }

    fn tell_fault(&self, queue: &QueueIdentity, fault: &Fault, origin: Origin, retry: bool) {
        let (page, write) = (fault_page(fault), fault.access.is_write());
        self.tools.tell(|| {
            let engine = if let Origin::Engine(engine) = origin {
                Engine::Sdma(engine.into())
            } else {
                Engine::Shader
            };
            Moment::PageFault { fault, retried: retry }.of(queue.owner(engine))
        });
        let permission = fault.kind.is_permission();
        let words = (self.format.page_fault_words)(PageFault { page, write, permission, retry });
        let entry = self.entry((self.format.page_fault)(origin), queue, words, origin);
        if retry {
            let space = self.contexts.space(0);
            self.interrupts.push_retry(space.as_deref(), entry, self.clock.ticks());
        } else {
            self.push(entry);
        }
    }

    fn count_poison(&self, queue: &QueueIdentity) {
        self.counters.error(
            GuestError::Poison,
            format_args!("doorbell={:#x} pasid={:#x}", queue.doorbell, queue.pasid),
        );
    }

    /// Returns the ring id of the packet processor's entries.
    fn cp_ring(&self, queue: &QueueIdentity) -> u8 {
        (self.format.cp_ring)(queue.me, queue.pipe, queue.queue)
    }
}

impl CpInterrupts for Sources {
    fn cp_eop(&self, queue: &QueueIdentity, event_id: u32) {
        self.tell(self.format.cp_eop, queue, (self.cp_ring(queue), [event_id, 0, 0, 0]), core(queue));
    }

    fn sq_interrupt(&self, queue: &QueueIdentity, interrupt: SqInterrupt) {
        if interrupt == SqInterrupt::Poison {
            self.count_poison(queue);
        }
        self.tell(self.format.sq, queue, (0, (self.format.sq_words)(interrupt)), core(queue));
    }

    fn bad_opcode(&self, queue: &QueueIdentity, code: u32) {
        self.counters
            .error(GuestError::PacketRefused, format_args!("doorbell={:#x} code={code}", queue.doorbell));
        let word = (self.format.bad_opcode_word)(code, queue.doorbell_id());
        self.tell(self.format.bad_opcode, queue, (self.cp_ring(queue), [word, 0, 0, 0]), core(queue));
    }

    fn sdma_trap(&self, queue: &QueueIdentity, context: u32) {
        let ring = (self.format.sdma_ring)(queue.me, queue.queue);
        let source = (self.format.sdma_trap)(queue.me);
        self.tell(source, queue, (ring, [context, 0, 0, 0]), Origin::Engine(queue.me));
    }

    fn sdma_stopped(&self, queue: &QueueIdentity) {
        self.counters.error(GuestError::SdmaPacketRefused, format_args!("doorbell={:#x}", queue.doorbell));
        let ring = (self.format.sdma_ring)(queue.me, queue.queue);
        let source = (self.format.sdma_stopped)(queue.me);
        self.tell(source, queue, (ring, [queue.doorbell_id(), 0, 0, 0]), Origin::Engine(queue.me));
    }

    fn sdma_poison(&self, queue: &QueueIdentity) {
        self.count_poison(queue);
        let ring = (self.format.sdma_ring)(queue.me, queue.queue);
        let source = (self.format.sdma_poison)(queue.me);
        self.tell(source, queue, (ring, [0; 4]), Origin::Engine(queue.me));
    }

    fn illegal_instruction(&self, queue: &QueueIdentity, failure: &WaveFailure, kernel: &dyn fmt::Display) {
        let (doorbell, pasid) = (queue.doorbell, queue.pasid);
        self.counters.error(
            GuestError::IllegalInstruction,
            format_args!("doorbell={doorbell:#x} pasid={pasid:#x} {failure} kernel={kernel}"),
        );
        let Reason::Fault(WaveFault { kind, .. }) = &failure.reason else { return };
        let operation = match kind {
            FaultCause::Unimplemented { text, .. } => text.split_whitespace().next().unwrap_or_default(),
            FaultCause::Image { what, .. } => what,
            _ => return,
        };
        self.counters.unmodelled_operation(operation, format_args!("in kernel {kernel}"));
    }

    fn vm_fault(&self, queue: &QueueIdentity, fault: &Fault) {
        self.fault(queue, fault, core(queue));
    }

    fn vm_retry(&self, queue: &QueueIdentity, fault: &Fault) {
        count(&self.counters.retry_faults);
        self.tell_fault(queue, fault, core(queue), true);
    }

    fn sdma_retry(&self, queue: &QueueIdentity, fault: &Fault) {
        count(&self.counters.retry_faults);
        self.tell_fault(queue, fault, Origin::Engine(queue.me), true);
    }

    fn sdma_fault(&self, queue: &QueueIdentity, fault: &Fault) {
        self.fault(queue, fault, Origin::Engine(queue.me));
    }
}
