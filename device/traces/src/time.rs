//! Times in the unit that suits them.

use std::fmt;

/// A time in nanoseconds, in the unit that suits it.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let text = match self.0 {
            0..1000 => format!("{} ns", self.0),
            1000..1_000_000 => format!("{:.1} us", ns / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
            _ => format!("{:.2} s", ns / 1e9),
        };
        f.pad(&text)
    }
}
