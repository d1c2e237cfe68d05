//! The end of work, as the operating system passes it on: syncobjs and sync files.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::fence::Fence;
pub use crate::fence::{ForeignFence, SharedFence};

/// A place in a syncobj, as submissions name it (`struct drm_amdgpu_cs_chunk_syncobj`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncPoint {
    /// Handle of the syncobj.
    pub handle: u32,
    /// The point, 0 for a syncobj without points.
    pub point: u64,
    /// `DRM_SYNCOBJ_WAIT_FLAGS_*`.
    pub flags: u32,
}

/// Work that has to be over first.
#[expect(missing_debug_implementations, reason = "work of others cannot be shown")]
pub enum Awaited {
    /// All of this work of the driver's own.
    Here(Vec<Arc<Fence>>),
    /// Work of any driver.
    Elsewhere(Arc<dyn ForeignFence>),
}

/// A syncobj that will have work put into it. Dropping it leaves the syncobj as it is.
pub trait SyncTarget {
    /// Puts work into it.
    fn put(self: Box<Self>, fence: &Arc<Fence>);
}

/// Forms that FENCE_TO_HANDLE makes work of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncExport {
    /// A handle of a new syncobj.
    Syncobj,
    /// A descriptor of a new syncobj.
    SyncobjFd,
    /// A descriptor of a sync file.
    SyncFileFd,
}
