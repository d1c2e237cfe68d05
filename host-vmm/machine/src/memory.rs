//! Memory that the guest accesses at native speed: RAM, and device memory behind a BAR, each a slot of the VM.

#![expect(unsafe_code, reason = "a memory slot gives KVM the address of a mapping of this process")]

use std::fs::File;
use std::io;
use std::sync::Arc;

use belfry_device::Gpu;
use belfry_snapshot::{Piece, Section};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::mmap::{MmapRegionBuilder, MmapRegionError};
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap, MmapRegion,
};

use crate::config::HugePages;

/// End of the RAM below the devices.
pub(super) const LOW_RAM_END: u64 = 0xc000_0000;
/// Start of the RAM above the devices.
pub(super) const HIGH_RAM: u64 = 1 << 32;

/// File of the kernel's setting: if it makes huge pages for memory that can be shared.
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

    /// Maps all of it once more.
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
/// Reserved huge pages are taken from the host's pool here, so that no access fails later.
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

/// Maps a part of a snapshot privately: writes to the mapping do not reach the file.
fn private(file: &File, offset: u64, length: u64) -> io::Result<MmapRegion> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    MmapRegionBuilder::new(length)
        .with_file_offset(FileOffset::new(file.try_clone()?, offset))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_PRIVATE | libc::MAP_NORESERVE)
        .build()
        .map_err(io::Error::other)
}

/// Maps guest RAM as a snapshot has it.
pub(super) fn restored_ram(file: &File, section: Section) -> io::Result<GuestMemoryMmap> {
    let low = section.length.min(LOW_RAM_END);
    let parts = [(0, low), (HIGH_RAM, section.length - low)];
    let parts: Vec<(u64, u64)> = parts.into_iter().filter(|(_, length)| *length > 0).collect();
    restored_ranges(file, section.at, &parts)
}

/// Maps memory as a snapshot has it: `ranges` are address and bytes of each range; their contents follow each other
/// from `at` on.
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

/// Returns a mapping with its file, as a part of a snapshot to write.
pub(super) fn piece(region: &GuestRegionMmap) -> io::Result<Piece<'_>> {
    of_file(region, region.file_offset())
}

fn of_file<'a>(region: &'a MmapRegion, file: Option<&'a FileOffset>) -> io::Result<Piece<'a>> {
    let file = file.ok_or_else(|| io::Error::other("memory without a file"))?;
    let private = region.flags() & libc::MAP_PRIVATE != 0;
    Ok(Piece { region, file: file.file(), offset: file.start(), private })
}

/// Another view of VRAM, beside the device's own.
#[derive(Debug)]
pub(super) struct Vram {
    region: MmapRegion,
    /// File and offset of a view of the device's own mapping.
    file: Option<FileOffset>,
    /// Owner of the viewed mapping, kept for as long as the view.
    owner: Option<Arc<Gpu>>,
}

impl Vram {
    /// Returns the view as a part of a snapshot to write.
    pub(super) fn piece(&self) -> io::Result<Piece<'_>> {
        of_file(&self.region, self.file.as_ref().or(self.region.file_offset()))
    }
}

/// Memory of VRAM, from which views beside the device's own are made.
pub(super) enum VramSource {
    /// Shared memory, which can be mapped any number of times.
    Shared(SharedMemory),
    /// A private mapping, which exists only once, in the device: its address, size and file.
    Private(*mut u8, usize, FileOffset),
}

impl VramSource {
    /// Makes empty VRAM, and the device's mapping of it.
    pub(super) fn new(size: u64) -> io::Result<(Self, MmapRegion)> {
        let memory = SharedMemory::new("belfry-vram", size)?;
        let region = memory.map()?;
        Ok((Self::Shared(memory), region))
    }

    /// Makes VRAM as a snapshot has it, and the device's mapping of it.
    pub(super) fn restored(file: &File, section: Section) -> io::Result<(Self, MmapRegion)> {
        let region = private(file, section.at, section.length)?;
        let at = FileOffset::new(file.try_clone()?, section.at);
        Ok((Self::Private(region.as_ptr(), region.size(), at), region))
    }

    /// Makes another view, for a device that was given the mapping made with this source.
    pub(super) fn view(&self, gpu: &Arc<Gpu>) -> io::Result<Vram> {
        match self {
            Self::Shared(memory) => Ok(Vram { region: memory.map()?, file: None, owner: None }),
            Self::Private(address, size, file) => {
                let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
                // SAFETY: the mapping is the device's, which has it until it goes; `owner` keeps the device for as
                // long as the view is there. All users go through vm-memory, or are guests, which expect it to change
                // at any time.
                let region = unsafe { MmapRegion::build_raw(*address, *size, prot, flags) };
                let region = region.map_err(io::Error::other)?;
                Ok(Vram { region, file: Some(file.clone()), owner: Some(Arc::clone(gpu)) })
            }
        }
    }
}

/// Asks for huge pages if the host can make some, and logs it if the host never does.
fn advise_huge(region: &MmapRegion) -> io::Result<()> {
    // SAFETY: the range is the mapping; the advice changes the kind of its pages, not its contents.
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

/// Gives the VM its RAM, in slots 0 and up; returns the first free slot.
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
    /// Owner of the mapping, if it is not the window.
    _owner: Option<Arc<Gpu>>,
    at: Option<(u64, u64, u64)>,
}

impl Window {
    /// Makes a window onto `memory`, which is at no address yet.
    pub(super) fn new(vm: Arc<VmFd>, slot: u32, memory: MmapRegion) -> Self {
        Self { vm, slot, memory, _owner: None, at: None }
    }

    /// Makes a window onto VRAM.
    pub(super) fn of_vram(vm: Arc<VmFd>, slot: u32, vram: Vram) -> Self {
        let Vram { region: memory, owner, .. } = vram;
        Self { vm, slot, memory, _owner: owner, at: None }
    }

    /// Puts `length` bytes from `offset` on at a guest address, or takes the window away.
    ///
    /// When this returns, no vCPU reaches the memory that was mapped before.
    pub(super) fn place(&mut self, at: Option<(u64, u64, u64)>) -> io::Result<()> {
        if self.at == at {
            return Ok(());
        }
        if self.at.is_some() {
            // A slot cannot change its size in place; while there is no slot, an access exits.
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
