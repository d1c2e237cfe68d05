//! The device thread: serves the firmware whenever there is something to do, and sleeps when there is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellIndex;
use belfry_lock::{Mutex, MutexGuard, ThisDevice, rank};

use crate::doorbell::{DoorbellWatch, Doorbells, InterruptDoorbell};
use crate::firmware::{FirmwareList, Served, Turn};
use crate::interrupt::Interrupts;
use crate::memory::Memory;
use crate::own_bars::OwnBars;
use crate::pci::SharedControl;
use crate::spent::{self, Part};
use crate::stats::{Counters, count};
use crate::threads::Wake;
use crate::threads::patience::{self, Patience};
use crate::threads::processors::processors;
use crate::tools::Tools;

/// Shortest and longest time between two looks at doorbells that a host does not announce: the first after some
/// activity, the second after a long rest.
const LOOK: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(4));
/// Most times that a thread that rings a doorbell serves the queue before it leaves the rest to the device thread.
const LOOKS: usize = 4;

/// Time that the thread waits between looks at doorbells that the host does not announce. It grows while nothing
/// happens.
#[derive(Debug, Default)]
struct Interval {
    length: Duration,
    /// Activity of the device when the interval was last chosen.
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

/// Waits for a wake-up, first polling and then asleep.
pub(crate) fn wait(wake: &Wake, turn: Turn, patience: &mut Patience) {
    match turn {
        Turn::Now => wake.clear(),
        Turn::After(duration) => {
            let until = Instant::now() + duration;
            patience::look_out(|| wake.is_woken() || Instant::now() >= until);
            wake.sleep(Some(until));
        }
        Turn::WhenWoken if patience.look_out(|| wake.is_woken()) => wake.clear(),
        Turn::WhenWoken => patience.sleep(|| wake.sleep(None)),
    }
}

/// Parts that the thread uses beside the firmware.
pub(crate) struct RunnerPorts {
    /// State of the command register.
    pub(crate) control: Arc<SharedControl>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) watch: Arc<DoorbellWatch>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: Arc<Counters>,
    /// The tools, which halt queues and waves, and hold events back.
    pub(crate) tools: Tools,
    /// True if doorbells may be written without a notice to the device.
    pub(crate) polls: bool,
    /// The device's own BARs, which tell if waves and engines may write doorbells.
    pub(crate) own: Arc<OwnBars>,
    /// The way to other devices.
    pub(crate) memory: Arc<Memory>,
}

impl RunnerPorts {
    /// Returns true if waves or engines, of this device or of others, may write doorbells.
    fn may_ring(&self) -> bool {
        self.own.may_ring(|| self.memory.peers_are_busy())
    }

    /// Returns true if the function may touch memory.
    fn may_serve(&self) -> bool {
        self.control.bus_master() && !self.tools.is_removed()
    }
}

/// State of service: it decides if the firmware is served, and so if queues and waves may run.
///
/// | from | to | by |
/// | --- | --- | --- |
/// | serving | held | a pass, or a write of the command register, that finds the function no longer bus master |
/// | held | serving | a pass that finds it bus master again |
/// | serving, held | paused | [`Runner::pause`] |
/// | paused | serving, held | [`Runner::unpause`], as the function is bus master or not |
/// | any | stopped | [`Runner::stop`] |
///
/// A reset leaves the mode as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// Passes serve, waves run.
    Serving,
    /// Waves are kept where they are because the function may not touch memory.
    Held,
    /// Waves are kept where they are because the host has paused the device.
    Paused,
    /// All queues are gone, and no new ones come.
    Stopped,
}

/// State that the thread works on.
struct State {
    firmware: FirmwareList,
    mode: Mode,
    look: Interval,
    /// True if passes are left to callers: the thread ends.
    on_caller: bool,
}

/// Request of a thread for the lock. It ends when dropped, also by a panic.
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
    state: Mutex<State, rank::Runner>,
    /// Number of threads that want the lock: the device thread lets them go first.
    visitors: AtomicUsize,
    ports: RunnerPorts,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Runner")
            .field("mode", &state.mode)
            .field("firmware", &state.firmware)
            .finish_non_exhaustive()
    }
}

impl Runner {
    pub(crate) fn new(firmware: FirmwareList, ports: RunnerPorts) -> Self {
        let state = State { firmware, mode: Mode::Serving, look: Interval::default(), on_caller: false };
        Self { state: Mutex::new(state), visitors: AtomicUsize::new(0), ports }
    }

