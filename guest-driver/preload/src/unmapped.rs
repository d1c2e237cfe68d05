//! Memory that goes away while the GPU uses it, other than through a call that this library sees: `free` unmaps inside
//! the C library, and a program may make system calls of its own.
//!
//! A kernel driver has MMU notifiers for this. Here, the kernel tells of each unmapping through a userfaultfd, and the
//! thread that unmaps goes on once that was read: the memory is gone by then, and the next map may be put in its place. So
//! before it is read, one thread looks which pinned memory is gone, and tells the driver, which takes its time. The thread
//! that reads waits for that, but not for ever: should the thread that unmaps have interrupted the driver, it goes first.
//! What the device touches in between is bridged (`bridge.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use belfry_kfd_hosted::PinObserver;
use belfry_lock::{Mutex, MutexGuard, rank};

use crate::gpu::Gpu;
use crate::real::raw;
use crate::userfault::{Event, Purpose, Read, Registered, Userfault};

/// Ranges on their way to the thread that tells the driver.
struct Mail {
    /// Start, with [`UNMAPPED`], and length of each; a length of 0: free.
    slots: [(AtomicUsize, AtomicUsize); 256],
    /// Bounds of the ranges that found no slot.
    first: AtomicUsize,
    last: AtomicUsize,
    /// Number of posts; the reader sleeps on it.
    posted: AtomicU32,
    /// Number of requests to look at all pins, and the last of them that is done.
    asked: AtomicU32,
    looked: AtomicU32,
    /// A thread has gone on before the pins were looked at.
    gave_up: AtomicBool,
}

static MAIL: Mail = Mail {
    slots: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256],
    first: AtomicUsize::new(usize::MAX),
    last: AtomicUsize::new(0),
    posted: AtomicU32::new(0),
    asked: AtomicU32::new(0),
    looked: AtomicU32::new(0),
    gave_up: AtomicBool::new(false),
};

/// Longest time a thread that unmaps waits for the driver: far longer than that takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Certainty that a range was unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Something about it has changed.
    Changed,
    /// All of it was unmapped. It may have been mapped anew since.
    Unmapped,
}

/// Bit of a slot's start, which is a multiple of the page size: [`Told::Unmapped`].
const UNMAPPED: usize = 1;

