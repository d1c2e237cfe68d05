//! Schedulers of the queues of processes: firmware of one kind or another, behind the requests that the driver has.

mod hiq;
mod kept;
mod mes;

use alloc::boxed::Box;
use alloc::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;

use crate::asic::Firmware;
use crate::errno::Result;
use crate::gart::Gart;
use crate::hw::Hw;
use crate::node::Nodes;
use crate::os::Os;
use crate::request::{QueueRequest, ShaderDebugger};
use hiq::Hiq;
pub(crate) use kept::Kept;
use mes::Mes;

/// Firmware that schedules queues.
///
/// Every request waits for its answer: `ETIME` says that there was none, and only a reset of the device helps.
pub(crate) trait Scheduler: Send {
    /// Starts the firmware, after a reset too; it knows no queue then.
    ///
    /// # Errors
    ///
    /// `ENODEV` when there is no firmware, `ETIME` when it does not answer.
    fn start(&mut self) -> Result<()>;

    /// Takes its rings off the hardware and stops it.
    fn stop(&mut self);

    /// Makes a queue known, which runs from now on.
    fn add_queue(&mut self, queue: &QueueRequest) -> Result<()>;

    /// Stops a queue, by its doorbell and its gang's context; its state is in its MQD afterwards.
    fn remove_queue(&mut self, doorbell: DoorbellIndex, gang: u64) -> Result<()>;

    /// Sets what a debugger wants of the waves of a process.
    fn set_shader_debugger(&mut self, debugger: &ShaderDebugger) -> Result<()>;

    /// Forgets that, of the process with this context.
    fn flush_shader_debugger(&mut self, process_context: u64) -> Result<()>;

    /// Address in VMID 0 and length of the ring that takes requests.
    #[cfg(test)]
    fn ring(&self) -> (u64, u64);
}

/// The scheduler of a device with these nodes.
///
/// # Errors
///
/// `ENOMEM`.
#[inline(never)]
pub(crate) fn new<O: Os>(hw: &Arc<Hw<O>>, gart: &Arc<Gart<O>>, nodes: &Nodes) -> Result<Kept> {
    let scheduler: Box<dyn Scheduler> = match &hw.asic().firmware {
        Firmware::Mes(firmware) => Box::new(Mes::new(hw.clone(), gart, firmware)?),
        Firmware::Hiq(packets) => Box::new(Hiq::new(hw.clone(), gart, packets, nodes)?),
    };
    Ok(Kept::new(scheduler))
}
