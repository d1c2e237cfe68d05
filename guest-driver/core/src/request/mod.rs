//! Requests to the firmware that schedules, in the driver's own words; [`crate::asic`] has the layouts that firmware takes them in.

mod frame;
mod image;
mod run_list;

pub(crate) use frame::{Frame, HardwareResources, SchedulerRing};
pub(crate) use image::Image;
pub(crate) use run_list::{RunList, RunProcess};

use belfry_abi::doorbell::DoorbellIndex;

/// Address watches of a device.
pub(crate) const WATCHES: usize = 4;

/// A queue of an SDMA engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SdmaPlace {
    pub(crate) engine: u32,
    pub(crate) queue: u32,
}

/// Launch of waves under a debugger (`SPI_GDBG_PER_VMID_CNTL`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchControl {
    pub(crate) trap_en: bool,
    /// Exceptions that waves trap for, as in `MODE.EXCP_EN`.
    pub(crate) exceptions: u32,
    /// The kernel's own exceptions do not count.
    pub(crate) replace: bool,
    /// One of `KFD_DBG_TRAP_WAVE_LAUNCH_MODE_*`.
    pub(crate) mode: u32,
}

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
    /// Set for a queue with the global wave sync, which runs alone.
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

/// Settings of a debugger for the waves of a process.
#[derive(Clone, Copy)]
pub(crate) struct ShaderDebugger {
    /// Address of the process's context.
    pub(crate) process_context: u64,
    pub(crate) launch: LaunchControl,
    pub(crate) watches: [NodeWatch; WATCHES],
    /// `KFD_DBG_TRAP_FLAG_*`.
    pub(crate) flags: u32,
}
