//! AMD GPU instruction sets: decoder, disassembler and execution engine.

pub mod decode;
pub mod disasm;
mod encoding;
pub mod inst;
pub mod tables;
