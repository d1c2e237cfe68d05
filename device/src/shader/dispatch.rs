//! A dispatch in progress: the workgroups that have begun, the paused ones, and the number of ended ones.

mod probes;
mod save;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_isa::exec::Lds;
use belfry_isa::wave::Wave;
use belfry_lock::{Mutex, MutexGuard, rank};

use super::chance::Chance;
use super::context::SavedGroup;
use super::engine::Work;
use super::failure::WaveFailure;
use super::launch::Launch;
use super::queue::{Seat, ShaderQueue};
use super::unclaimed::Unclaimed;
use super::workgroup::{TellWave, Workgroup};
use crate::explore::{Actor, Explorer};
use crate::profile;
use crate::sanitize::Grid;
use crate::show::Few;
use crate::trace::{self, Job};
use crate::vm::Fault;

pub(super) use probes::Probes;
pub(super) use save::{Restored, SavedDispatch};

/// Something to do once no lock and no slice of guest memory is held.
pub enum Announcement {
    /// Nothing.
    Nothing,
    /// [`Owner::ended`]. Most dispatches end so, and nothing is allocated for it.
    Ended {
        /// The event that waiters of the signal sleep on, if there is one.
        event: Option<u32>,
        /// Thread on which the dispatch has ended.
        runner: Runner,
    },
    /// Something else.
    Call(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Announcement::Nothing => f.write_str("Nothing"),
            Announcement::Ended { event, runner } => {
                f.debug_struct("Ended").field("event", event).field("runner", runner).finish()
            }
            Announcement::Call(_) => f.debug_tuple("Call").finish_non_exhaustive(),
        }
    }
}

impl Announcement {
    /// Runs the announcement for the owner that it came from.
    pub fn announce(self, owner: &dyn Owner) {
        match self {
            Announcement::Nothing => {}
            Announcement::Ended { event, runner } => owner.ended(event, runner),
            Announcement::Call(call) => call(),
        }
    }
}

/// Thread on which a dispatch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// One of the engine's workers.
    Worker,
    /// The thread that submits the dispatch, before [`submit`](super::ShaderEngine::submit) returns.
    Submitter,
}

/// Packet of a dispatch: the engine calls it when the dispatch ends.
pub trait Owner: fmt::Debug + Send + Sync {
    /// Called when the dispatch has completed or failed: writes the result to memory, and returns the announcement to
    /// make afterwards.
    ///
    /// Called once, while the queue still counts as running: stopping the queue waits for it. It must not wait for
    /// anything; interrupts and wake-ups belong into the announcement.
    fn settle(&self, outcome: Result<(), WaveFailure>, runner: Runner) -> Announcement;

    /// Called when the dispatch has ended well and its signal is written: informs its waiters. Called outside slices,
    /// as an [announcement](Announcement::Ended).
    fn ended(&self, event: Option<u32>, runner: Runner);

    /// Receives a notice of a wave that runs on. Called outside slices.
    fn notice(&self, notice: Notice);

    /// Returns the index of the packet that submitted the dispatch.
    fn packet(&self) -> u64;

    /// Returns the job that its workgroups are recorded for, and the job's owner.
    fn traced(&self) -> (Job, trace::Owner) {
        (Job::NONE, trace::Owner::default())
    }
}

/// Notice that a wave gives while it runs on.
#[derive(Debug)]
pub enum Notice {
    /// The wave sent `MSG_INTERRUPT`.
    Message {
        /// `M0[23:0]`.
        m0: u32,
        /// From its trap handler.
        privileged: bool,
    },
    /// The wave waits for a page that its process has not mapped for the GPU.
    Waits(Fault),
    /// The wave went into its trap handler for a fault.
    Trapped(Box<WaveFailure>),
}

/// A dispatch handed to the engine.
pub(super) struct Dispatch {
    queue: Arc<ShaderQueue>,
    launch: Launch,
    owner: Arc<dyn Owner>,
    /// Lane IDs of a full workgroup, made once.
    lanes: Vec<(u64, [u32; 64])>,
    /// Dispatches submitted before it.
    number: u64,
    /// Decisions of a deterministic schedule.
    chance: Option<Mutex<Chance, rank::DispatchChance>>,
    /// Instructions executed and waves switched to: the time in a deterministic schedule.
    ticks: AtomicU64,
    total: u64,
    pub(super) unclaimed: Unclaimed,
    done: AtomicU64,
    settled: AtomicBool,
    paused: Mutex<VecDeque<Box<Workgroup>>, rank::DispatchPaused>,
    /// Paused workgroups that are off the GPU.
    off: AtomicUsize,
    /// Workgroups whose waves are in the context save area already, in its order, while others wait for pages of the
    /// area.
    away: Mutex<Vec<SavedGroup>, rank::DispatchPaused>,
    /// State of the sanitizer for its waves, if they are checked.
    check: Option<Arc<Grid>>,
    /// The launch, if its kernel is profiled.
    profile: Option<Arc<profile::Launched>>,
}

