//! The device's regions as VFIO numbers them: BARs 0 to 5, ROM, configuration space, VGA.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use belfry_abi::pci::BAR_ROM;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_BAR5_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_REGIONS, VFIO_PCI_ROM_REGION_INDEX,
    VFIO_REGION_INFO_CAP_SPARSE_MMAP, VFIO_REGION_INFO_FLAG_CAPS, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};

/// Bytes of configuration space, PCI Express extended space included.
pub const CONFIG_SIZE: u64 = 4096;
/// Size of `struct vfio_region_info` (linux/vfio.h).
const REGION_INFO_SIZE: u32 = 32;
/// Size of a sparse-mmap capability with one area: `vfio_region_info_cap_sparse_mmap` and its area.
const SPARSE_SIZE: u32 = 32;

/// Target of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A base address register, by number, or the expansion ROM as [`BAR_ROM`].
    Bar(u8),
    /// Configuration space.
    Config,
}

/// One region: its size, and the file to map if the client may map it.
#[derive(Debug, Default)]
pub struct Region {
    size: u64,
    file: Option<OwnedFd>,
}

/// The nine regions of a PCI device.
#[derive(Debug)]
pub struct Regions {
    regions: Vec<Region>,
}

impl Regions {
    /// Makes the device's regions: `(size, file)` of BAR0 (VRAM) and BAR2 (doorbells), the size of BAR5 (registers).
    ///
    /// A file makes the whole BAR mappable from its offset 0; without one every access arrives as a message.
    #[must_use]
    pub fn new(vram: (u64, Option<OwnedFd>), doorbells: (u64, Option<OwnedFd>), registers: u64) -> Self {
        let mut regions: Vec<Region> = (0..VFIO_PCI_NUM_REGIONS).map(|_| Region::default()).collect();
        for (index, (size, file)) in [
            (VFIO_PCI_BAR0_REGION_INDEX, vram),
            (VFIO_PCI_BAR2_REGION_INDEX, doorbells),
            (VFIO_PCI_BAR5_REGION_INDEX, (registers, None)),
            (VFIO_PCI_CONFIG_REGION_INDEX, (CONFIG_SIZE, None)),
        ] {
            regions[index as usize] = Region { size, file };
        }
        Self { regions }
    }

    /// Adds an expansion ROM of this size.
    #[must_use]
    pub fn with_rom(mut self, size: u64) -> Self {
        self.regions[VFIO_PCI_ROM_REGION_INDEX as usize].size = size;
        self
    }

    /// Replaces the file of a BAR that can be mapped; other BARs have no file and get none.
    pub fn replace_file(&mut self, bar: u8, file: OwnedFd) {
        if let Some(mapped) = self.regions.get_mut(usize::from(bar)).and_then(|region| region.file.as_mut()) {
            *mapped = file;
        }
    }

