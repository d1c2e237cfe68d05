//! The guest's memory as the client maps it: DMA_MAP and DMA_UNMAP kept as a `vm_memory` map.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, GuestRegionMmap};

/// Most mappings one client may hold; advertised as `max_dma_maps`.
pub const MAX_MAPPINGS: usize = 65535;

/// `VFIO_USER_F_DMA_REGION_READ` and `_WRITE` (vfio-user specification, DMA_MAP flags).
const MAP_READ: u32 = 1;
const MAP_WRITE: u32 = 2;
/// `VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP` and `_ALL`.
const UNMAP_DIRTY: u32 = 1;
const UNMAP_ALL: u32 = 2;

const PAGE: u64 = 4096;

/// One range the client mapped; `region` is absent where it gave no memory to share.
#[derive(Debug)]
struct Mapping {
    start: u64,
    size: u64,
    region: Option<Arc<GuestRegionMmap>>,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.start + self.size
    }
}

/// All ranges of the current client, in address order.
#[derive(Debug)]
pub struct DmaTable {
    mappings: Vec<Mapping>,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
}

impl DmaTable {
    /// An empty table that publishes into `memory`.
    #[must_use]
    pub fn new(memory: GuestMemoryAtomic<GuestMemoryMmap>) -> Self {
        Self { mappings: Vec::new(), memory }
    }

    /// Adds a range; `fd` is the memory behind it from `offset` on.
    ///
    /// Ranges without a descriptor (ROMs, our own mapped BAR) and read-only ones are remembered but not published:
    /// the device finds nothing there, as on a bus where nothing answers. Answers whether the map has changed.
    ///
    /// # Errors
    /// `EINVAL` for a bad range or descriptor, `EEXIST` for an overlap, `ENOSPC` beyond [`MAX_MAPPINGS`].
    pub fn map(
        &mut self,
        flags: u32,
        offset: u64,
        start: u64,
        size: u64,
        fd: Option<OwnedFd>,
    ) -> Result<bool, i32> {
        let end = start.checked_add(size).ok_or(libc::EINVAL)?;
        if size == 0 || !start.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            return Err(libc::ENOSPC);
        }
        let index = self.mappings.partition_point(|mapping| mapping.start < start);
        let overlaps_before = index > 0 && self.mappings[index - 1].end() > start;
        let overlaps_after = self.mappings.get(index).is_some_and(|next| next.start < end);
        if overlaps_before || overlaps_after {
            return Err(libc::EEXIST);
        }
        let usable = flags & (MAP_READ | MAP_WRITE) == MAP_READ | MAP_WRITE;
        let region = match fd {
            Some(fd) if usable => Some(Arc::new(share(File::from(fd), offset, start, size)?)),
            _ => None,
        };
        let changed = region.is_some();
        self.mappings.insert(index, Mapping { start, size, region });
        if changed {
            self.publish()?;
        }
        Ok(changed)
    }

    /// Removes the ranges that lie within `start .. start + size`, or all of them with the flag that says so.
    ///
    /// Answers whether the map has changed.
    ///
    /// # Errors
    /// `EINVAL` where the range would cut one in two, `ENOENT` where there is none, `ENOTSUP` for dirty bitmaps.
    pub fn unmap(&mut self, flags: u32, start: u64, size: u64) -> Result<bool, i32> {
        if flags & UNMAP_DIRTY != 0 {
            return Err(libc::ENOTSUP);
        }
        if flags & UNMAP_ALL != 0 {
            return Ok(self.clear());
        }
        let end = start.checked_add(size).ok_or(libc::EINVAL)?;
        let touches = |mapping: &Mapping| mapping.start < end && mapping.end() > start;
        let inside = |mapping: &Mapping| mapping.start >= start && mapping.end() <= end;
        if self.mappings.iter().any(|mapping| touches(mapping) && !inside(mapping)) {
            return Err(libc::EINVAL);
        }
        let (mut found, mut changed) = (false, false);
        self.mappings.retain(|mapping| {
            let gone = touches(mapping);
            found |= gone;
            changed |= gone && mapping.region.is_some();
            !gone
        });
        if !found {
            return Err(libc::ENOENT);
        }
        if changed {
            self.publish()?;
        }
        Ok(changed)
    }

    /// Forgets every range, as when the client has left.
    pub fn clear(&mut self) -> bool {
        let changed = self.mappings.iter().any(|mapping| mapping.region.is_some());
        self.mappings.clear();
        self.replace(GuestMemoryMmap::new());
        changed
    }

    fn publish(&self) -> Result<(), i32> {
        let regions: Vec<_> = self.mappings.iter().filter_map(|mapping| mapping.region.clone()).collect();
        let memory = if regions.is_empty() {
            GuestMemoryMmap::new()
        } else {
            GuestMemoryMmap::from_arc_regions(regions).map_err(|_| libc::EINVAL)?
        };
        self.replace(memory);
        Ok(())
    }

    fn replace(&self, memory: GuestMemoryMmap) {
        let guard = self.memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        guard.replace(memory);
    }
}