/// Paused workgroups that are shown.
const SHOWN: usize = 4;

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paused = self.paused();
        let (left, done) = (self.unclaimed.left(), self.done.load(Ordering::Relaxed));
        // The counts are of moments close to each other, not of one.
        let claimed =
            self.total.saturating_sub(left).saturating_sub(done).saturating_sub(paused.len() as u64);
        f.debug_struct("Dispatch")
            .field("number", &format_args!("{}", self.number))
            .field("packet", &self.owner)
            .field("launch", &self.launch)
            .field("workgroups", &format_args!("{}", self.total))
            .field("not_begun", &format_args!("{left}"))
            .field("with_workers", &format_args!("{claimed}"))
            .field("paused", &format_args!("{}", paused.len()))
            .field("off_the_gpu", &format_args!("{}", self.off.load(Ordering::Relaxed)))
            .field("done", &format_args!("{done}"))
            .field("paused_workgroups", &Few::new(SHOWN, paused.iter()))
            .finish_non_exhaustive()
    }
}

impl Dispatch {
    /// Makes dispatch `number` of the engine, of `total` workgroups: [`Launch::workgroup_count`], at least one.
    #[inline(always)]
    pub(super) fn new(
        queue: Arc<ShaderQueue>,
        launch: Launch,
        total: u64,
        number: u64,
        owner: Arc<dyn Owner>,
        chance: Option<Chance>,
    ) -> Dispatch {
        let lanes = launch.lane_ids(launch.workgroup);
        Dispatch {
            queue,
            launch,
            owner,
            lanes,
            number,
            chance: chance.map(Mutex::new),
            ticks: AtomicU64::new(0),
            total,
            unclaimed: Unclaimed::new(total),
            done: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            paused: Mutex::default(),
            off: AtomicUsize::new(0),
            away: Mutex::default(),
            check: None,
            profile: None,
        }
    }

    /// Makes a dispatch that was saved: `unclaimed` are the workgroups that have not begun. [`Dispatch::put_off`] is
    /// given those that have begun and not ended; the others have ended.
    pub(super) fn restored(
        queue: Arc<ShaderQueue>,
        launch: Launch,
        total: u64,
        number: u64,
        owner: Arc<dyn Owner>,
        chance: Option<Chance>,
        unclaimed: Vec<Range<u64>>,
    ) -> Dispatch {
        let unclaimed = Unclaimed::of(unclaimed);
        Dispatch { unclaimed, ..Dispatch::new(queue, launch, total, number, owner, chance) }
    }

    /// Takes over workgroups that were restored and are off the GPU.
    #[expect(clippy::vec_box, reason = "workgroups stay in their boxes")]
    pub(super) fn put_off(&self, workgroups: Vec<Box<Workgroup>>) {
        let ended = self.total - self.unclaimed.left() - workgroups.len() as u64;
        self.done.store(ended, Ordering::Release);
        self.off.store(workgroups.len(), Ordering::Relaxed);
        self.paused().extend(workgroups);
    }

    /// Takes the first workgroup that has begun and not ended, on the GPU or off it.
    pub(super) fn take_first(&self) -> Option<Box<Workgroup>> {
        let mut paused = self.paused();
        let first = paused.pop_front()?;
        self.off.fetch_sub(usize::from(first.is_off()), Ordering::Relaxed);
        Some(first)
    }

    /// Puts back the workgroup that [`Dispatch::take_first`] took.
    pub(super) fn put_first(&self, workgroup: Box<Workgroup>) {
        let mut paused = self.paused();
        self.off.fetch_add(usize::from(workgroup.is_off()), Ordering::Relaxed);
        paused.push_front(workgroup);
    }

