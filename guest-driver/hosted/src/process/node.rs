//! Device files, and the descriptors of render nodes.

use belfry_kfd_core::os::MAX_PARTITIONS;

/// Device file that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// `/dev/kfd`.
    Kfd,
    /// `/dev/dri/renderD128`.
    Render,
    /// The render node of the partition with this number; the first partition's is [`Node::Render`].
    Partition(u32),
}

impl Node {
    /// The partition whose render node it is, if it is one.
    #[must_use]
    pub fn partition(self) -> Option<u32> {
        match self {
            Self::Kfd => None,
            Self::Render => Some(0),
            Self::Partition(number) => Some(number),
        }
    }
}

/// Base of the descriptor numbers of render nodes: far above real ones, so that neither is taken for the other.
const RENDER_FD: i32 = 0x4000_0000;
/// Shift of the partition's number in a descriptor number; the bits below it tell the process.
const PARTITION_SHIFT: u32 = 24;

/// Way in which a process tells which of its descriptors are render nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RenderFiles {
    /// Number, which is no real descriptor, of the first partition's render node.
    Invented(i32),
    /// Function that returns the partition of a descriptor that is a render node.
    Real(fn(i32) -> Option<u32>),
}

impl RenderFiles {
    /// The partition whose render node a descriptor is.
    pub(crate) fn partition(self, fd: i32) -> Option<u32> {
        match self {
            Self::Invented(own) => {
                let above = fd.checked_sub(own).and_then(|above| u32::try_from(above).ok())?;
                let partition = above >> PARTITION_SHIFT;
                (above == partition << PARTITION_SHIFT && partition < MAX_PARTITIONS as u32)
                    .then_some(partition)
            }
            Self::Real(partition) => partition(fd),
        }
    }
}

/// The descriptor number of the first render node of a process that has no descriptors of its own.
pub(super) fn invented(key: u64) -> i32 {
    RENDER_FD + (key & ((1 << PARTITION_SHIFT) - 1)) as i32
}

/// The descriptor number of the render node of a partition.
pub(super) fn invented_of(key: u64, partition: u32) -> i32 {
    invented(key) + ((partition as i32) << PARTITION_SHIFT)
}
