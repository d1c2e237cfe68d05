//! Pinned user memory: which ranges of this process's address space the devices of a machine reach.
//!
//! The device's physical addresses are the process's virtual ones, so pinning a range means to put it into the device's
//! memory map, and unpinning to take it out, unless all of the process is in the map ([`Reach::Process`]). Ranges may be
//! pinned several times and overlap; the map holds their union.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use belfry_device::Gpu;
use belfry_kfd_core::os::{Change, Invalidate, PAGE_SIZE, UserMirror, UserPage, UserPin};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, GuestRegionMmap};

use crate::config::{PinObserver, Reach};
use crate::mapped::is_mapped;
use crate::shared::raw_region;
use crate::sync::lock;

/// Number of pins of each part of the address space; a part reaches from its key to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<u64, u32>);

impl Counts {
    fn at(&self, address: u64) -> u32 {
        self.0.range(..=address).next_back().map_or(0, |(_, count)| *count)
    }

    fn change(&mut self, start: u64, end: u64, change: impl Fn(u32) -> u32) {
        for edge in [start, end] {
            let count = self.at(edge);
            self.0.entry(edge).or_insert(count);
        }
        for (_, count) in self.0.range_mut(start..end) {
            *count = change(*count);
        }
        let mut before = 0;
        self.0.retain(|_, count| {
            let keep = *count != before;
            before = *count;
            keep
        });
    }

    /// The parts of a range that are not pinned.
    fn gaps(&self, start: u64, end: u64) -> Vec<Range<u64>> {
        let edges = std::iter::once((start, self.at(start)))
            .chain(self.0.range(start..end).map(|(&edge, &count)| (edge, count)))
            .collect::<Vec<_>>();
        let ends = edges.iter().skip(1).map(|(edge, _)| *edge).chain([end]);
        edges
            .iter()
            .zip(ends)
            .filter(|((edge, count), until)| *count == 0 && edge < until)
            .map(|((edge, _), until)| *edge..until)
            .collect()
    }

    /// The pinned ranges, joined.
    fn union(&self) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        let mut start = None;
        for (&edge, &count) in &self.0 {
            match (start, count) {
                (None, 1..) => start = Some(edge),
                (Some(from), 0) => {
                    ranges.push((from, edge));
                    start = None;
                }
                _ => {}
            }
        }
        ranges
    }
}

struct Entry {
    start: u64,
    end: u64,
    notify: Arc<dyn Invalidate>,
}

impl Entry {
    fn is_touched_by(&self, change: &Change) -> bool {
        self.start < change.end && change.start < self.end
    }
}

#[derive(Default)]
struct Table {
    counts: Counts,
    entries: BTreeMap<u64, Entry>,
    /// Watchers, which hear of changes and hold no pin.
    watches: BTreeMap<u64, Entry>,
    /// Pins that changes have taken from their owners, who go on hearing of changes: the memory may come back.
    lost: BTreeMap<u64, Entry>,
    next: u64,
    /// Ranges about to change: no page of them may be pinned.
    going: Vec<(u64, u64)>,
}

impl Table {
    /// Pins that a change touches.
    fn pins_in(&self, change: &Change) -> Vec<u64> {
        self.entries.iter().filter(|(_, entry)| entry.is_touched_by(change)).map(|(id, _)| *id).collect()
    }
}

/// All pins, and the devices' memory map made of them.
pub(crate) struct Pins {
    table: Mutex<Table, rank::PinsTable>,
    system: GuestMemoryAtomic<GuestMemoryMmap>,
    gpus: OnceLock<Vec<Weak<Gpu>>>,
    reach: Reach,
    observer: Option<Arc<dyn PinObserver>>,
    /// The driver's own memory, and pages of the device's: always in the map.
    driver: Vec<(u64, u64)>,
}

/// The user addresses: all but the first and the last page.
const USER: (u64, u64) = (PAGE_SIZE, (1 << 47) - PAGE_SIZE);

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").field("count", &lock(&self.table).entries.len()).finish_non_exhaustive()
    }
}

