//! The side of a child: lines of standard input, and a line of JSON for each.

use std::io::{self, BufRead as _, Write as _};

use serde::Serialize;

/// Answers lines until there are no more.
///
/// # Errors
///
/// The errors of standard input and output.
pub(crate) fn answer_lines<T: Serialize>(mut verdict_on: impl FnMut(&str) -> T) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        answer(&verdict_on(&line?))?;
    }
    Ok(())
}

/// Writes one answer.
///
/// # Errors
///
/// The errors of standard output.
pub(crate) fn answer(verdict: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, verdict)?;
    out.write_all(b"\n")?;
    out.flush()
}