    /// Returns the number of regions; always nine.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.regions.len() as u32
    }

    /// Resolves an access of `count` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region that is not there, and for an access that leaves it.
    pub fn resolve(&self, index: u32, offset: u64, count: u64) -> Result<Target, i32> {
        let region = self.regions.get(index as usize).ok_or(libc::EINVAL)?;
        if offset.checked_add(count).is_none_or(|end| end > region.size) {
            return Err(libc::EINVAL);
        }
        match index {
            VFIO_PCI_CONFIG_REGION_INDEX => Ok(Target::Config),
            // A ROM that is absent has not even empty accesses.
            VFIO_PCI_ROM_REGION_INDEX if region.size > 0 => Ok(Target::Bar(BAR_ROM)),
            bar @ 0..=5 => Ok(Target::Bar(bar as u8)),
            _ => Err(libc::EINVAL),
        }
    }

    /// Returns the reply to DEVICE_GET_REGION_INFO: `struct vfio_region_info`, the sparse-mmap capability if the
    /// region has one and `argsz` has room for it, and the file to pass along.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region that is not there, and for an `argsz` without room for the structure.
    pub fn info(&self, index: u32, argsz: u32) -> Result<(Vec<u8>, Option<BorrowedFd<'_>>), i32> {
        let region = self.regions.get(index as usize).ok_or(libc::EINVAL)?;
        if argsz < REGION_INFO_SIZE {
            return Err(libc::EINVAL);
        }
        let mut flags = match index {
            _ if region.size == 0 => 0,
            VFIO_PCI_ROM_REGION_INDEX => VFIO_REGION_INFO_FLAG_READ,
            _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
        };
        let mappable = region.file.is_some();
        if mappable {
            flags |= VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
        }
        let needed = REGION_INFO_SIZE + if mappable { SPARSE_SIZE } else { 0 };
        let with_capability = mappable && argsz >= needed;
        let mut reply = Vec::with_capacity(needed as usize);
        for word in [needed, flags, index, if mappable { REGION_INFO_SIZE } else { 0 }] {
            reply.extend_from_slice(&word.to_le_bytes());
        }
        reply.extend_from_slice(&region.size.to_le_bytes());
        reply.extend_from_slice(&0u64.to_le_bytes());
        if with_capability {
            // vfio_info_cap_header {id, version, next}, then {nr_areas, reserved} and the areas.
            let id_and_version = VFIO_REGION_INFO_CAP_SPARSE_MMAP | 1 << 16;
            for word in [id_and_version, 0, 1, 0] {
                reply.extend_from_slice(&word.to_le_bytes());
            }
            reply.extend_from_slice(&0u64.to_le_bytes());
            reply.extend_from_slice(&region.size.to_le_bytes());
        }
        Ok((reply, region.file.as_ref().map(OwnedFd::as_fd).filter(|_| with_capability)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> Regions {
        let vram = rustix::fs::memfd_create("vram", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        Regions::new((0x10_0000, Some(vram)), (0x20_0000, None), 0x1000)
    }

    #[test]
    fn accesses_resolve_within_their_region_only() {
        let regions = regions();
        for (index, offset, count, expected) in [
            (0, 0x10_0000 - 4, 4, Ok(Target::Bar(0))),
            (0, 0x10_0000 - 3, 4, Err(libc::EINVAL)),
            (0, u64::MAX, 4, Err(libc::EINVAL)),
            (1, 0, 1, Err(libc::EINVAL)),
            (2, 8, 8, Ok(Target::Bar(2))),
            (5, 0xffc, 4, Ok(Target::Bar(5))),
            (6, 0, 0, Err(libc::EINVAL)),
            (7, 0xfff, 1, Ok(Target::Config)),
            (8, 0, 1, Err(libc::EINVAL)),
            (9, 0, 1, Err(libc::EINVAL)),
            (u32::MAX, 0, 1, Err(libc::EINVAL)),
        ] {
            assert_eq!(regions.resolve(index, offset, count), expected, "{index} {offset:#x} {count}");
        }
    }

    #[test]
    fn expansion_rom_is_a_region_that_is_read_only() {
        assert_eq!(regions().resolve(6, 0, 0), Err(libc::EINVAL));
        let regions = regions().with_rom(0x800);
        assert_eq!(regions.resolve(6, 0x7fc, 4), Ok(Target::Bar(BAR_ROM)));
        assert_eq!(regions.resolve(6, 0x7fd, 4), Err(libc::EINVAL));
        let (info, file) = regions.info(6, 32).unwrap();
        assert_eq!((&info[4..8], file.is_some()), (&VFIO_REGION_INFO_FLAG_READ.to_le_bytes()[..], false));
        assert_eq!(info[16..24], 0x800u64.to_le_bytes());
    }

    #[test]
    fn capability_is_sent_only_where_it_fits() {
        let regions = regions();
        let (short, fd) = regions.info(0, 32).unwrap();
        assert_eq!((short.len(), fd.is_some()), (32, false));
        assert_eq!(short[..4], 64u32.to_le_bytes(), "argsz says what is needed");
        let (full, fd) = regions.info(0, 64).unwrap();
        assert_eq!((full.len(), fd.is_some()), (64, true));
        let (plain, fd) = regions.info(2, 4096).unwrap();
        assert_eq!((plain.len(), fd.is_some()), (32, false));
        assert_eq!(regions.info(9, 32).unwrap_err(), libc::EINVAL);
        assert_eq!(regions.info(0, 31).unwrap_err(), libc::EINVAL);
    }
}
