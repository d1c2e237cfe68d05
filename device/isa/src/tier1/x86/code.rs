//! Code of a region.

use super::asm::Links;

/// Machine code, and where in it the elements are that it can be entered at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// [Addresses](Links::places) in it are zeros.
    pub(crate) bytes: Vec<u8>,
    /// Offset of each element's code; `NO_ENTRY` within a block.
    pub(crate) entries: Box<[u32]>,
    /// Offset of the code that begins with known loads, or `NO_ENTRY`.
    pub(crate) known_entry: u32,
    /// Addresses that are still to be put into it.
    pub(crate) links: Links,
    /// Bytes of instructions, before the constants.
    pub(crate) instructions: u32,
    /// Ascending ranges of rows that code stores to memory, except in cold ways and at the ends of waves.
    pub(crate) stored: Box<[(u32, u32)]>,
}
