//! AMD GPU instruction sets: decoder, disassembler and execution engine.

pub mod code_cache;
pub mod code_store;
pub mod context;
pub mod decode;
pub mod disasm;
pub mod encode;
mod encoding;
pub mod exec;
mod halves;
pub mod inst;
pub mod lanes;
pub mod mem;
mod registers;
pub mod save;
pub mod tables;
mod tier1;
pub mod trap;
pub mod wave;
