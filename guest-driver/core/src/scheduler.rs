//! What runs the queues of processes: firmware of one kind or another, behind the requests that the driver has.

mod kept;

use alloc::boxed::Box;
use alloc::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;

use crate::asic::{Firmware, LaunchControl};
use crate::debug::WATCHES;
use crate::errno::Result;
use crate::gart::Gart;
use crate::hiq::Hiq;
use crate::hw::Hw;
use crate::mes::Mes;
use crate::node::Nodes;
use crate::os::Os;
use crate::sdma::SdmaPlace;
pub(crate) use kept::Kept;

/// A queue that the scheduler is to run: addresses in VMID 0 but for the trap handler's.
#[derive(Clone, Copy)]
pub(crate) struct QueueRequest {
    /// Number of the node that runs it.
    pub(crate) node: u32,
    pub(crate) pasid: u16,
    /// Root of the process's page tables, in the form of their entries.
    pub(crate) root: u64,
    pub(crate) process_context: u64,
    pub(crate) gang_context: u64,
    pub(crate) priority: u32,
    pub(crate) doorbell: DoorbellIndex,
    pub(crate) mqd: u64,
    /// The write pointer in VMID 0, where an MES reads it.
    pub(crate) wptr: u64,
    /// The write pointer in the process's own address space, where the HWS of gfx9 reads it.
    pub(crate) process_wptr: u64,
    pub(crate) ring_dwords: u32,
    pub(crate) trap_handler: u64,
    pub(crate) trap_memory: u64,
    /// The hardware queue of an SDMA engine that it is for.
    pub(crate) sdma: Option<SdmaPlace>,
    /// Its packets are AQL.
    pub(crate) aql: bool,
    /// It has the global wave sync, and runs alone.
    pub(crate) gws: bool,
    /// Its process's waves wait for pages (XNACK).
    pub(crate) xnack: bool,
}

/// An address watch of a process on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeWatch {
    /// Number of the node.
    pub(crate) node: u32,
    /// `TCP_WATCHn_CNTL`; 0 where there is no watch.
    pub(crate) control: u32,
}

impl NodeWatch {
    /// `TCP_WATCHn_CNTL` as a node has it.
    pub(crate) fn control_on(self, node: u32) -> u32 {
        if self.node == node { self.control } else { 0 }
    }
}

/// What a debugger wants of the waves of a process.
#[derive(Clone, Copy)]
pub(crate) struct ShaderDebugger {
    /// Address of the process's context.
    pub(crate) process_context: u64,
    pub(crate) launch: LaunchControl,
    pub(crate) watches: [NodeWatch; WATCHES],
    /// `KFD_DBG_TRAP_FLAG_*`.
    pub(crate) flags: u32,
}

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
