//! A worker's turn at one dispatch: it begins workgroups and goes on with them until its budget is used up.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use belfry_isa::mem::Mmu as _;

use super::strategy::{Explored, Hanging, InTurns, Ran, Stepped, Strategy as _, Through};
use super::{Aftermath, Context, TURN_BUDGET, Worker};
use crate::shader::chance::Chance;
use crate::shader::dispatch::{Dispatch, Runner};
use crate::shader::engine::{Shared, Work};
use crate::shader::failure::WaveFailure;
use crate::shader::queue::{Seat, ShaderQueue};
use crate::shader::workgroup::{ByHand, Looks, Outcome, Turn, WAVE_QUANTUM, Workgroup};
use crate::spent::{self, Part};
use crate::stops::Armed;
use crate::vm::{AddressSpace, Slice};

/// Turns in a row that a worker gives a workgroup while the engine has no other dispatch, one to four milliseconds: a
/// change of the workgroup costs the cached registers of the last one.
const TURNS_IN_A_ROW: u32 = 64;
/// Turns of these after which the worker gives back its claimed workgroups, because the workgroup at hand takes long.
const SHORT_TURNS: u32 = 8;
/// [`TURN_BUDGET`] of the first turn, which the thread that submits a small dispatch takes: about ten microseconds,
/// which a thread with other work can spare.
const FIRST_TURN_BUDGET: u64 = 2048;
/// Cost of starting a workgroup, in instructions of the budget.
pub(super) const START_COST: u64 = 16;

/// A worker's turn at one dispatch.
pub(super) struct Shift<'a> {
    worker: &'a mut Worker,
    shared: &'a Shared,
    dispatch: &'a Dispatch,
    queue: &'a ShaderQueue,
    space: &'a Arc<AddressSpace>,
    aftermath: &'a mut Aftermath,
    context: Box<Context>,
    /// Always there between two runs of workgroups.
    slice: Option<Slice<'a>>,
    /// Decisions of a deterministic schedule.
    chance: Option<Chance>,
    /// Rest of the budget, and all of it.
    budget: u64,
    whole: u64,
    /// True if it goes on with a new budget while the engine has no other dispatch.
    runs_on: bool,
    more_turns: u32,
    /// Instructions of the budget that the last workgroup used.
    usual: u64,
    /// Budget before the workgroup at hand.
    begun_with: u64,
    /// Claimed workgroups, and the number of those that have ended.
    share: Range<u64>,
    done: u64,
    /// Failure of a wave.
    failed: Option<WaveFailure>,
    /// Count of the TLB's misses that have been added.
    misses: u64,
    /// Part of the workgroup that runs on request.
    by_hand: Option<ByHand>,
    /// Breakpoints, if there are any.
    armed: Option<Arc<Armed>>,
    /// True if the TLB has address watches.
    watched: bool,
    /// True if waves that begin may run through.
    runs_through: bool,
}

impl<'a> Shift<'a> {
    /// Begins a shift of a worker at a dispatch.
    #[inline(always)]
    pub(super) fn begin(
        worker: &'a mut Worker,
        shared: &'a Shared,
        dispatch: &'a Dispatch,
        aftermath: &'a mut Aftermath,
    ) -> Self {
        let queue: &ShaderQueue = dispatch.queue();
        let space = queue.space();
        let mut context = worker.context(space.context());
        let mut chance = dispatch.chance();
        let budget = match (&mut chance, worker.runner) {
            (Some(chance), _) => chance.turn(),
            (None, Runner::Worker) => TURN_BUDGET,
            (None, Runner::Submitter) => FIRST_TURN_BUDGET,
        };
        let runs_on = worker.runner == Runner::Worker && chance.is_none();
        let watches = space.watches();
        let watched = watches.is_some();
        context.tlb.set_watches(watches);
        let by_hand = worker.by_hand.take();
        let armed = shared.tools.armed().filter(|_| by_hand.is_none());
        let seen = watched || shared.wants_waves || armed.is_some() || dispatch.probes().are_any();
        worker.series.forget();
        worker.looked = false;
        Self {
            misses: context.tlb.misses(),
            context,
            slice: Some(space.enter()),
            budget,
            whole: budget,
            runs_on,
            more_turns: if runs_on { TURNS_IN_A_ROW } else { 0 },
            usual: 0,
            begun_with: 0,
            share: 0..0,
            done: 0,
            failed: None,
            runs_through: chance.is_none() && !seen && !dispatch.launch().hangs,
            chance,
            by_hand,
            armed,
            watched,
            worker,
            shared,
            dispatch,
            queue,
            space,
            aftermath,
        }
    }

    /// Runs workgroups until the budget is used up or none is left to begin.
    #[inline(always)]
    pub(super) fn work(mut self, work: Work) {
        let mut next = Some(work);
        while let Some(work) = next {
            next = self.go(work);
        }
        self.end();
    }

