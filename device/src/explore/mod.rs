//! The explorer of schedules: decides who goes on next, wherever a device and its driver can go on in more
//! than one way.
//!
//! An explored device does one thing after the other, on the thread that calls it. Each point that has a
//! choice asks an [`Explorer`], with the actors that can go on: the host, the device, an interrupt, a
//! workgroup, a wave. The first actor goes on unless the schedule wants another. An answer that is not the
//! first is a *change*; a [`Schedule`] lists the changes. With one schedule, a program asks the same
//! questions in the same order in each run, and gets the same answers.
//!
//! `docs/explore.md` says where the questions are asked, and which choices are modelled.

mod pct;
mod schedule;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::split_mix::mix;
use pct::Pct;
pub use schedule::{Change, Schedule, ScheduleError};

/// Most questions whose number of answers is remembered.
const REMEMBERED: usize = 1 << 20;

/// A part that can go on, by a number that is equal in each run.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Actor(u64);

impl Actor {
    /// The program and its driver.
    pub const HOST: Self = Self(1);
    /// The device: firmware, engines, waves.
    pub const DEVICE: Self = Self(2);
    /// The driver's interrupt handler.
    pub const INTERRUPT: Self = Self(3);
    /// Work that the driver has put off.
    pub const WORK: Self = Self(4);

    /// An actor of a kind that has several.
    pub(crate) const fn of(kind: u64, dispatch: u64, group: [u32; 3], number: u32) -> Self {
        let [x, y, z] = group;
        let place = mix((x as u64) << 32 | y as u64) ^ mix((z as u64) << 32 | number as u64);
        Self(mix(mix(kind << 32 ^ dispatch) ^ place) | 1 << 63)
    }

    /// A wave of a workgroup of a dispatch.
    pub(crate) const fn wave(dispatch: u64, group: [u32; 3], number: u32) -> Self {
        Self::of(1, dispatch, group, number)
    }

    /// A workgroup, to choose among those of its dispatch.
    pub(crate) const fn group(dispatch: u64, group: [u32; 3]) -> Self {
        Self::of(2, dispatch, group, 0)
    }

    /// All actors other than the workgroup that runs.
    pub(crate) const fn outside(dispatch: u64, group: [u32; 3]) -> Self {
        Self::of(3, dispatch, group, 0)
    }

    /// The next workgroup of a dispatch that has not begun.
    pub(crate) const fn next_group(dispatch: u64, index: u64) -> Self {
        Self::of(4, dispatch, [index as u32, (index >> 32) as u32, 0], 0)
    }

    /// A dispatch, to choose among dispatches.
    pub(crate) const fn dispatch(number: u64) -> Self {
        Self::of(5, number, [0; 3], 0)
    }
}

/// Rule of decision.
#[derive(Debug)]
enum Strategy {
    Changes(BTreeMap<u64, u16>),
    Pct(Box<Pct>),
}

impl Strategy {
    fn of(schedule: &Schedule) -> Self {
        match schedule {
            Schedule::Pct { seed, depth, steps } => Self::Pct(Box::new(Pct::new(*seed, *depth, *steps))),
            Schedule::Preempt(changes) => {
                Self::Changes(changes.iter().map(|change| (change.at, change.to)).collect())
            }
            // The device's own decisions follow from the seed; the explorer makes no changes.
            Schedule::Seeded(_) => Self::Changes(BTreeMap::new()),
        }
    }
}

/// Course of a run under a schedule.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Explored {
    /// Number of answers to each question, at least two.
    pub choices: Vec<u16>,
    /// The answers that were not the first.
    pub changes: Vec<Change>,
    /// Steps of all kinds.
    pub steps: u64,
    /// Digest of the run: equal for runs with equal questions and answers in equal order.
    pub digest: u64,
}

struct State {
    strategy: Strategy,
    explored: Explored,
    limit: u64,
}

