//! Work that the driver puts off.

/// Something the driver does later, on a worker thread.
pub trait Work: Send + Sync {
    /// Does it. The thread may sleep for long; two threads may be here at once.
    fn run(&self);
}

/// A [`Work`] that can be queued any number of times. Dropping it does not wait for it: a run may still come.
pub trait WorkItem: Send + Sync {
    /// Has the work run on a worker thread after this call; several calls before it runs may be one run.
    ///
    /// This does not wait, and it cannot fail. Work that sleeps does not hold other work up.
    fn queue(&self);
}
