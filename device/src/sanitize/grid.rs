//! State of one dispatch: its waves' clocks, and the accesses to global memory.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use belfry_lock::{Mutex, MutexGuard, rank};

use super::clock::{Clocks, Room};
use super::finding::{Finding, Other, Rule};
use super::shadow::{Cell, Does, Pages, Record};
use super::unwritten::LINE;
use super::{Named, Sanitizer};

/// Most waves of a dispatch that are checked.
const MAX_WAVES: usize = 4 << 20;
/// Most addresses at which waves meet by atomics.
const MAX_MEETINGS: usize = 1 << 18;

/// A dispatch that is checked.
pub(crate) struct Grid {
    pub(super) sanitizer: Arc<Sanitizer>,
    kernel: Named,
    entry: u64,
    dispatch: u64,
    known: Mutex<Known, rank::SanitizerGrid>,
    pub(super) sight: Sight,
}

/// Checks the page of an address that a wave is about to access.
pub(crate) type Look = dyn Fn(u64) + Send + Sync;
/// Returns true if there may be memory at an address.
pub(crate) type IsMapped = dyn Fn(u64) -> bool + Send + Sync;

/// Reads the line at an address, if there is memory.
pub(crate) type ReadLine = dyn Fn(u64) -> Option<[u8; LINE]> + Send + Sync;

/// Functions and facts of a dispatch for the checks.
pub(crate) struct Sight {
    /// Checks a page, if pages are checked.
    pub(crate) look: Option<Box<Look>>,
    pub(crate) is_mapped: Box<IsMapped>,
    pub(crate) read_line: Box<ReadLine>,
    /// Scalar registers that its waves begin with.
    pub(crate) sgprs: usize,
    /// True if stores stay in a cache of one XCD until that cache is written back.
    pub(crate) keeps_stores: bool,
}

/// Place of a wave, and its knowledge of other waves.
pub(super) struct WaveClock {
    pub(super) workgroup: [u32; 3],
    wave: u32,
    /// Time of the wave: grows whenever other waves can learn its past.
    pub(super) time: u32,
    pub(super) knows: Clocks,
    /// Its knowledge when it last invalidated the caches of its compute unit, and the caches after them.
    pub(super) fresh: [Clocks; 2],
    /// Time up to which all of its stores are written back.
    pub(super) written_back: u32,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) waves: Vec<WaveClock>,
    pub(super) pages: Pages,
    pub(super) room: Room,
    /// Knowledge that waves have left at the addresses that they update.
    meetings: HashMap<u64, Clocks>,
    /// Numbers of instructions, by address; their addresses and texts.
    numbers: HashMap<u64, u32>,
    texts: Vec<(u64, String)>,
}

impl Known {
    /// The number of an instruction.
    pub(super) fn instruction(&mut self, pc: u64, text: impl FnOnce() -> String) -> u32 {
        let texts = &mut self.texts;
        *self.numbers.entry(pc).or_insert_with(|| {
            texts.push((pc, text()));
            (texts.len() - 1) as u32
        })
    }

    /// The wave and the instruction of a record.
    pub(super) fn other(&self, record: &Record, place: &str) -> Option<Other> {
        let wave = self.waves.get(record.wave as usize)?;
        let (pc, instruction) = self.texts.get(record.at as usize)?;
        let does = match record.does {
            Does::Reads => "has read",
            Does::Writes => "has written",
            Does::Updates => "has updated",
        };
        Some(Other {
            workgroup: wave.workgroup,
            wave: wave.wave,
            lane: Some(record.lane),
            pc: *pc,
            instruction: instruction.clone(),
            does: format!("{does} {place}"),
            source: None,
        })
    }

    /// The place of a wave that is about to act.
    pub(super) fn here(&self, wave: u32, pc: u64, lane: Option<u8>, text: String, does: String) -> Other {
        let (workgroup, number) =
            self.waves.get(wave as usize).map_or(([0; 3], 0), |known| (known.workgroup, known.wave));
        Other { workgroup, wave: number, lane, pc, instruction: text, does, source: None }
    }

