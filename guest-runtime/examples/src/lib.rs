//! The bundled example programs, for the guest and for hosted mode alike.
//!
//! Each runs kernels and checks every result against the processor: `run` returns an error that names the difference.

mod all;
mod barriers_and_signals;
mod context_save;
mod copy_engines;
mod example;
mod gemm;
mod gpuinfo;
mod grid_sync;
mod histogram;
pub mod kernels;
pub mod launch;
mod many_queues;
mod matrix;
mod memory_pools;
mod mixed;
mod numbers;
mod peers;
mod reduce;
mod scratch;
mod shapes;
mod sort;
mod stop_endless;
mod transcendental;
mod vector_add;
mod verify;

use std::io::Write;
pub use verify::{WRONG_RESULT, WrongResult};

use anyhow::{Context, bail};
use belfry_runtime::Runtime;

use example::{Example, example};

const EXAMPLES: &[Example] = &[
    example("vector-add", "adds two vectors of floats: vector-add [COUNT]", vector_add::run),
    example("gemm", "multiplies matrices through LDS tiles: gemm [ORDER]", gemm::run),
    example("reduce", "sums floats with barriers and lane shifts: reduce [COUNT]", reduce::run),
    example("histogram", "counts bytes with atomics: histogram [COUNT]", histogram::run),
    example("sort", "sorts integers in many passes: sort [COUNT]", sort::run),
    example(
        "transcendental",
        "compares exp, log, sin and others: transcendental [COUNT]",
        transcendental::run,
    ),
    example("matrix", "multiplies f16 matrices with WMMA: matrix [ORDER]", matrix::run),
    example("mixed", "64-bit integers, doubles, halves and divergent loops", mixed::run),
    example("shapes", "grids of all shapes, LDS sized at launch, relocated tables", shapes::run),
    example("scratch", "a kernel with a private array: scratch [COUNT]", scratch::run),
    example("memory-pools", "adds vectors between all kinds of memory", memory_pools::run),
    example("copy-engines", "copies between all kinds of memory by the SDMA engines", copy_engines::run),
    example("barriers-and-signals", "orders work across queues", barriers_and_signals::run),
    example("grid-sync", "barriers and semaphores across workgroups", grid_sync::run),
    example("many-queues", "more queues than the hardware holds: many-queues [QUEUES]", many_queues::run),
    example(
        "context-save",
        "preempts a grid and finds its waves in memory: context-save [WORKGROUPS]",
        context_save::run,
    ),
    example("stop-endless", "stops an endless kernel: stop-endless [WORKGROUPS]", stop_endless::run),
    example("peers", "copies, kernels and atomics between several GPUs: peers [COUNT]", peers::run),
    example("gpuinfo", "prints what the driver says about the GPU", gpuinfo::run),
    example("all", "all of these, one after the other, a line for each", every),
    example("launch", "launches a kernel of any code object: launch --help", launch::run),
];

/// Runs all others.
fn every(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    all::run(EXAMPLES, runtime, args, out)
}

/// Names of the examples, in the order they are listed in.
pub const NAMES: &[&str] = &{
    let mut names = [""; EXAMPLES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = EXAMPLES[index].name;
        index += 1;
    }
    names
};

/// One line per example: its name, its purpose, its arguments.
pub fn summaries() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXAMPLES.iter().map(|example| (example.name, example.summary))
}

/// Runs an example; its output goes to `out`.
///
/// # Errors
///
/// An unknown name, bad arguments, a failure of driver or GPU, or a result that differs from the processor's.
pub fn run(name: &str, runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(example) = EXAMPLES.iter().find(|example| example.name == name) else {
        bail!("no example `{name}`; there are {}", NAMES.join(", "));
    };
    (example.run)(runtime, args, out).with_context(|| format!("{name} failed"))
}

/// The one optional argument of most examples: a number in a range that some divisor divides.
fn count(
    args: &[String],
    default: u32,
    range: std::ops::RangeInclusive<u32>,
    multiple: u32,
) -> anyhow::Result<u32> {
    let value = match args {
        [] => default,
        [text] => text.parse().with_context(|| format!("`{text}` is not a number"))?,
        [_, extra, ..] => bail!("unexpected argument `{extra}`"),
    };
    if !range.contains(&value) {
        bail!("{value} is not in {}..={}", range.start(), range.end());
    }
    if !value.is_multiple_of(multiple) {
        bail!("{value} is not a multiple of {multiple}");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked() {
        let args = |text: &[&str]| text.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(count(&[], 64, 1..=100, 16).unwrap(), 64);
        assert_eq!(count(&args(&["32"]), 64, 1..=100, 16).unwrap(), 32);
        for (list, message) in [
            (vec!["x"], "`x` is not a number"),
            (vec!["-1"], "`-1` is not a number"),
            (vec!["0"], "0 is not in 1..=100"),
            (vec!["33"], "33 is not a multiple of 16"),
            (vec!["16", "y"], "unexpected argument `y`"),
        ] {
            assert_eq!(count(&args(&list), 64, 1..=100, 16).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn names_are_unique_and_cover_the_examples() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EXAMPLES.len());
        assert!(NAMES.contains(&"vector-add") && NAMES.contains(&"launch"));
    }
}
