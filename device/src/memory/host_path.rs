//! The host data path (HDP): what processors write to VRAM through its BAR may stay there until it is flushed.
//!
//! The model has no such cache: what a processor has written is there at once. For the sanitizer a device that works on a
//! [copy](super::Mirror) of memory takes notes as if it had one. A flush brings all of VRAM into the copy; a page that differs from it
//! when the device comes to look was written without one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::Memory;
use crate::record::Run;

/// Pages that are kept apart.
const MOST: usize = 64;
/// How long a processor may take from a store to the flush behind it. A page may hold something else that the device looks at meanwhile:
/// entries of a page table, packets. So completions of what may have used too old bytes are held back for as long.
const GRACE: Duration = Duration::from_millis(100);

/// The page of a program's flushes, where that is memory.
pub trait FlushPage: Send + Sync {
    /// Whether a program has flushed since this was asked for the last time.
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

/// Where programs flush.
#[derive(Default)]
pub(super) struct Programs(OnceLock<Arc<dyn FlushPage>>);

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Programs").field(&self.0.get().is_some()).finish()
    }
}

impl Memory {
    /// Says where programs flush, if that is memory.
    pub(crate) fn set_flush_page(&self, page: Arc<dyn FlushPage>) {
        self.flush_page.set(page);
    }

    /// What others have written to VRAM by now is flushed.
    pub(crate) fn host_flushed(&self) {
        if let Some(mirror) = self.mirror.as_ref().filter(|mirror| mirror.has_host_path()) {
            mirror.host_flushed(&self.resident_vram(), |page| self.find(page));
        }
    }

    /// Looks whether a program has flushed.
    pub(crate) fn look_for_flush(&self) {
        if self.flush_page.have_flushed() | self.own.have_flushed() {
            self.host_flushed();
        }
    }

    /// Whether the device has looked at what others have written to VRAM and may still flush in time.
    pub(crate) fn is_flush_due(&self) -> bool {
        let Some(mirror) = self.mirror.as_ref().filter(|mirror| mirror.has_host_path()) else { return false };
        self.look_for_flush();
        mirror.is_flush_due()
    }

    /// What the device has looked at that others had written to VRAM and not flushed in time, which is told of once.
    pub(crate) fn unflushed(&self) -> Option<Unflushed> {
        self.mirror.as_ref().filter(|mirror| mirror.has_host_path())?.unflushed()
    }
}

impl Programs {
    /// Has this page looked at; the first one counts.
    pub(super) fn set(&self, page: Arc<dyn FlushPage>) {
        let _ = self.0.set(page);
    }

    /// Whether a program has flushed since this was asked for the last time.
    pub(super) fn have_flushed(&self) -> bool {
        self.0.get().is_some_and(|page| page.is_flushed())
    }
}

/// What the device has come to look at before it was flushed.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pages: BTreeMap<u64, Unflushed>,
    /// When the first of them was met.
    since: Option<Instant>,
    /// A flush goes on: what differs is flushed.
    pub(super) flushing: bool,
}

impl Notes {
    /// Others have written to a page of VRAM that begins at this offset.
    pub(super) fn written(&mut self, first: u64, runs: &[Run]) {
        if self.flushing || (self.pages.len() == MOST && !self.pages.contains_key(&first)) {
            return;
        }
        let Some(run) = runs.first() else { return };
        let bytes = runs.iter().map(|run| run.bytes.len() as u64).sum();
        self.since.get_or_insert_with(Instant::now);
        self.pages.entry(first).or_insert(Unflushed { offset: first + u64::from(run.at), bytes });
    }

    /// All that was written is flushed.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
        self.since = None;
    }

    /// Whether something may still be flushed in time.
    pub(super) fn is_undecided(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < GRACE)
    }

    /// What was not flushed in time, which is told of once.
    pub(super) fn take(&mut self) -> Option<Unflushed> {
        if self.is_undecided() {
            return None;
        }
        self.since = None;
        std::mem::take(&mut self.pages).into_values().next()
    }
}
