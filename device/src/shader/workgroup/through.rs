//! Workgroups whose waves end without waiting for each other: the waves run one after the other, in the storage of one
//! wave.

use std::ops::Range;

use belfry_isa::exec::{self, Barriers, Env, Followed, Following, Lds, Next, Stop, Touched};
use belfry_isa::wave::Wave;

use super::{Outcome, SWITCH_COST, State, Turn, WAVE_QUANTUM, Workgroup};
use crate::shader::launch::{Launch, Series, WaveSeat};
use crate::shader::queue::Seat;

/// Part of the budget that is used between two checks for a stop of the queue: as much as a wave's turn may take
/// without one.
const LOOK_COST: u64 = WAVE_QUANTUM;

/// Cost of a wave that compiled code starts, beside its own instructions: starting it takes as long as this many of
/// them.
const FOLLOW_COST: u64 = 8;

/// Workgroups of a launch that a worker has claimed and begins one after the other.
pub(in crate::shader) struct Claimed<'a> {
    pub(in crate::shader) launch: &'a Launch,
    /// Lane IDs of a workgroup that is not partial.
    pub(in crate::shader) lanes: &'a [(u64, [u32; 64])],
    pub(in crate::shader) series: &'a mut Series,
    /// Workgroups after the one at hand.
    pub(in crate::shader) rest: &'a mut Range<u64>,
    /// Number of workgroups that have ended.
    pub(in crate::shader) ended: u64,
    /// Cost of starting a workgroup, in instructions of the budget.
    pub(in crate::shader) cost: u64,
    /// Instructions of the budget that the last ended workgroup used.
    pub(in crate::shader) usual: u64,
}

impl Claimed<'_> {
    /// Returns the identifier of the workgroup after `id`, if it has been claimed and is a whole one.
    fn next(&mut self, id: [u32; 3]) -> Option<[u32; 3]> {
        let next = self.series.next(self.launch, id);
        if self.rest.is_empty() || !self.series.has(next) {
            return None;
        }
        self.rest.start += 1;
        Some(next)
    }

    /// Starts a wave. It takes turns if there are others in its workgroup.
    #[inline(always)]
    fn start(&self, wave: &mut Wave, (id, number): (&[u32; 3], usize), touched: Option<&Touched>) {
        self.series.start(self.launch, wave, id, number as u32, &self.lanes[number], touched);
        wave.take_turns(self.lanes.len() > 1);
    }
}

/// The way from wave to wave, and from workgroup to workgroup.
///
/// A struct holds it all in one place: a closure that borrows each of these goes through two addresses for any of them.
struct Walk<'a, 'b> {
    claimed: &'a mut Claimed<'b>,
    stopping: &'a dyn Fn() -> bool,
    /// Quantum of each wave.
    quantum: u64,
    /// The workgroup, and the number of its wave that runs.
    id: [u32; 3],
    number: usize,
    /// Rest of the turn's budget, and the budget before the workgroup.
    budget: u64,
    begun_with: u64,
    /// Budget at which the walk checks again for a stop of the queue. A check at each of many short waves would be a
    /// tenth of the time.
    look_at: u64,
    was_stopped: bool,
    /// Instructions that ended waves have executed.
    instructions: u64,
}

impl Next for Walk<'_, '_> {
    fn next(&mut self, wave: &mut Wave, lds: &mut Lds, touched: Option<&Touched>) -> Option<u64> {
        let count = self.claimed.lanes.len();
        self.instructions += wave.instructions;
        let mut budget = self.budget.saturating_sub(wave.instructions + SWITCH_COST);
        self.budget = budget;
        self.number += 1;
        if budget <= self.look_at {
            self.was_stopped = (self.stopping)();
            self.look_at = budget.saturating_sub(LOOK_COST);
        }
        // In registers: reading an array again right after it was written part by part would stall.
        let [mut x, mut y, mut z] = self.id;
        if self.number == count {
            self.claimed.ended += 1;
            self.claimed.usual = self.begun_with.saturating_sub(budget);
            if self.was_stopped || budget < self.claimed.usual.max(1) {
                return None;
            }
            [x, y, z] = self.claimed.next([x, y, z])?;
            self.id = [x, y, z];
            self.begun_with = budget;
            budget = budget.saturating_sub(self.claimed.cost);
            self.budget = budget;
            self.number = 0;
            if self.claimed.launch.lds_size != 0 {
                lds.reset(self.claimed.launch.lds_size);
            }
            lds.barriers = Barriers::new(count as u32);
        } else {
            lds.barriers.leave();
        }
        if self.was_stopped || budget == 0 {
            return None;
        }
        self.claimed.start(wave, (&[x, y, z], self.number), touched);
        Some(self.quantum.min(budget))
    }

