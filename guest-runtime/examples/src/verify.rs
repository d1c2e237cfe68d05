//! Comparison with the processor's results.

use std::fmt::{self, Debug};

/// The exit status of the examples as a program where a result is wrong; other errors have 1.
pub const WRONG_RESULT: u8 = 3;

/// A result of the GPU that differs from the processor's.
#[derive(Debug)]
pub struct WrongResult(String);

impl fmt::Display for WrongResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongResult {}

/// Differences listed before the rest are only counted.
const LISTED: usize = 5;

/// Fails with the first differences unless both slices are equal.
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, gpu: &[T], cpu: &[T]) -> anyhow::Result<()> {
    check(what, gpu, cpu, |gpu, cpu| gpu == cpu)
}

/// Fails with the first differences unless `same` holds for each pair.
pub(crate) fn check<T: Debug>(
    what: &str,
    gpu: &[T],
    cpu: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> anyhow::Result<()> {
    if gpu.len() != cpu.len() {
        return Err(WrongResult(format!(
            "{what}: {} elements from the GPU, {} expected",
            gpu.len(),
            cpu.len()
        ))
        .into());
    }
    let wrong: Vec<usize> = (0..gpu.len()).filter(|index| !same(&gpu[*index], &cpu[*index])).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = wrong
        .iter()
        .take(LISTED)
        .map(|index| format!("[{index}] is {:?}, not {:?}", gpu[*index], cpu[*index]))
        .collect();
    Err(WrongResult(format!(
        "{what}: {} of {} elements differ: {}",
        wrong.len(),
        gpu.len(),
        listed.join("; ")
    ))
    .into())
}

/// Largest distance found, in units in the last place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MaxUlp(pub(crate) f64);

impl MaxUlp {
    /// Notes the distance of an f32 from an exact value, in ulps of the exact value but no finer than of 1.
    pub(crate) fn note_f32(&mut self, gpu: f32, exact: f64) {
        self.note(f64::from(gpu), exact, f64::from(f32::EPSILON));
    }

    /// As [`note_f32`](Self::note_f32) for f64.
    pub(crate) fn note_f64(&mut self, gpu: f64, exact: f64) {
        self.note(gpu, exact, f64::EPSILON);
    }

    fn note(&mut self, gpu: f64, exact: f64, epsilon: f64) {
        let scale = 2f64.powi(exact.abs().max(1.0).log2().floor() as i32) * epsilon;
        let distance = (gpu - exact).abs() / scale;
        // A NaN where a number belongs is as far off as can be; `max` would ignore it.
        self.0 = if distance.is_nan() { f64::INFINITY } else { self.0.max(distance) };
    }

    /// Fails if the distance is over the limit.
    pub(crate) fn within(self, what: &str, limit: f64) -> anyhow::Result<()> {
        if self.0 > limit {
            return Err(WrongResult(format!("{what}: off by {:.2} ulp, {limit} are allowed", self.0)).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_listed_and_counted() {
        let gpu = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut cpu = gpu;
        assert!(equal("sum", &gpu, &cpu).is_ok());
        cpu[6] = 0;
        assert_eq!(
            equal("sum", &gpu, &cpu).unwrap_err().to_string(),
            "sum: 1 of 8 elements differ: [6] is 7, not 0"
        );
        let error = equal("sum", &gpu, &[0; 8]).unwrap_err().to_string();
        assert!(error.contains("8 of 8") && error.contains("[4]") && !error.contains("[5]"), "{error}");
        assert!(equal("sum", &gpu, &cpu[..7]).is_err());
    }

    #[test]
    fn ulps_are_those_of_the_exact_value() {
        let mut ulp = MaxUlp::default();
        ulp.note_f32(1.0 + f32::EPSILON, 1.0);
        assert_eq!(ulp.0, 1.0);
        ulp.note_f32(f32::NAN, 1.0);
        assert!(ulp.within("x", 1e9).is_err());
    }
}
