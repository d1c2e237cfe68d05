//! Points at which a [schedule](belfry_device::explore) decides whether the program and its driver go on, the device, the
//! interrupt handler, or work that the driver has put off.
//!
//! All of them run on the thread that comes to the point. The interrupt handler and put-off work begin only where that
//! thread holds no lock of the driver; while they run, only the device can come between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use belfry_device::explore::{Actor, Explorer, Hang};
use belfry_device::time::TimeSource;
use belfry_device::{Gpu, Stepped};

use crate::line::Line;
use crate::sync::{Turns, holds_locks};

/// Steps in a row that the device has where others could go on.
const SHARE: u32 = 256;
/// Accesses of the host after which the device has a step while the driver is loaded: it may wait for it without a pause.
const PATIENCE: u32 = 64;

/// Work that the driver has put off.
type Job = Box<dyn FnOnce() + Send>;

/// Chooser of the next actor, for one device and its driver.
pub(crate) struct Exploring {
    explorer: Explorer,
    time: TimeSource,
    line: Arc<Line>,
    gpu: OnceLock<Weak<Gpu>>,
    jobs: Mutex<VecDeque<Job>>,
    state: Mutex<State>,
    program: OnceLock<ThreadId>,
}

struct State {
    /// Actor that has gone on last.
    current: Actor,
    /// Actor whose code the thread executes: the host, a handler or a job.
    inside: Actor,
    /// The device has nothing to do until this time.
    idle: Option<Option<Duration>>,
    /// Steps of the device since another actor went on.
    in_a_row: u32,
    /// Accesses of the host since the last step, before the program begins.
    accesses: u32,
}

impl std::fmt::Debug for Exploring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exploring").field("explorer", &self.explorer).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns for Exploring {
    fn wait(&self, is_so: &dyn Fn() -> bool, limit: Option<Duration>) -> bool {
        self.wait(is_so, limit)
    }

    fn put_off(&self, job: Job) {
        locked(&self.jobs).push_back(job);
    }
}

impl Exploring {
    pub(crate) fn new(explorer: &Explorer, time: &TimeSource, line: &Arc<Line>) -> Arc<Self> {
        let (current, inside) = (Actor::HOST, Actor::HOST);
        Arc::new(Self {
            explorer: explorer.clone(),
            time: time.clone(),
            line: Arc::clone(line),
            gpu: OnceLock::new(),
            jobs: Mutex::default(),
            state: Mutex::new(State { current, inside, idle: None, in_a_row: 0, accesses: 0 }),
            program: OnceLock::new(),
        })
    }

    /// Lets this device be stepped from now on.
    pub(crate) fn attach(&self, gpu: &Arc<Gpu>) {
        let _ = self.gpu.set(Arc::downgrade(gpu));
    }

    /// The host has done something that the device may see, and others may go on before it does the next.
    pub(crate) fn point(&self) {
        self.see_device();
        if !self.explorer.is_active() {
            let mut state = locked(&self.state);
            state.accesses += 1;
            if state.accesses.is_multiple_of(PATIENCE) {
                drop(state);
                self.step_device();
            }
            return;
        }
        if !self.is_the_programs() {
            return;
        }
        loop {
            self.explorer.step();
            let inside = locked(&self.state).inside;
            let went = self.go_on(Some(inside));
            if went.is_none_or(|went| went == inside) || self.explorer.is_hung() {
                return;
            }
        }
    }

    /// Returns true if this is the one thread of the program; another thread ends the run.
    fn is_the_programs(&self) -> bool {
        let thread = std::thread::current().id();
        let is = *self.program.get_or_init(|| thread) == thread;
        if !is {
            self.explorer.hang(Hang::Threads);
        }
        is
    }