    /// Serves until stopped.
    fn run(&self) {
        let mut patience = Patience::new(processors());
        loop {
            while self.visitors.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
            let mut state = self.lock();
            if state.ends_thread() {
                return;
            }
            let serving = spent::enter(Part::Firmware);
            let turn = state.pass(&self.ports);
            drop(state);
            let turn = self.until_due(turn);
            count(&self.ports.counters.runner_passes);
            drop(serving);
            let _waiting = spent::enter(Part::Waiting);
            wait(&self.ports.wake, turn, &mut patience);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Runner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit<R>(&self, operation: impl FnOnce(&mut State) -> R) -> R {
        let _visit = Visit::new(&self.visitors);
        operation(&mut self.lock())
    }

    /// Serves the queue of a doorbell on the calling thread. Returns `false` if the device thread has to do that, or to
    /// go on with it.
    pub(crate) fn serve(&self, doorbell: DoorbellIndex) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        if state.mode != Mode::Serving || !self.ports.may_serve() || self.ports.tools.is_halted() {
            return false;
        }
        for _ in 0..LOOKS {
            match state.firmware.serve(doorbell) {
                Some(Served::Again) => {}
                // Its waves may have rung doorbells of other queues meanwhile, which the device thread looks at.
                served => {
                    self.ports.memory.nudge_peers();
                    return served == Some(Served::Idle) && !self.ports.may_ring();
                }
            }
        }
        false
    }

    /// Looks once on the calling thread, and returns the time until the next look.
    #[cfg(test)]
    pub(crate) fn look(&self) -> Duration {
        let mut state = self.lock();
        state.pass(&self.ports);
        state.look.length
    }

    /// Stops and forgets every queue; `between` runs while nothing is served.
    pub(crate) fn reset(&self, between: impl FnOnce()) {
        self.visit(|state| {
            state.firmware.reset();
            between();
        });
        self.ports.wake.wake();
    }

    /// Stops serving and holds waves.
    pub(crate) fn pause(&self) {
        self.enter(Mode::Paused);
    }

    /// Runs `operation` while nothing is served. Returns `None` if the device is stopped, because it has no queues any
    /// more.
    pub(crate) fn between_passes<R>(&self, operation: impl FnOnce(&mut FirmwareList) -> R) -> Option<R> {
        self.visit(|state| (state.mode != Mode::Stopped).then(|| operation(&mut state.firmware)))
    }

    /// Undoes [`Self::pause`].
    pub(crate) fn unpause(&self) {
        self.visit(|state| {
            if state.mode == Mode::Paused {
                state.enter(Mode::Held);
                state.follow(&self.ports);
            }
        });
        self.ports.wake.wake();
    }

    /// Returns true if the host has paused the device.
    pub(crate) fn is_paused(&self) -> bool {
        self.visit(|state| state.mode == Mode::Paused)
    }

    /// Has the device thread look at everything again.
    pub(crate) fn look_again(&self) {
        self.ports.wake.wake();
    }

    /// Returns once nothing is served any more because the function may not touch memory.
    pub(crate) fn hold(&self) {
        self.visit(|state| {
            if state.mode == Mode::Serving {
                state.enter(Mode::Held);
            }
        });
        self.ports.wake.wake();
    }

    fn enter(&self, mode: Mode) {
        self.visit(|state| state.enter(mode));
        self.ports.wake.wake();
    }

    /// Serves everything once on the calling thread. Returns true if there is more to do at once.
    pub(crate) fn pass(&self) -> bool {
        self.pass_until() == Turn::Now
    }

    /// Serves everything once on the calling thread. Returns the time at which there is more to do.
    pub(crate) fn pass_until(&self) -> Turn {
        let turn = self.visit(|state| state.pass(&self.ports));
        self.until_due(turn)
    }

    /// Raises late interrupts that are due. Shortens the turn to the time at which the next held-back event is due.
    fn until_due(&self, turn: Turn) -> Turn {
        if !self.ports.tools.may_strike() {
            return turn;
        }
        self.ports.interrupts.raise_late();
        self.ports.tools.faults().next_due().map_or(turn, |due| turn.min(Turn::After(due)))
    }

    /// Ends the thread. No pass begins afterwards: it would find the kernel's rings still active.
    pub(crate) fn stop(&self) {
        self.enter(Mode::Stopped);
    }

    /// Ends the thread, and leaves passes to callers.
    pub(crate) fn serve_on_caller(&self) {
        self.visit(|state| state.on_caller = true);
        self.ports.wake.wake();
    }
}

impl State {
    fn pass(&mut self, ports: &RunnerPorts) -> Turn {
        if let Some(offset) = ports.doorbells.interrupt(InterruptDoorbell::Rptr).filter(|_| ports.polls) {
            ports.interrupts.set_rptr(ports.doorbells.load32(offset));
        }
        self.follow(ports);
        if self.mode != Mode::Serving || ports.tools.is_halted() {
            return Turn::WhenWoken;
        }
        let turn = self.firmware.pass();
        let interval = self.look.next(ports.watch.activity());
        // After the flags of busy queues, and once more after their work.
        ports.memory.nudge_peers();
        let polls = ports.polls || ports.may_ring();
        if polls && self.firmware.listens() { turn.min(Turn::After(interval)) } else { turn }
    }

    /// Serves or holds, as the command register asks, unless the host has paused or stopped the device.
    fn follow(&mut self, ports: &RunnerPorts) {
        if matches!(self.mode, Mode::Serving | Mode::Held) {
            self.enter(if ports.may_serve() { Mode::Serving } else { Mode::Held });
        }
    }

    /// Goes to another mode. Queues and waves run only in [`Mode::Serving`].
    fn enter(&mut self, mode: Mode) {
        match (self.mode, mode) {
            (Mode::Stopped, _) => return,
            (_, Mode::Stopped) => self.firmware.reset(),
            (Mode::Serving, Mode::Held | Mode::Paused) => self.firmware.hold(true),
            (Mode::Held | Mode::Paused, Mode::Serving) => self.firmware.hold(false),
            (Mode::Serving, Mode::Serving) | (Mode::Held | Mode::Paused, Mode::Held | Mode::Paused) => {}
        }
        self.mode = mode;
    }

    fn ends_thread(&self) -> bool {
        self.on_caller || self.mode == Mode::Stopped
    }
}

/// Starts the device thread.
pub(crate) fn spawn(runner: &Arc<Runner>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (runner, device) = (Arc::clone(runner), ThisDevice::current());
    let run = move || {
        let _on = device.enter();
        runner.run();
    };
    std::thread::Builder::new().name("gpu-runner".into()).spawn(run)
}
