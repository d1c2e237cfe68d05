//! Why a launch cannot be.

/// Why a launch cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A dimension of grid or block is zero.
    #[error("the {what} {extent:?} of kernel `{kernel}` has a zero")]
    Empty {
        /// The kernel.
        kernel: String,
        /// `grid` or `block`.
        what: &'static str,
        /// Extent that was given.
        extent: [u32; 3],
    },
    /// The block is larger than the kernel was compiled for.
    #[error(
        "a block of {block:?} has {items} work-items, kernel `{kernel}` was compiled for {limit} at most"
    )]
    BlockTooLarge {
        /// The kernel.
        kernel: String,
        /// Block that was given.
        block: [u32; 3],
        /// Work-items of it.
        items: u64,
        /// Most there may be.
        limit: u32,
    },
    /// The kernel requires another block.
    #[error("kernel `{kernel}` requires a block of {required:?}, {block:?} was given")]
    BlockRequired {
        /// The kernel.
        kernel: String,
        /// Block that was given.
        block: [u32; 3],
        /// Block that the source requires.
        required: [u32; 3],
    },
    /// More LDS than a workgroup can have.
    #[error("kernel `{kernel}` would use {bytes} bytes of LDS, a workgroup has {limit}")]
    Lds {
        /// The kernel.
        kernel: String,
        /// Bytes of LDS, all together.
        bytes: u64,
        /// Most there may be.
        limit: u64,
    },
    /// Queue and kernel are on different GPUs.
    #[error("kernel `{kernel}` is loaded on another GPU than the queue's")]
    ForeignQueue {
        /// The kernel.
        kernel: String,
    },
}
