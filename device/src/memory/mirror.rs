//! The copy of memory that a device works on while it is recorded, and while a record is replayed.
//!
//! Processors write to VRAM and guest memory at any time. So that a replay sees the same bytes, the device
//! never reads them directly:
//!
//! - Before it accesses a page, the page is compared with the copy, at most once in an *epoch*, that is,
//!   while nothing new was seen. Bytes that differ were written by a processor: they are an input, and begin
//!   another epoch, so that later reads are at least as new as these bytes. An operation of the device begins
//!   an epoch, too.
//! - The device's stores go into the copy, and from there into memory before its next access of another page
//!   and before its next store, in the order of its stores: only bytes that have changed, each word by one
//!   access.
//! - Atomics are done on the memory; the value that one finds is an input if the copy has another. A wave may
//!   try again and again while a page is not compared, so such an input has the number of its access.
//!
//! VRAM of other devices is in the copy as well: for this device, what they and their processors store there is an input, too. So is what
//! they store to its own VRAM.
//!
//! A replay has nothing but the copy. The copy begins with zeros both times.

#![expect(unsafe_code, reason = "the copy is written by waves, through raw pointers as memory is")]

mod changes;

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_isa::mem::Access;
use belfry_lock::{Mutex, MutexGuard, rank};

use super::host_path::{Notes, Unflushed};
use super::{Aperture, Block, MAX_PEERS, PAGE, Physical};
use crate::record::{Entry, Journal, OF_PEER, Run, SYSTEM, digest};
use crate::split_mix::mix;
pub(crate) use changes::Changes;

const BYTES: usize = PAGE as usize;
/// Bytes that a run of input takes beside its own bytes: runs closer together than that become one run.
const GAP: usize = 4;
/// Pages of a copy at most: 64 GiB.
const MOST_PAGES: usize = 16 << 20;

/// A page that no memory has.
const NOWHERE: u64 = u64::MAX / PAGE;

/// Bytes that are compared at a time.
const LINE: usize = 64;

/// Memory of one page.
#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[u8; BYTES]>);

// SAFETY: no code makes a reference to the bytes; they are accessed like guest memory, by atomics through raw
// pointers.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

struct Page {
    /// Never moved, and kept as long as the mirror: pointers into it stay valid.
    bytes: Box<Bytes>,
    /// The epoch in which it was last compared.
    compared: u64,
    /// The digest of its bytes when they were last looked at.
    digest: u64,
    /// True if the bytes may have changed since the digest was taken.
    dirty: bool,
    /// True if the bytes may have changed since changes were last taken.
    changed: bool,
}

impl Page {
    fn new() -> Self {
        let bytes = Box::new(Bytes(UnsafeCell::new([0; BYTES])));
        Self { bytes, compared: 0, digest: 0, dirty: false, changed: false }
    }

    fn block(&self) -> Block<'_> {
        // SAFETY: the box owns `PAGE` bytes, and no code makes a reference to them.
        unsafe { Block::new(self.bytes.0.get().cast(), PAGE) }
    }
}

/// A page that the device may have stored to, and its bytes before that.
struct Stored {
    page: u64,
    before: Box<[u8; BYTES]>,
}

#[derive(Default)]
struct State {
    pages: HashMap<u64, Page>,
    marked: Marked,
    /// The sum of the pages' digests.
    digest: u64,
    /// Stores that are not in memory yet.
    stored: Option<Stored>,
    /// Buffer for the next page that is stored to.
    spare: Option<Box<[u8; BYTES]>>,
    /// Buffers for comparing a page.
    compared: Option<Box<[[u8; BYTES]; 2]>>,
    /// Guest memory: first address and bytes, lowest first.
    ranges: Vec<(u64, u64)>,
    /// Notes about unflushed bytes.
    host_path: Notes,
}

/// Numbers of pages that may have changed.
#[derive(Default)]
struct Marked {
    /// Pages whose digest is not known.
    dirty: Vec<u64>,
    /// Pages whose changes were not taken, once changes are kept.
    changed: Option<Vec<u64>>,
}

/// The copy.
pub(crate) struct Mirror {
    journal: Arc<Journal>,
    vram: u64,
    epoch: AtomicU64,
    /// Atomic accesses in the operation.
    atomics: AtomicU64,
    /// True if notes are taken of the processors' writes to VRAM.
    has_host_path: bool,
    state: Mutex<State, rank::Mirror>,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("pages", &self.lock().pages.len()).finish_non_exhaustive()
    }
}

