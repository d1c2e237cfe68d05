//! The worker threads, and the choice of the dispatch that each of them turns to next.

mod calls;
mod ending;
mod error;
mod explored;
mod on_caller;
mod running;
mod save;
mod seen;
mod show;
mod stepping;
mod waiting;

pub use error::Error;
pub use running::{RunningWave, RunningWaves};
pub use seen::{SeenDispatch, SeenWave};
pub(crate) use stepping::StepError;
pub use stepping::Steps;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use belfry_isa::lanes::Backend;
use belfry_lock::{Condvar, Mutex, MutexGuard, ThisDevice, rank};

use self::calls::{Apart, Calls};
use super::chance::Chance;
use super::code::CodeSpaces;
use super::dispatch::{Dispatch, Owner, Runner};
use super::launch::Launch;
use super::queue::{Residency, Seat, ShaderQueue};
use super::stats::Counters;
use super::worker::{Aftermath, Worker};
use super::workgroup::Workgroup;
use crate::activity::Activity;
use crate::chip::{CuMask, Generation, Topology};
use crate::threads::processors::{Member, Processors};
use crate::time::Clock;
use crate::tools::Tools;
use crate::trace::TraceSink;
use crate::vm::WalkCounter;

pub(crate) use save::{Restoring, SavedQueue, SavedShader};

/// Most waves of a dispatch whose first turn the submitting thread takes.
const SMALL: u64 = 8;

/// Code epoch of the first dispatch.
pub(super) const FIRST_EPOCH: u64 = 2;
/// Turns a dispatch of a deterministic schedule has before others have theirs.
const TURNS_BEFORE_OTHERS: u32 = 1 << 16;

/// Size of the engine.
#[derive(Clone, Debug)]
pub struct ShaderConfig {
    /// Worker threads.
    pub workers: usize,
    /// Processors that the workers of several devices share.
    pub processors: Processors,
    /// The chip's compute units, which decide how many workgroups are resident at once.
    pub topology: Topology,
    /// The chip's instruction set, and the sizes and rules of its compute units.
    pub chip: &'static Generation,
    /// Host instructions that the interpreter uses.
    pub backend: Backend,
    /// Store of compiled code, if there is one.
    pub kept_code: Option<Arc<belfry_isa::code_store::KeptCode>>,
    /// Seed of a deterministic schedule, which needs one worker.
    pub deterministic: Option<u64>,
    /// The tools that look at waves, or decide for them. An explorer needs a seed as well.
    pub tools: Tools,
    /// The device's page walks, which are recorded beside its waves.
    pub walks: Arc<WalkCounter>,
    /// Counter of the threads that execute waves.
    pub activity: Activity,
}

/// Runs dispatches of all queues on a fixed set of worker threads.
pub struct ShaderEngine {
    pub(super) shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Worker on which the submitting thread runs a small dispatch.
    pub(super) submitter: Mutex<Worker, rank::Submitter>,
    /// The worker without a thread, see `turn`.
    caller: Mutex<Worker, rank::Submitter>,
}

/// State that the workers share.
pub(super) struct Shared {
    state: Apart<Mutex<State, rank::Engine>>,
    /// Wakes the workers that sleep.
    work: Condvar,
    /// Signalled when no worker has anything in hand.
    quiet: Condvar,
    /// Calls of idle workers.
    calls: Apart<Calls>,
    /// Dispatches on the engine, some of which may be settled.
    dispatches: Apart<AtomicUsize>,
    pub(super) residency: Arc<Residency>,
    pub(super) code_epoch: AtomicU64,
    pub(super) counters: Counters,
    pub(super) clock: Clock,
    pub(super) chip: &'static Generation,
    pub(super) scratch_parts: u32,
    pub(super) code: CodeSpaces,
    /// Worker threads.
    pub(super) workers: usize,
    pub(super) processors: Member,
    deterministic: Option<u64>,
    /// True if the last turn has left a workgroup in the middle, in a schedule that is explored.
    pub(super) left: AtomicBool,
    pub(super) tools: Tools,
    /// True if the sink asks for waves one by one.
    pub(super) wants_waves: bool,
    pub(super) walks: Arc<WalkCounter>,
    pub(super) activity: Activity,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Queues with dispatches, in the order of their turns.
    pub(super) queues: VecDeque<Active>,
    /// Workers that have found nothing to do, and those of them that sleep.
    idle: usize,
    asleep: usize,
    /// Workers that have something of a dispatch in hand: a turn, or what it leaves to be announced.
    in_hand: usize,
    /// True while no worker may take a task in hand.
    held: bool,
    /// True while the submitting thread takes a turn: it counts as one of the workers.
    submitter_runs: bool,
    /// Turns that the first dispatch of a deterministic schedule has had.
    turns: u32,
    shutdown: bool,
}

