//! The packets that the command processor takes.

/// PM4 packets, where generations differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pm4Packets {
    /// gfx9 with several graphics cores: ACQUIRE_MEM without `gcr_cntl`, RELEASE_MEM that may lack its last dword, PRED_EXEC by
    /// the number of the core.
    V9,
    /// gfx10 and gfx11.
    V10,
    /// gfx12: also registers in pairs with their numbers, and sizes of workgroups with the order of their work-items.
    V12,
}

impl Pm4Packets {
    /// Returns the work-items of a workgroup in a dimension, 0 to 2, that `COMPUTE_NUM_THREAD_*` has. On gfx12, x and y
    /// have `INTERLEAVE_BITS` in 15:13 (mesa `gfx12.json`), which say how a workgroup's work-items are dealt to its waves.
    /// Here they are dealt in their order.
    pub(crate) fn workgroup_size(self, dimension: usize, bits: u32) -> u32 {
        match self {
            Self::V12 if dimension < 2 => bits & 0x1fff,
            Self::V9 | Self::V10 | Self::V12 => bits & 0xffff,
        }
    }
}
