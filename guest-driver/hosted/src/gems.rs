//! Buffer objects that programs map through the render node, by their offsets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_kfd_core::os::{Backing, Gem, PAGE_SIZE};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};

use crate::dmabuf::SharedFile;
use crate::sync::lock;

/// First offset of a buffer object on the render node.
const FIRST_OFFSET: u64 = 1 << 32;
/// Memory that can be mapped through the render node.
#[derive(Clone)]
pub(crate) enum Mappable {
    /// A buffer object's pages.
    Backing(Arc<dyn Backing>),
    /// Shared memory, from its file.
    File(Arc<SharedFile>),
}

impl Mappable {
    fn size(&self) -> u64 {
        match self {
            Self::Backing(backing) => backing.size(),
            Self::File(file) => file.size(),
        }
    }
}

/// The render node file a buffer object belongs to, and its memory.
type Owned = (u64, Mappable);

/// Buffer objects that can be mapped: offset to owner's render node and memory.
#[derive(Default)]
pub(crate) struct Gems {
    by_offset: Mutex<BTreeMap<u64, Owned>, rank::Gems>,
    next: AtomicU64,
}

impl Gems {
    /// The memory that render node file `file` may map at `offset` for `len` bytes, and where in it the offset is.
    pub(crate) fn find(&self, file: u64, offset: u64, len: u64) -> Result<(Mappable, u64)> {
        let table = lock(&self.by_offset);
        let (start, (owner, memory)) = table.range(..=offset).next_back().ok_or(Errno::EINVAL)?;
        let inside = offset - start;
        if inside.checked_add(len).is_none_or(|end| end > memory.size()) {
            return Err(Errno::EINVAL);
        }
        if *owner != file {
            return Err(Errno::EACCES);
        }
        Ok((memory.clone(), inside))
    }

    /// The memory of the buffer object that begins at `offset`.
    pub(crate) fn backing(&self, offset: u64) -> Option<Arc<dyn Backing>> {
        match lock(&self.by_offset).get(&offset) {
            Some((_, Mappable::Backing(backing))) => Some(backing.clone()),
            _ => None,
        }
    }

    /// Gives memory an offset at which render node file `file` may map it.
    pub(crate) fn insert(self: &Arc<Self>, file: u64, memory: Mappable) -> HostedGem {
        let step = memory.size() + PAGE_SIZE;
        let offset = FIRST_OFFSET + self.next.fetch_add(step, Ordering::Relaxed);
        lock(&self.by_offset).insert(offset, (file, memory));
        HostedGem { gems: self.clone(), offset }
    }
}

/// A buffer object of the render node.
pub struct HostedGem {
    gems: Arc<Gems>,
    offset: u64,
}

impl std::fmt::Debug for HostedGem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedGem").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Gem for HostedGem {
    fn mmap_offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for HostedGem {
    fn drop(&mut self) {
        let removed = lock(&self.gems.by_offset).remove(&self.offset);
        drop(removed);
    }
}
