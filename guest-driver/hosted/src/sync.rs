//! Locks, wait queues and work over the standard library.
#![expect(unsafe_code, reason = "the driver's lock trait has an unsafe method")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LockResult, Mutex, PoisonError};
use std::time::Duration;

use belfry_device::time::TimeSource;
use belfry_kfd_core::os::{self, LockRank};
use belfry_lock::{AnyRank, CountingCondvar, Rank, rank};

/// Chooser of the next actor where schedules are explored: threads that wait and work that is put off ask it.
pub(crate) trait Turns: std::fmt::Debug + Send + Sync {
    /// Lets others go on until `is_so` holds. Returns false once the time has passed.
    fn wait(&self, is_so: &dyn Fn() -> bool, limit: Option<Duration>) -> bool;

    /// Takes work that is to be done later.
    fn put_off(&self, job: Box<dyn FnOnce() + Send>);
}

thread_local! {
    /// Locks of drivers that the thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Returns true if the thread holds a lock of a driver.
pub(crate) fn holds_locks() -> bool {
    HELD.get() > 0
}

/// Locks a mutex whose data stays usable when another thread panicked.
pub(crate) fn lock<T, R: Rank>(mutex: &belfry_lock::Mutex<T, R>) -> belfry_lock::MutexGuard<'_, T, R> {
    recover(mutex.lock())
}

/// Returns the guard of a lock even if another thread panicked: the guarded data stays usable.
fn recover<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// A lock of the driver, with separate lock and unlock.
#[derive(Debug)]
pub struct Lock {
    held: Mutex<bool>,
    free: CountingCondvar,
    rank: AnyRank,
}

impl Lock {
    pub(crate) fn new(rank: LockRank) -> Self {
        let rank = match rank {
            LockRank::Process => AnyRank::of::<rank::KfdProcess>(),
            LockRank::ProcessState => AnyRank::of::<rank::KfdProcessState>(),
            LockRank::Client => AnyRank::of::<rank::KfdClient>(),
            LockRank::AddressSpace => AnyRank::of::<rank::KfdAddressSpace>(),
            LockRank::Scheduler => AnyRank::of::<rank::KfdScheduler>(),
            LockRank::InterruptRing => AnyRank::of::<rank::KfdInterruptRing>(),
            LockRank::Processes => AnyRank::of::<rank::KfdProcesses>(),
            LockRank::Events => AnyRank::of::<rank::KfdEvents>(),
            LockRank::Exceptions => AnyRank::of::<rank::KfdExceptions>(),
            LockRank::PendingFault => AnyRank::of::<rank::KfdPendingFault>(),
            LockRank::SmiClients => AnyRank::of::<rank::KfdSmiClients>(),
            LockRank::SmiFifo => AnyRank::of::<rank::KfdSmiFifo>(),
            LockRank::Vram => AnyRank::of::<rank::KfdVram>(),
            LockRank::Gart => AnyRank::of::<rank::KfdGart>(),
            LockRank::Invalidation => AnyRank::of::<rank::KfdInvalidation>(),
            LockRank::Object => AnyRank::of::<rank::KfdObject>(),
            LockRank::RateLimit => AnyRank::of::<rank::KfdRateLimit>(),
            LockRank::Nodes => AnyRank::of::<rank::KfdNodes>(),
            LockRank::Trace => AnyRank::of::<rank::KfdTrace>(),
        };
        Self { held: Mutex::new(false), free: CountingCondvar::new(), rank }
    }
}

impl os::RawLock for Lock {
    fn lock(&self) {
        self.rank.check();
        let mut held = recover(self.held.lock());
        while *held {
            held = recover(self.free.wait(held));
        }
        *held = true;
        self.rank.taken();
        HELD.set(HELD.get() + 1);
    }

    unsafe fn unlock(&self) {
        self.rank.given_back();
        HELD.set(HELD.get().saturating_sub(1));
        *recover(self.held.lock()) = false;
        self.free.notify_one();
    }
}

/// A wait queue that counts its wake-ups.
#[derive(Debug)]
pub struct WaitQueue {
    generation: Mutex<u64>,
    woken: CountingCondvar,
    time: TimeSource,
    exploring: Option<Arc<dyn Turns>>,
}

impl WaitQueue {
    /// Pause between a waiting thread's looks at a time that the host's clock does not move.
    const LOOK: Duration = Duration::from_millis(1);

    /// A wait queue whose timeouts go by `time`.
    pub(crate) fn new(time: &TimeSource) -> Self {
        Self {
            generation: Mutex::default(),
            woken: CountingCondvar::new(),
            time: time.clone(),
            exploring: None,
        }
    }

    /// Lets others go on during waits as the schedule decides, if schedules are explored.
    pub(crate) fn explored(self, exploring: Option<Arc<dyn Turns>>) -> Self {
        Self { exploring, ..self }
    }
}

impl os::WaitQueue for WaitQueue {
    fn ticket(&self) -> u64 {
        *recover(self.generation.lock())
    }

    fn wait(&self, ticket: u64, timeout_ns: Option<u64>) -> os::WaitOutcome {
        if let Some(exploring) = &self.exploring {
            let is_woken = || *recover(self.generation.lock()) != ticket;
            return match exploring.wait(&is_woken, timeout_ns.map(Duration::from_nanos)) {
                true => os::WaitOutcome::Woken,
                false => os::WaitOutcome::TimedOut,
            };
        }
        let deadline = timeout_ns.and_then(|ns| self.time.now().checked_add(Duration::from_nanos(ns)));
        let mut generation = recover(self.generation.lock());
        while *generation == ticket {
            generation = match deadline {
                None => recover(self.woken.wait(generation)),
                Some(deadline) => {
                    let rest = deadline.saturating_sub(self.time.now());
                    if rest.is_zero() {
                        return os::WaitOutcome::TimedOut;
                    }
                    let rest = self.time.on_host(rest).unwrap_or(Self::LOOK);
                    recover(self.woken.wait_timeout(generation, rest)).0
                }
            };
        }
        os::WaitOutcome::Woken
    }

