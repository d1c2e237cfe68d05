//! AMD GPU instruction sets: decoder, disassembler and execution engine.
//!
//! In four layers, each of which names only those before it: tables and texts, the machine, execution, compiled code.

// Tables: instructions, their encodings and texts.
pub mod decode;
pub mod disasm;
pub mod encode;
mod encoding;
mod fields;
mod halves;
pub mod inst;
mod registers;
pub mod tables;

// The machine: lanes, memory, waves.
pub mod lanes;
pub mod mem;
pub mod wave;

// Execution.
pub mod code_store;
pub mod exec;

// Compiled code.
mod tier1;

pub use exec::code_cache;
pub use wave::{context, save, trap};

/// The compiler of regions. Execution knows the port alone ([`exec::compiled::Compiler`]): here the engine is put together.
fn compiler() -> Option<&'static dyn exec::compiled::Compiler> {
    tier1::compiler()
}
