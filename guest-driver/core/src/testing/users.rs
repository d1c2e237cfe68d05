//! The users' memory: what of it is there, and pins of it.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::{FakeOs, Gate, HELD, Trace, lock, std};
use crate::errno::{Errno, Result};
use crate::os::{Change, Invalidate, PAGE_SIZE, UserArea, UserMirror, UserPage, UserPin};
use crate::vram::Vram;

/// Doings of the users of pins.
#[derive(Default)]
pub(crate) struct Users {
    pub(crate) pages_arrive: Gate,
    /// Their address spaces are going away.
    pub(crate) gone: Mutex<bool>,
    /// Their address spaces are gone.
    pub(crate) ended: Mutex<bool>,
    /// Parts of their memory that are not there, or that they do not write to.
    pub(crate) holes: Mutex<Vec<Range<u64>>>,
    pub(crate) read_only: Mutex<Vec<Range<u64>>>,
    /// Parts that are of files.
    pub(crate) files: Mutex<Vec<Range<u64>>>,
    /// Parts that are there, and may not be touched.
    pub(crate) closed: Mutex<Vec<Range<u64>>>,
    /// The frames of VRAM that pages are in, by address.
    pub(crate) in_vram: Mutex<BTreeMap<u64, u64>>,
    /// VRAM that frames are given back to.
    pub(crate) vram: Mutex<Option<Weak<Vram<FakeOs>>>>,
    /// Parts whose pages do not move.
    pub(crate) unmovable: Mutex<Vec<Range<u64>>>,
    /// Number of the next mirrors that are out of date before the driver has a look at them.
    pub(crate) restless: Mutex<u32>,
}

impl Users {
    /// Returns whether a new mirror is out of date already, and changes later.
    pub(super) fn spoiled(&self) -> Arc<AtomicBool> {
        let mut restless = lock(&self.restless);
        let spoiled = *restless > 0;
        *restless = restless.saturating_sub(1);
        Arc::new(AtomicBool::new(spoiled))
    }

    /// Returns the area at `va`.
    pub(super) fn area(&self, va: u64) -> Option<UserArea> {
        let (holes, read_only) = (lock(&self.holes), lock(&self.read_only));
        if holes.iter().any(|range| range.contains(&va)) {
            return None;
        }
        let writable = !read_only.iter().any(|range| range.contains(&va));
        let edges = holes.iter().chain(read_only.iter()).flat_map(|range| [range.start, range.end]);
        let end = edges.filter(|edge| *edge > va).min().unwrap_or(1 << 47);
        let file = lock(&self.files).iter().any(|range| range.contains(&va));
        Some(UserArea { end, writable, file })
    }

    /// Moves pages to frames, which are taken out of `frames`; returns how many.
    pub(super) fn move_to_vram(&self, va: u64, frames: &mut Vec<u64>) -> usize {
        let (mut in_vram, unmovable) = (lock(&self.in_vram), lock(&self.unmovable));
        let (mut at, before) = (va, frames.len());
        frames.retain(|frame| {
            let page = at;
            at += PAGE_SIZE;
            let stays = in_vram.contains_key(&page) || unmovable.iter().any(|range| range.contains(&page));
            if !stays {
                in_vram.insert(page, *frame);
            }
            stays
        });
        before - frames.len()
    }

    /// Moves pages back; returns their frames.
    pub(super) fn move_to_system(&self, range: Range<u64>) -> Vec<u64> {
        let mut in_vram = lock(&self.in_vram);
        let pages: Vec<u64> = in_vram.range(range).map(|(page, _)| *page).collect();
        pages.into_iter().filter_map(|page| in_vram.remove(&page)).collect()
    }

    /// Checks that pages may be pinned.
    pub(super) fn check(&self, va: u64, count: usize, writable: bool) -> Result<()> {
        let end = va + count as u64 * PAGE_SIZE;
        if lock(&self.closed).iter().any(|range| range.start < end && va < range.end) {
            return Err(Errno::EFAULT);
        }
        let mut at = va;
        while at < end {
            match self.area(at) {
                Some(area) if area.writable || !writable => at = area.end,
                _ => return Err(Errno::EFAULT),
            }
        }
        Ok(())
    }
}

pub(crate) struct FakePin {
    /// Address of the first page.
    pub(super) va: u64,
    pub(super) bus: u64,
    pub(super) count: usize,
    pub(super) users: Arc<Users>,
    pub(super) trace: Trace,
}

impl UserPin for FakePin {
    fn count(&self) -> usize {
        self.count
    }

    fn bus(&self, index: usize) -> u64 {
        self.bus + index as u64 * PAGE_SIZE
    }

    fn renew(&self) -> Result<Self> {
        if HELD.get() != 0 {
            lock(&self.trace).push("pin under a lock");
        }
        self.users.pages_arrive.pass();
        if *lock(&self.users.gone) {
            return Err(Errno::ESRCH);
        }
        self.users.check(self.va, self.count, false)?;
        let bus = self.bus + (1 << 30);
        Ok(Self { va: self.va, bus, count: self.count, users: self.users.clone(), trace: self.trace.clone() })
    }
}

/// A pin that says whether anything has changed.
pub(crate) struct FakeMirror {
    /// `None` for one of no pages.
    pub(super) pin: Option<FakePin>,
    pub(super) spoiled: Arc<AtomicBool>,
}

impl UserMirror for FakeMirror {
    fn count(&self) -> usize {
        self.pin.as_ref().map_or(0, UserPin::count)
    }

    fn page(&self, index: usize) -> UserPage {
        let Some(pin) = &self.pin else { return UserPage::System(0) };
        let frame = lock(&pin.users.in_vram).get(&(pin.va + index as u64 * PAGE_SIZE)).copied();
        frame.map_or(UserPage::System(pin.bus(index)), UserPage::Vram)
    }

    fn is_current(&self) -> bool {
        !self.spoiled.load(Ordering::Acquire)
    }
}

/// Hears of changes to a mirror before the driver does.
pub(super) struct Spoiler {
    pub(super) spoiled: Arc<AtomicBool>,
    pub(super) next: Arc<dyn Invalidate>,
}

impl Invalidate for Spoiler {
    fn invalidated(&self, change: &Change) {
        self.spoiled.store(true, Ordering::Release);
        self.next.invalidated(change);
    }
}

impl Drop for FakePin {
    fn drop(&mut self) {
        lock(&self.trace).push(if HELD.get() == 0 { "unpin" } else { "unpin under a lock" });
    }
}
