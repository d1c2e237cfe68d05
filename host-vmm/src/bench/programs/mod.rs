//! `belfry bench programs`: whole programs that others wrote, and some of belfry's own, under `belfry exec`.
//!
//! The origin of the figures: docs/performance.md, "Whole programs".

mod list;
mod measure;
mod model;
mod ready;
mod results;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_image::{Cache, Progress};

pub use list::{Printed, Program, all};
pub use measure::{Code, Run};
use measure::{Under, on_gpu, on_processor};
use ready::{Kitchen, Ready};
pub use results::{HEADER, Handler, Measured, Ratio, Results};
use results::{median, rank, shares};

use super::{load, machine};

/// Time limit of one run.
const LIMIT: Duration = Duration::from_secs(1800);

/// Choices of a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the chip.
    pub chip: String,
    /// Texts in the names of programs; none: all programs.
    pub only: Vec<String>,
    /// Runs of each program that count; one before them does not.
    pub runs: usize,
    /// Threads that execute waves; as many as `exec` takes by itself if there is no number.
    pub workers: Option<usize>,
    /// Another belfry, which runs each program in turns.
    pub against: Option<PathBuf>,
}

/// Measures the programs and calls `done` after each of them. A program that fails is among the results, and the others go on.
///
/// # Errors
///
/// A name that no program has; another belfry that is none; a cache that cannot be opened.
pub fn programs(options: &Options, mut done: impl FnMut(&Measured)) -> Result<Results> {
    let own = std::env::current_exe().context("the path of this program")?;
    let against = options.against.as_deref().map(|path| ready::version_of(path).map(|text| (path, text)));
    let against = against.transpose()?;
    let (chosen, absent) = list::chosen(&options.only, &options.chip)?;
    let cache = Cache::open()?;
    let folder = tempfile::tempdir().context("a folder for programs")?;
    let progress = Progress::new();
    let kitchen = Kitchen {
        belfry: &own,
        cache: &cache,
        chip: &options.chip,
        folder: folder.path(),
        progress: &progress,
    };
    let before = load();
    let mut results = Results {
        machine: machine([before, before]),
        chip: options.chip.clone(),
        runs: options.runs,
        against: against.as_ref().map(|(path, text)| format!("{} ({text})", path.display())),
        programs: Vec::new(),
        absent,
        failed: std::collections::BTreeMap::new(),
        handlers: Vec::new(),
    };
    let mut counted = Vec::new();
    for program in &chosen {
        let other = against.as_ref().map(|(path, _)| *path);
        let measured =
            kitchen.ready(program).and_then(|ready| measure(program, &ready, options, (&own, other)));
        match measured {
            Ok((measured, run)) => {
                done(&measured);
                results.programs.push(measured);
                counted.push(run);
            }
            Err(error) => {
                results.failed.insert(program.name.clone(), format!("{error:#}"));
            }
        }
    }
    results.machine = machine([before, load()]);
    results.handlers = rank(counted.iter());
    Ok(results)
}

/// Measures one program; the run whose compiled code counts comes second.
fn measure(
    program: &Program,
    ready: &Ready,
    options: &Options,
    (own, other): (&Path, Option<&Path>),
) -> Result<(Measured, Run)> {
    let under =
        |belfry| Under { belfry, chip: &options.chip, workers: options.workers, costs: false, limit: LIMIT };
    let figure = |output: &str| program.figure.as_ref().and_then(|figure| figure.find(output));
    let once = |belfry| on_gpu(under(belfry), ready, figure);
    // The first run of each fills caches of files and of compiled kernels.
    once(own)?;
    let of_other =
        || format!("under the other belfry, {}", other.map_or("", |path| path.to_str().unwrap_or("")));
    if let Some(other) = other {
        once(other).with_context(of_other)?;
    }
    let (mut runs, mut others) = (Vec::new(), Vec::new());
    for turn in 0..options.runs {
        // Each begins every second turn, so that neither always finds the caches that the other left.
        let own_first = turn % 2 == 0;
        if own_first {
            runs.push(once(own)?);
        }
        if let Some(other) = other {
            others.push(once(other).with_context(of_other)?);
        }
        if !own_first {
            runs.push(once(own)?);
        }
    }
    let counted = on_gpu(Under { costs: true, ..under(own) }, ready, figure)?;
    let cpu = ready.cpu.as_deref().map(|words| on_processor(under(own), (&ready.image, words), figure));
    let walls = |runs: &[Run]| runs.iter().map(|run| run.wall).collect::<Vec<_>>();
    let (compiled, in_code) = shares(&counted);
    let measured = Measured {
        name: program.name.clone(),
        version: ready.version.clone(),
        run: median(&runs).clone(),
        walls: walls(&runs),
        compiled,
        in_code,
        unit: program.figure.as_ref().map(|figure| figure.unit.clone()),
        cpu: cpu.transpose()?,
        ratio: Ratio::of(&walls(&runs), &walls(&others)),
    };
    Ok((measured, counted))
}
