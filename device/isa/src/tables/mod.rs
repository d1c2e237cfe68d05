//! Generated tables: the operations, and per architecture how they are encoded.

pub(crate) mod gfx11;
pub mod op;
