//! Memory faults of processes, looked after away from the interrupt thread (amdkfd: `interrupt_wq`).

use belfry_abi::kfd::event::{
    HwExceptionData, KFD_HW_EXCEPTION_ECC, KFD_HW_EXCEPTION_WHOLE_GPU_RESET, KFD_MEM_ERR_POISON_CONSUMED,
    MemoryExceptionData,
};

use crate::os::Os;
use crate::process::{Faults, Process};
use crate::queue_manager;

/// Stops the queues of a process on the nodes where it had memory faults, and tells it then.
pub(crate) fn settle_fault<O: Os>(process: &Process<O>) {
    let Faults { told: Some(data), nodes } = core::mem::take(&mut *process.faults.lock()) else { return };
    let task = process.state.lock().task;
    if let Some(task) = task.filter(|_| !is_poison(&data)) {
        process.nodes.among(nodes).for_each(|node| node.device.smi.fault(&task));
    }
    queue_manager::evict(process, nodes);
    tell_fault(process, data);
}

/// Tells the program of a memory fault, after which its queues have been stopped.
fn tell_fault<O: Os>(process: &Process<O>, data: MemoryExceptionData) {
    if is_poison(&data) {
        process.events.hw_error(HwExceptionData {
            // As Linux leaves it, though nothing was reset.
            reset_type: KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
            reset_cause: KFD_HW_EXCEPTION_ECC,
            memory_lost: 1,
            gpu_id: data.gpu_id,
        });
    }
    process.events.memory_exception(data);
}

/// Returns whether a memory exception tells of poison.
fn is_poison(data: &MemoryExceptionData) -> bool {
    data.error_type == KFD_MEM_ERR_POISON_CONSUMED
}
