//! The guest's memory as the client maps it: DMA_MAP and DMA_UNMAP kept as a `vm_memory` map.
//!
//! Each file is mapped once and as a whole, so that no range needs a descriptor or a map of its own. Ranges that
//! follow each other in the guest's addresses and in their file are one region. Changes take effect for the device in
//! [`DmaTable::publish`], many of them at a time.
#![expect(unsafe_code, reason = "publishes regions of files that it unmaps later")]

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, GuestRegionMmap};

use super::shared_file::{FileError, FileId, MAX_FILES, SharedFile, identify};

/// `VFIO_USER_F_DMA_REGION_READ` and `_WRITE` (vfio-user specification, DMA_MAP flags).
const MAP_READ: u32 = 1;
const MAP_WRITE: u32 = 2;
/// `VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP` and `_ALL`.
const UNMAP_DIRTY: u32 = 1;
const UNMAP_ALL: u32 = 2;

const PAGE: u64 = 4096;

/// Returns the largest number of ranges that one client may hold, even if each has a file of its own; advertised as
/// `max_dma_maps`.
///
/// The number is half of the maps that the kernel gives a process, at most [`MAX_FILES`].
pub(super) fn max_mappings() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let maps = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let maps = maps.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(65530);
        (maps / 2).min(MAX_FILES)
    })
}

/// Reason why a range was not mapped or unmapped.
#[derive(Debug, thiserror::Error)]
pub enum DmaError {
    /// The range is empty, unaligned, beyond its file or the address space, or cuts another one in two.
    #[error("range of {size:#x} bytes at {start:#x}: {what}")]
    Range {
        /// Its first address in the guest.
        start: u64,
        /// Its size in bytes.
        size: u64,
        /// Reason, in words.
        what: &'static str,
    },
    /// A part of the range is mapped already.
    #[error("range of {size:#x} bytes at {start:#x} overlaps another one")]
    Overlap {
        /// Its first address in the guest.
        start: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// The range has no mapped memory.
    #[error("nothing is mapped in {size:#x} bytes at {start:#x}")]
    Nothing {
        /// The first address in the guest.
        start: u64,
        /// Size in bytes.
        size: u64,
    },
    /// There are too many ranges.
    #[error("{0} ranges are mapped already, as many as max_dma_maps says")]
    Full(usize),
    /// Dirty pages are not tracked.
    #[error("dirty bitmaps are not supported")]
    Dirty,
    /// The file cannot be the guest's memory.
    #[error("range of {size:#x} bytes at {start:#x}: {source}")]
    File {
        /// Its first address in the guest.
        start: u64,
        /// Its size in bytes.
        size: u64,
        /// Why.
        source: FileError,
    },
}

impl DmaError {
    /// Returns the errno for the client.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Range { .. } | Self::File { .. } => libc::EINVAL,
            Self::Overlap { .. } => libc::EEXIST,
            Self::Nothing { .. } => libc::ENOENT,
            Self::Full(_) => libc::ENOSPC,
            Self::Dirty => libc::ENOTSUP,
        }
    }
}

/// Memory of one file without a gap; the client may have mapped it in many ranges.
#[derive(Debug)]
struct Area {
    size: u64,
    file: Arc<SharedFile>,
    offset: u64,
    region: Arc<GuestRegionMmap>,
}

/// All ranges of the current client.
#[derive(Debug)]
pub struct DmaTable {
    /// Sizes of the client's ranges by first address, both with and without memory.
    ranges: BTreeMap<u64, u64>,
    /// Memory for the device, by first address.
    areas: BTreeMap<u64, Area>,
    files: BTreeMap<FileId, Weak<SharedFile>>,
    /// Areas removed from `areas` that the device may still use.
    retired: Vec<Area>,
    changed: bool,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    wake: Arc<OwnedFd>,
}

impl DmaTable {
    /// Makes an empty table that publishes into `memory`. `wake`, an eventfd that does not block, is signalled when a
    /// file of the client can no longer be read.
    #[must_use]
    pub fn new(memory: GuestMemoryAtomic<GuestMemoryMmap>, wake: Arc<OwnedFd>) -> Self {
        Self {
            ranges: BTreeMap::new(),
            areas: BTreeMap::new(),
            files: BTreeMap::new(),
            retired: Vec::new(),
            changed: false,
            memory,
            wake,
        }
    }