    /// Begins a workgroup, or goes on with one. Returns the work that comes after it.
    #[inline(always)]
    fn go(&mut self, work: Work) -> Option<Work> {
        let resumed = matches!(work, Work::Resume(_));
        let (mut workgroup, begins) = match work {
            Work::Resume(workgroup) => (workgroup, None),
            Work::Begin(seat) => self.start(seat)?,
        };
        let first = begins.unwrap_or(workgroup.id);
        let traced = self.shared.tools.is_traced();
        let span = traced.then(|| self.worker.tell_begin(self.dispatch, first, resumed));
        let Ran { outcome, ended, used } = self.run(&mut workgroup, begins);
        self.usual = used.unwrap_or(self.usual);
        let before = std::mem::replace(&mut self.misses, self.context.tlb.misses());
        self.worker.stats.tlb_misses += self.misses - before;
        if let Some(span) = span {
            self.worker.tell_end(self.dispatch, &span, ended, &outcome);
        }
        self.worker.stats.workgroups += ended;
        self.done += ended;
        match outcome {
            Outcome::Done => self.ended(workgroup),
            Outcome::Paused { asleep } => self.paused(workgroup, asleep),
            // A suspended queue goes on later; a stopped one is cleared by the next worker that finds it.
            Outcome::Stopped => {
                self.dispatch.pause(workgroup);
                None
            }
            Outcome::Failed(failure) => {
                log::debug!(target: "gpu::shader", "dispatch failed: {failure}");
                self.queue.begin_stop();
                self.failed = Some(*failure);
                None
            }
        }
    }

    /// Returns true if the queue is to stop, or everything stands still.
    fn stops(&self) -> bool {
        self.queue.should_yield() || self.armed.as_deref().is_some_and(Armed::is_halted)
    }

    /// Claims a workgroup for a seat. Returns it, with its identifier if its waves may run through and have not begun.
    #[inline(always)]
    fn start(&mut self, seat: Box<Seat>) -> Option<(Box<Workgroup>, Option<[u32; 3]>)> {
        if self.stops() {
            return None;
        }
        self.renew();
        if self.budget == 0 {
            return None;
        }
        if self.share.is_empty() {
            self.share = self.dispatch.unclaimed.take(self.shared.workers as u64, self.usual);
        }
        let index = self.share.next()?;
        self.begun_with = self.budget;
        self.budget = self.budget.saturating_sub(START_COST);
        let (launch, lanes) = (self.dispatch.launch(), self.dispatch.lanes());
        let mut workgroup = self.worker.take_spare(self.shared.chip);
        let control = self.space.launch_control();
        if self.runs_through && !control.changes_launch() {
            self.worker.series.make(launch, lanes, workgroup.parts(&seat));
            let id = launch.workgroup_id(index);
            if self.worker.series.has(id) {
                workgroup.seat = Some(seat);
                workgroup.forget_probes();
                return Some((workgroup, Some(id)));
            }
        }
        let _start = spent::enter(Part::WaveStart);
        workgroup.start(launch, index, lanes, seat, control);
        workgroup.watch(self.dispatch.probes(), launch.wave_size);
        Some((workgroup, None))
    }

    /// Gives the worker a new budget, if it may run on. New workgroups come first, so as long as there are some, another
    /// turn would find the next one.
    #[inline(always)]
    fn renew(&mut self) {
        if !self.runs_on || self.budget >= self.usual.max(1) {
            return;
        }
        if self.aftermath.notices.is_empty() && !self.shared.wants_its_workers() {
            (self.budget, self.more_turns) = (TURN_BUDGET, TURNS_IN_A_ROW);
            self.count_and_yield();
        }
    }

    /// Adds the counts until now. A thread that waits for slices to end must wait no longer than for other turns.
    fn count_and_yield(&mut self) {
        self.shared.counters.add(self.worker.number, &mut self.worker.stats);
        if self.slice.as_ref().is_some_and(Slice::is_awaited) {
            // The old one ends before the new one begins, or the waiting thread would wait for both.
            self.slice = None;
            self.slice = Some(self.space.enter());
        }
    }