    /// Lets others go on until `is_so` holds. Returns false once the time has passed; it passes only when no
    /// actor has anything to do.
    pub(crate) fn wait(&self, is_so: &dyn Fn() -> bool, limit: Option<Duration>) -> bool {
        let deadline = limit.and_then(|limit| self.time.now().checked_add(limit));
        self.see_device();
        loop {
            if is_so() {
                let mut state = locked(&self.state);
                state.current = state.inside;
                return true;
            }
            let now = self.time.now();
            if deadline.is_some_and(|deadline| now >= deadline) || self.explorer.is_hung() {
                return false;
            }
            if self.explorer.is_active() && !self.is_the_programs() {
                return false;
            }
            self.explorer.step();
            if self.go_on(None).is_some() {
                continue;
            }
            let due = locked(&self.state).idle.flatten();
            let Some(next) = [due, deadline].into_iter().flatten().min() else {
                self.explorer.hang(Hang::Deadlock);
                return false;
            };
            self.time.advance(next.saturating_sub(now).max(Duration::from_nanos(1)));
            locked(&self.state).idle = None;
        }
    }

    /// Lets others go on for the time `pause`.
    pub(crate) fn sleep(&self, pause: Duration) {
        self.wait(&|| false, Some(pause));
    }

    /// The device has something to do if it was told of something.
    fn see_device(&self) {
        if self.gpu.get().and_then(Weak::upgrade).is_some_and(|gpu| gpu.is_woken()) {
            locked(&self.state).idle = None;
        }
    }

    /// Lets the chosen actor go on. `own`, the actor whose code the thread executes, can be chosen only if it
    /// is named. Returns `None` if no actor can go on.
    fn go_on(&self, own: Option<Actor>) -> Option<Actor> {
        let order = self.order(own);
        let went = *order.get(self.explorer.choose(&order))?;
        {
            let mut state = locked(&self.state);
            state.in_a_row =
                if went == Actor::DEVICE && state.current == went { state.in_a_row + 1 } else { 0 };
            state.current = went;
        }
        match went {
            _ if own == Some(went) => {}
            Actor::INTERRUPT => {
                self.within(Actor::INTERRUPT, || self.line.handle());
            }
            Actor::WORK => {
                let job = locked(&self.jobs).pop_front();
                self.within(Actor::WORK, || job.map(|job| job()));
            }
            _ => self.step_device(),
        }
        Some(went)
    }

    /// Actors that can go on. The one that went on last comes first, unless it has had its share.
    fn order(&self, own: Option<Actor>) -> Vec<Actor> {
        let others = !holds_locks() && locked(&self.state).inside == Actor::HOST;
        let (interrupt, work) = (others && self.line.is_pending(), others && !locked(&self.jobs).is_empty());
        let mut state = locked(&self.state);
        let able = [
            interrupt.then_some(Actor::INTERRUPT),
            work.then_some(Actor::WORK),
            own,
            state.idle.is_none().then_some(Actor::DEVICE),
        ];
        let mut order: Vec<Actor> = able.into_iter().flatten().collect();
        if let Some(at) = order.iter().position(|&actor| actor == state.current) {
            let current = order.remove(at);
            if state.in_a_row >= SHARE && !order.is_empty() {
                state.in_a_row = 0;
                self.explorer.yields(current);
                order.push(current);
            } else {
                order.insert(0, current);
            }
        }
        order
    }

    fn step_device(&self) {
        let Some(gpu) = self.gpu.get().and_then(Weak::upgrade) else {
            locked(&self.state).idle = Some(None);
            return;
        };
        let stepped = gpu.step_explored();
        let now = self.time.now();
        locked(&self.state).idle = match stepped {
            Stepped::Busy => None,
            Stepped::Idle(left) => Some(left.and_then(|left| now.checked_add(left))),
        };
    }

    /// Executes code of an actor other than the host.
    fn within<R>(&self, actor: Actor, run: impl FnOnce() -> R) {
        let before = std::mem::replace(&mut locked(&self.state).inside, actor);
        run();
        locked(&self.state).inside = before;
        self.see_device();
    }
}