/// Maps `size` bytes of `file` from `offset` on, for the guest address `start`.
fn share(file: File, offset: u64, start: u64, size: u64) -> Result<GuestRegionMmap, i32> {
    let length = usize::try_from(size).map_err(|_| libc::EINVAL)?;
    // A mapping beyond the file's end would kill the server with SIGBUS on first touch.
    let available = file.metadata().map_err(|_| libc::EINVAL)?.len();
    if !offset.is_multiple_of(PAGE) || offset.checked_add(size).is_none_or(|end| end > available) {
        return Err(libc::EINVAL);
    }
    let mapping = MmapRegionBuilder::new(length)
        .with_file_offset(FileOffset::new(file, offset))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
        .build()
        .map_err(|error| {
            log::warn!(target: "vfio_user", "cannot map {size:#x} bytes for {start:#x}: {error}");
            libc::EINVAL
        })?;
    GuestRegionMmap::new(mapping, GuestAddress(start)).ok_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::{Bytes as _, GuestAddressSpace as _, GuestMemoryBackend as _};

    fn table() -> (DmaTable, GuestMemoryAtomic<GuestMemoryMmap>) {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        (DmaTable::new(memory.clone()), memory)
    }

    fn memory_file(size: u64) -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, size).unwrap();
        fd
    }

    const RW: u32 = MAP_READ | MAP_WRITE;

    #[test]
    fn map_publishes_shared_memory_and_unmap_takes_it_back() {
        let (mut table, memory) = table();
        let fd = memory_file(0x4000);
        let copy = File::from(fd.try_clone().unwrap());
        assert_eq!(table.map(RW, 0x1000, 0x10_0000, 0x2000, Some(fd)), Ok(true));
        memory.memory().write_obj(0x1122_3344u32, GuestAddress(0x10_0004)).unwrap();
        let mut bytes = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&copy, &mut bytes, 0x1004).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), 0x1122_3344);
        assert_eq!(table.unmap(0, 0x10_0000, 0x2000), Ok(true));
        assert_eq!(memory.memory().num_regions(), 0);
    }

    #[test]
    fn bad_ranges_are_refused_and_change_nothing() {
        let (mut table, memory) = table();
        assert_eq!(table.map(RW, 0, 0x2000, 0x2000, Some(memory_file(0x2000))), Ok(true));
        let cases: [(u64, u64, u64, u64, i32); 8] = [
            (0, 0x1000, 0x2000, 0x2000, libc::EEXIST),
            (0, 0x3000, 0x1000, 0x1000, libc::EEXIST),
            (0, 0x8000, 0, 0x1000, libc::EINVAL),
            (0, 0x8001, 0x1000, 0x1000, libc::EINVAL),
            (0, 0x8000, 0x1001, 0x2000, libc::EINVAL),
            (0x10, 0x8000, 0x1000, 0x2000, libc::EINVAL),
            (0, 0x8000, 0x3000, 0x2000, libc::EINVAL),
            (0, u64::MAX - 0xfff, 0x2000, 0x2000, libc::EINVAL),
        ];
        for (offset, start, size, file, errno) in cases {
            let result = table.map(RW, offset, start, size, Some(memory_file(file)));
            assert_eq!(result, Err(errno), "{offset:#x} {start:#x} {size:#x}");
        }
        assert_eq!(table.unmap(0, 0x2000, 0x1000), Err(libc::EINVAL), "would cut the range");
        assert_eq!(table.unmap(0, 0x9000, 0x1000), Err(libc::ENOENT));
        assert_eq!(table.unmap(UNMAP_DIRTY, 0x2000, 0x2000), Err(libc::ENOTSUP));
        assert_eq!(memory.memory().num_regions(), 1);
    }

    #[test]
    fn ranges_without_writable_memory_are_accepted_but_not_published() {
        let (mut table, memory) = table();
        assert_eq!(table.map(RW, 0, 0, 0x1000, None), Ok(false));
        assert_eq!(table.map(MAP_READ, 0, 0x1000, 0x1000, Some(memory_file(0x1000))), Ok(false));
        assert_eq!(memory.memory().num_regions(), 0);
        assert_eq!(table.unmap(0, 0, 0x2000), Ok(false));
    }

    #[test]
    fn unmap_all_empties_the_table() {
        let (mut table, memory) = table();
        for page in 0..4 {
            table.map(RW, 0, page * 0x2000, 0x1000, Some(memory_file(0x1000))).unwrap();
        }
        assert_eq!(memory.memory().num_regions(), 4);
        assert_eq!(table.unmap(UNMAP_ALL, 0, 0), Ok(true));
        assert_eq!(memory.memory().num_regions(), 0);
    }
}
