//! Claims of workgroups: each number is handed out once, the lowest first, while others are given back.

#![expect(clippy::single_range_in_vec_init, reason = "one range is a list of ranges, too")]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../../../device/src/shader/unclaimed/claims.rs"]
mod claims;

use std::ops::Range;

use loom::sync::Arc;
use loom::thread;

use claims::Claims;

/// Claims one number after the other until none is left.
fn claim_all(claims: &Claims) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let claimed = claims.claim(|_| 1);
        if claimed.is_empty() {
            return all;
        }
        all.extend(claimed);
    }
}

/// Threads that claim, the first of which gives back what it has claimed last, once.
fn run(ranges: &'static [Range<u64>], threads: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let claims = Arc::new(Claims::new(ranges.iter().cloned()));
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let claims = Arc::clone(&claims);
                thread::spawn(move || claim_all(&claims))
            })
            .collect();
        let first = claims.claim(|_| 2);
        let keeps = first.start..first.end.min(first.start + 1);
        let was_empty = claims.give_back(keeps.end..first.end);
        assert!(!was_empty || first.end > keeps.end);
        let mut all: Vec<u64> = keeps.chain(claim_all(&claims)).collect();
        all.extend(others.into_iter().flat_map(|other| other.join().unwrap()));
        all.sort_unstable();
        assert!(all.into_iter().eq(ranges.iter().cloned().flatten()), "each number once");
        assert!(claims.is_empty() && claims.left() == 0 && claims.ranges().is_empty());
        assert!(!claims.has_several());
    });
}

#[test]
fn each_number_is_claimed_once() {
    run(&[0..4], 2);
}

#[test]
fn ranges_behind_the_first_one_are_reached() {
    run(&[0..1, 3..5], 2);
}

#[test]
fn three_threads_claim() {
    run(&[0..2, 5..6], 3);
}

#[test]
fn numbers_that_fit_no_word_are_claimed() {
    const END: u64 = (1 << 31) + 1;
    run(&[END - 3..END], 2);
}