/// Reasons why a run cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Hang {
    /// Host, device, interrupts and deferred work all wait for each other.
    #[error("nobody can go on: the host waits, the device has nothing to do, and no interrupt is on its way")]
    Deadlock,
    /// The limit of steps is reached.
    #[error("it did not end within {0} steps")]
    Endless(u64),
    /// A second thread of the program has come.
    #[error("the program has several threads, whose order is not part of a schedule")]
    Threads,
}

/// Gets a hang and the course of the run. Does not return if it can end the run in another way.
type OnHang = Box<dyn Fn(Hang, Explored) + Send + Sync>;

struct Inner {
    state: Mutex<State>,
    /// True while changes take place, and questions are counted.
    active: AtomicBool,
    hung: AtomicBool,
    on_hang: Mutex<Option<Arc<OnHang>>>,
}

/// Decides the order of a device and its driver. Clones share one state.
#[derive(Clone)]
pub struct Explorer(Arc<Inner>);

impl fmt::Debug for Explorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Explorer")
            .field("steps", &state.explored.steps)
            .field("questions", &state.explored.choices.len())
            .finish_non_exhaustive()
    }
}

impl Explorer {
    /// An explorer with a schedule, for at most `limit` steps.
    #[must_use]
    pub fn new(schedule: &Schedule, limit: u64) -> Self {
        let state = State { strategy: Strategy::of(schedule), explored: Explored::default(), limit };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            active: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            on_hang: Mutex::new(None),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a function that is called once, when the run hangs. Every wait of the run then ends as if its time were over.
    pub fn on_hang(&self, tell: impl Fn(Hang, Explored) + Send + Sync + 'static) {
        let tell: OnHang = Box::new(tell);
        *self.0.on_hang.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tell));
    }

    /// Begins the program: from here on changes take place. Until then everything takes its usual course.
    pub fn begin(&self) {
        self.0.active.store(true, Ordering::SeqCst);
    }

    /// Notes that the program has ended.
    pub fn end(&self) {
        self.0.active.store(false, Ordering::SeqCst);
    }

    /// Returns true while changes take place.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.0.active.load(Ordering::SeqCst)
    }

    /// Returns true if the run could not go on.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        self.0.hung.load(Ordering::SeqCst)
    }

    /// Notes that the run cannot go on, and reports it.
    pub fn hang(&self, why: Hang) {
        if self.0.hung.swap(true, Ordering::SeqCst) {
            return;
        }
        self.end();
        let tell = self.0.on_hang.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match tell {
            Some(tell) => tell(why, self.explored()),
            None => log::error!(target: "gpu::explore", "{why}"),
        }
    }

    /// Counts a step: an action after which others may go on. Beyond the limit, the run hangs.
    pub fn step(&self) {
        if !self.is_active() {
            return;
        }
        let over = {
            let mut state = self.lock();
            state.explored.steps += 1;
            (state.explored.steps > state.limit).then_some(state.limit)
        };
        if let Some(limit) = over {
            self.hang(Hang::Endless(limit));
        }
    }

    /// Chooses who goes on: an index of `actors`, 0 unless the schedule wants another. A single actor is no
    /// question.
    pub fn choose(&self, actors: &[Actor]) -> usize {
        if actors.len() < 2 || !self.is_active() {
            return 0;
        }
        let state = &mut *self.lock();
        let at = state.explored.choices.len() as u64;
        let choice = match &mut state.strategy {
            Strategy::Changes(changes) => changes.get(&at).map_or(0, |choice| usize::from(*choice)),
            Strategy::Pct(pct) => pct.choose(actors),
        };
        state.answer(choice, actors.len(), actors.iter().fold(at, |all, actor| mix(all ^ actor.0)))
    }

    /// Chooses one of `count` states that memory may show; in the first, all stores have arrived.
    pub(crate) fn ways(&self, count: usize) -> usize {
        if count < 2 || !self.is_active() {
            return 0;
        }
        let state = &mut *self.lock();
        let at = state.explored.choices.len() as u64;
        let choice = match &mut state.strategy {
            Strategy::Changes(changes) => changes.get(&at).map_or(0, |choice| usize::from(*choice)),
            Strategy::Pct(pct) => pct.ways(count),
        };
        state.answer(choice, count, mix(at ^ count as u64))
    }

    /// Puts an actor after all others, as it waits for them or has had its share.
    pub fn yields(&self, actor: Actor) {
        if let Strategy::Pct(pct) = &mut self.lock().strategy {
            pct.yields(actor);
        }
    }

    /// The course of the run so far.
    #[must_use]
    pub fn explored(&self) -> Explored {
        self.lock().explored.clone()
    }
}

