//! Lowered code that workers share: each region is lowered once, and code that is out of date is replaced
//! once.

/// Parts that the file is made of, on loom's locks.
mod sync {
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../../../device/isa/src/exec/code_cache/once.rs"]
#[expect(dead_code, reason = "the model does not list the values")]
mod once;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use once::Once;

/// Source of a thread's value, and the number of values made.
struct Memory {
    now: AtomicUsize,
    made: AtomicUsize,
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory { now: AtomicUsize::new(1), made: AtomicUsize::new(0) })
}

fn obtain(values: &Once<u8, usize>, memory: &mut Arc<Memory>) -> (usize, bool) {
    let (value, is_new) = values.obtain(
        0,
        memory,
        |memory, value| *value == memory.now.load(Ordering::SeqCst),
        |memory| {
            memory.made.fetch_add(1, Ordering::SeqCst);
            memory.now.load(Ordering::SeqCst)
        },
    );
    (*value, is_new)
}

#[test]
fn threads_that_want_the_same_value_make_it_once() {
    loom::model(|| {
        let (values, memory) = (Arc::new(Once::new(4)), memory());
        let other = thread::spawn({
            let (values, mut memory) = (Arc::clone(&values), Arc::clone(&memory));
            move || obtain(&values, &mut memory)
        });
        let here = obtain(&values, &mut Arc::clone(&memory));
        let there = other.join().expect("it does not panic");
        assert_eq!((here.0, there.0), (1, 1));
        assert!(here.1 != there.1, "one of them made it");
        assert_eq!(memory.made.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn threads_that_find_a_value_out_of_date_replace_it_once() {
    loom::model(|| {
        let (values, memory) = (Arc::new(Once::new(4)), memory());
        obtain(&values, &mut Arc::clone(&memory));
        memory.now.store(2, Ordering::SeqCst);
        let other = thread::spawn({
            let (values, mut memory) = (Arc::clone(&values), Arc::clone(&memory));
            move || obtain(&values, &mut memory).0
        });
        let here = obtain(&values, &mut Arc::clone(&memory)).0;
        assert_eq!((here, other.join().expect("it does not panic")), (2, 2));
        assert_eq!(memory.made.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn values_are_bounded_while_others_are_made() {
    loom::model(|| {
        let (values, memory) = (Arc::new(Once::new(1)), memory());
        let other = thread::spawn({
            let (values, mut memory) = (Arc::clone(&values), Arc::clone(&memory));
            move || obtain(&values, &mut memory).0
        });
        // Another key takes the only place.
        let (value, _) = values.obtain(1, &mut (), |(), _| true, |()| 7);
        assert_eq!((*value, other.join().expect("it does not panic")), (7, 1));
        values.clear();
        assert_eq!(obtain(&values, &mut Arc::clone(&memory)), (1, true));
    });
}
