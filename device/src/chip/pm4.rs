//! The packets that the command processor takes.

/// PM4 packets, where generations differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pm4Packets {
    /// gfx9 with several graphics cores: ACQUIRE_MEM without `gcr_cntl`, RELEASE_MEM that may lack its last dword, PRED_EXEC by
    /// the number of the core.
    V9,
    /// gfx10 and later.
    V10,
}
