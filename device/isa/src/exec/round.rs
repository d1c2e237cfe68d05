//! Waves that compiled code runs one after the other, each of them to its next barrier.

#![expect(unsafe_code, reason = "compiled code goes from wave to wave by addresses")]

use core::ops::Range;
use core::ptr;

use smallvec::SmallVec;

use super::di::Machine;
use super::dispatch::{Out, key_of};
use crate::code_cache::{Key, Region};
use crate::tier1::Compiled;
use crate::wave::Wave;

/// A wave's place in a round; compiled code reads it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Seat {
    pub(crate) wave: *mut Wave,
    /// Where it goes on in machine code.
    pub(crate) entry: *const u8,
    /// The element that it goes on at. Code that has brought it to a barrier, or to a store to LDS that waits, says so here.
    pub(crate) element: u32,
    /// 1 if its turn is over, and 0 if it is at a barrier.
    pub(crate) is_over: u32,
}

impl Seat {
    /// It has to be found out where the wave is.
    const UNKNOWN: u32 = u32::MAX;
    const EMPTY: Seat =
        Seat { wave: ptr::null_mut(), entry: ptr::null(), element: Seat::UNKNOWN, is_over: 0 };
}

/// What compiled code does with a wave at a barrier: where another one has its seat behind it, that one goes on. Behind the last
/// one all go on where all are at barriers, and there may be more rounds.
#[repr(C)]
pub(crate) struct Round {
    /// The seat of the wave that runs.
    pub(crate) at: *mut Seat,
    pub(crate) last: *mut Seat,
    /// The number of its instructions at which that wave is to stop.
    pub(crate) limit: u64,
    pub(crate) first: *mut Seat,
    /// How many rounds may follow this one, from that first seat to the last.
    pub(crate) more: u64,
    /// How many times the barrier has opened.
    pub(crate) opened: u64,
    /// How many waves' turns are over in this round, without a barrier, and how many there are beside the last one.
    pub(crate) over: u32,
    pub(crate) others: u32,
}

/// What a round has come to.
pub(super) struct RoundEnd {
    /// The wave that has stopped, or the last one.
    pub(super) at: usize,
    /// How it came out of the code.
    pub(super) out: Out,
    /// The number of its instructions at which it was to stop.
    pub(super) limit: u64,
    /// Whether there was another round before, and how often the barrier has opened.
    pub(super) repeats: bool,
    pub(super) opened: u64,
}

impl Round {
    /// The wave that runs is alone.
    pub(crate) const NONE: Round = Round {
        at: ptr::null_mut(),
        last: ptr::null_mut(),
        limit: 0,
        first: ptr::null_mut(),
        more: 0,
        opened: 0,
        over: 0,
        others: 0,
    };
}

/// Where the waves of a workgroup go on in the region at hand.
#[derive(Default)]
pub(super) struct Seats(SmallVec<[Seat; 16]>);

impl Seats {
    /// Another region is at hand.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// A wave's turn has ended in front of an element, or somewhere.
    #[inline(always)]
    pub(super) fn leaves(&mut self, wave: usize, element: Option<usize>) {
        if let Some(seat) = self.0.get_mut(wave) {
            seat.element = element.and_then(|at| u32::try_from(at).ok()).unwrap_or(Seat::UNKNOWN);
        }
    }

    /// Whether all waves can go on in the region's machine code, which is that.
    pub(super) fn take<'a>(&mut self, waves: &mut [Wave], region: &'a Region) -> Option<&'a Compiled> {
        let code = region.machine_code()?;
        // More cannot be told of.
        if waves.len() > u64::BITS as usize {
            return None;
        }
        self.0.resize_with(waves.len(), || Seat::EMPTY);
        // Most often all waves are at one place.
        let mut last = (Seat::UNKNOWN, ptr::null());
        for (seat, wave) in self.0.iter_mut().zip(waves) {
            if seat.element == Seat::UNKNOWN {
                seat.element = element_of(wave, region)?;
            }
            if wave.steps() {
                return None;
            }
            if seat.element != last.0 {
                last = (seat.element, code.address(code.entry(seat.element as usize)?));
            }
            (seat.wave, seat.entry) = (wave, last.1);
        }
        Some(code)
    }

    /// The waves from one on have been touched: they are where they were.
    pub(super) fn sit(&mut self, first: usize, waves: &mut [Wave]) {
        for (seat, wave) in self.0.iter_mut().zip(waves).skip(first) {
            seat.wave = wave;
        }
    }

    /// Runs waves from one on, each to its next barrier or store to LDS that waits, with one budget for all of them, until one stops
    /// otherwise or the last one is there, too. From the first wave on, so many rounds may follow where all waves have come to one or the other.
    ///
    /// # Safety
    ///
    /// The waves that seats were [taken](Seats::take) for, with that code of the region, are borrowed by the caller alone; those from the first one on
    /// have not been touched since, or [sit](Seats::sit) again. There is a first one.
    #[inline(always)]
    pub(super) unsafe fn run(
        &mut self,
        machine: &mut Machine<'_>,
        (code, region): (&Compiled, &Region),
        (first, budget, more): (usize, u64, u64),
    ) -> RoundEnd {
        let Seat { wave, entry, .. } = self.0[first];
        // SAFETY: the caller vouches for what is in seats.
        let limit = unsafe { (*wave).instructions }.saturating_add(budget);
        let others = self.0.len() - 1;
        let seats = self.0.as_mut_ptr();
        // SAFETY: these are two of the seats, as there is a first one.
        let (at, last) = unsafe { (seats.add(first), seats.add(others)) };
        let more = if first == 0 { more } else { 0 };
        machine.round = Round { at, last, limit, first: seats, more, others: others as u32, ..Round::NONE };
        // SAFETY: the region's own code, made for the backend that it was lowered for, and an address in it.
        let out = unsafe { code.run_round(wave, machine, &region.code, (limit, entry)) };
        let Round { at, limit, more: left, opened, .. } = core::mem::replace(&mut machine.round, Round::NONE);
        // SAFETY: code moves it from seat to seat.
        let at = unsafe { at.offset_from_unsigned(seats) };
        RoundEnd { at, out, limit, repeats: left < more, opened }
    }

    /// Says in waves that each goes on where its seat says; which of them are not at a barrier, a bit for each.
    pub(super) fn bring(&self, range: Range<usize>, waves: &mut [Wave], region: &Region) -> u64 {
        let (mut last, mut over) = ((Seat::UNKNOWN, 0), 0);
        for ((at, seat), wave) in range.clone().zip(&self.0[range.clone()]).zip(&mut waves[range]) {
            if seat.element != last.0 {
                last = (seat.element, region.pc_of(seat.element as usize));
            }
            wave.pc = last.1;
            over |= u64::from(seat.is_over) << (at % 64);
        }
        over
    }
}

/// The element that a wave goes on at, if it can do that in the region.
#[cold]
fn element_of(wave: &Wave, region: &Region) -> Option<u32> {
    let key = Key { pc: region.key.pc, ..key_of(wave) };
    let is_unwatched = region.names_trapsts && !wave.watched && !wave.is_privileged();
    let fits = key == region.key && region.vgprs <= wave.registers;
    let goes_on = fits && !is_unwatched && !wave.is_halted() && !wave.has_partly_done();
    u32::try_from(region.index_of(wave.pc).filter(|_| goes_on)?).ok()
}