    fn follow(&mut self) -> Option<Following<'_>> {
        let Claimed { launch, lanes, rest, usual, cost, .. } = &*self.claimed;
        // LDS of another workgroup has to be reset first, so no workgroup follows.
        let more = if launch.lds_size == 0 { rest.end.saturating_sub(rest.start) } else { 0 };
        let (launch, lanes, usual, workgroup_cost) = (*launch, *lanes, *usual, *cost);
        let following = self.claimed.series.following(launch, lanes, (self.id, self.number), more)?;
        Some(Following {
            budget: self.budget,
            floor: self.look_at,
            workgroup_floor: usual.max(1),
            wave_cost: FOLLOW_COST,
            workgroup_cost,
            quantum: self.quantum,
            ..following
        })
    }

    fn followed(&mut self, lds: &mut Lds, Followed { number, x, budget, instructions }: Followed) {
        let count = self.claimed.lanes.len();
        let workgroups = u64::from(x - self.id[0]);
        if workgroups > 0 {
            self.claimed.ended += workgroups;
            self.claimed.rest.start += workgroups;
            // The cost of the last workgroup is not known: all are taken to be alike.
            let spent = self.budget.saturating_sub(budget);
            let waves = workgroups * count as u64 + number as u64 - self.number as u64;
            self.claimed.usual = spent / waves.max(1) * count as u64;
            self.begun_with = budget + self.claimed.usual / count.max(1) as u64 * number as u64;
            self.id[0] = x;
            self.number = 0;
            lds.barriers = Barriers::new(count as u32);
        }
        (self.number..number).for_each(|_| lds.barriers.leave());
        (self.number, self.budget) = (number, budget);
        self.instructions += instructions;
    }
}

impl Workgroup {
    /// Returns each wave's part of a seat, by its number.
    pub(in crate::shader) fn parts<'a>(&self, seat: &'a Seat) -> impl Fn(u32) -> WaveSeat + use<'a> {
        let chip = self.chip;
        move |wave| WaveSeat { chip, scratch_slot: seat.scratch_slot(wave), hw_ids: seat.hw_ids(wave) }
    }

    /// Becomes the workgroup of this identifier, and then the other claimed ones, as long as the budget lasts and all
    /// of their waves end in their first turn. A wave that does not end there leaves the workgroup as
    /// [`Workgroup::start`] and [`Workgroup::run`] would leave it, except that waves after the first one had no storage
    /// before their turn.
    ///
    /// For waves that are not traced, watched or debugged.
    pub(in crate::shader) fn run_through(
        &mut self,
        id: [u32; 3],
        claimed: &mut Claimed<'_>,
        turn: &mut Turn<'_>,
    ) -> Outcome {
        let count = claimed.lanes.len();
        self.count = count;
        self.id = id;
        if self.waves.is_empty() {
            self.waves.push(Wave::new(&belfry_isa::wave::WaveInit::default()));
        }
        let Some((wave, _)) = self.waves.split_first_mut() else { return Outcome::Done };
        self.lds.reset(claimed.launch.lds_size);
        self.lds.barriers = Barriers::new(count as u32);
        claimed.start(wave, (&id, 0), None);
        let claimed_cost = claimed.cost;
        let mut env = Env {
            mmu: turn.mmu,
            tlb: &mut *turn.tlb,
            code: &mut *turn.code,
            lds: &mut self.lds,
            apertures: turn.apertures,
            clock: turn.clock,
            code_epoch: turn.code_epoch,
        };
        let mut walk = Walk {
            claimed,
            stopping: turn.stopping,
            quantum: turn.quantum,
            id,
            number: 0,
            budget: *turn.budget,
            begun_with: *turn.budget + claimed_cost,
            look_at: *turn.budget,
            was_stopped: false,
            instructions: 0,
        };
        let quantum = turn.quantum.min(*turn.budget);
        let stop = exec::run_many(wave, &mut env, quantum, &mut walk);
        let Walk { id, number, begun_with, was_stopped, budget, instructions, .. } = walk;
        *turn.budget = budget;
        turn.stats.waves += claimed.ended * count as u64 + (number % count.max(1)) as u64;
        turn.stats.wave_instructions += instructions;
        self.id = id;
        if number == count {
            self.states.clear();
            self.states.resize(count, State::Ended);
            return Outcome::Done;
        }
        let runs = (stop != Stop::EndProgram).then_some(number);
        self.spread(number, runs, claimed);
        let Some(running) = runs else {
            // The budget or the queue has kept the next wave from starting.
            return if was_stopped { Outcome::Stopped } else { Outcome::Paused { asleep: false } };
        };
        let executed = self.waves[running].instructions;
        let outcome = match self.stopped(running, stop, executed, turn) {
            Ok(slept) => self.run_on(turn, Some((count - number - 1, slept))),
            Err(failure) => Outcome::Failed(failure),
        };
        if matches!(outcome, Outcome::Done) {
            claimed.ended += 1;
            claimed.usual = begun_with.saturating_sub(*turn.budget);
        }
        outcome
    }

    /// Gives every wave a storage of its own. Waves before `number` have ended. Of the others, only `runs` has begun,
    /// in the first storage.
    #[cold]
    fn spread(&mut self, number: usize, runs: Option<usize>, claimed: &Claimed<'_>) {
        while self.waves.len() < self.count {
            self.waves.push(Wave::new(&belfry_isa::wave::WaveInit::default()));
        }
        if let Some(running) = runs {
            self.waves.swap(0, running);
        }
        for other in (0..self.count).filter(|other| Some(*other) != runs) {
            claimed.start(&mut self.waves[other], (&self.id, other), None);
        }
        self.states.clear();
        self.states.extend((0..self.count).map(
            |other| {
                if other < number { State::Ended } else { State::Ready }
            },
        ));
        self.next = match runs {
            Some(running) => (running + 1) % self.count,
            None => number,
        };
    }
}