/// Posts that a range has changed. Never waits and allocates nothing, so that a signal handler can say it as well: the
/// driver may be waiting for the very thread.
pub(crate) fn post(range: &Range<usize>, told: Told) {
    let start = range.start & !(PAGE - 1) | if told == Told::Unmapped { UNMAPPED } else { 0 };
    let taken = MAIL.slots.iter().find(|(place, len)| {
        // The start holds the place until the length says that it is taken.
        len.load(Ordering::Acquire) == 0
            && place.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    match taken {
        Some((_, len)) => len.store(range.len().max(1), Ordering::Release),
        // What is still there in between is pinned anew and goes on.
        None => {
            MAIL.last.fetch_max(range.end, Ordering::AcqRel);
            MAIL.first.fetch_min(range.start, Ordering::AcqRel);
        }
    }
    MAIL.posted.fetch_add(1, Ordering::Release);
    raw::futex(&MAIL.posted, libc::FUTEX_WAKE, 1, None);
}

/// Has all pins looked at, and waits until that is over.
fn look_at_pins() {
    let asked = MAIL.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    MAIL.posted.fetch_add(1, Ordering::Release);
    raw::futex(&MAIL.posted, libc::FUTEX_WAKE, 1, None);
    let until = Instant::now() + PATIENCE;
    loop {
        let looked = MAIL.looked.load(Ordering::Acquire);
        let left = until.saturating_duration_since(Instant::now());
        if looked == asked {
            return;
        }
        if left.is_zero() {
            MAIL.gave_up.store(true, Ordering::Release);
            return;
        }
        raw::futex(&MAIL.looked, libc::FUTEX_WAIT, looked, Some(left));
    }
}

/// Returns true if any page of a range is not there (msync(2): `ENOMEM`; asked so, it does nothing else).
#[expect(unsafe_code, reason = "a system call")]
fn has_hole(range: &Range<usize>) -> bool {
    let arguments = [range.start, range.len(), libc::MS_ASYNC as usize, 0, 0, 0];
    // SAFETY: changes nothing.
    unsafe { raw::call(libc::SYS_msync, arguments) == -(libc::ENOMEM as isize) }
}

/// Pages that keep other mappings out of memory that is gone while the device may still touch it.
///
/// The thread that has unmapped it waits meanwhile, so that the program cannot know yet that the place is free; a mapping
/// that the kernel put there for another thread would be written by the device.
struct Placeholders(Vec<Range<usize>>);

impl Placeholders {
    /// Maps all free parts of a range.
    fn fill(range: &Range<usize>) -> Self {
        let mut filled = Vec::new();
        let mut parts = vec![range.clone()];
        while let Some(part) = parts.pop() {
            if take(&part) {
                filled.push(part);
            } else if part.len() > PAGE && has_hole(&part) {
                let middle = part.start + (part.len() / PAGE / 2) * PAGE;
                parts.extend([part.start..middle, middle..part.end]);
            }
        }
        Self(filled)
    }

    /// Gives the places back: the device touches them no more.
    ///
    /// They stay if the thread that has unmapped did not wait: it may have put something of its own there.
    #[expect(unsafe_code, reason = "a system call")]
    fn remove(self) {
        if MAIL.gave_up.load(Ordering::Acquire) {
            return;
        }
        for range in self.0 {
            // SAFETY: `fill` has mapped it, and only the device knows of it, which has let go.
            unsafe { raw::munmap(range.start, range.len()) };
        }
    }
}

/// Size of a page of the processor.
const PAGE: usize = 4096;

/// Maps a range, if all of it is free.
fn take(range: &Range<usize>) -> bool {
    raw::mmap_free(range.start, range.len(), libc::PROT_READ | libc::PROT_WRITE).is_ok()
}

/// Tells the driver of posted ranges, for as long as the process lives.
fn deliver(gpu: &'static Gpu, notifier: &Notifier) {
    loop {
        let posted = MAIL.posted.load(Ordering::Acquire);
        let mut found = false;
        // It has happened already, and something else may be there: there is nothing to do but to tell.
        let tell = |first: usize, length: usize, told: Told| {
            let range = first..first.saturating_add(length);
            let Some(lost) = notifier.lost(&range, told) else {
                // Once the thread that reads events has gone on.
                post(&range, told);
                std::thread::yield_now();
                return;
            };
            for part in lost {
                let _ = gpu.process.replacing(part.start, part.len(), || ());
            }
            let _ = gpu.process.changed(first, length);
        };
        let asked = MAIL.asked.load(Ordering::Acquire);
        if asked != MAIL.looked.load(Ordering::Acquire) {
            found = true;
            for range in notifier.ranges().into_iter().filter(has_hole) {
                let placeholders = Placeholders::fill(&range);
                for hole in &placeholders.0 {
                    let _ = gpu.process.replacing(hole.start, hole.len(), || ());
                }
                placeholders.remove();
            }
            MAIL.looked.store(asked, Ordering::Release);
            raw::futex(&MAIL.looked, libc::FUTEX_WAKE, 1, None);
        }
        let first = MAIL.first.swap(usize::MAX, Ordering::AcqRel);
        if first != usize::MAX {
            found = true;
            tell(first, MAIL.last.swap(0, Ordering::AcqRel).saturating_sub(first).max(1), Told::Changed);
        }
        for (start, len) in &MAIL.slots {
            let length = len.load(Ordering::Acquire);
            if length > 0 {
                found = true;
                let first = start.load(Ordering::Acquire);
                let told = if first & UNMAPPED == 0 { Told::Changed } else { Told::Unmapped };
                len.store(0, Ordering::Release);
                start.store(0, Ordering::Release);
                tell(first & !(PAGE - 1), length, told);
            }
        }
        if !found {
            raw::futex(&MAIL.posted, libc::FUTEX_WAIT, posted, None);
        }
    }
}

/// A forked child has no ranges to post and no thread that posts them.
pub(crate) fn forget() {
    for (start, len) in &MAIL.slots {
        len.store(0, Ordering::Relaxed);
        start.store(0, Ordering::Relaxed);
    }
    MAIL.first.store(usize::MAX, Ordering::Relaxed);
    crate::userfault::forget();
}

/// Watches pinned memory.
pub(crate) struct Notifier {
    userfault: OnceLock<Option<Userfault>>,
    /// Watched ranges.
    ranges: Mutex<Ranges, rank::NotifierRanges>,
}

/// Ranges that do not overlap; those of pins that lie side by side stay apart.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    fn add(&mut self, range: &Range<usize>) {
        self.remove(range);
        self.0.insert(range.start, range.end);
    }

    fn remove(&mut self, range: &Range<usize>) {
        let touched: Vec<(usize, usize)> = self
            .0
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in touched {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
    }
}

impl Notifier {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { userfault: OnceLock::new(), ranges: Mutex::default() })
    }

    fn watched(&self) -> MutexGuard<'_, Ranges, rank::NotifierRanges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ranges(&self) -> Vec<Range<usize>> {
        self.watched().0.iter().map(|(start, end)| *start..*end).collect()
    }

    /// The parts of a range whose memory is gone; other memory may be mapped there by now.
    ///
    /// If the range was [`Told::Unmapped`], these are all of its parts that the kernel does not watch now. Otherwise they are
    /// the parts that this library has noted as watched and that the kernel does not watch.
    ///
    /// `None` while that cannot be known, as the kernel has an event that was not read.
    fn lost(&self, range: &Range<usize>, told: Told) -> Option<Vec<Range<usize>>> {
        let Some(userfault) = self.userfault() else { return Some(Vec::new()) };
        let watched = self.ranges().into_iter().map(|one| one.start.max(range.start)..one.end.min(range.end));
        let mut lost = Ranges::default();
        if told == Told::Unmapped && !range.is_empty() {
            lost.add(range);
        }
        for part in watched.filter(|part| !part.is_empty()) {
            match userfault.is_registered(&part) {
                Registered::Yes => lost.remove(&part),
                Registered::No => lost.add(&part),
                Registered::Busy => return None,
            }
        }
        Some(lost.0.into_iter().map(|(start, end)| start..end).collect())
    }

    fn userfault(&self) -> Option<&Userfault> {
        self.userfault.get_or_init(|| Userfault::new(Purpose::Unmapping)).as_ref()
    }

    /// Starts the threads.
    pub(crate) fn start(self: &Arc<Self>, gpu: &'static Gpu) {
        let notifier = self.clone();
        let read = move || {
            let Some(userfault) = notifier.userfault() else { return };
            loop {
                if userfault.wait(None) {
                    // A thread waits until this is read.
                    look_at_pins();
                } else if !userfault.is_gone() {
                    continue;
                }
                match userfault.read(Some(Duration::ZERO)) {
                    Read::Event(Event::Unmapped(range)) => post(&range, Told::Unmapped),
                    Read::Event(_) | Read::Nothing => {}
                    Read::Gone => return,
                }
            }
        };
        spawn("belfry-unmapped", read);
        let notifier = self.clone();
        spawn("belfry-unpin", move || deliver(gpu, &notifier));
    }
}

