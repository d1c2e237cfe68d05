//! A buffer object in words.

use core::fmt;

use super::{Bo, BoKind};
use crate::os::{Os, SystemPages, UserPin};

impl<O: Os> fmt::Debug for BoKind<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vram(memory) => write!(f, "VRAM in {} extents", memory.extents().len()),
            Self::System(memory) => write!(f, "system memory, {} pages", memory.pages().count()),
            Self::User(memory) => write!(f, "user memory, {} pages pinned", memory.pin.count()),
            Self::Imported(memory) => write!(f, "{} bytes of a DMA-buf", memory.backing().size()),
            Self::Doorbell(_) => f.write_str("doorbells"),
            Self::MmioRemap(_) => f.write_str("flush page"),
        }
    }
}

impl<O: Os> fmt::Debug for Bo<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bo")
            .field("kind", &self.kind)
            .field("va", &format_args!("{:#x}", self.va))
            .field("size", &format_args!("{:#x}", self.size))
            .field("flags", &self.flags)
            .field("mapped_on", &format_args!("{:#b}", self.mapped_on))
            .field("queues", &format_args!("{}", self.queues))
            .field("node", &format_args!("{}", self.node))
            .finish_non_exhaustive()
    }
}