fn build(ranges: impl IntoIterator<Item = (u64, u64)>) -> Result<GuestMemoryMmap> {
    let mut regions = Vec::new();
    for (start, end) in ranges {
        let region = raw_region(start, (end - start) as usize).map_err(|_| Errno::ENOMEM)?;
        let region = GuestRegionMmap::new(region, GuestAddress(start)).ok_or(Errno::ENOMEM)?;
        regions.push(Arc::new(region));
    }
    regions.sort_by_key(|region| vm_memory::GuestMemoryRegion::start_addr(&**region));
    GuestMemoryMmap::from_arc_regions(regions).map_err(|_| Errno::ENOMEM)
}

impl Pins {
    pub(crate) fn new(
        reach: Reach,
        driver: Vec<(u64, u64)>,
        observer: Option<Arc<dyn PinObserver>>,
    ) -> Result<Arc<Self>> {
        let first = match reach {
            Reach::Pinned => driver.clone(),
            Reach::Process => vec![USER],
        };
        let system = GuestMemoryAtomic::new(build(first)?);
        Ok(Arc::new(Self { table: Mutex::default(), system, gpus: OnceLock::new(), reach, observer, driver }))
    }

    pub(crate) fn system(&self) -> GuestMemoryAtomic<GuestMemoryMmap> {
        self.system.clone()
    }