impl PinObserver for Notifier {
    fn pinned(&self, range: Range<u64>) {
        if let Some(userfault) = self.userfault() {
            // Files that are mapped cannot be watched: then a fault of the device is the first to tell.
            let range = range.start as usize..range.end as usize;
            if userfault.register(&range) {
                self.watched().add(&range);
            }
        }
    }

    fn unpinned(&self, range: Range<u64>) {
        if let Some(userfault) = self.userfault() {
            let range = range.start as usize..range.end as usize;
            self.watched().remove(&range);
            userfault.unregister(&range);
        }
    }
}

/// Starts a thread of this library.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
        crate::notice::say(format_args!("the thread {name} cannot be started: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_others_come_and_go() {
        let mut ranges = Ranges::default();
        ranges.add(&(10..20));
        ranges.add(&(20..30));
        ranges.add(&(15..25));
        assert_eq!(ranges.0, [(10, 15), (15, 25), (25, 30)].into());
        ranges.remove(&(12..27));
        assert_eq!(ranges.0, [(10, 12), (27, 30)].into());
        ranges.remove(&(0..100));
        assert!(ranges.0.is_empty());
    }

    #[test]
    fn ranges_with_a_page_missing_are_found() {
        let page = 4096;
        #[expect(unsafe_code, reason = "maps and unmaps its own memory")]
        // SAFETY: a new mapping, of which nothing is used after it is unmapped.
        unsafe {
            let start = raw::mmap_anonymous(3 * page).unwrap() as usize;
            assert!(!has_hole(&(start..start + 3 * page)));
            raw::munmap(start + page, page);
            assert!(has_hole(&(start..start + 3 * page)));
            assert!(!has_hole(&(start..start + page)));
            raw::munmap(start, 3 * page);
            assert!(has_hole(&(start..start + page)));
        }
    }

    #[test]
    fn placeholders_take_what_is_free_and_nothing_else() {
        let page = 4096;
        #[expect(unsafe_code, reason = "maps and unmaps its own memory")]
        // SAFETY: a new mapping, of which nothing is used after it is unmapped.
        unsafe {
            // Where the kernel puts no mapping of another test's into the holes.
            let start = 0x2000_0000_0000;
            raw::mmap_free(start, 7 * page, libc::PROT_READ | libc::PROT_WRITE).unwrap();
            let range = start..start + 7 * page;
            let kept = (start + 3 * page) as *mut u32;
            kept.write(7);
            raw::munmap(start, 3 * page);
            raw::munmap(start + 4 * page, 3 * page);
            let placeholders = Placeholders::fill(&range);
            assert!(!has_hole(&range));
            assert_eq!(placeholders.0.iter().map(Range::len).sum::<usize>(), 6 * page);
            placeholders.remove();
            assert!(!has_hole(&(start + 3 * page..start + 4 * page)));
            assert_eq!(kept.read(), 7);
            assert!(!take(&range));
            raw::munmap(start + 3 * page, page);
            assert!(take(&range));
            raw::munmap(start, 7 * page);
        }
    }

    /// Memory that came in the place of watched memory, or that was never watched, is not pinned memory,
    /// unless it was pinned anew.
    #[test]
    fn memory_that_came_in_the_place_of_watched_memory_is_told_apart() {
        let page = 4096;
        let notifier = Notifier::new();
        #[expect(unsafe_code, reason = "maps and unmaps its own memory")]
        // SAFETY: a new mapping, of which nothing is used.
        let start = unsafe { raw::mmap_anonymous(6 * page).unwrap() as usize };
        let pages = |from: usize, to: usize| start + from * page..start + to * page;
        let watch = |from, to| notifier.pinned(pages(from, to).start as u64..pages(from, to).end as u64);
        if notifier.userfault().is_none() {
            // A sandbox without userfaultfd: there is nothing to tell apart.
            assert_eq!(notifier.lost(&pages(0, 6), Told::Unmapped), Some(Vec::new()));
            return;
        }
        watch(0, 4);
        assert_eq!(notifier.lost(&pages(0, 6), Told::Changed), Some(Vec::new()));
        assert_eq!(notifier.lost(&pages(0, 6), Told::Unmapped), Some(vec![pages(4, 6)]));
        // The kernel tells of unmapped memory, and waits until that was read.
        let replaced = pages(1, 3);
        let thread = std::thread::spawn(move || {
            #[expect(unsafe_code, reason = "maps and unmaps its own memory")]
            // SAFETY: this test's own mapping.
            unsafe {
                raw::munmap(replaced.start, replaced.len());
            }
            raw::mmap_free(replaced.start, replaced.len(), libc::PROT_NONE).unwrap();
        });
        let told = notifier.userfault().unwrap().read(Some(Duration::from_secs(5)));
        assert_eq!(told, Read::Event(Event::Unmapped(pages(1, 3))));
        thread.join().unwrap();
        // It is not known of the watched range as a whole, which is one.
        assert_eq!(notifier.lost(&pages(1, 3), Told::Changed), Some(vec![pages(1, 3)]));
        assert_eq!(notifier.lost(&pages(1, 3), Told::Unmapped), Some(vec![pages(1, 3)]));
        assert_eq!(notifier.lost(&pages(3, 4), Told::Unmapped), Some(Vec::new()));
        notifier.unpinned(pages(1, 3).start as u64..pages(1, 3).end as u64);
        assert_eq!(notifier.lost(&pages(0, 4), Told::Changed), Some(Vec::new()));
        assert_eq!(notifier.lost(&pages(0, 4), Told::Unmapped), Some(vec![pages(1, 3)]));
        crate::userfault::forget();
    }

    /// A handler that waited for room would wait for ever: the driver waits for its thread.
    #[test]
    fn posts_beyond_all_slots_are_kept_as_one_range_and_do_not_wait() {
        for page in 1..=300usize {
            post(&(page * 4096..(page + 1) * 4096), Told::Changed);
        }
        assert!(MAIL.slots.iter().all(|(_, len)| len.load(Ordering::Relaxed) == 4096));
        assert_eq!(MAIL.first.load(Ordering::Relaxed), 257 * 4096);
        assert_eq!(MAIL.last.load(Ordering::Relaxed), 301 * 4096);
        for (start, len) in &MAIL.slots {
            len.store(0, Ordering::Relaxed);
            start.store(0, Ordering::Relaxed);
        }
    }
}
