//! Memory that the driver owns, and what users hold of it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ptr::NonNull;

use belfry_abi::kfd::memory::AllocFlags;

use crate::errno::{Errno, Result};

/// Place of one page of a buffer object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoPage {
    /// At this byte offset of BAR0.
    Vram(u64),
    /// In system memory: the kernel address of a page that came from [`Os::pages_alloc`](super::Os::pages_alloc), and its bus address.
    System {
        /// Kernel virtual address of the page.
        cpu: usize,
        /// Bus address of the page.
        bus: u64,
    },
    /// Memory of a program, at this bus address while it is there: it has no kernel address, and no one but the program maps it.
    User(Option<u64>),
}

/// Data that programs attach to memory, for all who have it (`struct drm_amdgpu_gem_metadata`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `tiling_info`.
    pub tiling: u64,
    /// `flags`, which belong to the data.
    pub flags: u64,
    /// At most [`AMDGPU_GEM_METADATA_BYTES`](belfry_abi::kfd::drm::AMDGPU_GEM_METADATA_BYTES).
    pub data: Vec<u8>,
}

/// A place for what is attached to memory that processes with drivers of their own share.
pub trait SharedMetadata: Send + Sync {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what another process cannot have attached, `EIO`.
    fn load(&self) -> Result<Metadata>;

    /// Replaces it.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn store(&self, metadata: &Metadata) -> Result<()>;
}

/// The pages behind a GEM object or a DMA-buf.
///
/// The operating system keeps the `Arc` for as long as the GEM object, a DMA-buf or a mapping of it lives; dropping the
/// last one gives the memory back.
pub trait Backing: Any + Send + Sync {
    /// Returns the size in bytes, a multiple of [`PAGE_SIZE`](super::PAGE_SIZE).
    fn size(&self) -> u64;

    /// Returns where page `index` is, `None` past the end or when the device is gone.
    fn page(&self, index: u64) -> Option<BoPage>;

    /// Returns what others are told of it: `VRAM` or `GTT`, and `PUBLIC`.
    fn flags(&self) -> AllocFlags;

    /// Returns the VRAM that it is, in the core's own type, if it is that.
    fn as_vram(&self) -> Option<&dyn Any> {
        None
    }

    /// Returns whether it belongs to one address space; PRIME then refuses to share it.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Returns whether it is memory of a program, which has it mapped already; `mmap` is refused then.
    fn is_user(&self) -> bool {
        false
    }

    /// Returns what programs have attached.
    ///
    /// # Errors
    ///
    /// `EINVAL` where nothing can be attached; those of [`SharedMetadata::load`].
    fn metadata(&self) -> Result<Metadata> {
        Err(Errno::EINVAL)
    }

    /// Attaches something in place of what was there.
    ///
    /// # Errors
    ///
    /// As [`Self::metadata`].
    fn set_metadata(&self, _metadata: Metadata) -> Result<()> {
        Err(Errno::EINVAL)
    }

    /// Moves what is attached, if anything can be, to a place that others see, until [`Self::unshare_metadata`].
    ///
    /// # Errors
    ///
    /// The errors of that place.
    fn share_metadata(&self, _shared: &Arc<dyn SharedMetadata>) -> Result<()> {
        Ok(())
    }

    /// Takes it back from that place, if it is there.
    fn unshare_metadata(&self, _shared: &Arc<dyn SharedMetadata>) {}
}

/// A run of pages of system memory the driver owns.
///
/// The kernel mapping is contiguous, the bus addresses need not be. Dropping it frees the pages.
pub trait SystemPages: Send + Sync {
    /// Returns the number of pages.
    fn count(&self) -> usize;

    /// Returns the address of the contiguous kernel mapping.
    fn cpu(&self) -> NonNull<u8>;

    /// Returns the bus address of page `index`, which is below `count()`.
    fn bus(&self, index: usize) -> u64;
}

/// A buffer object that can be mapped through the render node; dropping it gives the driver's reference back.
pub trait Gem: Send + Sync {
    /// Returns the offset to pass to `mmap` on the render node, in bytes.
    fn mmap_offset(&self) -> u64;
}

/// Memory that processes share; dropping it gives the driver's reference back.
///
/// Each of its descriptors, wherever it has been sent, is a reference of its own.
pub trait DmaBuf: Send + Sync {
    /// Returns its pages, as this device reaches them.
    fn backing(&self) -> Arc<dyn Backing>;
}
