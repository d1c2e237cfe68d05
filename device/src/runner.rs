//! The device's thread: serves the firmware whenever there is something to do, and sleeps when there is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::doorbell::{DoorbellWatch, Doorbells};
use crate::firmware::{FirmwareScheduler, Served, Turn};
use crate::interrupt::Interrupts;
use crate::stats::{Counters, count};
use crate::threads::{Wake, patience};

/// How soon a host that does not announce doorbells has them looked at, after something happened and at most.
const LOOK: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(4));
/// How often a thread that rings a doorbell looks at the queue before it leaves the rest to the device's thread.
const LOOKS: usize = 4;

/// How long the thread waits between looks at doorbells that the host does not announce. The time grows while nothing
/// happens.
#[derive(Debug, Default)]
struct Interval {
    length: Duration,
    /// The device's activity when the interval was last chosen.
    activity: u64,
}

impl Interval {
    /// Chooses the time until the next look: the shortest if there was activity since it was last chosen.
    fn next(&mut self, activity: u64) -> Duration {
        let quiet = std::mem::replace(&mut self.activity, activity) == activity;
        self.length = if quiet { (self.length * 2).clamp(LOOK.0, LOOK.1) } else { LOOK.0 };
        self.length
    }
}

/// Waits for news, first awake and then asleep.
fn wait(wake: &Wake, turn: Turn) {
    let limit = match turn {
        Turn::Now => return wake.clear(),
        Turn::After(duration) => Some(duration),
        Turn::WhenWoken => None,
    };
    let until = limit.map(|limit| Instant::now() + limit);
    patience::look_out(|| wake.is_woken() || until.is_some_and(|until| Instant::now() >= until));
    wake.sleep(until);
}

/// What the thread looks at beside the firmware.
pub(crate) struct RunnerPorts {
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) watch: Arc<DoorbellWatch>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: Arc<Counters>,
    /// Whether doorbells may be written without the device being told.
    pub(crate) polls: bool,
}

/// What the thread works on.
struct State {
    firmware: Box<dyn FirmwareScheduler>,
    paused: bool,
    held: bool,
    /// No pass begins any more.
    stopped: bool,
    look: Interval,
}

/// A thread's wish for the lock, over when dropped, also by a panic.
struct Visit<'a>(&'a AtomicUsize);

impl<'a> Visit<'a> {
    fn new(visitors: &'a AtomicUsize) -> Self {
        visitors.fetch_add(1, Ordering::SeqCst);
        Self(visitors)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The firmware, and the lock that resets and pauses take.
pub(crate) struct Runner {
    state: Mutex<State>,
    /// Threads that want the lock: the device's thread lets them pass.
    visitors: AtomicUsize,
    ports: RunnerPorts,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("visitors", &self.visitors).finish_non_exhaustive()
    }
}

impl Runner {
    pub(crate) fn new(firmware: Box<dyn FirmwareScheduler>, ports: RunnerPorts) -> Self {
        let state = State { firmware, paused: false, held: false, stopped: false, look: Interval::default() };
        Self { state: Mutex::new(state), visitors: AtomicUsize::new(0), ports }
    }

    /// Serves until stopped.
    fn run(&self) {
        loop {
            while self.visitors.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
            let mut state = self.lock();
            if state.stopped {
                return;
            }
            let turn = state.pass(&self.ports);
            drop(state);
            count(&self.ports.counters.runner_passes);
            wait(&self.ports.wake, turn);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit<R>(&self, operation: impl FnOnce(&mut State) -> R) -> R {
        let _visit = Visit::new(&self.visitors);
        operation(&mut self.lock())
    }

    /// Serves the queue of a doorbell on the calling thread; `false` if that is for the device's thread to do, or to go on
    /// with.
    pub(crate) fn serve(&self, doorbell: u32) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        if state.paused || state.held || !self.ports.interrupts.bus_master() {
            return false;
        }
        for _ in 0..LOOKS {
            match state.firmware.serve(doorbell) {
                Some(Served::Again) => {}
                served => return served == Some(Served::Idle),
            }
        }
        false
    }

    /// Looks once on the calling thread, and gives the time until the next look.
    #[cfg(test)]
    pub(crate) fn look(&self) -> Duration {
        let mut state = self.lock();
        state.pass(&self.ports);
        state.look.length
    }

    /// Stops every queue and forgets them; `between` runs while nothing is served.
    pub(crate) fn reset(&self, between: impl FnOnce()) {
        self.visit(|state| {
            state.firmware.reset();
            state.held = false;
            between();
        });
        self.ports.wake.wake();
    }

    /// Stops serving and holds waves, or goes on.
    pub(crate) fn pause(&self, paused: bool) {
        self.visit(|state| {
            state.paused = paused;
            if paused {
                state.hold(true);
            }
        });
        self.ports.wake.wake();
    }

    /// Returns once nothing is served any more because the function may not touch memory.
    pub(crate) fn hold(&self) {
        self.visit(|state| state.hold(true));
        self.ports.wake.wake();
    }

    /// Serves everything once on the calling thread; whether there is more to do at once.
    #[cfg(fuzzing)]
    pub(crate) fn pass(&self) -> bool {
        self.visit(|state| state.pass(&self.ports)) == Turn::Now
    }

    /// Lets the thread end. No pass begins afterwards, which would find the kernel's rings still active.
    pub(crate) fn stop(&self) {
        self.visit(|state| {
            state.stopped = true;
            state.firmware.reset();
        });
        self.ports.wake.wake();
    }
}

impl State {
    fn pass(&mut self, ports: &RunnerPorts) -> Turn {
        if let Some(offset) = ports.interrupts.rptr_doorbell().filter(|_| ports.polls) {
            ports.interrupts.set_rptr(ports.doorbells.load32(offset));
        }
        if self.paused || !ports.interrupts.bus_master() {
            self.hold(true);
            return Turn::WhenWoken;
        }
        self.hold(false);
        let turn = self.firmware.pass();
        let interval = self.look.next(ports.watch.activity());
        if ports.polls && self.firmware.listens() { turn.min(Turn::After(interval)) } else { turn }
    }

    /// Waves stop where they are while the function may not touch memory.
    fn hold(&mut self, held: bool) {
        if self.held != held {
            self.held = held;
            self.firmware.hold(held);
        }
    }
}

/// Starts the device's thread.
pub(crate) fn spawn(runner: &Arc<Runner>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let runner = Arc::clone(runner);
    std::thread::Builder::new().name("gpu-runner".into()).spawn(move || runner.run())
}
