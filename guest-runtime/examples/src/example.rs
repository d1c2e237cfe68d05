//! An example among others.

use std::io::Write;

use belfry_runtime::Runtime;

/// Runs it with its arguments, on the GPU of a runtime; the output goes to a writer.
pub(crate) type Run = fn(&Runtime, &[String], &mut dyn Write) -> anyhow::Result<()>;

/// A program, by its name.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) run: Run,
}

pub(crate) const fn example(name: &'static str, summary: &'static str, run: Run) -> Example {
    Example { name, summary, run }
}