    /// Runs a workgroup in the way that it has to run; `begins` is its identifier if its waves run through.
    #[inline(always)]
    fn run(&mut self, workgroup: &mut Workgroup, begins: Option<[u32; 3]>) -> Ran {
        let (shared, dispatch, queue, begun_with) = (self.shared, self.dispatch, self.queue, self.begun_with);
        let (ticks, golden) = (|| dispatch.ticks(), || shared.clock.ticks());
        let clock: &dyn Fn() -> u64 = if self.chance.is_some() { &ticks } else { &golden };
        let armed = self.armed.as_deref();
        let mut quantum = WAVE_QUANTUM;
        if shared.processors.has_others() && self.chance.is_none() {
            let most;
            (quantum, most) = workgroup.shared_turn();
            self.budget = self.budget.min(most);
        }
        // By value: waves that take turns ask often, and a borrow would be one more load.
        let stopping = move || queue.should_yield() || armed.is_some_and(Armed::is_halted);
        let mut turn = Turn {
            mmu: &**self.space,
            tlb: &mut self.context.tlb,
            code: &mut self.context.code,
            apertures: queue.apertures(),
            gws: queue.gws(),
            clock,
            code_epoch: dispatch.code_epoch(),
            dispatch: dispatch.number(),
            looks: Looks {
                trace: shared.sink(),
                armed,
                watches: self.watched,
                steps: self.by_hand.is_some(),
            },
            waits: self.space.waits(),
            gives_up: false,
            chance: self.chance.as_mut(),
            budget: &mut self.budget,
            quantum,
            stats: &mut self.worker.stats,
            notices: &mut self.aftermath.notices,
            stopping: &stopping,
        };
        let _waves = spent::enter(Part::Waves);
        if let Some(id) = begins {
            let (series, rest, usual) = (&mut self.worker.series, &mut self.share, self.usual);
            return Through { dispatch, id, series, rest, usual }.run(workgroup, &mut turn);
        }
        match (self.by_hand, shared.tools.explorer()) {
            _ if workgroup.hangs => Hanging.run(workgroup, &mut turn),
            (Some(part), _) => Stepped { part, begun_with }.run(workgroup, &mut turn),
            (None, Some(explorer)) => {
                Explored { explorer, memory: self.space, begun_with }.run(workgroup, &mut turn)
            }
            (None, None) => InTurns { begun_with }.run(workgroup, &mut turn),
        }
    }

    /// Takes the seat of a workgroup that has ended for the next one.
    fn ended(&mut self, mut workgroup: Box<Workgroup>) -> Option<Work> {
        self.worker.asleep = 0;
        let left = workgroup.seat.take();
        self.worker.keep_spare(workgroup);
        // A worker that gives workgroups back announces them.
        let is_last = self.share.is_empty() && self.dispatch.unclaimed.is_empty();
        if self.chance.is_some() || self.by_hand.is_some() || is_last {
            return None;
        }
        left.filter(|seat| seat.fits(self.dispatch.launch())).map(Work::Begin)
    }

    /// Goes on with a workgroup that has used up its budget, or puts it aside.
    fn paused(&mut self, mut workgroup: Box<Workgroup>, asleep: bool) -> Option<Work> {
        let shared = self.shared;
        let explored = shared.tools.explorer().is_some();
        shared.left.store(explored, Ordering::Relaxed);
        self.worker.asleep = if asleep { self.worker.asleep.saturating_add(1) } else { 0 };
        // A workgroup that waits for another one must let it run, and notices are not to wait.
        let notices = !self.aftermath.notices.is_empty();
        self.worker.looked = workgroup.take_looked();
        let waits = asleep | self.worker.looked | notices | self.by_hand.is_some();
        let ends = waits || self.more_turns == 0 || self.stops() || shared.wants_its_workers();
        if ends || self.more_turns <= TURNS_IN_A_ROW - SHORT_TURNS {
            give_back(shared, self.dispatch, std::mem::take(&mut self.share));
        }
        if ends {
            self.dispatch.pause(workgroup);
            return None;
        }
        self.more_turns -= 1;
        self.budget = TURN_BUDGET;
        self.count_and_yield();
        Some(Work::Resume(workgroup))
    }

    /// Ends the shift, and settles the dispatch if it has ended.
    #[inline(always)]
    fn end(self) {
        let Self { worker, shared, dispatch, aftermath, mut context, slice, chance, .. } = self;
        drop(slice);
        give_back(shared, dispatch, self.share);
        let settled = match self.failed {
            Some(failure) => Some(Err(failure)),
            None => dispatch.workgroups_done(self.done).then_some(Ok(())),
        };
        if settled.is_some() {
            worker.tell_kernel(dispatch);
        }
        worker.stats.dispatches += u64::from(settled == Some(Ok(())));
        if chance.is_some() {
            dispatch.decided(chance, self.whole - self.budget + 1);
        }
        let regions = context.code.take_counts();
        worker.stats.regions_lowered += regions.lowered;
        worker.stats.regions_shared += regions.shared;
        worker.keep(context);
        // The counts are added before the signal is written: a program that sees the signal finds its work counted.
        shared.counters.add(worker.number, &mut worker.stats);
        // Signals are written after the slice and before the turn ends: a thread that stops the queue waits for them,
        // and for their interrupts.
        aftermath.announcement = settled.and_then(|outcome| dispatch.settle(outcome, worker.runner));
    }
}

/// Gives back claimed workgroups that were not begun.
fn give_back(shared: &Shared, dispatch: &Dispatch, share: Range<u64>) {
    let count = share.end - share.start;
    if dispatch.unclaimed.give_back(share) {
        shared.announce_workgroups(count);
    }
}
