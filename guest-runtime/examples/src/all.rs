//! Every example with its default arguments, one after the other, and a line for each.

use std::io::Write;
use std::time::Instant;

use anyhow::{bail, ensure};
use belfry_runtime::Runtime;

use crate::example::Example;

/// The examples that are not run: this one, and the one that needs to be told what to launch.
const LEFT_OUT: [&str; 2] = ["all", "launch"];
/// The example that needs several GPUs, and is run where there are.
const OF_SEVERAL: &str = "peers";

pub(crate) fn run(
    examples: &[Example],
    runtime: &Runtime,
    args: &[String],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "all takes no arguments");
    let mut failed = Vec::new();
    let several = runtime.gpus().len() > 1;
    let is_run = |name| !LEFT_OUT.contains(&name) && (several || name != OF_SEVERAL);
    for example in examples.iter().filter(|example| is_run(example.name)) {
        let started = Instant::now();
        let mut said = Vec::new();
        let result = (example.run)(runtime, &[], &mut said);
        let elapsed = started.elapsed().as_secs_f64() * 1e3;
        match result {
            Ok(()) => writeln!(out, "{:22} ok      {elapsed:8.1} ms", example.name)?,
            Err(error) => {
                out.write_all(&said)?;
                writeln!(out, "{:22} FAILED  {elapsed:8.1} ms  {error:#}", example.name)?;
                failed.push(example.name);
            }
        }
        // A reader of the output gets each line at once.
        out.flush()?;
    }
    if failed.is_empty() { Ok(()) } else { bail!("{} failed", failed.join(", ")) }
}
