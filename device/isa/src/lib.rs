//! AMD GPU instruction sets: decoder, disassembler and execution engine.
