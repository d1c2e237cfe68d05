//! VGPR indexing: vector registers relative to `M0` (`MODE.GPR_IDX_EN`).

/// `MODE.GPR_IDX_EN`.
pub(crate) const GPR_IDX_EN: u32 = 1 << 27;
