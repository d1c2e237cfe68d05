//! The threads of the SDMA engines: each moves the bytes of its engine's queues, while the device thread goes on.
//!
//! The device thread executes packets, in order. A packet that moves many bytes becomes a [`Job`], and its queue waits
//! until the engine's thread has done it. An engine takes turns at the jobs of its queues.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use belfry_lock::{Condvar, Mutex, MutexGuard, ThisDevice, rank};

use super::error::SdmaError;
use super::transfer::Transfer;
use crate::spent::{self, Part};
use crate::threads::{Wake, patience};
use crate::vm::AddressSpace;

/// Bytes that an engine moves before the next of its queues has its turn, and before it checks if it has to stop.
const BYTES_PER_TURN: u64 = 1 << 20;

/// The engines of a device.
#[derive(Debug, Default)]
pub struct Movers {
    engines: Vec<Arc<Engine>>,
    turns: Arc<Turns>,
    threads: Mutex<Vec<JoinHandle<()>>, rank::Thread>,
}

/// Turns in progress on all engines.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<TurnsState, rank::SdmaTurns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TurnsState {
    /// True while no turn may begin.
    held: bool,
    running: usize,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, TurnsState, rank::SdmaTurns> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, waits: impl Fn(&TurnsState) -> bool) -> MutexGuard<'_, TurnsState, rank::SdmaTurns> {
        let mut state = self.lock();
        while waits(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Waits until turns may begin, and begins one.
    fn begin(&self) -> Running<'_> {
        self.wait_while(|state| state.held).running += 1;
        Running(self)
    }
}

/// A turn in progress. It is over when dropped, also by a panic.
struct Running<'a>(&'a Turns);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

/// Guard: the engines stand still until it is dropped.
#[must_use]
pub(crate) struct Held<'a>(&'a Turns);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().held = false;
        self.0.changed.notify_all();
    }
}

/// One engine.
#[derive(Default)]
struct Engine {
    jobs: Mutex<VecDeque<Arc<Job>>, rank::SdmaJobs>,
    wake: Wake,
    /// True once its thread ends: it takes no more jobs.
    ends: AtomicBool,
    /// True while its thread moves bytes.
    moves: AtomicBool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

impl Movers {
    /// Starts the threads of this many engines.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot be started.
    pub fn new(engines: usize) -> std::io::Result<Self> {
        let mut movers = Self::default();
        for index in 0..engines {
            let engine = Arc::new(Engine::default());
            movers.engines.push(Arc::clone(&engine));
            let (turns, device) = (Arc::clone(&movers.turns), ThisDevice::current());
            let run = move || {
                let _on = device.enter();
                engine.run(&turns);
            };
            let thread = std::thread::Builder::new().name(format!("sdma-{index}")).spawn(run)?;
            movers.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(movers)
    }

    /// Ends the threads, each after its turn; from now on the device thread moves all bytes.
    pub(crate) fn stop(&self) {
        for engine in &self.engines {
            engine.ends.store(true, Ordering::SeqCst);
            engine.wake.wake();
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                log::error!(target: "gpu::sdma", "the thread of an SDMA engine panicked");
            }
        }
    }

    /// Returns true if an engine has bytes to move.
    pub(crate) fn moves(&self, engine: usize) -> bool {
        self.engines
            .get(engine)
            .is_some_and(|engine| engine.moves.load(Ordering::Relaxed) || !engine.jobs().is_empty())
    }

    /// Returns true if any engine has bytes to move.
    pub(crate) fn any_moves(&self) -> bool {
        (0..self.engines.len()).any(|engine| self.moves(engine))
    }

    /// Lets the engines stand still, between two turns. One caller at a time.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.turns.lock().held = true;
        drop(self.turns.wait_while(|state| state.running > 0));
        Held(&self.turns)
    }