    /// Notes that a wave updates an address: it leaves its knowledge there for waves that update it later and
    /// see the value; if it `sees` the value, it learns theirs.
    pub(super) fn meet(&mut self, wave: u32, key: u64, sees: bool) -> bool {
        if self.meetings.len() == MAX_MEETINGS && !self.meetings.contains_key(&key) {
            return false;
        }
        let (Some(own), meeting) = (self.waves.get_mut(wave as usize), self.meetings.entry(key).or_default())
        else {
            return true;
        };
        let room = &mut self.room;
        let learned = !sees || own.knows.join(meeting, room);
        let left = meeting.join(&own.knows, room);
        learned & left & meeting.learn(wave, own.time, room)
    }

    /// Notes that a wave sees a value that others have updated: it learns the knowledge that they have left
    /// there.
    pub(super) fn see(&mut self, wave: u32, key: u64) -> bool {
        let (Some(own), Some(meeting)) = (self.waves.get_mut(wave as usize), self.meetings.get(&key)) else {
            return true;
        };
        own.knows.join(meeting, &mut self.room)
    }

    /// Notes that a wave sees another wave's store by a load that bypasses caches: it learns what that wave
    /// knows now.
    pub(super) fn learn_from(&mut self, wave: u32, other: u32) -> bool {
        let Some(from) = self.waves.get_mut(other as usize) else { return true };
        let (knows, time) = (from.knows.clone(), from.time);
        from.time += 1;
        let Some(own) = self.waves.get_mut(wave as usize) else { return true };
        let all = own.knows.join(&knows, &mut self.room);
        own.knows.learn(other, time, &mut self.room) & all
    }
}

/// Finds an access of these bytes that must be ordered with this one and is not. In global memory loads may
/// meet updates, as they do in front of compare-and-swap loops.
pub(super) fn conflict(waves: &[WaveClock], cell: &Cell, now: &Record, global: bool) -> Option<Record> {
    let knows = waves.get(now.wave as usize).map(|own| &own.knows);
    cell.conflict(now, global, |before| knows.is_none_or(|knows| knows.cover(before.wave, before.time)))
}

impl Grid {
    /// Dispatch `dispatch` of the kernel at `entry`, if it is to be checked.
    pub(crate) fn new(
        sanitizer: &Arc<Sanitizer>,
        space: u64,
        entry: u64,
        dispatch: u64,
        sight: Sight,
    ) -> Option<Arc<Self>> {
        let kernel = sanitizer.kernel(space, entry)?;
        let (sanitizer, known) = (Arc::clone(sanitizer), Mutex::default());
        Some(Arc::new(Self { sanitizer, kernel, entry, dispatch, known, sight }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known, rank::SanitizerGrid> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the waves of a workgroup; returns the number of the first, or `None` if there are too many.
    pub(super) fn enter(&self, workgroup: [u32; 3], count: u32) -> Option<u32> {
        let mut known = self.lock();
        if known.waves.len() + count as usize > MAX_WAVES {
            self.sanitizer.incomplete();
            return None;
        }
        let first = known.waves.len() as u32;
        let clock = |wave| WaveClock {
            workgroup,
            wave,
            time: 1,
            knows: Clocks::default(),
            fresh: Default::default(),
            written_back: 0,
        };
        known.waves.extend((0..count).map(clock));
        Some(first)
    }

    /// Reports a broken rule.
    pub(super) fn found(
        &self,
        rule: Rule,
        (pc, other_pc): (u64, u64),
        parts: impl FnOnce() -> (Other, Option<Other>),
    ) {
        let finding = || {
            let (here, against) = parts();
            let (kernel, descriptor) = (self.kernel.name.to_string(), self.kernel.descriptor);
            let (entry, dispatch) = (self.entry, self.dispatch);
            Finding { rule, kernel, entry, descriptor, dispatch, here, against, count: 1 }
        };
        self.sanitizer.found(self.entry, finding, rule, (pc, other_pc));
    }
}
