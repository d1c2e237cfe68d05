//! The wait for slices, with threads of the machine's own; `tests/models` has every order of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::quiescence::Quiescence;

#[test]
fn wait_with_nobody_inside_returns() {
    let quiescence = Quiescence::default();
    let mut ran = false;
    quiescence.wait_after(|| ran = true);
    assert!(ran);
}

#[test]
fn wait_ignores_slices_begun_after_the_withdrawal() {
    let quiescence = Arc::new(Quiescence::default());
    for _ in 0..3 {
        quiescence.wait_after(|| ());
        let _inside = quiescence.enter();
    }
    let inside = quiescence.enter();
    let done = Arc::new(AtomicBool::new(false));
    let waiter = {
        let (quiescence, done) = (Arc::clone(&quiescence), Arc::clone(&done));
        std::thread::spawn(move || {
            quiescence.wait_after(|| ());
            done.store(true, Ordering::SeqCst);
        })
    };
    // The waiter counts its epoch before it sleeps; from then on new slices belong to the next one.
    while !quiescence.is_asleep() {
        assert!(!waiter.is_finished(), "the wait returned while a slice was in progress");
        std::thread::yield_now();
    }
    let later = quiescence.enter();
    assert!(!done.load(Ordering::SeqCst));
    drop(inside);
    waiter.join().expect("the waiter returns while a later slice is still open");
    drop(later);
}

#[test]
fn withdrawn_state_is_never_seen_after_the_wait() {
    let quiescence = Quiescence::default();
    let published = AtomicUsize::new(0);
    let freed = AtomicUsize::new(usize::MAX);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let _inside = quiescence.enter();
                    let seen = published.load(Ordering::SeqCst);
                    for _ in 0..64 {
                        let freed = freed.load(Ordering::SeqCst);
                        assert!(freed == usize::MAX || freed < seen, "using {seen} after {freed} was freed");
                    }
                }
            });
        }
        for next in 1..2000 {
            quiescence.wait_after(|| published.store(next, Ordering::SeqCst));
            freed.store(next - 1, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
    });
}
