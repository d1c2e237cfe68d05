//! The wait for slices of work: memory that is withdrawn is released when no slice that may have seen it is left.

/// Parts that the file is made of, on loom's atomics.
mod sync {
    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use loom::sync::{Condvar, Mutex, Mutex as TurnMutex};
    pub(crate) use std::sync::PoisonError;

    use loom::sync::atomic::fence;

    /// A counter whose operations have one order that all threads agree on.
    ///
    /// The product's operations are sequentially consistent. Loom takes such operations for acquire and release, but
    /// its fences are sequentially consistent: with a fence on either side, an operation is as strong as the product's.
    macro_rules! counter {
        ($name:ident, $of:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(loom::sync::atomic::$of);

            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    consistent(order, || self.0.load(order))
                }

                pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    consistent(order, || self.0.fetch_add(value, order))
                }
            }
        };
    }

    impl AtomicUsize {
        pub(crate) fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
            consistent(order, || self.0.fetch_sub(value, order))
        }
    }

    fn consistent<R>(order: Ordering, operation: impl FnOnce() -> R) -> R {
        assert_eq!(order, Ordering::SeqCst, "the model has fences for this order alone");
        fence(order);
        let result = operation();
        fence(order);
        result
    }

    counter!(AtomicU64, AtomicU64, u64);
    counter!(AtomicUsize, AtomicUsize, usize);
}

#[path = "../../../device/src/memory/quiescence.rs"]
mod quiescence;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use quiescence::Quiescence;

/// Deliberate mistake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mistake {
    None,
    /// The old map goes when it is replaced, before the wait.
    UnmapAtOnce,
    /// The wait is left out.
    NoWait,
    /// The map is replaced after the wait.
    LateSwitch,
}

/// Guest RAM: maps, of which slices use the current one.
struct Model {
    unmapped: Vec<AtomicBool>,
    current: AtomicUsize,
    quiescence: Quiescence,
    mistake: Mistake,
}

impl Model {
    /// A device thread: two accesses within one slice, as an engine that keeps a pointer makes them.
    fn work(&self) {
        let _slice = self.quiescence.enter();
        let map = self.current.load(Ordering::Acquire);
        for _ in 0..2 {
            assert!(!self.unmapped[map].load(Ordering::Relaxed), "memory was touched after it was unmapped");
        }
    }

    /// A device thread whose slice goes on until it is waited for.
    fn work_on(&self) {
        let mut slice = self.quiescence.enter();
        for _ in 0..2 {
            let map = self.current.load(Ordering::Acquire);
            assert!(!self.unmapped[map].load(Ordering::Relaxed), "memory was touched after it was unmapped");
            if slice.is_awaited() {
                drop(slice);
                slice = self.quiescence.enter();
            }
        }
        // Until a wait has begun, and it does not end before this slice.
        while self.current.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        while !slice.is_awaited() && !self.unmapped[0].load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }

    /// A host that installs the next map.
    fn change(&self) {
        let switch = || self.current.fetch_add(1, Ordering::AcqRel);
        let unmap = |map: usize| self.unmapped[map].store(true, Ordering::Relaxed);
        match self.mistake {
            Mistake::None => unmap(self.quiescence.wait_after(switch)),
            Mistake::UnmapAtOnce => self.quiescence.wait_after(|| unmap(switch())),
            Mistake::NoWait => unmap(switch()),
            Mistake::LateSwitch => {
                self.quiescence.wait_after(|| ());
                unmap(switch());
            }
        }
    }
}

/// Device threads that work while a host changes the map.
fn run(mistake: Mistake, workers: usize, slices: usize, changes: usize) {
    let mut builder = loom::model::Builder::new();
    // Everything three threads can do takes minutes; mistakes show with few preemptions.
    builder.preemption_bound = (workers > 1 || slices > 1 || changes > 1).then_some(4);
    builder.check(move || {
        let model = Arc::new(Model {
            unmapped: (0..=changes).map(|_| AtomicBool::new(false)).collect(),
            current: AtomicUsize::new(0),
            quiescence: Quiescence::default(),
            mistake,
        });
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || (0..slices).for_each(|_| model.work()))
            })
            .collect();
        (0..changes).for_each(|_| model.change());
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(!model.quiescence.is_asleep());
    });
}

#[test]
fn old_map_stays_until_its_slice_is_over() {
    run(Mistake::None, 1, 1, 1);
}

#[test]
fn slice_that_begins_between_two_changes_keeps_its_map() {
    run(Mistake::None, 1, 1, 2);
}

#[test]
fn slice_is_told_that_it_is_waited_for() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Arc::new(Model {
            unmapped: (0..2).map(|_| AtomicBool::new(false)).collect(),
            current: AtomicUsize::new(0),
            quiescence: Quiescence::default(),
            mistake: Mistake::None,
        });
        let worker = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.work_on())
        };
        model.change();
        worker.join().unwrap();
        assert!(!model.quiescence.enter().is_awaited(), "nothing waits any more");
    });
}

#[test]
fn old_maps_stay_while_slices_and_changes_follow_each_other() {
    run(Mistake::None, 1, 2, 2);
}

#[test]
fn old_map_stays_until_the_slices_of_several_threads_are_over() {
    run(Mistake::None, 2, 1, 1);
}

#[test]
#[should_panic(expected = "memory was touched after it was unmapped")]
fn map_unmapped_before_the_wait_is_touched() {
    run(Mistake::UnmapAtOnce, 1, 1, 1);
}

#[test]
#[should_panic(expected = "memory was touched after it was unmapped")]
fn map_unmapped_without_a_wait_is_touched() {
    run(Mistake::NoWait, 1, 1, 1);
}

#[test]
#[should_panic(expected = "memory was touched after it was unmapped")]
fn map_replaced_after_the_wait_is_touched() {
    run(Mistake::LateSwitch, 1, 1, 1);
}
