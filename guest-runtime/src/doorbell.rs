//! The page of doorbells: one 64-bit word per queue, a store to which tells the GPU to look.
#![expect(unsafe_code, reason = "the page is device memory")]

use std::ptr::NonNull;
use std::sync::Arc;

use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::kfd::{Kfd, KfdError};
use crate::transport::{Errno, Node, Protection};

/// The process's slice of the doorbell BAR, unmapped on drop.
#[derive(Debug)]
pub(crate) struct DoorbellPage {
    kfd: Arc<Kfd>,
    page: NonNull<u8>,
}

// SAFETY: the page is a shared device map; the only access is a volatile 64-bit store.
unsafe impl Send for DoorbellPage {}
// SAFETY: as above; the hardware takes concurrent stores.
unsafe impl Sync for DoorbellPage {}

impl DoorbellPage {
    /// Maps the page that `doorbell_offset` of CREATE_QUEUE names.
    pub(crate) fn map(kfd: &Arc<Kfd>, doorbell_offset: u64) -> Result<Self, KfdError> {
        let offset = doorbell_offset & !(KFD_DOORBELL_PROCESS_SLICE - 1);
        let len = KFD_DOORBELL_PROCESS_SLICE as usize;
        // SAFETY: no address is given, so nothing is replaced.
        let page = unsafe {
            kfd.transport().mmap(Node::Kfd, None, len, Protection::READ | Protection::WRITE, offset)
        }
        .and_then(|page| NonNull::new(page).ok_or(Errno(libc::EFAULT)))
        .map_err(|errno| KfdError { operation: "mmap of the doorbells", errno })?;
        Ok(Self { kfd: Arc::clone(kfd), page })
    }

    /// Stores the doorbell at a byte offset (any multiple of 8; bits above the slice are ignored).
    pub(crate) fn ring(&self, offset: u64, value: u64) {
        self.kfd.host_path().flush();
        let index = offset & (KFD_DOORBELL_PROCESS_SLICE - 1) & !7;
        // SAFETY: the index is inside the page and 8-byte aligned.
        let doorbell = unsafe { self.page.add(index as usize) }.as_ptr().cast::<u64>();
        // SAFETY: the page is mapped writable while `self` lives.
        unsafe { doorbell.write_volatile(value) };
        self.kfd.transport().doorbell_written(doorbell);
    }
}

impl Drop for DoorbellPage {
    fn drop(&mut self) {
        let len = KFD_DOORBELL_PROCESS_SLICE as usize;
        // SAFETY: the map is this value's own, and no queue refers to it any more.
        if let Err(errno) = unsafe { self.kfd.transport().munmap(self.page.as_ptr(), len) } {
            log::warn!("unmapping the doorbells failed: {errno}");
        }
    }
}
