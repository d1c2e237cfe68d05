//! Matrix instructions: WMMA and MFMA.

pub(super) mod mfma;
pub(super) mod tile;
pub(super) mod tile_integer;
pub(super) mod wmma;
pub(super) mod wmma_exact;
pub(super) mod wmma_spread;
