//! Ranges of shared virtual memory that a process has, and the mirrored pages that the GPU's page tables lead to.

mod attributes;
mod list;
mod mapped;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use belfry_abi::kfd::svm::KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED;

use crate::os::Os;
use crate::process_device::{ProcessNode, ProcessNodes};

pub(crate) use attributes::{Access, Attributes, change_mapping, check, check_question};
#[cfg(test)]
pub(crate) use list::Growth;
pub(crate) use list::{MAX_RANGES, Ranges};
pub(crate) use mapped::{Mapped, Mirrored, Part};

/// New ranges are as large as this part of VRAM (`svm_range_set_max_pages`), within these bounds in bytes.
const PIECES_OF_VRAM: u64 = 32;
const PIECE: Range<u64> = 2 << 20..1 << 30;

/// Shared virtual memory of a process.
pub(crate) struct Svm<O: Os> {
    pub(crate) ranges: Ranges,
    pub(crate) mapped: Mapped<O>,
    /// Mirrors of no pages, which hear when memory of ranges goes that is not mapped.
    pub(crate) watched: Mapped<O>,
    /// The queues are off the scheduler until everything stale is mapped anew.
    pub(crate) quiesced: bool,
    /// Times in a row that memory could not be mapped anew.
    pub(crate) failures: u32,
    /// Changes of the memory.
    pub(crate) changes: u32,
    /// Bytes of ranges, charged like system memory.
    pub(crate) charged: u64,
    /// Parts that were unmapped, and could not be dropped where that was told.
    pub(crate) gone: Vec<(u64, Part<O>)>,
}

/// A page that a wave waits for, and the entry of the filter that told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) va: u64,
    pub(crate) told: u32,
    /// The process's number of the node that it waits on.
    pub(crate) node: u32,
}

impl<O: Os> fmt::Debug for Svm<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Svm")
            .field("ranges", &format_args!("{} of {} bytes", self.ranges.len(), self.charged))
            .field("stale", &format_args!("{:x?}", self.mapped.stale()))
            .field("quiesced", &self.quiesced)
            .finish_non_exhaustive()
    }
}

impl<O: Os> Svm<O> {
    /// None, of a process with these nodes: the smallest VRAM says how large ranges are.
    pub(crate) fn of(nodes: &ProcessNodes<O>) -> Self {
        Self::new(nodes.devices().map(|node| node.device.config.vram_size).min().unwrap_or(0))
    }

    fn new(vram: u64) -> Self {
        let part = (vram / PIECES_OF_VRAM).clamp(PIECE.start, PIECE.end);
        let piece = 1 << part.ilog2();
        Self {
            ranges: Ranges::new(piece),
            mapped: Mapped::new(),
            watched: Mapped::new(),
            quiesced: false,
            failures: 0,
            changes: 0,
            charged: 0,
            gone: Vec::new(),
        }
    }

    /// Ranges that a node may access and that are mapped.
    pub(crate) fn ranges_of(&self, node: &ProcessNode<O>) -> Vec<Range<u64>> {
        let of_it =
            self.ranges.iter().filter(|(_, one)| one.mapped && one.attributes.access.of_any(node.bit()));
        of_it.map(|(start, one)| start..one.end).collect()
    }

    /// Returns whether a range touches shared virtual memory at an address of the GPU or of the program.
    pub(crate) fn touches(&self, va: u64, size: u64, user: Option<u64>) -> bool {
        let one = |start: u64| self.ranges.touches(&(start..start.saturating_add(size)));
        one(va) || user.is_some_and(one)
    }

    /// Returns whether queues may rely on a range: it is mapped and stays so (`kfd_queue_buffer_svm_get`).
    pub(crate) fn serves_queues(&self, node: &ProcessNode<O>, va: u64, size: u64) -> bool {
        let range = va..va.saturating_add(size);
        size > 0
            && self.ranges.all(&range, |one| {
                one.mapped
                    && one.attributes.access.of_any(node.bit())
                    && one.attributes.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED != 0
            })
    }
}
