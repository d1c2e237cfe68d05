//! Run lists of the hardware scheduler, and the processes in them.

use super::LaunchControl;

/// A process of a run list.
pub(crate) struct RunProcess {
    pub(crate) pasid: u16,
    /// Root of its page tables, in the form of their entries.
    pub(crate) root: u64,
    pub(crate) sh_mem_bases: u32,
    pub(crate) sh_mem_config: u32,
    pub(crate) trap_handler: u64,
    pub(crate) trap_memory: u64,
    /// One of its queues has the global wave sync.
    pub(crate) gws: bool,
    /// Queues that follow.
    pub(crate) queues: u32,
    /// Settings of a debugger for its waves.
    pub(crate) launch: LaunchControl,
    /// `TCP_WATCHn_CNTL`.
    pub(crate) watches: [u32; 4],
    pub(crate) flags: u32,
}

/// A run list in memory: its address in VMID 0, and how long it is.
pub(crate) struct RunList {
    pub(crate) address: u64,
    pub(crate) dwords: u32,
    /// Set for the last packet of this list, which begins anew after it.
    pub(crate) chain: bool,
    /// Processes that get a VMID at a time.
    pub(crate) processes: u32,
}
