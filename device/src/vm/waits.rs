//! Pages that waves wait for (XNACK): the faults that are tried again, and those that the driver is told of.
//!
//! `UTCL2` reports a page again and again until it translates, and a filter in the interrupt handler keeps
//! all reports but the first (linux `vega20_ih.c`, the retry CAM). Here a page is reported once after each
//! invalidation of the TLBs, once after the filter has released it, and again after many tries, as an entry
//! may be lost. The filter itself is in the interrupt handler.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_lock::{Mutex, rank};

use super::{Fault, FaultKind};

/// Tries of a page after which it is reported again.
const TRIES: u32 = 1 << 14;
/// Most pages that are remembered: as many as the filter has room for.
const PAGES: usize = 1024;

/// Pages that waves of an address space wait for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    on: AtomicBool,
    /// Tries of each page, by its number.
    pages: Mutex<BTreeMap<u64, u32>, rank::Waits>,
}

impl Waits {
    pub(super) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Returns true if an access that failed like this is tried again: the page is not there, or does not
    /// allow it (`RETRY_PERMISSION_OR_INVALID_PAGE_FAULT`).
    pub(crate) fn may(fault: &Fault) -> bool {
        matches!(fault.kind, FaultKind::NotPresent) || fault.kind.is_permission()
    }

    /// Returns true if the driver is to be told that a wave waits for the page of an address. Counts a try.
    pub(crate) fn is_news(&self, va: u64) -> bool {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= PAGES && !pages.contains_key(&(va >> PAGE_SHIFT)) {
            pages.clear();
        }
        let tries = pages.entry(va >> PAGE_SHIFT).or_default();
        let news = tries.is_multiple_of(TRIES);
        *tries = tries.wrapping_add(1);
        news
    }

    /// Notes that the driver has handled a page that was reported: if it still does not translate, it is
    /// reported again.
    pub(super) fn forget_page(&self, page: u64) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).remove(&page);
    }

    /// Notes that page tables have changed: pages that still do not translate are reported again.
    pub(super) fn forget(&self) {
        if self.is_on() {
            self.pages.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::mem::Access;

    use super::*;

    #[test]
    fn page_is_told_of_once_until_tables_change_or_it_was_tried_often() {
        let waits = Waits::default();
        waits.set(true);
        assert!(waits.is_news(0x1000) && !waits.is_news(0x1fff) && waits.is_news(0x2000));
        waits.forget();
        assert!(waits.is_news(0x1008));
        let again = (1..=TRIES).filter(|_| waits.is_news(0x1000)).count();
        assert_eq!(again, 1);
        // More pages than are remembered.
        for page in 0..3 * PAGES as u64 {
            waits.is_news(page << PAGE_SHIFT);
        }
        assert!(waits.pages.lock().unwrap().len() <= PAGES);
    }

    #[test]
    fn what_no_driver_can_mend_is_not_tried_again() {
        let fault = |kind| Fault::new(0, Access::Write, kind);
        for kind in [FaultKind::NotPresent, FaultKind::ReadOnly, FaultKind::NoExecute] {
            assert!(Waits::may(&fault(kind)), "{kind:?}");
        }
        for kind in [FaultKind::Bus, FaultKind::Aperture] {
            assert!(!Waits::may(&fault(kind)), "{kind:?}");
        }
    }
}