    fn wake_all(&self) {
        *recover(self.generation.lock()) += 1;
        self.woken.notify_all();
    }
}

/// Threads that run work. One that has nothing to do waits for the next run: a driver's work may have to begin while the
/// C library cannot make a thread, as a thread that a debugger has stopped holds its locks.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    queued: CountingCondvar,
}

#[derive(Default)]
struct PoolState {
    runs: VecDeque<Box<dyn FnOnce() + Send>>,
    /// Threads that wait.
    idle: usize,
    /// Set once no more work is queued.
    closed: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), queued: CountingCondvar::new() })
    }

    /// Starts threads, so that some are there.
    pub(crate) fn add(self: &Arc<Self>, count: usize) {
        for _ in 0..count {
            let pool = self.clone();
            let spawned =
                std::thread::Builder::new().name("belfry-work".to_owned()).spawn(move || pool.serve());
            if let Err(error) = spawned {
                log::error!(target: "kfd", "no thread for the driver's work: {error}");
            }
        }
    }

    /// Has a thread run this, at once.
    fn queue(self: &Arc<Self>, run: impl FnOnce() + Send + 'static) {
        let short = {
            let mut state = recover(self.state.lock());
            state.runs.push_back(Box::new(run));
            state.runs.len() > state.idle
        };
        self.queued.notify_one();
        if short {
            self.add(1);
        }
    }

    fn serve(&self) {
        let mut state = recover(self.state.lock());
        loop {
            if let Some(run) = state.runs.pop_front() {
                drop(state);
                run();
                state = recover(self.state.lock());
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = recover(self.queued.wait(state));
                state.idle -= 1;
            }
        }
    }

    /// Ends the threads when they have run the queued work.
    pub(crate) fn close(&self) {
        recover(self.state.lock()).closed = true;
        self.queued.notify_all();
    }
}

/// Work that runs on a thread, one run after the other.
///
/// As with a work queue of Linux, work that is queued while a run waits to begin shares that run.
pub struct WorkItem {
    work: Arc<dyn os::Work>,
    runs: Arc<Runs>,
    pool: Arc<Pool>,
    exploring: Option<Arc<dyn Turns>>,
}

#[derive(Default)]
struct Runs {
    /// A run waits to begin.
    waiting: AtomicBool,
    /// Held by the one that runs.
    running: Mutex<()>,
}

impl WorkItem {
    pub(crate) fn new(work: Arc<dyn os::Work>, pool: &Arc<Pool>) -> Self {
        Self { work, runs: Arc::default(), pool: pool.clone(), exploring: None }
    }

    /// Lets the schedule decide when the work runs, if schedules are explored.
    pub(crate) fn explored(self, exploring: Option<Arc<dyn Turns>>) -> Self {
        Self { exploring, ..self }
    }
}

impl std::fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkItem").field("waiting", &self.runs.waiting).finish_non_exhaustive()
    }
}

impl os::WorkItem for WorkItem {
    fn queue(&self) {
        if self.runs.waiting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (work, runs) = (self.work.clone(), self.runs.clone());
        let run = move || {
            let _turn = recover(runs.running.lock());
            // What is queued from here on may not be seen by this run.
            runs.waiting.store(false, Ordering::Release);
            work.run();
        };
        match &self.exploring {
            Some(exploring) => exploring.put_off(Box::new(run)),
            None => self.pool.queue(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use os::WorkItem as _;

    use super::*;

    struct Slow {
        begun: Mutex<Sender<()>>,
        may_end: Mutex<Receiver<()>>,
        inside: AtomicU32,
        most: AtomicU32,
    }

    impl os::Work for Slow {
        fn run(&self) {
            let inside = self.inside.fetch_add(1, Ordering::AcqRel) + 1;
            self.most.fetch_max(inside, Ordering::AcqRel);
            recover(self.begun.lock()).send(()).unwrap();
            recover(self.may_end.lock()).recv().unwrap();
            self.inside.fetch_sub(1, Ordering::AcqRel);
        }
    }

    #[test]
    fn work_that_is_queued_while_it_runs_runs_once_more_and_not_beside_itself() {
        let (begun, begins) = channel();
        let (end, may_end) = channel();
        let slow = Arc::new(Slow {
            begun: Mutex::new(begun),
            may_end: Mutex::new(may_end),
            inside: AtomicU32::new(0),
            most: AtomicU32::new(0),
        });
        let pool = Pool::new();
        let item = WorkItem::new(slow.clone(), &pool);
        item.queue();
        begins.recv().unwrap();
        (0..100).for_each(|_| item.queue());
        assert!(begins.recv_timeout(Duration::from_millis(20)).is_err(), "it runs beside itself");
        end.send(()).unwrap();
        begins.recv().unwrap();
        end.send(()).unwrap();
        assert!(begins.recv_timeout(Duration::from_millis(20)).is_err(), "it runs more often than it has to");
        item.queue();
        begins.recv().unwrap();
        end.send(()).unwrap();
        assert_eq!(slow.most.load(Ordering::Acquire), 1);
    }
}
