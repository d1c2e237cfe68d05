//! One worker thread's state, and its turns at dispatches.

mod moments;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::mem::{Mmu, Tlb};

use super::dispatch::{Announcement, Dispatch, Notice, Runner};
use super::engine::{Shared, Task, Work};
use super::failure::{Reason, WaveFailure};
use super::launch::Series;
use super::queue::ShaderQueue;
use super::stats::Statistics;
use super::workgroup::{ByHand, Claimed, Exploration, Outcome, Turn, Workgroup};
use crate::config::processors;
use crate::spent::{self, Part};
use crate::stops::Armed;
use crate::threads::patience::Patience;

/// Instructions of one turn, after which another queue gets the worker. It bounds the time that other threads wait to
/// stop a queue, flush translations or replace guest memory.
pub(super) const TURN_BUDGET: u64 = 10_000;
/// Turns in a row that a worker gives a workgroup while the engine has no other dispatch, one to four milliseconds: a
/// change of the workgroup costs the cached registers of the last one.
const TURNS_IN_A_ROW: u32 = 64;
/// Turns of these after which the worker gives back its claimed workgroups, because the workgroup at hand takes long.
const SHORT_TURNS: u32 = 8;
/// [`TURN_BUDGET`] of the first turn, which the thread that submits a small dispatch takes: about ten microseconds,
/// which a thread with other work can spare.
const FIRST_TURN_BUDGET: u64 = 2048;
/// Cost of starting a workgroup, in instructions of the budget.
const START_COST: u64 = 16;
/// Number of address spaces that a worker keeps translations and code for.
const CONTEXTS: usize = 8;
/// Time that a worker rests if it finds only waves that hang.
const HANGS: Duration = Duration::from_micros(100);
/// Most waves of ended workgroups whose storage is kept for the next ones: as many as eight compute units hold.
const SPARE_WAVES: usize = 256;

/// A worker's caches of one address space.
pub(super) struct Context {
    id: u64,
    pub(super) tlb: Tlb,
    pub(super) code: CodeCache,
}

/// State of one worker.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    runner: Runner,
    /// Number of the worker, in traces and of its counters.
    pub(super) number: u32,
    /// Most recently used last.
    #[expect(clippy::vec_box, reason = "the boxes move between this list and turns")]
    contexts: Vec<Box<Context>>,
    #[expect(
        clippy::vec_box,
        reason = "the boxes move between this list and the dispatches' queues of paused workgroups"
    )]
    spare: Vec<Box<Workgroup>>,
    /// Waves in `spare`.
    spare_waves: usize,
    pub(super) stats: Statistics,
    /// Initial state of the waves of the launch at hand.
    series: Series,
    /// Part that runs of the workgroup that it resumes; `None` runs all of it. Steps by hand set it.
    pub(super) by_hand: Option<ByHand>,
    /// Turns in a row that found only sleeping waves.
    asleep: u32,
}

/// Work that a turn leaves to be done after it.
#[derive(Default)]
pub(super) struct Aftermath {
    /// At most one: a dispatch ends once.
    announcement: Option<Announcement>,
    notices: Vec<Notice>,
}

impl Aftermath {
    /// Calls the owner and runs the announcement. Receivers may take locks and begin slices, so the caller holds none
    /// of the engine's. A worker's turn ends after that, so that a queue that has been stopped raises no interrupt any
    /// more.
    pub(super) fn announce(self, dispatch: &Dispatch) {
        for notice in self.notices {
            dispatch.owner().notice(notice);
        }
        if let Some(announcement) = self.announcement {
            announcement.announce(&**dispatch.owner());
        }
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, runner: Runner, number: u32) -> Worker {
        Worker {
            shared,
            runner,
            number,
            contexts: Vec::new(),
            spare: Vec::new(),
            spare_waves: 0,
            stats: Statistics::default(),
            series: Series::default(),
            by_hand: None,
            asleep: 0,
        }
    }

