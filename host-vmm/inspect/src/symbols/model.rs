//! Contents of a file: rows of its line tables, functions, variables and their types.

use std::ops::Range;

/// A row of a line table: code from an address on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) address: u64,
    pub(super) file: u32,
    pub(super) line: u32,
    /// True if nothing is known of the code after it.
    pub(super) end: bool,
    /// True if the row begins a statement.
    pub(super) statement: bool,
}

/// A function with its variables.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) code: Range<u64>,
    /// The expression of its frame.
    pub(super) frame: Option<Vec<u8>>,
    pub(super) variables: Vec<Variable>,
}

/// A variable or a parameter.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The code that can name it.
    pub(super) scope: Range<u64>,
    /// Places of the variable, each with the code in which it holds.
    pub(super) locations: Vec<Location>,
    pub(super) kind: Kind,
}

/// An expression that says where something is.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// The code in which it holds.
    pub(super) code: Range<u64>,
    pub(super) expression: Vec<u8>,
    /// The address that the expression has by its index in `.debug_addr`, if it has one.
    pub(super) indexed: Option<u64>,
    /// Offset of the expression in the file.
    pub(super) at: Option<usize>,
}

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A number: its DWARF encoding and its bytes.
    Number(u8, usize),
    /// A pointer, by its bytes.
    Pointer(usize),
    /// Members with their offsets.
    Members(Vec<(String, usize, Self)>, usize),
    /// Elements.
    Array(Box<Self>, usize),
    /// Anything else, by its bytes.
    Other(usize),
}

impl Kind {
    /// Bytes of a value.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Number(_, size) | Self::Pointer(size) | Self::Members(_, size) | Self::Other(size) => *size,
            Self::Array(element, count) => element.size().saturating_mul(*count),
        }
    }
}
