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
    /// Where waves are restored from, low and high (`COMPUTE_WAVE_RESTORE_ADDR`).
    pub wave_restore: [usize; 2],
    /// Context save area, low and high (`CP_HQD_CTX_SAVE_BASE_ADDR`).
    pub save_base: [usize; 2],
    /// Its size (`CP_HQD_CTX_SAVE_SIZE`).
    pub save_size: usize,
}
