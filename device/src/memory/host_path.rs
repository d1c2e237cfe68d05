//! The host data path (HDP): bytes that processors write to VRAM through its BAR may stay there until it is
//! flushed.
//!
//! The model has no such cache: a processor's write is in VRAM at once. For the sanitizer, a device that
//! works on a [copy](super::Mirror) of memory takes notes as if it had one. A flush brings all of VRAM into
//! the copy. If a page differs from the copy when the device reads it, a processor wrote to it without a
//! flush.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::Memory;
use crate::record::Run;

/// Most pages that are noted.
const MOST: usize = 64;
/// Longest time that a processor may take from a store to the flush after it. The page may hold other things
/// that the device reads meanwhile: entries of a page table, packets. So the completion of work that may have
/// used old bytes is held back for this time.
const GRACE: Duration = Duration::from_millis(100);

/// The page of a program's flushes, if it is memory.
pub trait FlushPage: Send + Sync {
    /// Returns true if a program has flushed since the last call.
    fn is_flushed(&self) -> bool;
}

/// Bytes of VRAM that a processor has written and not flushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unflushed {
    /// Offset in VRAM of the first of them.
    pub(crate) offset: u64,
    /// Bytes that differ, in its page.
    pub(crate) bytes: u64,
}

/// The page by which programs flush.
#[derive(Default)]
pub(super) struct Programs(OnceLock<Arc<dyn FlushPage>>);

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Programs").field(&self.0.get().is_some()).finish()
    }
}

impl Memory {
    /// Sets the page by which programs flush, if it is memory.
    pub(crate) fn set_flush_page(&self, page: Arc<dyn FlushPage>) {
        self.flush_page.set(page);
    }

    /// Notes that all bytes that processors have written to VRAM by now are flushed.
    pub(crate) fn host_flushed(&self) {
        if let Some(mirror) = self.mirror.as_ref().filter(|mirror| mirror.has_host_path()) {
            mirror.host_flushed(&self.resident_vram(), |page| self.find(page));
        }
    }

    /// Checks if a program has flushed.
    pub(crate) fn look_for_flush(&self) {
        if self.flush_page.have_flushed() | self.own.have_flushed() {
            self.host_flushed();
        }
    }

    /// Returns true if the device has read bytes that were written to VRAM and that may still be flushed in
    /// time.
    pub(crate) fn is_flush_due(&self) -> bool {
        let Some(mirror) = self.mirror.as_ref().filter(|mirror| mirror.has_host_path()) else { return false };
        self.look_for_flush();
        mirror.is_flush_due()
    }

    /// Returns bytes that the device has read although they were not flushed in time. They are reported once.
    pub(crate) fn unflushed(&self) -> Option<Unflushed> {
        self.mirror.as_ref().filter(|mirror| mirror.has_host_path())?.unflushed()
    }
}

impl Programs {
    /// Sets the page of flushes; only the first call counts.
    pub(super) fn set(&self, page: Arc<dyn FlushPage>) {
        let _ = self.0.set(page);
    }

    /// Returns true if a program has flushed since the last call.
    pub(super) fn have_flushed(&self) -> bool {
        self.0.get().is_some_and(|page| page.is_flushed())
    }
}

/// Unflushed bytes that the device has read.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pages: BTreeMap<u64, Unflushed>,
    /// Time at which the first of the pages was found.
    since: Option<Instant>,
    /// True during a flush: bytes that differ then are flushed ones.
    pub(super) flushing: bool,
}

impl Notes {
    /// Notes that a processor has written to the page of VRAM that begins at offset `first`.
    pub(super) fn written(&mut self, first: u64, runs: &[Run]) {
        if self.flushing || (self.pages.len() == MOST && !self.pages.contains_key(&first)) {
            return;
        }
        let Some(run) = runs.first() else { return };
        let bytes = runs.iter().map(|run| run.bytes.len() as u64).sum();
        self.since.get_or_insert_with(Instant::now);
        self.pages.entry(first).or_insert(Unflushed { offset: first + u64::from(run.at), bytes });
    }

    /// Forgets all pages: their bytes are flushed.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
        self.since = None;
    }

    /// Returns true if the pages may still be flushed in time.
    pub(super) fn is_undecided(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < GRACE)
    }

    /// Takes the pages if they were not flushed in time, and returns the first of them.
    pub(super) fn take(&mut self) -> Option<Unflushed> {
        if self.is_undecided() {
            return None;
        }
        self.since = None;
        std::mem::take(&mut self.pages).into_values().next()
    }
}