    /// Notes that a workgroup is in the context save area now, after those that are there.
    pub(super) fn put_away(&self, group: SavedGroup) {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).push(group);
    }

    /// Returns the workgroups that are in the context save area already.
    pub(super) fn away(&self) -> Vec<SavedGroup> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `tell` for every wave of the paused workgroups that has not ended.
    pub(super) fn each_wave(&self, tell: &mut TellWave<'_>) {
        self.paused().iter().for_each(|workgroup| workgroup.each_wave(tell));
    }

    /// Takes the paused workgroup of this identifier, if it has this wave and is on the GPU.
    pub(super) fn take_one(&self, id: [u32; 3], wave: u32) -> Option<Box<Workgroup>> {
        let mut paused = self.paused();
        let found =
            paused.iter().position(|group| group.id == id && !group.is_off() && group.has_wave(wave))?;
        paused.remove(found)
    }

    /// Has `change` change a wave of a paused workgroup. Returns false if there is no such wave.
    pub(super) fn alter(
        &self,
        (id, wave): ([u32; 3], u32),
        change: &mut dyn FnMut(&mut Wave, &mut Lds),
    ) -> bool {
        let mut paused = self.paused();
        let found = paused.iter_mut().find(|group| group.id == id && group.has_wave(wave));
        found.is_some_and(|group| group.alter(wave, change))
    }

    /// Calls `tell` for every paused workgroup.
    pub(super) fn each_workgroup(&self, tell: &mut dyn FnMut(&Workgroup)) {
        self.paused().iter().for_each(|workgroup| tell(workgroup));
    }

    /// Returns the number of its workgroups.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of workgroups that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn queue(&self) -> &Arc<ShaderQueue> {
        &self.queue
    }

    pub(super) fn launch(&self) -> &Launch {
        &self.launch
    }

    pub(super) fn owner(&self) -> &Arc<dyn Owner> {
        &self.owner
    }

    pub(super) fn lanes(&self) -> &[(u64, [u32; 64])] {
        &self.lanes
    }

    /// Returns the epoch of its code: code may be new with each dispatch.
    pub(super) fn code_epoch(&self) -> u64 {
        self.number + 2
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_deterministic(&self) -> bool {
        self.chance.is_some()
    }

    /// Copies the decisions to come; [`Dispatch::decided`] takes them back.
    pub(super) fn chance(&self) -> Option<Chance> {
        self.chance.as_ref().map(|chance| *chance.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the decisions as a turn has left them, and adds the turn's ticks.
    pub(super) fn decided(&self, chance: Option<Chance>, ticks: u64) {
        self.ticks.fetch_add(ticks, Ordering::Relaxed);
        if let (Some(mine), Some(chance)) = (&self.chance, chance) {
            *mine.lock().unwrap_or_else(PoisonError::into_inner) = chance;
        }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Chooses the work that a turn of a deterministic schedule begins with: a new workgroup, if there is a seat for
    /// one, or a paused one.
    pub(super) fn choose(&self, seat: Option<Box<Seat>>, explorer: Option<&Explorer>) -> Option<Work> {
        let mut chance = self.chance()?;
        let mut paused = self.paused();
        let begin = usize::from(seat.is_some());
        // Those off the GPU are the last ones.
        let choices = begin + paused.len() - self.off.load(Ordering::Relaxed);
        if choices == 0 {
            return None;
        }
        let choice = match explorer {
            Some(explorer) => {
                let next = seat.as_ref().map(|_| Actor::next_group(self.number, self.unclaimed.left()));
                let groups = paused.iter().map(|group| Actor::group(self.number, group.id));
                explorer.choose(&next.into_iter().chain(groups).take(choices).collect::<Vec<_>>())
            }
            None => {
                let choice = chance.below(choices);
                self.decided(Some(chance), 0);
                choice
            }
        };
        match seat {
            Some(seat) if choice == 0 => Some(Work::Begin(seat)),
            _ => paused.remove(choice - begin).map(Work::Resume),
        }
    }

    /// Returns true if it has workgroups on the GPU, or some that have not begun.
    pub(super) fn can_go_on(&self) -> bool {
        !self.unclaimed.is_empty() || self.has_paused()
    }

    /// Returns true if it has paused workgroups on the GPU.
    pub(super) fn has_paused(&self) -> bool {
        self.paused().len() > self.off.load(Ordering::Relaxed)
    }

    /// Returns true if its workgroups have at most this many waves together.
    pub(super) fn is_small(&self, waves: u64) -> bool {
        self.total.saturating_mul(u64::from(self.launch.waves_per_workgroup())) <= waves
    }

    fn paused(&self) -> MutexGuard<'_, VecDeque<Box<Workgroup>>, rank::DispatchPaused> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pause(&self, workgroup: Box<Workgroup>) {
        let mut paused = self.paused();
        let on = paused.len() - self.off.load(Ordering::Relaxed);
        paused.insert(on, workgroup);
    }

    pub(super) fn resume(&self) -> Option<Box<Workgroup>> {
        self.paused().pop_front_if(|workgroup| !workgroup.is_off())
    }

    /// Puts workgroups that are off the GPU on it again, as far as there is room. Returns true if none is left off.
    pub(super) fn put_back(&self) -> bool {
        if self.off.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let mut paused = self.paused();
        let mut off = paused.iter_mut().filter(|workgroup| workgroup.is_off());
        let all = off.all(|workgroup| workgroup.put_back());
        let left = paused.iter().filter(|workgroup| workgroup.is_off()).count();
        self.off.store(left, Ordering::Relaxed);
        all
    }

    /// Drops the paused workgroups, whose queue is stopped.
    pub(super) fn clear(&self) {
        self.paused().clear();
        self.off.store(0, Ordering::Relaxed);
    }

    /// Counts workgroups as done. Returns true with the last ones, when settling is due.
    pub(super) fn workgroups_done(&self, count: u64) -> bool {
        if count > 0 && count == self.total {
            // The caller has run all of them: no other worker counts here or has work of this dispatch to finish.
            self.done.store(count, Ordering::Release);
            return true;
        }
        count > 0 && self.done.fetch_add(count, Ordering::AcqRel) + count == self.total
    }

    /// Settles the dispatch, unless it has been settled before.
    pub(super) fn settle(&self, outcome: Result<(), WaveFailure>, runner: Runner) -> Option<Announcement> {
        (!self.settled.swap(true, Ordering::AcqRel)).then(|| self.owner.settle(outcome, runner))
    }

    /// Returns true if the dispatch has been settled and needs no further turn.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}
