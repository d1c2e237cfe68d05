//! AMD GPU instruction sets: decoder, disassembler and execution engine.

pub mod decode;
mod encoding;
pub mod inst;
pub mod tables;
