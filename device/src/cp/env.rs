//! Parts of the device that a queue's packet processor needs.

use std::fmt;
use std::sync::Arc;

use crate::chip::SqInterrupt;
use crate::queue::QueueIdentity;
use crate::regs::RegisterFile;
use crate::shader::{ShaderEngine, WaveFailure};
use crate::time::Clock;
use crate::tools::Tools;
use crate::vm::{AddressSpace, Contexts, Fault};

/// Receiver of the packet processor's interrupts; the device turns them into IH ring entries.
///
/// Called from the device thread and from shader workers, never inside a slice of guest memory, so that an
/// implementation may take its locks and invalidate address spaces.
pub trait CpInterrupts: Send + Sync {
    /// `CP_EOP`: a packet completed and its signal has a mailbox; `event_id` becomes context ID 0.
    fn cp_eop(&self, queue: &QueueIdentity, event_id: u32);

    /// `SQ_INTERRUPT`.
    fn sq_interrupt(&self, queue: &QueueIdentity, interrupt: SqInterrupt);

    /// `CP_BAD_OPCODE`: a packet was refused; `code` is the KFD exception code (`EC_QUEUE_PACKET_*` of `kfd_ioctl.h`).
    fn bad_opcode(&self, queue: &QueueIdentity, code: u32);

    /// `SDMA_TRAP`: a packet of an SDMA queue asks for an interrupt; `context` becomes context ID 0.
    fn sdma_trap(&self, queue: &QueueIdentity, context: u32);

    /// A packet of an SDMA queue was refused.
    fn sdma_stopped(&self, queue: &QueueIdentity);

    /// `SDMA_ECC`: an SDMA queue has read memory with an error that cannot be corrected.
    fn sdma_poison(&self, queue: &QueueIdentity);

    /// A wave has come to an instruction that it cannot execute. Called before the wave enters its process's trap
    /// handler, which may not report it. `kernel` shows the name of the kernel, which is looked up when it is shown.
    fn illegal_instruction(&self, queue: &QueueIdentity, failure: &WaveFailure, kernel: &dyn fmt::Display) {
        let _ = (queue, failure, kernel);
    }

    /// UTCL2 fault: the packet processor or a wave touched an address that does not translate.
    fn vm_fault(&self, queue: &QueueIdentity, fault: &Fault);

    /// UTCL2 fault of an access that is tried again until it goes through: a wave or the packet processor waits for a
    /// page. It happens only on chips that try accesses again.
    fn vm_retry(&self, queue: &QueueIdentity, fault: &Fault) {
        self.vm_fault(queue, fault);
    }

    /// UTCL2 fault of an access that an SDMA engine tries again.
    fn sdma_retry(&self, queue: &QueueIdentity, fault: &Fault) {
        self.vm_retry(queue, fault);
    }

    /// A fault of an SDMA engine. On a chip with several dies, it translates in the hub of its die.
    fn sdma_fault(&self, queue: &QueueIdentity, fault: &Fault) {
        self.vm_fault(queue, fault);
    }
}

/// Parts of the device that packets of the kernel's queues reach, beside those of all queues: every register, and the memory
/// of every VMID.
#[derive(Clone)]
pub struct KernelReach {
    file: Arc<RegisterFile>,
    contexts: Arc<Contexts>,
    /// Converts a register number in a packet of a graphics core to the register's address.
    local: fn(index: u32, xcc: u8) -> u32,
}

impl fmt::Debug for KernelReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelReach").finish_non_exhaustive()
    }
}

impl KernelReach {
    pub(crate) fn new(
        file: Arc<RegisterFile>,
        contexts: Arc<Contexts>,
        local: fn(index: u32, xcc: u8) -> u32,
    ) -> Self {
        Self { file, contexts, local }
    }

    pub(crate) fn read(&self, xcc: u8, index: u32) -> u32 {
        self.file.read((self.local)(index, xcc))
    }

    pub(crate) fn write(&self, xcc: u8, index: u32, value: u32) {
        self.file.write((self.local)(index, xcc), value);
    }

    /// Returns the address space of a VMID, if it has one.
    pub(crate) fn space(&self, vmid: u8) -> Option<Arc<AddressSpace>> {
        self.contexts.space(vmid)
    }

    /// Drops cached translations of the VMIDs in the mask.
    pub(crate) fn invalidate(&self, vmids: u32) {
        self.contexts.invalidate(vmids);
    }
}

/// Environment shared by all queues of a device; cheap to clone.
#[derive(Clone)]
pub struct CpEnv {
    /// Reads the 100 MHz golden counter.
    pub clock: Clock,
    /// Receiver of interrupts.
    pub interrupts: Arc<dyn CpInterrupts>,
    /// The tools that look at packets.
    pub tools: Tools,
    /// Parts that queues of the kernel reach; `None` if the environment has none of them.
    pub kernel: Option<KernelReach>,
    /// Runs dispatches.
    pub shader: Arc<ShaderEngine>,
    /// Wakes the device thread: a queue that reported [`Progress::Blocked`](crate::queue::Progress::Blocked) may go on,
    /// or has failed.
    pub wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for CpEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpEnv").field("shader", &self.shader).finish_non_exhaustive()
    }
}
