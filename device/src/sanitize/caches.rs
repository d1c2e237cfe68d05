//! Caches that are written back and invalidated: a load through the cache of a compute unit may find old
//! bytes there after a wave elsewhere has written to memory.
//!
//! On gfx11 and gfx12 stores go through to the cache that all compute units share. A wave that has learned of
//! a store has to invalidate the caches in front of it before it loads (`buffer_gl1_inv` and
//! `buffer_gl0_inv`, or `global_inv` of the device's scope). On gfx942 the instruction is `buffer_inv sc1`.
//! Each XCD there has a cache of its own, which the wave that has stored has to write back (`buffer_wbl2
//! sc1`, or a store with `sc1`) (LLVM AMDGPUUsage, "Memory Model").

use belfry_isa::inst::{Inst, Op};

use super::finding::Rule;
use super::grid::{Known, WaveClock};
use super::group::Group;
use super::shadow::{Cell, Does, Record};

/// Effect of an instruction on caches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Upkeep {
    /// Invalidates the caches of the compute unit, the caches after them, or both.
    Invalidates([bool; 2]),
    WritesBack,
}

impl Upkeep {
    pub(super) fn of(inst: &Inst) -> Option<Self> {
        let mem = inst.mem;
        match inst.op {
            Op::BUFFER_GL0_INV => Some(Self::Invalidates([true, false])),
            Op::BUFFER_GL1_INV => Some(Self::Invalidates([false, true])),
            Op::BUFFER_INV if mem.dlc => Some(Self::Invalidates([true; 2])),
            Op::GLOBAL_INV | Op::GLOBAL_WBINV if mem.scope >= 2 => Some(Self::Invalidates([true; 2])),
            Op::BUFFER_WBL2 if mem.dlc => Some(Self::WritesBack),
            _ => None,
        }
    }
}

/// Effects of a wave's instructions on caches that are not applied yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    invalidates: [bool; 2],
    writes_back: bool,
}

impl Due {
    pub(super) fn add(&mut self, upkeep: Upkeep) {
        match upkeep {
            Upkeep::Invalidates(which) => {
                self.invalidates = std::array::from_fn(|cache| self.invalidates[cache] || which[cache]);
            }
            Upkeep::WritesBack => self.writes_back = true,
        }
    }
}

impl Group {
    /// Applies other waves' invalidations to a wave that goes on after a barrier.
    pub(super) fn refresh(&self, known: &mut Known, number: u32) {
        let Known { waves, room, .. } = known;
        let Some(own) = waves.get_mut(number as usize) else { return };
        let all = own.fresh.iter_mut().zip(&self.fresh_at_barriers);
        if !all.fold(true, |kept, (own, others)| own.join(others, room) & kept) {
            self.grid.sanitizer.incomplete();
        }
    }

    /// Applies a wave's invalidations and write-backs.
    pub(super) fn keep_up(&self, known: &mut Known, number: u32, due: Due) {
        let Known { waves, room, .. } = known;
        let Some(own) = waves.get_mut(number as usize) else { return };
        if due.writes_back {
            own.written_back = own.time;
            own.time += 1;
        }
        let all = own.fresh.iter_mut().zip(due.invalidates).filter(|(_, is)| *is);
        if !all.fold(true, |kept, (fresh, _)| fresh.join(&own.knows, room) & kept) {
            self.grid.sanitizer.incomplete();
        }
    }
}

/// Finds a store of another workgroup that a load may not see although it is ordered after the store; returns
/// the rule that is broken.
pub(super) fn stale(
    waves: &[WaveClock],
    cell: &Cell,
    now: &Record,
    keeps_stores: bool,
) -> Option<(Rule, Record)> {
    let store = cell.last_change(now.mask).filter(|store| store.does == Does::Writes)?;
    let (own, other) = (waves.get(now.wave as usize)?, waves.get(store.wave as usize)?);
    if own.workgroup == other.workgroup {
        return None;
    }
    if keeps_stores && !store.through && other.written_back < store.time {
        return Some((Rule::CacheNotWrittenBack, store));
    }
    let is_fresh = own.fresh.iter().all(|fresh| fresh.cover(store.wave, store.time));
    (!is_fresh).then_some((Rule::CacheNotInvalidated, store))
}
