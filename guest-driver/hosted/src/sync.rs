//! Locks, wait queues and work over the standard library.
#![expect(unsafe_code, reason = "the driver's lock trait has an unsafe method")]

use std::sync::{Arc, Condvar, LockResult, Mutex, PoisonError};
use std::time::Duration;

use belfry_device::lock::{self, AnyRank, Rank, rank};
use belfry_device::time::TimeSource;
use belfry_kfd_core::os::{self, LockRank};

/// Locks a mutex whose data stays usable when another thread panicked.
pub(crate) fn lock<T, R: Rank>(mutex: &lock::Mutex<T, R>) -> lock::MutexGuard<'_, T, R> {
    recover(mutex.lock())
}

/// What a lock guards stays usable when another thread panicked.
fn recover<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// A lock of the driver, with separate lock and unlock.
#[derive(Debug)]
pub struct Lock {
    held: Mutex<bool>,
    free: Condvar,
    rank: AnyRank,
}

impl Lock {
    pub(crate) fn new(rank: LockRank) -> Self {
        let rank = match rank {
            LockRank::ProcessState => AnyRank::of::<rank::KfdProcess>(),
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
        };
        Self { held: Mutex::new(false), free: Condvar::new(), rank }
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
    }

    unsafe fn unlock(&self) {
        self.rank.given_back();
        *recover(self.held.lock()) = false;
        self.free.notify_one();
    }
}

/// A wait queue that counts its wake-ups.
#[derive(Debug)]
pub struct WaitQueue {
    generation: Mutex<u64>,
    woken: Condvar,
    time: TimeSource,
}

impl WaitQueue {
    /// How often a thread that waits looks at a time that the host's clock does not move.
    const LOOK: Duration = Duration::from_millis(1);

    /// A wait queue whose timeouts go by `time`.
    pub(crate) fn new(time: &TimeSource) -> Self {
        Self { generation: Mutex::default(), woken: Condvar::new(), time: time.clone() }
    }
}

impl os::WaitQueue for WaitQueue {
    fn ticket(&self) -> u64 {
        *recover(self.generation.lock())
    }

    fn wait(&self, ticket: u64, timeout_ns: Option<u64>) -> os::WaitOutcome {
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

/// Work, of which every run has a thread of its own.
pub struct WorkItem(pub(crate) Arc<dyn os::Work>);

impl std::fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkItem").finish_non_exhaustive()
    }
}

impl os::WorkItem for WorkItem {
    fn queue(&self) {
        let work = self.0.clone();
        let spawned = std::thread::Builder::new().name("belfry-work".to_owned()).spawn(move || work.run());
        if let Err(error) = spawned {
            log::error!(target: "kfd", "no thread for the driver's work: {error}");
        }
    }
}
