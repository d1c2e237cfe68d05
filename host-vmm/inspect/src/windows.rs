//! Addresses at which GDB finds registers and other things that are no memory. No GPU address has such bits.

/// Private memory of the selected lane.
pub(crate) const PRIVATE: u64 = 0x5000_0000_0000_0000;
/// Registers of the selected lane: `v0` and those after it, then `s0` and those after it at [`SGPR_WINDOW`].
pub(crate) const REGISTERS: u64 = 0x5100_0000_0000_0000;
/// Offset of scalar registers in that window.
pub(crate) const SGPR_WINDOW: u64 = 0x1000;
/// LDS of the wave's workgroup.
pub(crate) const LDS: u64 = 0x5200_0000_0000_0000;
