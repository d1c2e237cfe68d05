//! What a queue's packet processor needs from the rest of the device.

use std::fmt;
use std::sync::Arc;

use crate::shader::ShaderEngine;
use crate::time::Clock;
use crate::vm::Fault;

/// Which hardware queue something happened on, as interrupts report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueIdentity {
    /// Micro engine: 1 and 2 are compute.
    pub me: u8,
    /// Pipe within the micro engine.
    pub pipe: u8,
    /// Queue within the pipe.
    pub queue: u8,
    /// VM context.
    pub vmid: u8,
    /// Process address space.
    pub pasid: u32,
    /// Doorbell offset in dwords, `CP_HQD_PQ_DOORBELL_CONTROL.DOORBELL_OFFSET`.
    pub doorbell: u32,
}

impl QueueIdentity {
    /// Position of the queue's doorbell in its process's slice, as KFD counts.
    #[must_use]
    pub fn doorbell_id(&self) -> u32 {
        (self.doorbell / 2) & 0x3ff
    }

    /// `HW_ID2` of its waves: QUEUE_ID 3:0, PIPE_ID 5:4, ME_ID 9:8, VM_ID 27:24.
    #[must_use]
    pub fn hw_id2(&self) -> u32 {
        let field = |value: u8, mask: u32, shift: u32| (u32::from(value) & mask) << shift;
        field(self.queue, 0xf, 0) | field(self.pipe, 3, 4) | field(self.me, 3, 8) | field(self.vmid, 0xf, 24)
    }
}

/// What a wave tells the driver through the SQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqInterrupt {
    /// `s_sendmsg MSG_INTERRUPT` with `M0[23:0]`.
    Message(u32),
    /// The same from a wave in its trap handler.
    HandlerMessage(u32),
    /// A wave ran into an illegal instruction (`SQ_INTERRUPT_ERROR_TYPE_ILLEGAL_INST`).
    IllegalInstruction,
    /// A wave violated an aperture (`SQ_INTERRUPT_ERROR_TYPE_MEMVIOL`).
    MemoryViolation,
}

/// Where the packet processor's interrupts go; the device turns them into IH ring entries.
///
/// Called from the scheduler thread and from shader workers, never inside a slice of guest memory, so that an
/// implementation may take its locks and invalidate address spaces.
pub trait CpInterrupts: Send + Sync {
    /// `CP_EOP`: a packet completed and its signal has a mailbox; `event_id` becomes context ID 0.
    fn cp_eop(&self, queue: &QueueIdentity, event_id: u32);

    /// `SQ_INTERRUPT`.
    fn sq_interrupt(&self, queue: &QueueIdentity, interrupt: SqInterrupt);

    /// `CP_BAD_OPCODE`: a packet was refused; `code` is the KFD exception code (`EC_QUEUE_PACKET_*` of `kfd_ioctl.h`).
    fn bad_opcode(&self, queue: &QueueIdentity, code: u32);

    /// UTCL2 fault: the packet processor or a wave touched an address that does not translate.
    fn vm_fault(&self, queue: &QueueIdentity, fault: &Fault);
}

/// Environment shared by all queues of a device; cheap to clone.
#[derive(Clone)]
pub struct CpEnv {
    /// Reads the 100 MHz golden counter.
    pub clock: Clock,
    /// Where interrupts go.
    pub interrupts: Arc<dyn CpInterrupts>,
    /// Runs dispatches.
    pub shader: Arc<ShaderEngine>,
    /// Wakes the scheduler: a queue that reported [`Progress::Blocked`](super::Progress::Blocked) may go on, or has failed.
    pub wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for CpEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpEnv").field("shader", &self.shader).finish_non_exhaustive()
    }
}
