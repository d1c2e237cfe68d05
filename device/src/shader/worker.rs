//! One worker thread's state, and its turns at dispatches.

mod moments;
mod shift;
mod strategy;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::mem::Tlb;

use super::dispatch::{Announcement, Dispatch, Notice, Runner};
use super::engine::{Shared, Task, Work};
use super::failure::{Reason, WaveFailure};
use super::launch::Series;
use super::stats::Statistics;
use super::workgroup::{ByHand, Workgroup};
use crate::chip::Generation;
use crate::spent::{self, Part};
use crate::threads::patience::Patience;
use crate::threads::processors::processors;
use shift::Shift;

/// Instructions of one turn, after which another queue gets the worker. It bounds the time that other threads wait to
/// stop a queue, flush translations or replace guest memory.
pub(super) const TURN_BUDGET: u64 = 10_000;
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
    /// True if the last turn was at a workgroup that looks for writes of others.
    looked: bool,
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
            looked: false,
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
            let taken = shared.processors.take();
            let aftermath = self.take(&shared, &dispatch, work);
            // Threads of other processes may be those that its waves wait for.
            let yields = self.looked && taken.is_some() && !shared.processors.are_wanted();
            drop(taken);
            aftermath.announce(&dispatch);
            // What the turn has left, this worker finds when it looks for its next task.
            dispatch.queue().end_turn();
            if yields {
                std::thread::yield_now();
            }
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
        // a panic leaves half done belongs to this dispatch, or is a cache that the shift has taken out of `self`.
        let turn = AssertUnwindSafe(|| Shift::begin(self, shared, dispatch, &mut aftermath).work(work));
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

    /// Takes the storage of an ended workgroup, or makes new.
    fn take_spare(&mut self, chip: &'static Generation) -> Box<Workgroup> {
        let mut workgroup = self.spare.pop().unwrap_or_else(|| Box::new(Workgroup::new(chip)));
        self.spare_waves -= workgroup.storage();
        workgroup.has_looked = false;
        workgroup
    }

    /// Keeps the storage of an ended workgroup for the next one, unless there is enough.
    fn keep_spare(&mut self, workgroup: Box<Workgroup>) {
        if self.spare_waves + workgroup.storage() <= SPARE_WAVES {
            self.spare_waves += workgroup.storage();
            self.spare.push(workgroup);
        }
    }
}