    /// Adds a range; `fd` is the memory behind it from `offset` on.
    ///
    /// Ranges without a descriptor (ROMs, Belfry's own mapped BAR) and read-only ranges are remembered but not
    /// published: the device finds no memory there, as on a bus on which no device answers.
    ///
    /// # Errors
    /// The errors of [`DmaError`]; the table then stays as it was.
    pub fn map(
        &mut self,
        flags: u32,
        offset: u64,
        start: u64,
        size: u64,
        fd: Option<OwnedFd>,
    ) -> Result<(), DmaError> {
        let wrong = |what| DmaError::Range { start, size, what };
        let end = start.checked_add(size).ok_or_else(|| wrong("it goes beyond the address space"))?;
        if size == 0 || !start.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) {
            return Err(wrong("not a number of whole pages"));
        }
        if self.ranges.len() >= max_mappings() {
            return Err(DmaError::Full(self.ranges.len()));
        }
        if last_before(&self.ranges, end).is_some_and(|(first, size)| first + size > start) {
            return Err(DmaError::Overlap { start, size });
        }
        let usable = flags & (MAP_READ | MAP_WRITE) == MAP_READ | MAP_WRITE;
        if let Some(fd) = fd.filter(|_| usable) {
            if !offset.is_multiple_of(PAGE) {
                return Err(wrong("its offset in the file is not a page's"));
            }
            let end = offset.checked_add(size).ok_or_else(|| wrong("it goes beyond its file"))?;
            let failed = |source| DmaError::File { start, size, source };
            let file = self.file(&File::from(fd), end).map_err(failed)?;
            let file = file.ok_or_else(|| wrong("it goes beyond its file"))?;
            self.insert(start, size, &file, offset).ok_or_else(|| wrong("it cannot be a region"))?;
            self.changed = true;
        }
        self.ranges.insert(start, size);
        Ok(())
    }

    /// Removes the ranges that lie within `start .. start + size`, or all of them if the flag for that is set.
    ///
    /// # Errors
    /// The errors of [`DmaError`]; the table then stays as it was.
    pub fn unmap(&mut self, flags: u32, start: u64, size: u64) -> Result<(), DmaError> {
        if flags & UNMAP_DIRTY != 0 {
            return Err(DmaError::Dirty);
        }
        if flags & UNMAP_ALL != 0 {
            self.clear();
            return Ok(());
        }
        let wrong = |what| DmaError::Range { start, size, what };
        let end = start.checked_add(size).ok_or_else(|| wrong("it goes beyond the address space"))?;
        let cut = |at| last_before(&self.ranges, at).is_some_and(|(first, size)| first + size > at);
        if size == 0 || cut(start) || cut(end) {
            return Err(wrong("it is empty or would cut another range in two"));
        }
        let gone: Vec<(u64, u64)> =
            self.ranges.range(start..end).map(|(&start, &size)| (start, size)).collect();
        if gone.is_empty() {
            return Err(DmaError::Nothing { start, size });
        }
        for (start, size) in gone {
            self.ranges.remove(&start);
            self.remove(start, size).ok_or_else(|| wrong("what is left of its memory cannot be a region"))?;
        }
        Ok(())
    }

    /// Forgets every range, as after the client has left.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.changed |= !self.areas.is_empty();
        self.retired.extend(std::mem::take(&mut self.areas).into_values());
    }

    /// Returns true if there are changes to publish.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Returns true if a file of the client can no longer be read, so that the guest has lost its memory.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.areas.values().any(|area| area.file.is_lost())
    }

    /// Publishes the areas; `tell` tells the device, and returns once the device has let go of the areas published
    /// before.
    pub fn publish(&mut self, tell: impl FnOnce()) {
        let regions: Vec<_> = self.areas.values().map(|area| area.region.clone()).collect();
        // Areas are in order and do not overlap: the only possible error is that there are none.
        let memory = GuestMemoryMmap::from_arc_regions(regions).unwrap_or_else(|_| GuestMemoryMmap::new());
        self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(memory);
        tell();
        self.changed = false;
        let gone: Vec<FileId> =
            self.retired.extract_if(.., |area| !area.is_used()).map(|area| area.file.id()).collect();
        for id in gone {
            if self.files.get(&id).is_some_and(|file| file.strong_count() == 0) {
                self.files.remove(&id);
            }
        }
    }

    /// Returns the map of `file`, if it reaches up to `end`.
    fn file(&mut self, file: &File, end: u64) -> Result<Option<Arc<SharedFile>>, FileError> {
        let (id, size) = identify(file)?;
        if let Some(known) = self.files.get(&id).and_then(Weak::upgrade).filter(|known| end <= known.length())
        {
            return Ok(Some(known));
        }
        if end > size {
            return Ok(None);
        }
        // The file is not known, or has grown since: maps in use stay as they are.
        let mapped = Arc::new(SharedFile::new(file, id, size, self.wake.as_fd())?);
        self.files.insert(id, Arc::downgrade(&mapped));
        Ok(Some(mapped))
    }

    /// Adds memory, as a part of an adjoining area if that is of this file; `None` if it cannot be a region.
    fn insert(&mut self, start: u64, size: u64, file: &Arc<SharedFile>, offset: u64) -> Option<()> {
        let (mut first, mut whole, mut from) = (start, size, offset);
        let before = self.areas.range(..start).next_back();
        let before = before.filter(|(at, area)| {
            *at + area.size == start && Arc::ptr_eq(&area.file, file) && area.offset + area.size == offset
        });
        if let Some((at, area)) = before {
            (first, whole, from) = (*at, area.size + whole, area.offset);
        }
        let after = self.areas.get(&(start + size));
        let after = after
            .filter(|area| Arc::ptr_eq(&area.file, file) && Some(area.offset) == offset.checked_add(size));
        let joins_after = after.is_some();
        whole += after.map_or(0, |area| area.size);
        let area = Area::new(first, whole, file, from)?;
        if joins_after {
            self.take(start + size);
        }
        self.take(first);
        self.areas.insert(first, area);
        Some(())
    }

    /// Removes memory that is a part of one area, or that is in no area.
    fn remove(&mut self, start: u64, size: u64) -> Option<()> {
        let end = start + size;
        let Some((&first, area)) = self.areas.range(..=start).next_back() else { return Some(()) };
        let after = first + area.size;
        if after <= start {
            return Some(());
        }
        let (file, offset) = (area.file.clone(), area.offset);
        let head = if first < start { Some(Area::new(first, start - first, &file, offset)?) } else { None };
        let tail = if end < after {
            Some(Area::new(end, after - end, &file, offset + (end - first))?)
        } else {
            None
        };
        self.take(first);
        self.areas.extend(head.map(|area| (first, area)).into_iter().chain(tail.map(|area| (end, area))));
        self.changed = true;
        Some(())
    }

    /// Removes an area; its file stays mapped until the device has been told.
    fn take(&mut self, start: u64) {
        self.retired.extend(self.areas.remove(&start));
    }
}

impl Drop for DmaTable {
    fn drop(&mut self) {
        self.clear();
        self.publish(|| ());
        // A device that was not told goes on using the old areas, so their files stay mapped.
        self.retired.drain(..).for_each(std::mem::forget);
    }
}

impl Area {
    fn new(start: u64, size: u64, file: &Arc<SharedFile>, offset: u64) -> Option<Self> {
        // SAFETY: areas are dropped only in `publish`, when no other owner has their region. Engines that have read a
        // pointer out of the region hold the map that contains it until they are told to let go, and `publish` waits
        // for them then.
        let region = unsafe { file.region(offset, start, size) }?;
        Some(Self { size, file: file.clone(), offset, region: Arc::new(region) })
    }

    /// Returns true if a map of guest memory has the region, too.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.region) > 1
    }
}

/// Returns the last range that begins before `end`.
fn last_before(ranges: &BTreeMap<u64, u64>, end: u64) -> Option<(u64, u64)> {
    ranges.range(..end).next_back().map(|(&start, &size)| (start, size))
}
