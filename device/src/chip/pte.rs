//! Entries of page tables: their contents for the walker, and the format of each chip.

use super::{gfx942, gfx1100, gfx1201};
use crate::memory::Physical;

/// Format of a chip's page-table entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PteFormat {
    /// gfx9 with `translate_further`.
    Gfx9,
    /// gfx11, `AMDGPU_PTE_*` without the bits of gfx12.
    Gfx11,
    /// gfx12, `AMDGPU_PTE_*_GFX12`.
    Gfx12,
}

/// A table: a root, or the target of a directory's entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Table {
    /// Place of its first entry.
    pub at: Physical,
}

/// A page or a huge page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Page {
    /// Place, not yet aligned to the size that the entry's level maps.
    pub at: Physical,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores and atomics are allowed.
    pub writable: bool,
    /// Instruction fetch is allowed.
    pub executable: bool,
    /// log2 of the pages around this one that are contiguous with it.
    pub fragment: u8,
}

/// Decoded entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Entry {
    /// Maps nothing.
    Absent,
    /// A table of the next level.
    Table(Table),
    /// Memory.
    Page(Page),
    /// A page that is not resident (PRT): loads are 0, stores go nowhere, and neither is a fault.
    NotResident,
    /// Something that the format has and the model has not: the access is refused, as that is better than a
    /// wrong one.
    Unmodelled,
}

impl PteFormat {
    /// Decodes the entry of a table at a level, 0 for the last one.
    #[inline]
    #[must_use]
    pub fn entry(self, bits: u64, level: u32) -> Entry {
        match self {
            Self::Gfx9 => gfx942::pte::entry(bits, level),
            Self::Gfx11 => gfx1100::pte::entry(bits, level),
            Self::Gfx12 => gfx1201::pte::entry(bits, level),
        }
    }

    /// Levels of directories, and log2 of the pages of a PTB, of a context with these fields in its `CNTL`;
    /// `None` for a form that the model does not have.
    #[must_use]
    pub fn shape(self, depth: u32, block_size: u32) -> Option<(u32, u32)> {
        match self {
            Self::Gfx9 => gfx942::pte::shape(depth, block_size),
            Self::Gfx11 | Self::Gfx12 => Some((depth, block_size + 9)),
        }
    }

    /// Decodes `PAGE_TABLE_BASE_ADDR`.
    #[inline]
    #[must_use]
    pub fn root(self, bits: u64) -> Table {
        match self {
            // All formats have the same bits here.
            Self::Gfx9 | Self::Gfx11 | Self::Gfx12 => gfx1100::pte::table(bits),
        }
    }
}