    /// Works until the engine shuts down.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut had = false;
        let mut patience = Patience::new(processors());
        let mut next = |shared: &Shared, had: &mut bool| {
            let _waiting = spent::enter(Part::Waiting);
            shared.next_task(std::mem::replace(had, true), &mut patience)
        };
        while let Some(Task { dispatch, work }) = next(&self.shared, &mut had) {
            self.take(&shared, &dispatch, work).announce(&dispatch);
            // What the turn has left, this worker finds when it looks for its next task.
            dispatch.queue().end_turn();
            if self.asleep > 16 {
                // Its waves are on the GPU, and wait there.
                let _executing = self.shared.activity.begin();
                std::thread::yield_now();
            }
            if self.asleep > 16 && dispatch.launch().hangs {
                // They hang for good.
                std::thread::sleep(HANGS);
            }
        }
    }

    /// Takes one turn, which the dispatch's queue has begun and the caller ends. `shared` is the worker's own.
    pub(super) fn take(&mut self, shared: &Shared, dispatch: &Dispatch, work: Work) -> Aftermath {
        let mut aftermath = Aftermath::default();
        let _executing = shared.activity.begin();
        let _turn = spent::enter(Part::Workgroups);
        // A defect in an instruction's semantics must cost the guest its queue, not the host its device: all state that
        // a panic leaves half done belongs to this dispatch, or is a cache that `turn` has taken out of `self`.
        let turn = AssertUnwindSafe(|| self.turn(shared, dispatch, work, &mut aftermath));
        if catch_unwind(turn).is_err() {
            log::error!(target: "gpu::shader", "a shader worker panicked; the queue is stopped");
            dispatch.queue().begin_stop();
            let failure = WaveFailure { workgroup: [0; 3], wave: 0, reason: Reason::Internal };
            if let Some(announcement) = dispatch.settle(Err(failure), self.runner) {
                aftermath.announcement = Some(announcement);
            }
        }
        shared.counters.add(self.number, &mut self.stats);
        aftermath
    }

    pub(super) fn context(&mut self, id: u64) -> Box<Context> {
        match self.contexts.iter().rposition(|context| context.id == id) {
            Some(index) => self.contexts.remove(index),
            None => {
                Box::new(Context { id, tlb: Tlb::new(), code: CodeCache::sharing(self.shared.code.of(id)) })
            }
        }
    }

    pub(super) fn keep(&mut self, context: Box<Context>) {
        if self.contexts.len() == CONTEXTS {
            self.contexts.remove(0);
        }
        self.contexts.push(context);
    }

    /// Runs workgroups of one dispatch until the budget is used up or no workgroup is left to begin.
    fn turn(&mut self, shared: &Shared, dispatch: &Dispatch, work: Work, aftermath: &mut Aftermath) {
        let queue: &ShaderQueue = dispatch.queue();
        let space = queue.space();
        let mut context = self.context(space.context());
        let (mut seat, mut current) = match work {
            Work::Begin(seat) => (Some(seat), None),
            Work::Resume(workgroup) => (None, Some(workgroup)),
        };
        let mut chance = dispatch.chance();
        let deterministic = chance.is_some();
        let mut budget = match (&mut chance, self.runner) {
            (Some(chance), _) => chance.turn(),
            (None, Runner::Worker) => TURN_BUDGET,
            (None, Runner::Submitter) => FIRST_TURN_BUDGET,
        };
        let runs_on = self.runner == Runner::Worker && !deterministic;
        let mut more_turns = if runs_on { TURNS_IN_A_ROW } else { 0 };
        let whole = budget;
        // Instructions of the budget that the last workgroup used.
        let mut usual = 0;
        // Claimed workgroups, and the number of those that have ended.
        let mut share = 0..0;
        let mut done = 0;
        let mut begun_with = 0;
        let mut failed = None;
        let watches = space.watches();
        let watched = watches.is_some();
        context.tlb.set_watches(watches);
        let mut misses = context.tlb.misses();
        let mut slice = space.enter();
        let workers = shared.workers as u64;
        let ticks = || dispatch.ticks();
        let golden = || shared.clock.ticks();
        let clock: &dyn Fn() -> u64 = if deterministic { &ticks } else { &golden };
        let by_hand = self.by_hand.take();
        let armed = shared.tools.armed().filter(|_| by_hand.is_none());
        let armed = armed.as_deref();
        // By value: waves that take turns ask often, and a borrow would be one more load.
        let stopping = move || queue.should_yield() || armed.is_some_and(Armed::is_halted);
        let probes = dispatch.probes();
        let watched_waves = watched || shared.wants_waves || armed.is_some() || probes.are_any();
        let runs_through = !deterministic && !watched_waves && !dispatch.launch().hangs;
        self.series.forget();
        let mut resumed = current.is_some();
        loop {
            // Identifier of the workgroup that begins, if its waves may run through.
            let mut begins = None;
            let mut workgroup = match current.take() {
                Some(workgroup) => workgroup,
                None => {
                    if stopping() {
                        break;
                    }
                    // New workgroups come first, so as long as there are some, another turn would find the next one.
                    let goes_on =
                        aftermath.notices.is_empty() && shared.is_alone() && !shared.tools.is_halted();
                    if runs_on && budget < usual.max(1) && goes_on {
                        (budget, more_turns) = (TURN_BUDGET, TURNS_IN_A_ROW);
                        shared.counters.add(self.number, &mut self.stats);
                        if slice.is_awaited() {
                            drop(slice);
                            slice = space.enter();
                        }
                    }
                    if budget == 0 {
                        break;
                    }
                    let Some(seat) = seat.take() else { break };
                    if share.is_empty() {
                        share = dispatch.unclaimed.take(workers, usual);
                    }
                    let Some(index) = share.next() else { break };
                    begun_with = budget;
                    let mut workgroup =
                        self.spare.pop().unwrap_or_else(|| Box::new(Workgroup::new(shared.chip)));
                    self.spare_waves -= workgroup.storage();
                    let control = space.launch_control();
                    budget = budget.saturating_sub(START_COST);
                    if runs_through && !control.changes_launch() {
                        self.series.make(dispatch.launch(), dispatch.lanes(), workgroup.parts(&seat));
                        let id = dispatch.launch().workgroup_id(index);
                        begins = if self.series.has(id) { Some(id) } else { None };
                    }
                    match begins {
                        Some(_) => {
                            workgroup.seat = Some(seat);
                            workgroup.forget_probes();
                        }
                        None => {
                            let _start = spent::enter(Part::WaveStart);
                            workgroup.start(dispatch.launch(), index, dispatch.lanes(), seat, control);
                            workgroup.watch(probes, dispatch.launch().wave_size);
                        }
                    }
                    workgroup
                }
            };
            let span = shared.tools.is_traced().then(|| {
                let first = begins.unwrap_or(workgroup.id);
                self.tell_begin(dispatch, first, resumed)
            });
            resumed = false;
            let mut turn = Turn {
                mmu: &**space,
                tlb: &mut context.tlb,
                code: &mut context.code,
                apertures: queue.apertures(),
                gws: queue.gws(),
                clock,
                code_epoch: dispatch.code_epoch(),
                dispatch: dispatch.number(),
                trace: shared.sink(),
                watches: watched,
                armed,
                steps: by_hand.is_some(),
                waits: space.waits(),
                gives_up: false,
                chance: chance.as_mut(),
                budget: &mut budget,
                stats: &mut self.stats,
                notices: &mut aftermath.notices,
                stopping: &stopping,
            };
            let waves = spent::enter(Part::Waves);
            let (outcome, ended) = match begins {
                Some(id) => {
                    let mut claimed = Claimed {
                        launch: dispatch.launch(),
                        lanes: dispatch.lanes(),
                        series: &mut self.series,
                        rest: &mut share,
                        ended: 0,
                        cost: START_COST,
                        usual,
                    };
                    let outcome = workgroup.run_through(id, &mut claimed, &mut turn);
                    usual = claimed.usual;
                    (outcome, claimed.ended)
                }
                None => {
                    let outcome = match by_hand {
                        _ if workgroup.hangs => Outcome::Paused { asleep: true },
                        None => match shared.tools.explorer() {
                            Some(explorer) => {
                                workgroup.run_explored(&mut turn, Exploration { explorer, memory: space })
                            }
                            None => workgroup.run(&mut turn),
                        },
                        Some(by_hand) => workgroup.run_by_hand(by_hand, &mut turn),
                    };
                    let ended = u64::from(matches!(outcome, Outcome::Done));
                    if ended != 0 {
                        usual = begun_with.saturating_sub(budget);
                    }
                    (outcome, ended)
                }
            };
            drop(waves);
            let before = std::mem::replace(&mut misses, context.tlb.misses());
            self.stats.tlb_misses += misses - before;
            if let Some(span) = span {
                self.tell_end(dispatch, &span, ended, &outcome);
            }
            self.stats.workgroups += ended;
            done += ended;
            match outcome {
                Outcome::Done => {
                    self.asleep = 0;
                    let left = workgroup.seat.take();
                    if self.spare_waves + workgroup.storage() <= SPARE_WAVES {
                        self.spare_waves += workgroup.storage();
                        self.spare.push(workgroup);
                    }
                    // A worker that gives workgroups back announces them.
                    let is_last = share.is_empty() && dispatch.unclaimed.is_empty();
                    if deterministic || by_hand.is_some() || is_last {
                        break;
                    }
                    seat = left.filter(|seat| seat.fits(dispatch.launch()));
                }
                Outcome::Paused { asleep } => {
                    shared.left.store(shared.tools.explorer().is_some(), Ordering::Relaxed);
                    self.asleep = if asleep { self.asleep.saturating_add(1) } else { 0 };
                    // A workgroup that waits for another one must let it run, and notices are not to wait.
                    let waits =
                        asleep | workgroup.take_looked() | !aftermath.notices.is_empty() | by_hand.is_some();
                    let wanted = stopping() || shared.tools.is_halted() || !shared.is_alone();
                    let ends = waits || more_turns == 0 || wanted;
                    let is_long = ends || more_turns <= TURNS_IN_A_ROW - SHORT_TURNS;
                    if is_long {
                        give_back(shared, dispatch, std::mem::take(&mut share));
                    }
                    if ends {
                        dispatch.pause(workgroup);
                        break;
                    }
                    more_turns -= 1;
                    budget = TURN_BUDGET;
                    resumed = true;
                    current = Some(workgroup);
                    shared.counters.add(self.number, &mut self.stats);
                    // A thread that waits for slices to end must wait no longer than for other turns.
                    if slice.is_awaited() {
                        drop(slice);
                        slice = space.enter();
                    }
                }
                // A suspended queue goes on later; a stopped one is cleared by the next worker that finds it.
                Outcome::Stopped => {
                    dispatch.pause(workgroup);
                    break;
                }
                Outcome::Failed(failure) => {
                    log::debug!(target: "gpu::shader", "dispatch failed: {failure}");
                    queue.begin_stop();
                    failed = Some(*failure);
                    break;
                }
            }
        }
        drop(slice);
        give_back(shared, dispatch, share);
        let settled = match failed {
            Some(failure) => Some(Err(failure)),
            None => dispatch.workgroups_done(done).then_some(Ok(())),
        };
        if settled.is_some() {
            self.tell_kernel(dispatch);
        }
        self.stats.dispatches += u64::from(settled == Some(Ok(())));
        if deterministic {
            dispatch.decided(chance, whole - budget + 1);
        }
        let regions = context.code.take_counts();
        self.stats.regions_lowered += regions.lowered;
        self.stats.regions_shared += regions.shared;
        self.keep(context);
        // The counts are added before the signal is written: a program that sees the signal finds its work counted.
        shared.counters.add(self.number, &mut self.stats);
        // Signals are written after the slice and before the turn ends: a thread that stops the queue waits for them,
        // and for their interrupts.
        aftermath.announcement = settled.and_then(|outcome| dispatch.settle(outcome, self.runner));
    }
}

/// Gives back claimed workgroups that were not begun.
fn give_back(shared: &Shared, dispatch: &Dispatch, share: Range<u64>) {
    let count = share.end - share.start;
    if dispatch.unclaimed.give_back(share) {
        shared.announce_workgroups(count);
    }
}
