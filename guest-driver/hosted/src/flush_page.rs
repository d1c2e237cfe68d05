//! The page by which programs flush the host data path: in a guest a register, here memory that the device looks at where it has to know.
#![expect(unsafe_code, reason = "programs write to the page at any time")]

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_device::memory::FlushPage;
use belfry_kfd_core::os::PAGE_SIZE;

use crate::error::Error;
use crate::shared::Shared;

/// Value of the page while no program has written to it; no program writes this value.
const UNTOUCHED: u32 = 0x5a5a_a5a5;

/// The page of all programs.
#[derive(Debug)]
pub(crate) struct Flushes(pub(crate) Shared);

impl Flushes {
    pub(crate) fn new() -> Result<Self, Error> {
        let flushes = Self(Shared::new(c"belfry-flush", PAGE_SIZE as usize)?);
        flushes.word().store(UNTOUCHED, Ordering::Release);
        Ok(flushes)
    }

    /// `HDP_MEM_FLUSH_CNTL`, as programs see it.
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as `self` lives, aligned, and only ever accessed through atomics here and by programs.
        unsafe { AtomicU32::from_ptr(self.0.base().as_ptr().cast()) }
    }
}

impl FlushPage for Flushes {
    fn is_flushed(&self) -> bool {
        self.word().swap(UNTOUCHED, Ordering::AcqRel) != UNTOUCHED
    }
}
