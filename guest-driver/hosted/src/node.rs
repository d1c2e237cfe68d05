//! Device files, and the descriptors of render nodes.

/// Device file that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// `/dev/kfd`.
    Kfd,
    /// `/dev/dri/renderD128`.
    Render,
    /// The render node with this number among those of all partitions of all GPUs; the first one is [`Node::Render`].
    Partition(u32),
}

impl Node {
    /// Number of the render node that it is, if it is one.
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
/// Shift of the render node's number in a descriptor number; the bits below it tell the process.
const PARTITION_SHIFT: u32 = 24;
/// Render nodes that there are descriptor numbers for: as many nodes as a process can have.
const RENDER_NODES: u32 = 64;

/// Way in which a process tells which of its descriptors are render nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RenderFiles {
    /// Number, which is no real descriptor, of the first render node.
    Invented(i32),
    /// Function that returns the number of the render node that a descriptor is of.
    Real(fn(i32) -> Option<u32>),
}

impl RenderFiles {
    /// Number of the render node that a descriptor is of.
    pub(crate) fn partition(self, fd: i32) -> Option<u32> {
        match self {
            Self::Invented(own) => {
                let above = fd.checked_sub(own).and_then(|above| u32::try_from(above).ok())?;
                let partition = above >> PARTITION_SHIFT;
                (above == partition << PARTITION_SHIFT && partition < RENDER_NODES).then_some(partition)
            }
            Self::Real(partition) => partition(fd),
        }
    }
}

/// The descriptor number of the first render node of a process that has no descriptors of its own.
pub(crate) fn invented(key: u64) -> i32 {
    RENDER_FD + (key & ((1 << PARTITION_SHIFT) - 1)) as i32
}

/// The descriptor number of the render node with a number.
pub(crate) fn invented_of(key: u64, partition: u32) -> i32 {
    invented(key) + ((partition as i32) << PARTITION_SHIFT)
}
