//! Instructions that access memory: LDS, global memory, buffers, and scalar loads.

pub(crate) mod atomic;
pub(crate) mod buffer;
pub(crate) mod buffer_format;
pub(crate) mod ds;
pub(super) mod ds_exchange;
pub(super) mod flat;
pub(super) mod mubuf;
pub(super) mod smem;
pub(super) mod smem_write;