impl State {
    /// Takes a choice, or the first answer if a schedule of another run names one that does not exist.
    fn answer(&mut self, choice: usize, count: usize, about: u64) -> usize {
        let choice = if choice < count { choice } else { 0 };
        let explored = &mut self.explored;
        let at = explored.choices.len() as u64;
        if explored.choices.len() < REMEMBERED {
            explored.choices.push(u16::try_from(count).unwrap_or(u16::MAX));
        }
        if let Some(to) = u16::try_from(choice).ok().filter(|&to| to != 0) {
            explored.changes.push(Change { at, to });
        }
        explored.digest = mix(explored.digest ^ about ^ (choice as u64).rotate_left(32));
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: [Actor; 3] = [Actor::HOST, Actor::DEVICE, Actor::INTERRUPT];

    fn run(schedule: &str, questions: usize) -> (Vec<usize>, Explored) {
        let explorer = Explorer::new(&schedule.parse().unwrap(), 1000);
        explorer.begin();
        let answers = (0..questions).map(|_| explorer.choose(&THREE)).collect();
        (answers, explorer.explored())
    }

    #[test]
    fn changes_are_where_the_schedule_has_them() {
        let (answers, explored) = run("preempt:1,3=2,4=9", 6);
        assert_eq!(answers, [0, 1, 0, 2, 0, 0]);
        assert_eq!(explored.choices, [3; 6]);
        assert_eq!(explored.changes, [Change { at: 1, to: 1 }, Change { at: 3, to: 2 }]);
        assert_eq!(run("preempt:", 6).0, [0; 6]);
        assert_ne!(run("preempt:", 6).1.digest, explored.digest);
    }

    #[test]
    fn a_schedule_of_priorities_is_one_of_changes_as_well() {
        let mut all = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let (answers, explored) = run(&format!("pct:{seed}:3:40"), 40);
            let again = Schedule::Preempt(explored.changes.clone()).to_string();
            assert_eq!(run(&again, 40), (answers.clone(), explored), "seed {seed}: {again}");
            all.insert(answers);
        }
        assert!(all.len() > 5, "the seed makes a difference: {all:?}");
    }

    #[test]
    fn before_the_program_nothing_is_asked_and_one_alone_is_no_question() {
        let explorer = Explorer::new(&"preempt:0".parse().unwrap(), 1000);
        assert_eq!(explorer.choose(&THREE), 0);
        explorer.begin();
        assert_eq!((explorer.choose(&THREE[..1]), explorer.choose(&THREE)), (0, 1));
        assert_eq!(explorer.explored().choices, [3]);
        explorer.end();
        assert_eq!(explorer.choose(&THREE), 0);
    }

    #[test]
    fn hang_is_told_of_once() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let explorer = Explorer::new(&"preempt:".parse().unwrap(), 2);
        let sender = Mutex::new(sender);
        explorer.on_hang(move |why, _| sender.lock().unwrap().send(why).unwrap());
        explorer.begin();
        (0..9).for_each(|_| explorer.step());
        explorer.hang(Hang::Deadlock);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [Hang::Endless(2)]);
        assert!(explorer.is_hung() && !explorer.is_active());
    }
}