    /// Names the devices to tell about changes.
    pub(crate) fn attach<'a>(&self, gpus: impl Iterator<Item = &'a Arc<Gpu>>) {
        // They are all of a machine; a second call would name the same ones.
        let _ = self.gpus.set(gpus.map(Arc::downgrade).collect());
    }

    /// Puts the union of pins into the devices' map, and returns when no device uses anything else.
    fn publish(&self, table: &Table) -> Result<()> {
        if self.reach == Reach::Process {
            // The driver has taken the range out of the GPU's page tables, and waited for that.
            return Ok(());
        }
        let map = build(self.driver.iter().copied().chain(table.counts.union()))?;
        self.system.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(map);
        for gpu in self.gpus.get().into_iter().flatten().filter_map(Weak::upgrade) {
            gpu.memory_changed();
        }
        Ok(())
    }

    /// Pins a page-aligned range.
    pub(crate) fn pin(
        self: &Arc<Self>,
        start: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Pin> {
        let end = (count as u64)
            .checked_mul(PAGE_SIZE)
            .and_then(|len| start.checked_add(len))
            .ok_or(Errno::EFAULT)?;
        let mut table = lock(&self.table);
        let going = table.going.iter().any(|range| range.0 < end && start < range.1);
        if start == end || going || !is_mapped(start, end, writable) {
            return Err(Errno::EFAULT);
        }
        table.counts.change(start, end, |count| count + 1);
        if let Err(error) = self.publish(&table) {
            table.counts.change(start, end, |count| count - 1);
            return Err(error);
        }
        let id = table.next;
        table.next += 1;
        table.entries.insert(id, Entry { start, end, notify: notify.clone() });
        if let Some(observer) = &self.observer {
            observer.pinned(start..end);
        }
        Ok(Pin { pins: self.clone(), id, start, count, writable, notify })
    }

    /// Pins a page-aligned range, and looks after whether anything has changed.
    ///
    /// # Errors
    ///
    /// `EAGAIN` while the range is about to change, and when it is no area of this kind any more; `EFAULT` when the program
    /// has no readable memory there.
    pub(crate) fn mirror(
        self: &Arc<Self>,
        start: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        let news = Arc::new(News { changed: AtomicBool::new(false), next: notify });
        let pin = self.pin(start, count, writable, news.clone());
        let pin =
            pin.map_err(|error| if error == Errno::EFAULT { self.why_not(start, count) } else { error })?;
        Ok(Mirror { pages: Pages::Pinned(pin), news })
    }

    /// Returns the reason why an area that the caller has seen could not be pinned: what replaces it may be as good.
    fn why_not(&self, start: u64, count: usize) -> Errno {
        let end = start.saturating_add((count as u64).saturating_mul(PAGE_SIZE));
        let going = lock(&self.table).going.iter().any(|range| range.0 < end && start < range.1);
        if going || is_mapped(start, start.saturating_add(PAGE_SIZE), false) {
            Errno::EAGAIN
        } else {
            Errno::EFAULT
        }
    }

    /// Looks after whether anything has changed in a page-aligned range.
    pub(crate) fn watch(
        self: &Arc<Self>,
        start: u64,
        count: usize,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        let len = (count as u64).checked_mul(PAGE_SIZE);
        let end = len.and_then(|len| start.checked_add(len)).ok_or(Errno::EFAULT)?;
        let news = Arc::new(News { changed: AtomicBool::new(false), next: notify });
        let mut table = lock(&self.table);
        let id = table.next;
        table.next += 1;
        table.watches.insert(id, Entry { start, end, notify: news.clone() });
        Ok(Mirror { pages: Pages::Watched { pins: self.clone(), id }, news })
    }

    fn unpin(&self, id: u64) {
        let mut table = lock(&self.table);
        let lost = table.lost.remove(&id);
        if let Some(entry) = table.entries.remove(&id) {
            table.counts.change(entry.start, entry.end, |count| count - 1);
            self.observe_gaps(&table, &entry);
            if self.publish(&table).is_err() {
                log::error!(target: "kfd", "the device's memory map cannot be rebuilt");
            }
        }
        drop(table);
        // Without the lock: it may be the last reference to a notifier.
        drop(lost);
    }

    fn observe_gaps(&self, table: &Table, entry: &Entry) {
        if let Some(observer) = &self.observer {
            table.counts.gaps(entry.start, entry.end).into_iter().for_each(|gap| observer.unpinned(gap));
        }
    }

    /// Runs `make`, which changes a range, after the owners of all pins in it have been notified. Those whose pins it has taken are notified
    /// once more: there may be other memory now, or the access that is left may be enough.
    pub(crate) fn change<R>(&self, change: &Change, make: impl FnOnce() -> R) -> R {
        let (start, end) = (change.start, change.end);
        lock(&self.table).going.push((start, end));
        self.tell(change);
        let mut table = lock(&self.table);
        // What is still pinned is no longer mapped on the GPU; the device's map forgets it as well.
        let ids = table.pins_in(change);
        self.forget(&mut table, &ids);
        let result = make();
        if let Some(place) = table.going.iter().position(|range| *range == (start, end)) {
            table.going.swap_remove(place);
        }
        drop(table);
        self.notify(change, |table| table.lost.values().collect());
        result
    }

    /// Notifies the owners of all pins in a range that was changed a while ago: by now, it may be other memory, and pins that they
    /// renew are of that.
    pub(crate) fn changed(&self, change: &Change) {
        let before = lock(&self.table).pins_in(change);
        self.tell(change);
        self.forget(&mut lock(&self.table), &before);
    }

    /// Takes pins out of the device's map, of those that are still there. Their owners go on hearing of changes.
    fn forget(&self, table: &mut Table, ids: &[u64]) {
        let mut any = false;
        for id in ids {
            if let Some(entry) = table.entries.remove(id) {
                table.counts.change(entry.start, entry.end, |count| count - 1);
                self.observe_gaps(table, &entry);
                table.lost.insert(*id, entry);
                any = true;
            }
        }
        if any && self.publish(table).is_err() {
            log::error!(target: "kfd", "the device's memory map cannot be rebuilt");
        }
    }

    /// Notifies the owners of all pins in a range of a change that leaves the pins as they are.
    pub(crate) fn tell(&self, change: &Change) {
        self.notify(change, |table| {
            table.entries.values().chain(table.watches.values()).chain(table.lost.values()).collect()
        });
    }

    /// Notifies those of some entries that a change touches.
    fn notify(&self, change: &Change, of: impl FnOnce(&Table) -> Vec<&Entry>) {
        let told: Vec<_> = {
            let table = lock(&self.table);
            let touched = of(&table).into_iter().filter(|entry| entry.is_touched_by(change));
            touched.map(|entry| entry.notify.clone()).collect()
        };
        for notify in told {
            notify.invalidated(change);
        }
    }

    /// Returns true if anything in a range is pinned or watched, or was pinned and may come back.
    pub(crate) fn any_in(&self, start: u64, end: u64) -> bool {
        let table = lock(&self.table);
        let mut heard = table.watches.values().chain(table.lost.values());
        let watched = heard.any(|entry| entry.start < end && start < entry.end);
        watched || table.counts.at(start) > 0 || table.counts.0.range(start..end).any(|(_, &count)| count > 0)
    }

    /// Puts memory of the driver's own into the device's map; no observer is told of it.
    pub(crate) fn add(self: &Arc<Self>, range: Range<u64>) -> Result<Added> {
        let mut table = lock(&self.table);
        table.counts.change(range.start, range.end, |count| count + 1);
        if let Err(error) = self.publish(&table) {
            table.counts.change(range.start, range.end, |count| count - 1);
            return Err(error);
        }
        Ok(Added { pins: self.clone(), range })
    }

    /// Number of pins.
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).entries.len()
    }
}

