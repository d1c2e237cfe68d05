//! AMD GPU instruction sets: decoder, disassembler and execution engine.

pub mod inst;
pub mod tables;