#[derive(Debug)]
pub(super) struct Active {
    pub(super) queue: Arc<ShaderQueue>,
    pub(super) dispatches: VecDeque<Arc<Dispatch>>,
}

/// Work for one turn.
pub(super) struct Task {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) work: Work,
}

impl Task {
    /// Returns true if its dispatch has more work than the task takes.
    fn leaves_some(&self) -> bool {
        match self.work {
            // Its workgroup is still to be claimed.
            Work::Begin(_) => self.dispatch.unclaimed.has_several() || self.dispatch.has_paused(),
            Work::Resume(_) => self.dispatch.can_go_on(),
        }
    }
}

/// Start of a turn.
pub(super) enum Work {
    /// Room for a workgroup that is still to be claimed.
    Begin(Box<Seat>),
    /// A paused workgroup.
    Resume(Box<Workgroup>),
}

impl ShaderEngine {
    /// Starts the worker threads.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the host has no more threads.
    pub fn new(config: ShaderConfig, clock: Clock) -> Result<ShaderEngine, Error> {
        let shared = Arc::new(Shared {
            state: Apart::default(),
            work: Condvar::new(),
            quiet: Condvar::new(),
            calls: Apart::default(),
            dispatches: Apart::default(),
            residency: Arc::new(Residency::new(config.topology, &config.chip.shader)),
            code_epoch: AtomicU64::new(FIRST_EPOCH - 1),
            // The submitting thread's worker and the caller's have no thread of their own.
            counters: Counters::new(config.workers.max(1) + 2),
            clock,
            chip: config.chip,
            scratch_parts: (config.chip.shader.scratch_parts)(&config.topology).max(1),
            code: CodeSpaces::new(config.chip.arch, config.backend, config.kept_code.clone()),
            workers: config.workers.max(1),
            processors: config.processors.join(),
            deterministic: config.deterministic,
            left: AtomicBool::new(false),
            wants_waves: config.tools.tracer().sink().is_some_and(TraceSink::wants_waves),
            tools: config.tools,
            walks: config.walks,
            activity: config.activity,
        });
        // They are numbered after the worker threads.
        let workers = shared.workers as u32;
        let submitter = Mutex::new(Worker::new(Arc::clone(&shared), Runner::Submitter, workers));
        let caller = Mutex::new(Worker::new(Arc::clone(&shared), Runner::Worker, workers + 1));
        let mut engine = ShaderEngine { shared, workers: Vec::new(), submitter, caller };
        for index in 0..engine.shared.workers {
            let (shared, device) = (Arc::clone(&engine.shared), ThisDevice::current());
            let run = move || {
                let _on = device.enter();
                Worker::new(shared, Runner::Worker, index as u32).run();
            };
            let worker = std::thread::Builder::new()
                .name(format!("shader-{index}"))
                .spawn(run)
                .map_err(Error::Thread)?;
            engine.workers.push(worker);
        }
        Ok(engine)
    }

    /// Returns true if the GPU holds a workgroup of this launch on the compute units that it may use.
    #[must_use]
    pub fn holds(&self, launch: &Launch) -> bool {
        launch.cus == CuMask::ALL || self.shared.residency.holds(launch)
    }

