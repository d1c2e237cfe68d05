//! The scheduler's wake-up: anything stored before a wake-up is seen by a look after it.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../../../device/src/threads/wake.rs"]
mod wake;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use wake::Wake;

/// Threads with news for a scheduler that sleeps whenever there are none; loom fails where it sleeps for ever.
fn run(threads: usize, news: usize) {
    let mut builder = loom::model::Builder::new();
    // Everything three threads can do takes minutes.
    builder.preemption_bound = (threads > 1).then_some(3);
    builder.check(move || {
        let shared = Arc::new((Wake::default(), AtomicUsize::new(0)));
        let wakers: Vec<_> = (0..threads)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for _ in 0..news {
                        shared.1.fetch_add(1, Ordering::Release);
                        shared.0.wake();
                    }
                })
            })
            .collect();
        let (wake, written) = &*shared;
        while written.load(Ordering::Acquire) != threads * news {
            wake.sleep(None);
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn no_wake_up_is_lost() {
    run(1, 2);
}

#[test]
fn no_wake_up_of_several_threads_is_lost() {
    run(2, 1);
}
