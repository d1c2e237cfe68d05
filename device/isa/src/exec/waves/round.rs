//! Waves that compiled code runs in turn, each of them to its next barrier.

#![expect(unsafe_code, reason = "compiled code goes from wave to wave by addresses")]

use core::ptr;

use smallvec::SmallVec;

use super::dispatch::{Out, key_of};
use crate::exec::code_cache::{Key, Region};
use crate::exec::compiled::Compiled;
use crate::exec::di::Machine;
use crate::wave::Wave;

/// A wave's place in a round; compiled code reads it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Seat {
    pub(crate) wave: *mut Wave,
    /// Address at which it goes on in machine code.
    pub(crate) entry: *const u8,
    /// The element that it goes on at. Code that has brought it to a barrier, or to a store to LDS that waits, says so here.
    pub(crate) element: u32,
    /// The round's generation in which it has come to a barrier: it waits there for the next one.
    pub(crate) waits: u32,
}

impl Seat {
    /// Element of a wave whose place is not known.
    const UNKNOWN: u32 = u32::MAX;
    const EMPTY: Seat = Seat { wave: ptr::null_mut(), entry: ptr::null(), element: Seat::UNKNOWN, waits: 0 };
}

/// Choice of the wave that goes on in compiled code after one has come to a barrier, or to a store to LDS that waits:
/// the next wave after it that is not at a barrier, or else the first such wave. If all are at a barrier, the barrier
/// opens.
#[repr(C)]
pub(crate) struct Round {
    /// The seat of the wave that runs.
    pub(crate) at: *mut Seat,
    pub(crate) first: *mut Seat,
    pub(crate) last: *mut Seat,
    /// The number of its instructions at which that wave is to stop.
    pub(crate) limit: u64,
    /// Number of times that the barrier has opened, plus one; 0 if the wave that runs is alone.
    pub(crate) generation: u32,
    /// The generation at whose end the barrier does not open, because the caller wants to see that.
    pub(crate) last_generation: u32,
    /// True if the next wave had to be searched for; otherwise each wave was followed by its neighbour.
    pub(crate) chose: bool,
}

impl Round {
    /// The wave that runs is alone.
    pub(crate) const NONE: Round = Round {
        at: ptr::null_mut(),
        first: ptr::null_mut(),
        last: ptr::null_mut(),
        limit: 0,
        generation: 0,
        last_generation: 0,
        chose: false,
    };
}

/// Result of a round.
pub(crate) struct RoundEnd {
    /// The wave that has stopped.
    pub(crate) at: usize,
    /// State in which that wave came out of the code.
    pub(crate) out: Out,
    /// The number of its instructions at which it was to stop.
    pub(crate) limit: u64,
    pub(crate) generation: u32,
    /// True if other waves have had their turns before it.
    pub(crate) several: bool,
}

/// Places at which the waves of a workgroup go on in the region at hand.
#[derive(Default)]
pub(crate) struct Seats(SmallVec<[Seat; 16]>);

impl Seats {
    /// Forgets all places: another region is at hand.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Notes the element before which a wave's turn has ended, if it is known.
    #[inline(always)]
    pub(crate) fn leaves(&mut self, wave: usize, element: Option<usize>) {
        if let Some(seat) = self.0.get_mut(wave) {
            seat.element = element.and_then(|at| u32::try_from(at).ok()).unwrap_or(Seat::UNKNOWN);
        }
    }

    /// Takes a seat for each wave, and returns the region's machine code; `None` if not all waves can go on in it.
    pub(crate) fn take<'a>(&mut self, waves: &mut [Wave], region: &'a Region) -> Option<&'a Compiled> {
        let code = region.machine_code()?;
        // A mask of waves has no more bits.
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
            (seat.wave, seat.entry, seat.waits) = (wave, last.1, 0);
        }
        Some(code)
    }

    /// Runs waves from the first one on, with one budget for all of them. Ends if a wave stops other than at a
    /// barrier or before a store to LDS that waits, or if all are at the barrier after it has opened `more` times.
    ///
    /// # Safety
    ///
    /// There is at least one seat. The caller alone borrows the waves that the seats were [taken](Seats::take) for,
    /// with this code of the region, and has not touched them since.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &mut self,
        machine: &mut Machine<'_>,
        (code, region): (&Compiled, &Region),
        budget: u64,
        more: u64,
    ) -> RoundEnd {
        let Seat { wave, entry, .. } = self.0[0];
        // SAFETY: the caller vouches for what is in seats.
        let limit = unsafe { (*wave).instructions }.saturating_add(budget);
        let others = self.0.len() - 1;
        let first = self.0.as_mut_ptr();
        // SAFETY: this is one of the seats, as there is a first one.
        let last = unsafe { first.add(others) };
        let last_generation = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1);
        let at = first;
        let generation = 1;
        machine.round = Round { at, first, last, limit, generation, last_generation, chose: false };
        // SAFETY: the region's own code, made for the backend that it was lowered for, and an address in it.
        let out = unsafe { code.run_round(wave, machine, &region.code, (limit, entry)) };
        let Round { at, limit, generation, chose, .. } = core::mem::replace(&mut machine.round, Round::NONE);
        // SAFETY: code moves it from seat to seat.
        let at = unsafe { at.offset_from_unsigned(first) };
        RoundEnd { at, out, limit, generation, several: chose || at != 0 }
    }

    /// Sets the program counter of all waves but one to the place in their seats. Returns the waves among them that
    /// are at a barrier in this generation, a bit for each.
    pub(crate) fn bring(&self, (but, generation): (usize, u32), waves: &mut [Wave], region: &Region) -> u64 {
        let (mut last, mut waiting) = ((Seat::UNKNOWN, 0), 0);
        for (at, (seat, wave)) in self.0.iter().zip(waves).enumerate() {
            if at == but {
                continue;
            }
            if seat.element != last.0 {
                last = (seat.element, region.pc_of(seat.element as usize));
            }
            wave.pc = last.1;
            waiting |= u64::from(seat.waits == generation) << (at % 64);
        }
        waiting
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
