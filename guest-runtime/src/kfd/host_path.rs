//! The host data path (HDP): data that the processor writes to VRAM may stay there until the GPU is told to look.
#![expect(unsafe_code, reason = "the pages are device memory")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use belfry_abi::kfd::memory::AllocFlags;

use super::{Kfd, KfdError};
use crate::reservation::{PAGE, Reservation};
use crate::transport::{Errno, Node, Protection};

/// A GPU's page of flushes, `AllocFlags::MMIO_REMAP`, whose first word is `HDP_MEM_FLUSH_CNTL`.
struct FlushPage {
    gpu_id: u32,
    handle: u64,
    word: NonNull<u32>,
    /// Its addresses.
    range: Reservation,
}

// SAFETY: the page is a shared device map; the only access is a volatile 32-bit store.
unsafe impl Send for FlushPage {}

/// The pages of a process, and whether they are needed.
#[derive(Default)]
pub(crate) struct HostPath {
    pages: Mutex<Vec<FlushPage>>,
    unflushed: AtomicBool,
}

impl HostPath {
    /// Has the page of a GPU, to whose VRAM the processor may write from now on.
    pub(crate) fn prepare(&self, kfd: &Kfd, gpu_id: u32) -> Result<(), KfdError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.iter().all(|page| page.gpu_id != gpu_id) {
            pages.push(FlushPage::map(kfd, gpu_id)?);
        }
        Ok(())
    }

    /// The processor has written to VRAM.
    pub(crate) fn written(&self) {
        self.unflushed.store(true, Ordering::Release);
    }

    /// Makes data that was written to VRAM reach it, if there is any. Comes before each doorbell.
    pub(crate) fn flush(&self) {
        if !self.unflushed.swap(false, Ordering::AcqRel) {
            return;
        }
        fence(Ordering::SeqCst);
        for page in &*self.pages.lock().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: the word is mapped writable as long as the page is kept.
            unsafe { page.word.write_volatile(1) };
        }
    }

    /// Gives the pages back.
    pub(crate) fn close(&self, kfd: &Kfd) {
        for page in self.pages.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            page.unmap(kfd);
        }
    }
}

impl FlushPage {
    fn map(kfd: &Kfd, gpu_id: u32) -> Result<Self, KfdError> {
        let reserve = |errno| KfdError { operation: "mmap", errno };
        let range = Reservation::new(PAGE, PAGE, false).map_err(reserve)?;
        let address = range.addr().as_ptr().expose_provenance();
        let flags = AllocFlags::MMIO_REMAP | AllocFlags::WRITABLE | AllocFlags::COHERENT;
        let (handle, offset) = kfd.alloc(gpu_id, address as u64, PAGE as u64, flags)?;
        let protection = Protection::READ | Protection::WRITE;
        // SAFETY: the range is a reservation of its own, which nothing uses yet.
        let mapped = unsafe { kfd.transport().mmap(Node::Kfd, Some(address), PAGE, protection, offset) };
        let word = mapped.and_then(|page| NonNull::new(page.cast()).ok_or(Errno(libc::EFAULT)));
        match word {
            Ok(word) => Ok(Self { gpu_id, handle, word, range }),
            Err(errno) => {
                if let Err(error) = kfd.free(handle) {
                    log::warn!("freeing the page of flushes failed: {error}");
                }
                Err(KfdError { operation: "mmap of the page of flushes", errno })
            }
        }
    }

    fn unmap(self, kfd: &Kfd) {
        let Self { handle, mut range, .. } = self;
        if let Err(error) = kfd.free(handle) {
            log::warn!("freeing the page of flushes failed: {error}");
        }
        // SAFETY: the map is this value's own, and nothing refers to it any more.
        match unsafe { kfd.transport().munmap(range.addr().as_ptr(), PAGE) } {
            Ok(()) => range.forget(),
            Err(errno) => log::warn!("unmapping the page of flushes failed: {errno}"),
        }
    }
}
