//! The thread that compiles large regions, while workers go on with the interpreter: one for all of the process, as long as there is
//! something to do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use super::Region;

/// Largest number of regions that wait; a worker that comes with another one has to ask again later.
const MOST: usize = 16;
/// Name of the thread.
pub(super) const NAME: &str = "belfry compiles";

/// Regions to be compiled, the first one next.
struct Queue {
    regions: VecDeque<Weak<Region>>,
    /// The process that has the thread: a child that was forked has a copy of this, and no thread.
    works_in: Option<u32>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { regions: VecDeque::new(), works_in: None });

/// Answer to a request to compile a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The region waits for the thread.
    Waits,
    /// There is no room.
    Later,
    /// There can be no thread: the caller compiles.
    Alone,
}

/// Requests that a region is compiled.
pub(super) fn ask(region: &Arc<Region>) -> Asked {
    // The lock is held for short times only. A forked child may find it locked by a thread of its parent, which it does not have.
    let mut queue = match QUEUE.try_lock() {
        Ok(queue) => queue,
        Err(TryLockError::Poisoned(queue)) => queue.into_inner(),
        Err(TryLockError::WouldBlock) => return Asked::Later,
    };
    let own = std::process::id();
    if queue.works_in.is_some_and(|process| process != own) {
        *queue = Queue { regions: VecDeque::new(), works_in: None };
    }
    if queue.regions.len() >= MOST {
        return Asked::Later;
    }
    if queue.works_in.is_none() {
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        if thread.spawn(work).is_err() {
            return Asked::Alone;
        }
        queue.works_in = Some(own);
    }
    queue.regions.push_back(Arc::downgrade(region));
    Asked::Waits
}

/// Guard of the thread: notes its end if it panics.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        if std::thread::panicking() {
            QUEUE.lock().unwrap_or_else(PoisonError::into_inner).works_in = None;
        }
    }
}

/// Compiles regions until none waits.
fn work() {
    let _ends = Ends;
    loop {
        let next = {
            let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = queue.regions.pop_front() else {
                queue.works_in = None;
                return;
            };
            next
        };
        // A region that has been forgotten everywhere needs no code.
        if let Some(region) = next.upgrade() {
            region.compile();
        }
    }
}
