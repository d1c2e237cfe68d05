//! Locks and places to sleep.

/// Ranks of the driver's locks, outermost first: a thread that holds one takes only those further down.
///
/// For operating systems that check the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockRank {
    /// The right to change a process's state as a whole.
    Process,
    /// A process's state.
    ProcessState,
    /// The contexts and the work of a file of the render node.
    Client,
    /// An address space.
    AddressSpace,
    /// The device's scheduler.
    Scheduler,
    /// The interrupt ring.
    InterruptRing,
    /// The table of processes.
    Processes,
    /// A process's events.
    Events,
    /// A process's exceptions.
    Exceptions,
    /// A process's memory fault that is not settled yet.
    PendingFault,
    /// The clients of system management.
    SmiClients,
    /// Bytes that wait for one of them.
    SmiFifo,
    /// The VRAM allocator.
    Vram,
    /// The GART.
    Gart,
    /// The invalidation engine.
    Invalidation,
    /// Metadata and users of a buffer object.
    Object,
    /// A rate limit, and the last look at how busy the card is.
    RateLimit,
    /// The nodes of the device.
    Nodes,
    /// Events of the driver that are recorded.
    Trace,
}

/// A sleeping, non-recursive mutual exclusion lock.
#[expect(unsafe_code, reason = "unlocking a lock one does not hold breaks every mutex built on it")]
pub trait RawLock: Send + Sync {
    /// Sleeps until the lock is the caller's.
    fn lock(&self);

    /// Gives the lock back.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn unlock(&self);
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Another thread called [`WaitQueue::wake_all`] after the ticket was drawn.
    Woken,
    /// The time is over.
    TimedOut,
    /// A signal is pending for the calling thread.
    Interrupted,
}

/// A place to sleep; every wake-up counts one generation up, so that none is lost between looking and sleeping.
pub trait WaitQueue: Send + Sync {
    /// Returns the current generation; drawn before looking at the condition.
    fn ticket(&self) -> u64;

    /// Sleeps, interruptibly, until the generation differs from `ticket`; `timeout_ns` of `None` waits for ever.
    fn wait(&self, ticket: u64, timeout_ns: Option<u64>) -> WaitOutcome;

    /// Counts the generation up and wakes all sleepers.
    fn wake_all(&self);
}
