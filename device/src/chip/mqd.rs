//! Where a queue's state is in its MQD.

/// Positions in a compute MQD of 512 dwords, in dwords.
///
/// The bank of HQD registers, from `CP_MQD_BASE_ADDR` on, has the same order in the MQDs of all generations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MqdLayout {
    /// Value of dword 0, which firmware checks.
    pub header: u32,
    /// First of the HQD registers.
    pub hqd_first: usize,
    /// How many there are, up to `CP_HQD_PQ_WPTR_HI`.
    pub hqd_dwords: usize,
    /// First of the compute registers, `COMPUTE_DISPATCH_INITIATOR`.
    pub compute_first: usize,
    /// How many there are, up to the last of the user data.
    pub compute_dwords: usize,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: usize,
    /// The bit of it that says that waves take traps. It is the driver's: kernels and packets do not set it.
    pub traps: u32,
    /// Which compute units waves may use, for each shader engine (`COMPUTE_STATIC_THREAD_MGMT_SE0` and on).
    pub thread_mgmt: &'static [usize],
    /// Context save area, low and high (`CP_HQD_CTX_SAVE_BASE_ADDR`).
    pub save_base: [usize; 2],
    /// Its size (`CP_HQD_CTX_SAVE_SIZE`).
    pub save_size: usize,
    /// Bytes of its control stack (`CP_HQD_CNTL_STACK_SIZE`).
    pub stack_size: usize,
    /// Where the control stack's last entry begins (`CP_HQD_CNTL_STACK_OFFSET`).
    pub stack_offset: usize,
    /// Where the waves end (`CP_HQD_WG_STATE_OFFSET`).
    pub waves_offset: usize,
    /// Counters of the global wave sync, one for each resource.
    pub gws: usize,
    /// Where the fields of queues on several graphics cores are.
    pub xccs: Option<XccFields>,
}

/// Fields of the MQDs of a queue that is on several graphics cores, in dwords.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct XccFields {
    /// The core's share of the workgroups.
    pub logic_id: usize,
    /// Workgroups in a row that one core takes.
    pub chunk: usize,
    /// The core that executes the ring of a PM4 queue.
    pub target: usize,
    /// Bytes from the MQD of one core to that of the next.
    pub stride: usize,
}
