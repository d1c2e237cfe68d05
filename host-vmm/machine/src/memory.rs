//! Memory the guest sees at native speed: RAM, and device memory behind a BAR, each a slot of the VM.

#![expect(unsafe_code, reason = "a memory slot gives KVM the address of a mapping of this process")]

use std::fs::File;
use std::io;
use std::sync::Arc;

use belfry_device::Gpu;
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::mmap::{MmapRegionBuilder, MmapRegionError};
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap, MmapRegion,
};

use super::HugePages;
use super::snapshot::{Piece, Section};

/// End of the RAM below the devices.
pub(super) const LOW_RAM_END: u64 = 0xc000_0000;
/// Where RAM goes on above the devices.
pub(super) const HIGH_RAM: u64 = 1 << 32;

/// Whether the kernel makes huge pages for memory that can be shared.
const SHMEM_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Sealed, zeroed memory that can be mapped any number of times.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: File,
    size: u64,
}

impl SharedMemory {
    pub(super) fn new(name: &str, size: u64) -> io::Result<Self> {
        Self::with_flags(name, size, MemfdFlags::empty())
    }

    fn with_flags(name: &str, size: u64, flags: MemfdFlags) -> io::Result<Self> {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&fd, size)?;
        // The file cannot shrink under its mappings.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { file: File::from(fd), size })
    }

    /// One more mapping of all of it.
    pub(super) fn map(&self) -> io::Result<MmapRegion> {
        self.map_part(0, self.size, libc::MAP_NORESERVE)
    }

    fn map_part(&self, offset: u64, length: u64, flags: i32) -> io::Result<MmapRegion> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        MmapRegionBuilder::new(length)
            .with_file_offset(FileOffset::new(self.file.try_clone()?, offset))
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | flags)
            .build()
            .map_err(|error| match error {
                MmapRegionError::Mmap(error) => error,
                error => io::Error::other(error),
            })
    }
}

/// Makes guest RAM of `size` bytes, below and above the devices' addresses.
///
/// Huge pages that are reserved are taken from the host's pool here, so that no access fails later.
pub(super) fn ram(size: u64, pages: HugePages) -> io::Result<GuestMemoryMmap> {
    let (memory, flags) = match pages {
        HugePages::Reserved => {
            let kind = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            (SharedMemory::with_flags("belfry-ram", size, kind)?, 0)
        }
        HugePages::Off | HugePages::Transparent => {
            (SharedMemory::new("belfry-ram", size)?, libc::MAP_NORESERVE)
        }
    };
    let low = size.min(LOW_RAM_END);
    let mut regions = Vec::new();
    for (at, offset, length) in [(0, 0, low), (HIGH_RAM, low, size - low)] {
        if length == 0 {
            continue;
        }
        let region = memory.map_part(offset, length, flags)?;
        if pages == HugePages::Transparent {
            advise_huge(&region)?;
        }
        let region = GuestRegionMmap::new(region, GuestAddress(at));
        regions.push(region.ok_or_else(|| io::Error::other("the memory ends behind all addresses"))?);
    }
    GuestMemoryMmap::from_regions(regions).map_err(io::Error::other)
}

/// Maps a part of a snapshot: what is written to it is this mapping's alone.
fn private(file: &File, offset: u64, length: u64) -> io::Result<MmapRegion> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    MmapRegionBuilder::new(length)
        .with_file_offset(FileOffset::new(file.try_clone()?, offset))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_PRIVATE | libc::MAP_NORESERVE)
        .build()
        .map_err(io::Error::other)
}

/// Guest RAM as a snapshot has it.
pub(super) fn restored_ram(file: &File, section: Section) -> io::Result<GuestMemoryMmap> {
    let low = section.length.min(LOW_RAM_END);
    let parts = [(0, low), (HIGH_RAM, section.length - low)];
    let parts: Vec<(u64, u64)> = parts.into_iter().filter(|(_, length)| *length > 0).collect();
    restored_ranges(file, section.at, &parts)
}

/// Memory as a snapshot has it: its ranges, by address and bytes, whose contents are one behind the other from `at` on.
pub(super) fn restored_ranges(
    file: &File,
    mut at: u64,
    ranges: &[(u64, u64)],
) -> io::Result<GuestMemoryMmap> {
    let region = |&(address, length): &(u64, u64)| {
        let region = private(file, at, length)?;
        at += length;
        let region = GuestRegionMmap::new(region, GuestAddress(address));
        region.ok_or_else(|| io::Error::other("the memory ends behind all addresses"))
    };
    let regions = ranges.iter().map(region).collect::<io::Result<_>>()?;
    GuestMemoryMmap::from_regions(regions).map_err(io::Error::other)
}

/// A mapping with a file, as a part of a snapshot that is written.
pub(super) fn piece(region: &GuestRegionMmap) -> io::Result<Piece<'_>> {
    of_file(region, region.file_offset())
}

fn of_file<'a>(region: &'a MmapRegion, file: Option<&'a FileOffset>) -> io::Result<Piece<'a>> {
    let file = file.ok_or_else(|| io::Error::other("memory without a file"))?;
    let private = region.flags() & libc::MAP_PRIVATE != 0;
    Ok(Piece { region, file: file.file(), offset: file.start(), private })
}

/// One more view of VRAM, which the device has as well.
#[derive(Debug)]
pub(super) struct Vram {
    region: MmapRegion,
    /// Where a view of the device's own mapping has its file.
    file: Option<FileOffset>,
    /// Whose mapping that is, kept for as long as the view.
    owner: Option<Arc<Gpu>>,
}

