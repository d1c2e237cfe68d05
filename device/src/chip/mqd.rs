//! Places of a queue's state in its MQD.

/// Positions in a compute MQD of 512 dwords, in dwords.
///
/// The bank of HQD registers, from `CP_MQD_BASE_ADDR` on, has the same order in the MQDs of all generations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MqdLayout {
    /// Value of dword 0, which firmware checks.
    pub header: u32,
    /// First of the HQD registers.
    pub hqd_first: usize,
    /// Number of HQD registers, up to `CP_HQD_PQ_WPTR_HI`.
    pub hqd_dwords: usize,
    /// First of the compute registers, `COMPUTE_DISPATCH_INITIATOR`.
    pub compute_first: usize,
    /// Number of compute registers, up to the last of the user data.
    pub compute_dwords: usize,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: usize,
    /// Bit of `COMPUTE_PGM_RSRC2` for waves that take traps. It is the driver's: kernels and packets do not
    /// set it.
    pub traps: u32,
    /// Masks of the compute units that waves may use, for each shader engine
    /// (`COMPUTE_STATIC_THREAD_MGMT_SE0` and on).
    pub thread_mgmt: &'static [usize],
    /// Context save area, low and high (`CP_HQD_CTX_SAVE_BASE_ADDR`).
    pub save_base: [usize; 2],
    /// Its size (`CP_HQD_CTX_SAVE_SIZE`).
    pub save_size: usize,
    /// Bytes of its control stack (`CP_HQD_CNTL_STACK_SIZE`).
    pub stack_size: usize,
    /// Offset of the control stack's last entry (`CP_HQD_CNTL_STACK_OFFSET`).
    pub stack_offset: usize,
    /// Offset of the end of the waves (`CP_HQD_WG_STATE_OFFSET`).
    pub waves_offset: usize,
    /// Counters of the global wave sync, one for each resource.
    pub gws: usize,
    /// Fields of queues on several graphics cores.
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
