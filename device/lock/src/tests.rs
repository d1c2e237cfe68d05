//! Violations that the check of the order finds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

type Outer = Mutex<u32, rank::Runner>;
type Inner = Mutex<u32, rank::Wake>;

/// Returns the message that refuses a thread's order of locks.
fn refusal(steps: impl FnOnce()) -> Option<String> {
    let panicked = catch_unwind(AssertUnwindSafe(steps)).err()?;
    panicked.downcast_ref::<String>().cloned()
}

#[test]
fn locks_in_their_order_are_taken() {
    let (outer, inner) = (Outer::new(1), Inner::new(2));
    let refused = refusal(|| {
        let outer = outer.lock().expect("nobody panicked");
        let mut inner = inner.lock().expect("nobody panicked");
        *inner += *outer;
    });
    assert_eq!(refused, None);
    assert_eq!(*inner.lock().expect("nobody panicked"), 3);
    // The inner one alone, and the outer one after the inner one was released.
    drop(inner.lock());
    drop(outer.lock());
}

#[test]
fn locks_against_their_order_are_refused_with_both_names() {
    let (outer, inner) = (Outer::new(1), Inner::new(2));
    let refused = refusal(|| {
        let _inner = inner.lock();
        let _outer = outer.lock();
    });
    let expected = "Runner.state is taken while Wake.asleep is held, against the order of locks";
    assert_eq!(refused.as_deref(), Some(expected));
    // The guards are gone, and with them the record of held locks.
    assert_eq!(refusal(|| drop((outer.lock(), inner.try_lock()))), None);
}

#[test]
fn a_thread_that_tries_for_a_while_gets_the_lock_in_the_end() {
    let (outer, inner) = (Outer::new(1), Inner::new(2));
    let refused = refusal(|| {
        let _inner = inner.lock();
        let _outer = outer.lock_spinning();
    });
    assert!(refused.is_some_and(|text| text.starts_with("Runner.state is taken while Wake.asleep")));
    let counter = Outer::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500 {
                    let mut count = counter.lock_spinning().expect("no thread panicked");
                    if round % 100 == 0 {
                        // Longer than any of the others tries.
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    *count += 1;
                }
            });
        }
    });
    assert_eq!(*counter.lock_spinning().expect("no thread panicked"), 2000);
    let _panicked = catch_unwind(AssertUnwindSafe(|| {
        let _held = counter.lock();
        panic!("with the lock");
    }));
    assert_eq!(counter.lock_spinning().map_err(|error| *error.into_inner()).err(), Some(2000));
}

#[test]
fn two_locks_of_one_rank_are_refused() {
    let (one, other) = (Outer::new(1), Outer::new(2));
    let refused = refusal(|| {
        let _one = one.lock();
        let _other = other.lock();
    });
    assert!(refused.is_some_and(|text| text.starts_with("Runner.state is taken while Runner.state")));
    let shared = RwLock::<u32, rank::ContextSpaces>::new(0);
    let refused = refusal(|| {
        let _one = shared.read();
        let _other = shared.read();
    });
    assert!(refused.is_some(), "a writer between the two would stop both");
}

#[test]
fn guards_may_go_in_any_order() {
    let (outer, middle, inner) = (Outer::new(1), Mutex::<u32, rank::Engine>::new(2), Inner::new(3));
    let refused = refusal(|| {
        let first = outer.lock();
        let second = middle.lock();
        drop(first);
        let third = inner.lock();
        drop(second);
        drop(third);
        drop(outer.lock());
    });
    assert_eq!(refused, None);
    let refused = refusal(|| {
        let first = outer.lock();
        let second = middle.lock();
        drop(first);
        let _again = outer.lock();
        drop(second);
    });
    assert!(refused.is_some_and(|text| text.contains("Shared.state is held")));
}

