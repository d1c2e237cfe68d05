//! What machine code is made from, and what comes of it.

use super::asm::Links;
use super::form::Form;
use crate::exec::di::Di;
use crate::lanes::BackendKind;

/// What a compiled region is made from, all of it: equal sources make equal code, which [`key`](super::kept::key) goes by.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// Which instructions there are: those of AVX2 or AVX-512.
    pub(super) kind: BackendKind,
    pub(super) code: &'a [Di],
    pub(super) forms: &'a [Form],
    pub(super) halves: u32,
}

/// Machine code, and where in it the elements are that it can be entered at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// Addresses of routines in it are zeros.
    pub(super) bytes: Vec<u8>,
    /// Offset of each element's code; `NO_ENTRY` within a block.
    pub(super) entries: Box<[u32]>,
    /// What is to be put into it of this process.
    pub(super) links: Links,
    /// Bytes of instructions, before the constants.
    pub(super) instructions: u32,
}

pub(super) const NO_ENTRY: u32 = u32::MAX;