    /// Lets an engine go on with a transfer of which `done` bytes are done; `wake` is called at the end. Returns `None`
    /// if no thread would take it.
    pub(super) fn start(
        &self,
        engine: u8,
        (transfer, done): (&Transfer, u64),
        space: &Arc<AddressSpace>,
        wake: &Arc<dyn Fn() + Send + Sync>,
    ) -> Option<Moving> {
        let engine = self.engines.get(usize::from(engine)).filter(|engine| !engine.ends())?;
        let job = Arc::new(Job {
            transfer: *transfer,
            space: Arc::clone(space),
            wake: Arc::clone(wake),
            work: Mutex::new(Work { done, wanted: true, ..Work::default() }),
            moved: Condvar::new(),
        });
        engine.jobs().push_back(Arc::clone(&job));
        engine.wake.wake();
        Some(Moving(job))
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Engine {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>, rank::SdmaJobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }

    /// Takes turns at jobs until the engine ends. The queues of the jobs that are left then go on with them.
    fn run(&self, turns: &Turns) {
        loop {
            // Cleared before the look at the jobs, so that no wake-up is lost.
            self.wake.clear();
            if self.ends() {
                break;
            }
            let next = self.jobs().pop_front();
            let Some(job) = next else {
                let _waiting = spent::enter(Part::Waiting);
                patience::look_out(|| self.wake.is_woken());
                self.wake.sleep(None);
                continue;
            };
            let running = turns.begin();
            self.moves.store(true, Ordering::Relaxed);
            let _moving = spent::enter(Part::Transfers);
            if job.turn() {
                self.jobs().push_back(job);
            }
            self.moves.store(false, Ordering::Relaxed);
            drop(running);
        }
        for job in self.jobs().drain(..) {
            job.work().wanted = false;
            (job.wake)();
        }
    }
}

/// A transfer on its way.
struct Job {
    transfer: Transfer,
    space: Arc<AddressSpace>,
    wake: Arc<dyn Fn() + Send + Sync>,
    work: Mutex<Work, rank::SdmaJob>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    /// Number of bytes done.
    done: u64,
    /// True if the engine has to go on.
    wanted: bool,
    /// True while a turn is in progress.
    running: bool,
    error: Option<SdmaError>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("transfer", &self.transfer)
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}

/// A turn in progress. It is over when dropped, also by a panic.
struct Turn<'a>(&'a Job);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.work().running = false;
        self.0.moved.notify_all();
    }
}

impl Job {
    fn work(&self) -> MutexGuard<'_, Work, rank::SdmaJob> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves some bytes. Returns true if there are more to move.
    fn turn(&self) -> bool {
        let mut work = self.work();
        if !work.wanted {
            return false;
        }
        work.running = true;
        let mut done = work.done;
        drop(work);
        let turn = Turn(self);
        let mut budget = BYTES_PER_TURN;
        let result = self.transfer.run(&self.space, &mut done, &mut budget);
        let mut work = self.work();
        work.done = done;
        work.error = result.err();
        if work.error.is_some() || work.done >= self.transfer.bytes() {
            work.wanted = false;
        }
        let more = work.wanted;
        drop(work);
        drop(turn);
        if !more {
            (self.wake)();
        }
        more
    }
}

/// A queue's transfer on an engine: stopped when dropped.
#[derive(Debug)]
pub(super) struct Moving(Arc<Job>);

impl Moving {
    /// Returns the number of bytes done and the result, once the engine has left the transfer: at its end, at an error,
    /// or because the threads have ended.
    pub(super) fn end(&self) -> Option<(u64, Result<(), SdmaError>)> {
        let mut work = self.0.work();
        (!work.wanted && !work.running).then(|| (work.done, work.error.take().map_or(Ok(()), Err)))
    }

    /// Returns the number of bytes done. While the engines are [held](Movers::hold), the number does not change.
    pub(super) fn done(&self) -> u64 {
        self.0.work().done
    }

    /// Takes the transfer off the engine, after a turn in progress. Returns the number of bytes done. The queue meets
    /// an error of that turn again when it goes on.
    pub(super) fn stop(&self) -> u64 {
        let mut work = self.0.work();
        work.wanted = false;
        while work.running {
            work = self.0.moved.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        work.done
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.stop();
    }
}