fn number(location: Physical) -> u64 {
    let page = location.offset / PAGE;
    match location.aperture {
        Aperture::Local => page,
        Aperture::Peer(peer) if usize::from(peer) < MAX_PEERS => (u64::from(peer) + 1) * OF_PEER + page,
        Aperture::Peer(_) | Aperture::Nowhere => NOWHERE,
        Aperture::System => SYSTEM | page,
    }
}

fn location(page: u64) -> Physical {
    if page & SYSTEM != 0 {
        return Physical::system((page & !SYSTEM) * PAGE);
    }
    let address = page % OF_PEER * PAGE;
    match (page / OF_PEER).checked_sub(1) {
        None => Physical::local(address),
        Some(peer) => Physical::peer(peer as u8, address),
    }
}

/// The digest of a page; pages of zeros add nothing to a sum.
fn page_digest(page: u64, bytes: &[u8; BYTES]) -> u64 {
    if *bytes == [0; BYTES] { 0 } else { mix(digest(bytes) ^ mix(page)) }
}

/// Finds the bytes that differ, as runs of the new bytes.
fn differences(old: &[u8; BYTES], new: &[u8; BYTES]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < BYTES {
        // Most bytes are equal, and are compared eight at a time.
        if at % 8 == 0 && old[at..].first_chunk::<8>() == new[at..].first_chunk::<8>() {
            at += 8;
            continue;
        }
        if old[at] != new[at] {
            match runs.last_mut().filter(|run| at - (run.at as usize + run.bytes.len()) <= GAP) {
                Some(run) => run.bytes.extend_from_slice(&new[run.at as usize + run.bytes.len()..=at]),
                None => runs.push(Run { at: at as u16, bytes: vec![new[at]] }),
            }
        }
        at += 1;
    }
    runs
}

/// Writes the changed bytes of a page to memory, each word by one access, and leaves all others alone.
fn publish(before: &[u8; BYTES], after: &[u8; BYTES], memory: Block<'_>) {
    let lines = before.as_chunks::<LINE>().0.iter().zip(after.as_chunks::<LINE>().0).enumerate();
    let words = lines.filter(|(_, (old, new))| old != new).flat_map(|(line, (old, new))| {
        let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
        (line * LINE / 8..).zip(words).filter(|(_, (old, new))| old != new)
    });
    for (word, (old, new)) in words {
        let mut mask = [0; 8];
        mask.iter_mut()
            .zip(old.iter().zip(new))
            .for_each(|(mask, (old, new))| *mask = if old == new { 0 } else { 0xff });
        let (mask, new) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(*new));
        if let Some(atomic) = memory.from(word as u64 * 8).atomic_u64() {
            let merge = |now: u64| Some(now & !mask | new & mask);
            let _ = atomic.fetch_update(Ordering::SeqCst, Ordering::SeqCst, merge);
        }
    }
}

impl Mirror {
    pub(super) fn new(journal: Arc<Journal>, vram: u64) -> Self {
        let (epoch, atomics) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { journal, vram, epoch, atomics, has_host_path: false, state: Mutex::default() }
    }

    pub(super) fn with_host_path(self) -> Self {
        Self { has_host_path: true, ..self }
    }

    pub(super) fn has_host_path(&self) -> bool {
        self.has_host_path
    }

