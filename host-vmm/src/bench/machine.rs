//! Gain of several threads on the machine itself, as a scale for the engine's speedup.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{median, round};

/// Steps of the arithmetic, all threads together: some ten milliseconds.
const STEPS: usize = 4 << 20;
/// Numbers in each of the three arrays that are streamed through, as many as `vadd` has.
const NUMBERS: usize = 1 << 20;
/// Passes over the arrays in one measurement.
const PASSES: usize = 12;

/// Speed of several threads as a multiple of the first measured number of threads, at work without any sharing.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scaling {
    /// Threads.
    pub threads: usize,
    /// At arithmetic in registers.
    pub arithmetic: f64,
    /// At adding two arrays into a third: the loads and stores of `vadd`.
    pub streaming: f64,
}

/// Measures each number of threads but the first against the first, in turns; medians of `runs` ratios.
pub(super) fn scaling(threads: &[usize], runs: usize) -> Vec<Scaling> {
    let Some((&first, others)) = threads.split_first() else { return Vec::new() };
    let inputs = [vec![1.0f32; NUMBERS], vec![2.0f32; NUMBERS]];
    let mut output = vec![0.0f32; NUMBERS];
    let mut ratios = |other: usize| {
        let mut stream = |threads| timed(|| streaming(threads, &inputs, &mut output));
        let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
        let pairs = (0..runs.max(1)).map(|_| {
            let work = [first, other].map(|threads| timed(|| arithmetic(threads)));
            let stream = [first, other].map(&mut stream);
            (ratio(work[0], work[1]), ratio(stream[0], stream[1]))
        });
        let (work, stream) = pairs.unzip();
        Scaling { threads: other, arithmetic: round(median(work)), streaming: round(median(stream)) }
    };
    others.iter().map(|&other| ratios(other)).collect()
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// Chains of multiplications and additions, as in `alu`.
fn arithmetic(threads: usize) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut values = [1.0f32; 16];
                for _ in 0..STEPS / threads {
                    values = black_box(values.map(|value| value * 0.5 + 1.0));
                }
            });
        }
    });
}

/// Passes over the arrays, a part of them for each thread.
fn streaming(threads: usize, [a, b]: &[Vec<f32>; 2], output: &mut [f32]) {
    let part = NUMBERS.div_ceil(threads.max(1));
    std::thread::scope(|scope| {
        for ((a, b), output) in a.chunks(part).zip(b.chunks(part)).zip(output.chunks_mut(part)) {
            scope.spawn(move || {
                for _ in 0..PASSES {
                    for ((a, b), output) in a.iter().zip(b).zip(&mut *output) {
                        *output = a + b;
                    }
                    black_box(&mut *output);
                }
            });
        }
    });
}

impl std::fmt::Display for Scaling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scaling { threads, arithmetic, streaming } = self;
        write!(
            f,
            "without the engine, {threads} threads: {arithmetic:.2} at arithmetic, {streaming:.2} at streaming"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_threads_but_the_first_is_measured() {
        let results = scaling(&[1, 2, 3], 1);
        assert_eq!(results.iter().map(|result| result.threads).collect::<Vec<_>>(), [2, 3]);
        assert!(
            results.iter().all(|result| result.arithmetic > 0.0 && result.streaming > 0.0),
            "{results:?}"
        );
        assert!(scaling(&[4], 1).is_empty());
    }

    #[test]
    fn threads_share_the_arrays_without_a_gap() {
        let inputs = [vec![1.0; NUMBERS], vec![2.0; NUMBERS]];
        let mut output = vec![0.0; NUMBERS];
        streaming(3, &inputs, &mut output);
        assert!(output.iter().all(|&sum| sum == 3.0));
    }
}
