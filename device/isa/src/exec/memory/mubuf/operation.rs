//! Kinds of buffer operations, and the parts of memory that each accesses.

use super::{Parts, format_of};
use crate::exec::di::Di;
use crate::exec::memory::buffer::Buffer;
use crate::exec::memory::ds::narrow::Narrow;
use crate::exec::properties::Moves;

/// Half-precision elements of a format in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// None: a register for each component.
    Whole,
    /// Two components in a register.
    Halves,
    /// One component in the high half of a register.
    High,
}

/// Kind of a buffer operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A load, a store or an atomic.
    Moves(Moves),
    /// A load or store of this many components, by the format of the descriptor or of the instruction (`typed`).
    Format { typed: bool, components: u32, packing: Packing },
    /// A load of this many dwords to LDS.
    DwordsToLds(u32),
    /// A load of 8 or 16 bits to LDS.
    PartToLds(Narrow),
    /// A load of a component to LDS, by the descriptor's format.
    FormatToLds,
}

impl Operation {
    /// Returns the operation that a load is if its instruction has `lds`; `None` if there is none.
    pub(crate) fn to_lds(self) -> Option<Self> {
        match self {
            Self::Moves(Moves::Dwords(count)) => Some(Self::DwordsToLds(count)),
            Self::Moves(Moves::Part(part)) => Some(Self::PartToLds(part)),
            Self::Format { typed: false, components: 1, packing: Packing::Whole } => Some(Self::FormatToLds),
            _ => None,
        }
    }

    /// Returns true if the operation moves data between memory and LDS.
    pub(crate) fn has_lds(self) -> bool {
        matches!(self, Self::DwordsToLds(_) | Self::PartToLds(_) | Self::FormatToLds)
    }

    /// Returns the parts of a lane's element; an element whose format has no number has none.
    pub(crate) fn parts(self, d: &Di, buffer: &Buffer) -> Parts {
        match self {
            Self::Moves(Moves::Dwords(count)) => (count, 4),
            Self::Moves(Moves::Part(part)) | Self::PartToLds(part) => (1, part.bytes),
            Self::Moves(Moves::Atomic(_, bits)) => (1, bits / 8),
            Self::DwordsToLds(count) => (count, 4),
            Self::Format { .. } | Self::FormatToLds => {
                let (format, _) = format_of(d, buffer);
                format.map_or((0, 0), |format| (1, format.bytes() as u32))
            }
        }
    }
}