/// Memory of the driver's own that the device reaches until this is dropped.
#[derive(Debug)]
pub(crate) struct Added {
    pins: Arc<Pins>,
    range: Range<u64>,
}

impl Drop for Added {
    fn drop(&mut self) {
        let mut table = lock(&self.pins.table);
        table.counts.change(self.range.start, self.range.end, |count| count - 1);
        if self.pins.publish(&table).is_err() {
            log::error!(target: "kfd", "the device's memory map cannot be rebuilt");
        }
    }
}

/// A pinned range, unpinned when dropped.
pub struct Pin {
    pins: Arc<Pins>,
    id: u64,
    start: u64,
    count: usize,
    writable: bool,
    notify: Arc<dyn Invalidate>,
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin").field("start", &self.start).field("count", &self.count).finish_non_exhaustive()
    }
}

impl UserPin for Pin {
    fn count(&self) -> usize {
        self.count
    }

    fn bus(&self, index: usize) -> u64 {
        self.start + index as u64 * PAGE_SIZE
    }

    fn renew(&self) -> Result<Self> {
        self.pins.pin(self.start, self.count, self.writable, self.notify.clone())
    }
}

/// Hears of changes before the driver does.
struct News {
    changed: AtomicBool,
    next: Arc<dyn Invalidate>,
}

impl Invalidate for News {
    fn invalidated(&self, change: &Change) {
        self.changed.store(true, Ordering::Release);
        self.next.invalidated(change);
    }
}

/// Pin or watch that a mirror keeps.
enum Pages {
    Pinned(Pin),
    Watched { pins: Arc<Pins>, id: u64 },
}

/// A range that is pinned, or only watched, until this is dropped, and that says whether it has changed.
pub struct Mirror {
    pages: Pages,
    news: Arc<News>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Pages::Watched { pins, id } = &self.pages {
            let watch = lock(&pins.table).watches.remove(id);
            // Without the lock: it may be the last reference to a notifier.
            drop(watch);
        }
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl UserMirror for Mirror {
    fn count(&self) -> usize {
        match &self.pages {
            Pages::Pinned(pin) => pin.count,
            Pages::Watched { .. } => 0,
        }
    }

    fn page(&self, index: usize) -> UserPage {
        UserPage::System(match &self.pages {
            Pages::Pinned(pin) => UserPin::bus(pin, index),
            Pages::Watched { .. } => 0,
        })
    }

    fn is_current(&self) -> bool {
        !self.news.changed.load(Ordering::Acquire)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.unpin(self.id);
    }
}

#[cfg(test)]
mod tests;
