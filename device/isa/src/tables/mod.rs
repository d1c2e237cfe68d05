//! Generated tables: the operations, and per architecture how they are encoded.

pub mod op;