#[test]
fn waiting_keeps_the_rank() {
    let (outer, inner, condvar) = (Outer::new(1), Inner::new(2), Condvar::new());
    let refused = refusal(|| {
        let guard = inner.lock().expect("nobody panicked");
        let (_guard, over) = condvar.wait_timeout(guard, Duration::from_millis(1)).expect("nobody panicked");
        assert!(over.timed_out());
        let _outer = outer.lock();
    });
    assert!(refused.is_some_and(|text| text.contains("Wake.asleep is held")));
}

#[test]
fn wait_for_a_thread_that_needs_a_lock_of_ours_is_refused() {
    let (outer, inner) = (Outer::new(1), Inner::new(2));
    let refused = refusal(|| {
        let _outer = outer.lock();
        about_to_wait::<rank::Submitter>();
        let _inner = inner.lock();
        about_to_wait::<rank::Submitter>();
    });
    let expected =
        "ShaderEngine.submitter is waited for while Wake.asleep is held, against the order of locks";
    assert_eq!(refused.as_deref(), Some(expected));
}

#[test]
fn locks_of_two_devices_are_taken_in_the_order_of_their_numbers() {
    let locks = [0, 1].map(|_| (Outer::new(1), Inner::new(2)));
    let refused = refusal(|| {
        let _first = OnDevice::new(0);
        let _outer = locks[0].0.lock();
        let _inner = locks[0].1.lock();
        let _second = OnDevice::new(1);
        // Equal ranks, and one that comes before all that the thread holds of the other device.
        let _others = (locks[1].0.lock(), locks[1].1.lock());
    });
    assert_eq!(refused, None);
    let refused = refusal(|| {
        let _second = OnDevice::new(1);
        let _outer = locks[1].0.lock();
        let _first = OnDevice::new(0);
        let _inner = locks[0].1.lock();
    });
    let expected =
        "Wake.asleep of device 0 is taken while Runner.state of device 1 is held, against the order of locks";
    assert_eq!(refused.as_deref(), Some(expected));
    let refused = refusal(|| {
        let _second = OnDevice::new(1);
        let _inner = locks[1].1.lock();
        let _outer = locks[1].0.lock();
    });
    assert!(refused.is_some_and(|text| text.starts_with("Runner.state is taken while Wake.asleep")));
}

#[test]
fn locks_that_no_device_has_are_above_or_below_those_of_all_devices() {
    let (host, sink) = (Mutex::<u32, rank::HostedKfd>::new(1), Mutex::<u32, rank::Line>::new(2));
    let locks = [0, 1].map(|_| Inner::new(3));
    let refused = refusal(|| {
        let _host = host.lock();
        let _first = OnDevice::new(0);
        let _one = locks[0].lock();
        let _second = OnDevice::new(1);
        let _other = locks[1].lock();
        let _sink = sink.lock();
    });
    assert_eq!(refused, None);
    let under_the_sink = refusal(|| {
        let _sink = sink.lock();
        let _one = locks[0].lock();
    });
    let above_the_device = refusal(|| {
        let _second = OnDevice::new(1);
        let _one = locks[1].lock();
        let _host = host.lock();
    });
    assert!(under_the_sink.is_some_and(|text| text.contains("while Line.state is held")));
    assert!(above_the_device.is_some_and(|text| text.contains("while Wake.asleep is held")));
}

#[test]
fn guard_that_outlives_the_work_on_its_device_is_forgotten_with_it() {
    let locks = [0, 1].map(|_| Outer::new(1));
    let refused = refusal(|| {
        let guard = {
            let _second = OnDevice::new(1);
            locks[1].lock()
        };
        drop(guard);
        drop(locks[0].lock());
    });
    assert_eq!(refused, None);
}

#[test]
fn locks_are_as_large_as_those_without_a_rank() {
    assert_eq!(size_of::<Outer>(), size_of::<sync::Mutex<u32>>());
    assert_eq!(size_of::<MutexGuard<'_, u32, rank::Runner>>(), size_of::<sync::MutexGuard<'_, u32>>());
}