impl Vram {
    /// As a part of a snapshot that is written.
    pub(super) fn piece(&self) -> io::Result<Piece<'_>> {
        of_file(&self.region, self.file.as_ref().or(self.region.file_offset()))
    }
}

/// Where VRAM is, and how it is viewed by others than the device.
pub(super) enum VramSource {
    /// Shared memory, to be mapped as often as wanted.
    Shared(SharedMemory),
    /// A private mapping, which exists once, as the device has it: its address, size and file.
    Private(*mut u8, usize, FileOffset),
}

impl VramSource {
    /// Empty VRAM, and the device's mapping of it.
    pub(super) fn new(size: u64) -> io::Result<(Self, MmapRegion)> {
        let memory = SharedMemory::new("belfry-vram", size)?;
        let region = memory.map()?;
        Ok((Self::Shared(memory), region))
    }

    /// VRAM as a snapshot has it, and the device's mapping.
    pub(super) fn restored(file: &File, section: Section) -> io::Result<(Self, MmapRegion)> {
        let region = private(file, section.at, section.length)?;
        let at = FileOffset::new(file.try_clone()?, section.at);
        Ok((Self::Private(region.as_ptr(), region.size(), at), region))
    }

    /// One more view, for a device that was given the mapping that came with this.
    pub(super) fn view(&self, gpu: &Arc<Gpu>) -> io::Result<Vram> {
        match self {
            Self::Shared(memory) => Ok(Vram { region: memory.map()?, file: None, owner: None }),
            Self::Private(address, size, file) => {
                let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
                // SAFETY: the mapping is the device's, which has it until it goes; `owner` keeps the device for as long as the view is
                // there. All users go through vm-memory, or are guests, which expect it to change at any time.
                let region = unsafe { MmapRegion::build_raw(*address, *size, prot, flags) };
                let region = region.map_err(io::Error::other)?;
                Ok(Vram { region, file: Some(file.clone()), owner: Some(Arc::clone(gpu)) })
            }
        }
    }
}

/// Asks for huge pages where the host can make some, and says so when it never does.
fn advise_huge(region: &MmapRegion) -> io::Result<()> {
    // SAFETY: the range is the mapping; the advice changes how it is backed, not what is in it.
    if unsafe { libc::madvise(region.as_ptr().cast(), region.size(), libc::MADV_HUGEPAGE) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let setting = std::fs::read_to_string(SHMEM_SETTING).unwrap_or_default();
    if setting.contains("[never]") || setting.contains("[deny]") {
        log::warn!(
            target: "kvm",
            "the host makes no huge pages for shared memory; to change that: echo advise > {SHMEM_SETTING}"
        );
    }
    Ok(())
}

/// Gives the VM its RAM, in slots 0 and up; answers the first free slot.
///
/// The RAM has to live as long as the VM: the owner of the VM keeps `ram` too.
pub(super) fn map_ram(vm: &VmFd, ram: &GuestMemoryMmap) -> io::Result<u32> {
    let mut slot = 0;
    for region in ram.iter() {
        let region = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: region.as_ptr() as u64,
        };
        // SAFETY: the range is a mapping that `Machine` keeps for as long as vCPUs run; all its other users go through
        // vm-memory, which expects it to change at any time.
        unsafe { vm.set_user_memory_region(region) }?;
        slot += 1;
    }
    Ok(slot)
}

/// Device memory that can be put at a guest address and taken away again.
#[derive(Debug)]
pub(super) struct Window {
    vm: Arc<VmFd>,
    slot: u32,
    memory: MmapRegion,
    /// Whose mapping it is, if another's.
    _owner: Option<Arc<Gpu>>,
    at: Option<(u64, u64, u64)>,
}

impl Window {
    /// A window onto `memory`, not yet anywhere.
    pub(super) fn new(vm: Arc<VmFd>, slot: u32, memory: MmapRegion) -> Self {
        Self { vm, slot, memory, _owner: None, at: None }
    }

    /// A window onto VRAM.
    pub(super) fn of_vram(vm: Arc<VmFd>, slot: u32, vram: Vram) -> Self {
        let Vram { region: memory, owner, .. } = vram;
        Self { vm, slot, memory, _owner: owner, at: None }
    }

    /// Puts `length` bytes from `offset` on at a guest address, or takes the window away.
    ///
    /// When this returns, no vCPU reaches what was mapped before.
    pub(super) fn place(&mut self, at: Option<(u64, u64, u64)>) -> io::Result<()> {
        if self.at == at {
            return Ok(());
        }
        if self.at.is_some() {
            // A slot cannot change its size in place; the next access exits while there is none.
            self.set(0, 0, 0)?;
            self.at = None;
        }
        if let Some((guest, offset, length)) = at {
            self.set(guest, offset, length)?;
            self.at = at;
        }
        Ok(())
    }

    fn set(&self, guest: u64, offset: u64, length: u64) -> io::Result<()> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.memory.size() as u64);
        if !inside {
            return Err(io::Error::other("a window onto more memory than there is"));
        }
        let region = kvm_userspace_memory_region {
            slot: self.slot,
            flags: 0,
            guest_phys_addr: guest,
            memory_size: length,
            userspace_addr: self.memory.as_ptr() as u64 + offset,
        };
        // SAFETY: the range lies inside `self.memory` (checked), which outlives the slot: it is deleted in `drop`.
        // The device behind it expects its memory to change at any time.
        unsafe { self.vm.set_user_memory_region(region) }?;
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Err(error) = self.place(None) {
            log::error!(target: "kvm", "a memory slot cannot be taken away: {error}");
        }
    }
}