    /// Starts a dispatch. `owner` is told when it has completed or failed, and never if the queue is stopped.
    ///
    /// While the workers have nothing to do, a dispatch of a few waves gets its first turn on the calling thread, which
    /// spares it two changes of thread. If that short turn is not enough, the workers go on with it as with any other.
    /// The caller holds no slice of guest memory.
    ///
    /// # Errors
    ///
    /// [`Error::Grid`] for a grid without workgroups, or with more than can be counted.
    pub fn submit(
        &self,
        queue: &Arc<ShaderQueue>,
        launch: Launch,
        owner: Arc<dyn Owner>,
    ) -> Result<(), Error> {
        let total = launch
            .workgroup_count()
            .filter(|&total| total > 0)
            .ok_or(Error::Grid { grid: launch.grid, workgroup: launch.workgroup })?;
        let epoch = self.shared.code_epoch.fetch_add(1, Ordering::SeqCst) + 1;
        let chance = self.shared.chance(epoch - FIRST_EPOCH);
        // Built in its final place: a copy of a value that was written a moment before would stall.
        let number = epoch - FIRST_EPOCH;
        let mut dispatch = Arc::new(Dispatch::new(Arc::clone(queue), launch, total, number, owner, chance));
        let Shared { tools, chip, .. } = &*self.shared;
        if tools.probe_kernels()
            && let Some(dispatch) = Arc::get_mut(&mut dispatch)
        {
            dispatch.be_probed_by(tools, chip);
        }
        if self.shared.deterministic.is_none()
            && dispatch.is_small(SMALL)
            && let Some(aftermath) = self.first_turn(&dispatch)
        {
            aftermath.announce(&dispatch);
            if dispatch.is_settled() {
                return Ok(());
            }
        }
        let mut state = self.shared.lock();
        let workers = usize::try_from(total).unwrap_or(usize::MAX);
        match state.queues.iter_mut().find(|active| Arc::ptr_eq(&active.queue, queue)) {
            Some(active) => active.dispatches.push_back(dispatch),
            None => {
                state
                    .queues
                    .push_back(Active { queue: Arc::clone(queue), dispatches: VecDeque::from([dispatch]) });
            }
        }
        self.shared.count(&state);
        self.shared.call(state, workers);
        Ok(())
    }

    /// Takes the first turn of a dispatch on this thread, if nothing else is going on.
    fn first_turn(&self, dispatch: &Arc<Dispatch>) -> Option<Aftermath> {
        let mut submitter = self.submitter.try_lock().ok()?;
        let mut state = self.shared.lock();
        let may = state.queues.is_empty() && !state.shutdown && !self.shared.tools.is_halted();
        if !may || !dispatch.queue().begin_turn() {
            return None;
        }
        let Some(seat) = self.shared.residency.seat(dispatch) else {
            dispatch.queue().end_turn();
            return None;
        };
        state.submitter_runs = true;
        drop(state);
        let aftermath = submitter.take(&self.shared, dispatch, Work::Begin(seat));
        let mut state = self.shared.lock();
        state.submitter_runs = false;
        let more = !state.queues.is_empty();
        dispatch.queue().end_turn();
        if more {
            self.shared.announce(state);
        }
        Some(aftermath)
    }

    /// Lets a suspended queue run on.
    pub fn resume(&self, queue: &ShaderQueue) {
        queue.end_suspension();
        self.shared.announce(self.shared.lock());
    }

    /// Stops a queue for good, as [`ShaderQueue::stop`] does, and drops its dispatches in progress.
    pub fn remove(&self, queue: &ShaderQueue) {
        queue.stop();
        self.remove_dispatches(queue);
    }

    /// Drops the dispatches of a queue that has no turn in progress.
    pub(super) fn remove_dispatches(&self, queue: &ShaderQueue) {
        self.shared.take_queue(queue).iter().for_each(|dispatch| dispatch.clear());
        // Other queues may get the places of its waves.
        self.shared.announce(self.shared.lock());
    }