    /// Takes over all writes of processors to VRAM; `resident` has a byte for each page, and bit 0 is set if
    /// it may hold something.
    pub(super) fn host_flushed<'a>(&self, resident: &[u8], memory: impl Fn(Physical) -> Option<Block<'a>>) {
        let mut state = self.lock();
        self.flush_locked(&mut state, &memory);
        state.host_path.forget();
        state.host_path.flushing = true;
        self.advance();
        for (page, _) in (0..).zip(resident).filter(|(_, resident)| **resident & 1 != 0) {
            let _ = self.compare(&mut state, page, &memory);
        }
        state.host_path.flushing = false;
    }

    /// Returns true if the device has read bytes that may still be flushed in time.
    pub(super) fn is_flush_due(&self) -> bool {
        self.lock().host_path.is_undecided()
    }

    /// Returns bytes that the device has read although they were not flushed in time. They are reported once.
    pub(super) fn unflushed(&self) -> Option<Unflushed> {
        self.lock().host_path.take()
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Mirror> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows whenever pages that were compared may be older than what the device has seen since.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Sets the ranges of guest memory that exist from now on.
    pub(crate) fn set_ranges(&self, ranges: Vec<(u64, u64)>) {
        self.lock().ranges = ranges;
        self.advance();
    }

    /// Begins an operation.
    pub(crate) fn begin(&self) {
        self.atomics.store(0, Ordering::SeqCst);
        self.advance();
    }

    /// Returns true if there is memory for a whole page. The memory that is mirrored says so for pages of devices, as a replay has the same
    /// devices, and the ranges for guest memory, which a replay has not.
    fn exists<'a>(&self, state: &State, page: u64, memory: &impl Fn(Physical) -> Option<Block<'a>>) -> bool {
        let at = location(page);
        let of_device = || memory(at).is_some_and(|block| block.len() >= PAGE);
        match at.aperture {
            Aperture::Local => at.offset.checked_add(PAGE).is_some_and(|end| end <= self.vram),
            Aperture::Peer(_) => of_device(),
            Aperture::Nowhere => false,
            Aperture::System => {
                let after = state.ranges.partition_point(|range| range.0 <= at.offset);
                let range = after.checked_sub(1).and_then(|at| state.ranges.get(at));
                let left = range.and_then(|range| range.1.checked_sub(at.offset - range.0));
                left.is_some_and(|left| left >= PAGE) || of_device()
            }
        }
    }

    /// A block from a location to the end of its page, in the copy, which is brought up to date as far as
    /// needed. `memory` finds the memory that is mirrored. As with [`Memory::find`](super::Memory), callers
    /// tie the block to a slice of the memory that owns the mirror.
    pub(super) fn block<'a, 'b>(
        &self,
        at: Physical,
        access: Access,
        memory: impl Fn(Physical) -> Option<Block<'b>>,
    ) -> Option<Block<'a>> {
        let page = number(at);
        let mut state = self.lock();
        self.flush_locked(&mut state, &memory);
        if !self.exists(&state, page, &memory) {
            return None;
        }
        self.compare(&mut state, page, &memory)?;
        let writes = access.is_write();
        if writes {
            self.will_store(&mut state, page);
        }
        let host = state.pages.get(&page)?.block().host();
        let offset = at.offset % PAGE;
        // SAFETY: the page is `PAGE` bytes long, and callers see to it that `self`, which keeps it, lives
        // long enough; no code makes references to its bytes.
        Some(unsafe { Block::new(host.wrapping_add(offset as usize), PAGE - offset) })
    }

    /// Compares a page with the copy, unless it was compared in this epoch.
    fn compare<'a>(
        &self,
        state: &mut State,
        page: u64,
        memory: &impl Fn(Physical) -> Option<Block<'a>>,
    ) -> Option<()> {
        let epoch = self.epoch();
        if state.pages.len() >= MOST_PAGES && !state.pages.contains_key(&page) {
            log::error!(target: "gpu::record", "the copy of memory has no room for another page: the access fails");
            return None;
        }
        let copy = state.pages.entry(page).or_insert_with(Page::new);
        let is_recording = self.journal.is_recording();
        // A replay asks each time: the next input of the record is for the access that was compared at that
        // point. A device that has begun within the record may come to the page sooner, as it has no
        // translations yet.
        if is_recording && copy.compared == epoch {
            return Some(());
        }
        copy.compared = epoch;
        let runs = if is_recording {
            let block = memory(location(page)).filter(|block| block.len() >= PAGE)?;
            let mut room = state.compared.take().unwrap_or_else(|| Box::new([[0; BYTES]; 2]));
            let [old, new] = &mut *room;
            copy.block().copy_out(old);
            block.copy_out(new);
            let runs = if old == new {
                Vec::new()
            } else {
                // Each word by one access, so that no word is half old and half new.
                block.read(new);
                differences(old, new)
            };
            state.compared = Some(room);
            if runs.is_empty() {
                return Some(());
            }
            let entry = Entry::Memory { page, runs };
            self.journal.note(&entry);
            let Entry::Memory { runs, .. } = entry else { return None };
            if self.has_host_path && page < OF_PEER {
                state.host_path.written(page * PAGE, &runs);
            }
            runs
        } else {
            match self.journal.memory(page) {
                Some(runs) => runs,
                None => return Some(()),
            }
        };
        for run in runs {
            let block = copy.block().from(u64::from(run.at).min(PAGE));
            let len = run.bytes.len().min(block.len() as usize);
            block.write(&run.bytes[..len]);
        }
        copy.compared = self.advance();
        mark(copy, page, &mut state.marked);
        Some(())
    }

    fn will_store(&self, state: &mut State, page: u64) {
        let Some(copy) = state.pages.get_mut(&page) else { return };
        mark(copy, page, &mut state.marked);
        if self.journal.is_recording() {
            let mut before = state.spare.take().unwrap_or_else(|| Box::new([0; BYTES]));
            copy.block().copy_out(&mut before[..]);
            state.stored = Some(Stored { page, before });
        }
    }

    fn flush_locked<'a>(&self, state: &mut State, memory: &impl Fn(Physical) -> Option<Block<'a>>) {
        let Some(Stored { page, before }) = state.stored.take() else { return };
        if let Some(copy) = state.pages.get(&page)
            && let Some(block) = memory(location(page)).filter(|block| block.len() >= PAGE)
        {
            let mut room = state.compared.take().unwrap_or_else(|| Box::new([[0; BYTES]; 2]));
            copy.block().copy_out(&mut room[0]);
            publish(&before, &room[0], block);
            state.compared = Some(room);
        }
        state.spare = Some(before);
    }

    /// Writes all stores to memory.
    pub(super) fn flush<'a>(&self, memory: impl Fn(Physical) -> Option<Block<'a>>) {
        self.flush_locked(&mut self.lock(), &memory);
    }

    /// Atomically replaces a naturally aligned word of 4 or 8 bytes in the memory and in the copy; returns
    /// the value before.
    pub(super) fn update<'a>(
        &self,
        (at, size): (Physical, u64),
        update: &dyn Fn(u64) -> u64,
        memory: impl Fn(Physical) -> Option<Block<'a>>,
    ) -> Option<u64> {
        let (page, offset) = (number(at), at.offset % PAGE);
        if !offset.is_multiple_of(size) {
            return None;
        }
        let mut state = self.lock();
        self.flush_locked(&mut state, &memory);
        if !self.exists(&state, page, &memory) {
            return None;
        }
        self.compare(&mut state, page, &memory)?;
        let State { pages, marked, .. } = &mut *state;
        let copy = pages.get_mut(&page)?;
        mark(copy, page, marked);
        let word = copy.block().from(offset);
        let seen = replace(word, size, &|_| None)?;
        let number = self.atomics.fetch_add(1, Ordering::SeqCst);
        let found = if self.journal.is_recording() {
            let found = replace(memory(location(page))?.from(offset), size, &|old| Some(update(old)))?;
            if found != seen {
                self.journal.note(&Entry::Found { page, at: offset as u16, value: found, number });
            }
            found
        } else {
            self.journal.found((page, offset as u16), number).unwrap_or(seen)
        };
        if found != seen {
            self.advance();
        }
        replace(word, size, &|_| Some(update(found)))?;
        Some(found)
    }

    /// The digest of all pages that the device has seen.
    pub(crate) fn digest(&self) -> u64 {
        let mut state = self.lock();
        let State { pages, marked, digest, .. } = &mut *state;
        for page in marked.dirty.drain(..) {
            let Some(copy) = pages.get_mut(&page) else { continue };
            let mut bytes = [0; BYTES];
            copy.block().read(&mut bytes);
            let new = page_digest(page, &bytes);
            *digest = digest.wrapping_sub(copy.digest).wrapping_add(new);
            (copy.digest, copy.dirty) = (new, false);
        }
        *digest
    }

    /// Pages of VRAM in the copy that are not all zero, lowest first: byte offset and bytes.
    pub(super) fn vram_pages(&self) -> Vec<(u64, Vec<u8>)> {
        let state = self.lock();
        let mut pages: Vec<_> = state.pages.iter().filter(|(page, _)| **page < OF_PEER).collect();
        pages.sort_unstable_by_key(|(page, _)| **page);
        let bytes = pages.into_iter().map(|(page, copy)| {
            let mut bytes = vec![0; BYTES];
            copy.block().read(&mut bytes);
            (page * PAGE, bytes)
        });
        bytes.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)).collect()
    }
}

/// Notes that a page may have another digest from now on.
fn mark(copy: &mut Page, page: u64, marked: &mut Marked) {
    if !std::mem::replace(&mut copy.dirty, true) {
        marked.dirty.push(page);
    }
    if let Some(changed) = &mut marked.changed
        && !std::mem::replace(&mut copy.changed, true)
    {
        changed.push(page);
    }
}

/// Atomically replaces the word of 4 or 8 bytes at the start of a block, if `new` gives a value; returns the
/// value before.
fn replace(block: Block<'_>, size: u64, new: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
    let order = Ordering::SeqCst;
    if size == 4 {
        let update = |old: u32| new(old.into()).map(|new| new as u32);
        let result = block.atomic_u32()?.fetch_update(order, order, update);
        Some(result.unwrap_or_else(|old| old).into())
    } else {
        let result = block.atomic_u64()?.fetch_update(order, order, new);
        Some(result.unwrap_or_else(|old| old))
    }
}
