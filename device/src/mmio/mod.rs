//! mmio.
