//! Features of the processor as programs find them.

use std::io::Write;

use anyhow::Result;

/// Prints `NAME yes` or `NAME no` for the levels of x86-64 that distributions build for.
///
/// # Errors
///
/// The errors of `out`.
pub fn run(out: &mut dyn Write) -> Result<()> {
    macro_rules! has {
        ($($feature:tt),*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
    }
    let v2 = has!("cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2");
    let v3 = v2 && has!("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe");
    for (name, is_there) in [("x86-64-v2", v2), ("x86-64-v3", v3)] {
        writeln!(out, "{name} {}", if is_there { "yes" } else { "no" })?;
    }
    Ok(())
}