    /// Returns the chip that the compute units are of.
    #[must_use]
    pub fn chip(&self) -> &'static Generation {
        self.shared.chip
    }

    /// Returns the number of worker threads.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State, rank::Engine> {
        self.state.lock_spinning().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sink, which is asked before a wave's instructions are recorded.
    pub(super) fn sink(&self) -> Option<&dyn TraceSink> {
        if self.wants_waves { self.tools.tracer().sink() } else { None }
    }

    /// Returns the decisions of dispatch `number`, in a deterministic schedule.
    pub(super) fn chance(&self, number: u64) -> Option<Chance> {
        self.deterministic.map(|seed| Chance::new(seed, number))
    }

    /// Takes a queue off the engine and returns its dispatches. None of its turns goes on or begins.
    pub(super) fn take_queue(&self, queue: &ShaderQueue) -> VecDeque<Arc<Dispatch>> {
        let mut state = self.lock();
        let is_mine = |active: &Active| std::ptr::eq(Arc::as_ptr(&active.queue), queue);
        let at = state.queues.iter().position(is_mine);
        let taken = at.and_then(|at| state.queues.remove(at)).map(|active| active.dispatches);
        self.count(&state);
        taken.unwrap_or_default()
    }

    fn count(&self, state: &State) {
        let dispatches = state.queues.iter().map(|active| active.dispatches.len()).sum();
        // All workers read it while they run workgroups.
        if self.dispatches.load(Ordering::Relaxed) != dispatches {
            self.dispatches.store(dispatches, Ordering::Relaxed);
        }
    }

    /// Returns true if no more than one dispatch is on the engine.
    fn is_alone(&self) -> bool {
        self.dispatches.load(Ordering::Relaxed) <= 1
    }

    /// Returns true if a worker is not to go on with its dispatch: the device is halted, another dispatch is there, or
    /// another device waits for the processor.
    pub(super) fn wants_its_workers(&self) -> bool {
        self.tools.is_halted() || !self.is_alone() || self.processors.are_wanted()
    }

    /// Takes the queues in turn, and the dispatches of each queue in turn. A deterministic schedule changes to another
    /// dispatch only after many turns of one, so that it does not depend on the time at which the others came.
    fn find(&self, state: &mut State) -> Option<Task> {
        // With one worker, two turns never run at the same time.
        if state.held || self.tools.is_halted() || (state.submitter_runs && self.workers == 1) {
            return None;
        }
        if let Some(explorer) = self.tools.explorer() {
            self.order(explorer, state);
        }
        let stays = self.deterministic.is_some() && state.turns < TURNS_BEFORE_OTHERS;
        let task = self.find_staying(state, stays);
        // A search that finds nothing changes nothing, or the schedule would depend on how often workers search.
        if task.is_some() {
            state.turns = if stays { state.turns + 1 } else { 0 };
        }
        task
    }

    fn find_staying(&self, state: &mut State, stays: bool) -> Option<Task> {
        // Stopped queues go first, as others may get the places of their waves.
        state.queues.retain(|active| {
            let stays = !active.queue.is_stopping();
            if !stays {
                active.dispatches.iter().for_each(|dispatch| dispatch.clear());
            }
            stays
        });
        for _ in 0..state.queues.len() {
            let mut active = state.queues.pop_front()?;
            active.dispatches.retain(|dispatch| !dispatch.is_settled());
            if active.dispatches.is_empty() {
                continue;
            }
            let task = if active.queue.begin_turn() {
                let task = self.find_in(&mut active.dispatches, stays);
                if task.is_none() {
                    active.queue.end_turn();
                }
                task
            } else {
                None
            };
            if task.is_some() && stays {
                state.queues.push_front(active);
                return task;
            }
            state.queues.push_back(active);
            if task.is_some() {
                return task;
            }
        }
        None
    }

    fn find_in(&self, dispatches: &mut VecDeque<Arc<Dispatch>>, stays: bool) -> Option<Task> {
        // New workgroups of one dispatch must not keep restored ones of another off the GPU: together they fit it.
        let all_are_on = dispatches.iter().fold(true, |all, dispatch| dispatch.put_back() & all);
        for index in 0..dispatches.len() {
            let dispatch = if stays {
                Arc::clone(dispatches.get(index)?)
            } else {
                let dispatch = dispatches.pop_front()?;
                dispatches.push_back(Arc::clone(&dispatch));
                dispatch
            };
            // Waves that were off the GPU come before new ones.
            let begins = dispatch.put_back() && all_are_on && !dispatch.unclaimed.is_empty();
            if dispatch.is_deterministic() {
                let seat = begins.then(|| self.residency.seat(&dispatch)).flatten();
                match dispatch.choose(seat, self.tools.explorer()) {
                    Some(work) => return Some(Task { dispatch, work }),
                    None => continue,
                }
            }
            // New workgroups first: workgroups that wait for each other across the grid must all become resident.
            if begins && let Some(seat) = self.residency.seat(&dispatch) {
                return Some(Task { dispatch, work: Work::Begin(seat) });
            }
            if let Some(workgroup) = dispatch.resume() {
                return Some(Task { dispatch, work: Work::Resume(workgroup) });
            }
        }
        None
    }
}
