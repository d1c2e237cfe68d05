//! Memory with errors that cannot be corrected, which a process has read: it has consumed poison (`kfd_int_process_v9.c`,
//! `event_interrupt_poison_consumption_v9`; `kfd_events.c`, `kfd_signal_poison_consumed_event`).

use core::sync::atomic::Ordering;

use belfry_abi::kfd::event::{KFD_MEM_ERR_POISON_CONSUMED, MemoryExceptionData, MemoryExceptionFailure};

use super::Process;
use crate::os::{LogLevel, Os, WorkItem as _};
use crate::process_device::ProcessNode;

impl<O: Os> Process<O> {
    /// A wave or an engine of this process has consumed poison: its queues on this node will stop, its events will be set, and
    /// the queues of other processes go on.
    ///
    /// Called from the interrupt thread, as [`memory_fault`](Self::memory_fault) is.
    pub(crate) fn poison_consumed(&self, node: &ProcessNode<O>) {
        let device = &node.device;
        device.uncorrectable.fetch_add(1, Ordering::Relaxed);
        let line =
            format_args!("pasid {}: poison is consumed, its queues are taken off the scheduler", self.pasid);
        device.limits.poison.log(&device.hw, LogLevel::Warn, line);
        let failure = MemoryExceptionFailure { imprecise: 1, ..Default::default() };
        let data = MemoryExceptionData {
            failure,
            va: 0,
            gpu_id: u32::from(node.gpu_id),
            error_type: KFD_MEM_ERR_POISON_CONSUMED,
        };
        // A page fault that is still to be told of says less.
        let mut faults = self.faults.lock();
        faults.told = Some(data);
        faults.nodes |= node.bit();
        drop(faults);
        self.fault_work.queue();
    }
}
