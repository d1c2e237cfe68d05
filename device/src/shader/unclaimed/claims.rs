//! Numbers that threads claim in ranges, the lowest ones first. `tests/models` runs this file under loom.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

/// Padding of two cache lines: processors fetch lines in pairs.
type Room = [MaybeUninit<u64>; 16];

const ROOM: Room = [MaybeUninit::uninit(); 16];

/// First number that does not fit the word of the first range. Ranges up there are claimed under the lock.
const LIMIT: u64 = (1 << 31) - 1;

/// The first range in one word: its first number in bits 62:32, the number after its last in bits 31:0, and in bit 63
/// that there are ranges behind it. Numbers are left as long as the range is not empty or the bit is set.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Front(u64);

impl Front {
    const MORE: u64 = 1 << 63;

    fn new(start: u64, end: u64, has_more: bool) -> Front {
        Front(if has_more { Front::MORE } else { 0 } | start << 32 | end)
    }

    fn range(self) -> Range<u64> {
        (self.0 & !Front::MORE) >> 32..self.0 & 0xffff_ffff
    }

    fn has_more(self) -> bool {
        self.0 & Front::MORE != 0
    }
}

/// Ranges of numbers: ascending, not empty, without overlaps.
///
/// A claim is one compare-exchange of the first range. Other ranges exist only after some were given back, and are
/// reached under a lock.
///
/// The word of the first range has cache lines of its own, because threads read the fields beside this value all the
/// time. Padding does that instead of an alignment, with which the memory around it would take longer to allocate.
#[repr(C)]
pub(crate) struct Claims {
    _before: Room,
    /// A [`Front`]. Its range becomes shorter by claims, and is replaced under the lock of `others`, only while it is
    /// empty.
    front: AtomicU64,
    _behind: Room,
    /// Ranges behind the first one.
    others: Mutex<Vec<Range<u64>>>,
    /// Number of numbers in `others`.
    more: AtomicU64,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

impl Claims {
    /// Makes these ranges: ascending, not empty, without overlaps.
    pub(crate) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Claims {
        let mut others: Vec<Range<u64>> = Vec::new();
        let mut ranges = ranges.into_iter();
        let front = match ranges.next() {
            Some(first) if first.end <= LIMIT => first,
            Some(first) => {
                others.push(first);
                0..0
            }
            None => 0..0,
        };
        others.extend(ranges);
        let claims = Claims {
            _before: ROOM,
            front: AtomicU64::new(Front::new(front.start, front.end, !others.is_empty()).0),
            _behind: ROOM,
            more: AtomicU64::new(count(&others)),
            others: Mutex::new(others),
        };
        if front.is_empty() {
            claims.refill(&mut claims.others());
        }
        claims
    }

    fn others(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn front(&self) -> Front {
        Front(self.front.load(Ordering::SeqCst))
    }

    /// Returns the ranges that are left.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let others = self.others();
        let front = Some(self.front().range()).filter(|range| !range.is_empty());
        front.into_iter().chain(others.iter().cloned()).collect()
    }

    /// Returns how many are left. While others claim and give back, that is near the truth.
    pub(crate) fn left(&self) -> u64 {
        self.left_with(self.front())
    }

    fn left_with(&self, front: Front) -> u64 {
        let Range { start, end } = front.range();
        // Reading the other count would cost a line of the cache for nothing.
        (end - start) + if front.has_more() { self.more.load(Ordering::Relaxed) } else { 0 }
    }

    /// Returns true if none is left.
    pub(crate) fn is_empty(&self) -> bool {
        let front = self.front();
        front.range().is_empty() && !front.has_more()
    }

    /// Returns true if more than one may be left. While some come back, their count is not known for a moment.
    pub(crate) fn has_several(&self) -> bool {
        let front = self.front();
        let Range { start, end } = front.range();
        end - start > 1 || front.has_more()
    }

    /// Claims the first numbers: as many as `size` says for this many that are left, at least one, of one range. The
    /// result is empty if none is left.
    pub(crate) fn claim(&self, size: impl Fn(u64) -> u64) -> Range<u64> {
        let mut front = self.front();
        loop {
            let Range { start, end } = front.range();
            if start == end {
                if !front.has_more() {
                    return 0..0;
                }
                if let Some(claimed) = self.claim_other(&size) {
                    return claimed;
                }
                front = self.front();
                continue;
            }
            let share = size(self.left_with(front)).clamp(1, end - start);
            let next = Front::new(start + share, end, front.has_more());
            match self.front.compare_exchange(front.0, next.0, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return start..start + share,
                Err(now) => front = Front(now),
            }
        }
    }

    /// Claims from the ranges behind the first one, which was empty. Returns `None` if that has changed.
    #[cold]
    fn claim_other(&self, size: impl Fn(u64) -> u64) -> Option<Range<u64>> {
        let mut others = self.others();
        let front = self.front();
        if !front.range().is_empty() || !front.has_more() {
            return None;
        }
        let first = others.first_mut()?;
        let share = size(self.more.load(Ordering::Relaxed)).clamp(1, first.end - first.start);
        let claimed = first.start..first.start + share;
        first.start = claimed.end;
        if first.is_empty() {
            others.remove(0);
        }
        self.refill(&mut others);
        Some(claimed)
    }

    /// Makes the first of the other ranges the first range, which is empty. The caller holds the lock.
    fn refill(&self, others: &mut Vec<Range<u64>>) {
        let mut front = 0..0;
        if let Some(first) = others.first_mut()
            && first.start < LIMIT
        {
            front = first.start..first.end.min(LIMIT);
            first.start = front.end;
            if first.is_empty() {
                others.remove(0);
            }
        }
        self.more.store(count(others), Ordering::Relaxed);
        // From here on others claim without the lock.
        let front = Front::new(front.start, front.end, !others.is_empty());
        self.front.store(front.0, Ordering::SeqCst);
    }

    /// Gives back numbers that were claimed. Returns true if nothing else was left.
    pub(crate) fn give_back(&self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut others = self.others();
        // The first range is taken out, so that what comes back may go before it. Claims that find it gone wait for the
        // lock meanwhile.
        let front = Front(self.front.swap(Front::MORE, Ordering::SeqCst)).range();
        let was_empty = front.is_empty() && others.is_empty();
        for range in [front, range].into_iter().filter(|range| !range.is_empty()) {
            insert(&mut others, range);
        }
        self.refill(&mut others);
        was_empty
    }
}

/// Puts a range between its neighbours.
fn insert(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    let at = ranges.partition_point(|other| other.start < range.start);
    match ranges.get_mut(at) {
        Some(next) if next.start == range.end => next.start = range.start,
        _ => ranges.insert(at, range),
    }
}

fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
