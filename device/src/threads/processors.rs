//! Processors of the host, on which the workers of several devices take turns.
//!
//! Each device has as many workers as the host has processors, and any of them may have waves that wait for waves of
//! another device. If the host's system chose among them, such a worker would keep its processor for milliseconds while
//! the workers that it waits for have none. So where several devices share processors, a worker takes one for each turn,
//! in the order in which workers ask. One device alone does not take part in this.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::Thread;

use belfry_lock::{Mutex, MutexGuard, rank};
use once_cell::race::OnceNonZeroUsize;

/// Number of processors this process may use. The answer is kept: finding it takes a dozen system calls.
#[must_use]
pub fn processors() -> usize {
    // Threads that ask at once all find the number, and none waits for another: a process that is forked in
    // the meantime has only one thread.
    static PROCESSORS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    PROCESSORS.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)).get()
}

/// Processors of the host, for the workers of all devices whose configurations have clones of one value.
#[derive(Clone, Debug)]
pub struct Processors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Devices that take turns on them.
    devices: AtomicUsize,
    /// Length of [`State::waiting`].
    waiting: AtomicUsize,
    state: Mutex<State, rank::Processors>,
}

#[derive(Debug)]
struct State {
    /// Processors that no worker has.
    free: usize,
    /// Workers that wait for one, in the order in which they get it.
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    has_one: AtomicBool,
}

impl Processors {
    /// Makes this many.
    #[must_use]
    pub fn new(count: NonZeroUsize) -> Self {
        let state = State { free: count.get(), waiting: VecDeque::new() };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { devices: AtomicUsize::default(), waiting: AtomicUsize::default(), state }))
    }

    /// Has one more device take turns on them, until the value is dropped.
    pub(crate) fn join(&self) -> Member {
        self.0.devices.fetch_add(1, Ordering::Relaxed);
        Member(Arc::clone(&self.0))
    }
}

impl Default for Processors {
    fn default() -> Self {
        Self::new(NonZeroUsize::new(processors()).unwrap_or(NonZeroUsize::MIN))
    }
}

/// A device among those that take turns on processors.
#[derive(Debug)]
pub(crate) struct Member(Arc<Shared>);

impl Member {
    /// Returns true if other devices take turns on the same processors.
    pub(crate) fn has_others(&self) -> bool {
        self.0.devices.load(Ordering::Relaxed) > 1
    }

    /// Returns true if a worker waits for a processor.
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes a processor for a turn, after all workers that wait for one; `None` for a device that is alone. The caller
    /// holds no lock, and ends its turn without waiting for other turns.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        self.has_others().then(|| {
            self.0.take();
            Taken(&self.0)
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.devices.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A processor that a worker has for a turn.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a Shared);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State, rank::Processors> {
        self.state.lock_spinning().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return;
        }
        let own = Arc::new(Waiter { thread: std::thread::current(), has_one: AtomicBool::new(false) });
        state.waiting.push_back(Arc::clone(&own));
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        drop(state);
        while !own.has_one.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    fn give(&self) {
        let mut state = self.lock();
        let Some(next) = state.waiting.pop_front() else {
            state.free += 1;
            return;
        };
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        drop(state);
        next.has_one.store(true, Ordering::Release);
        next.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Processors {
        Processors::new(NonZeroUsize::MIN)
    }

    #[test]
    fn device_that_is_alone_takes_none() {
        let processors = one();
        let first = processors.join();
        assert!(!first.has_others() && first.take().is_none());
        let second = processors.clone().join();
        assert!(first.has_others() && second.take().is_some());
        drop(second);
        assert!(first.take().is_none());
    }

    #[test]
    fn processor_goes_to_the_workers_in_the_order_in_which_they_ask() {
        let (processors, order) = (one(), std::sync::Mutex::new(Vec::new()));
        let (first, _second) = (processors.join(), processors.join());
        let taken = first.take().expect("there are two");
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (order, member) = (&order, processors.join());
                let before = processors.0.waiting.load(Ordering::Relaxed);
                scope.spawn(move || {
                    let _taken = member.take().expect("there are several");
                    order.lock().expect("no panic").push(worker);
                });
                while processors.0.waiting.load(Ordering::Relaxed) == before {
                    std::thread::yield_now();
                }
            }
            assert!(first.are_wanted());
            drop(taken);
        });
        assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3]);
        assert!(!first.are_wanted() && processors.0.lock().free == 1);
    }

    #[test]
    fn no_more_workers_than_processors_have_a_turn_at_once() {
        let processors = Processors::new(NonZeroUsize::new(2).expect("two"));
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for member in [(); 6].map(|()| processors.join()) {
                let (now, most) = (&now, &most);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let taken = member.take();
                        most.fetch_max(1 + now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(processors.0.lock().free, 2);
    }
}
