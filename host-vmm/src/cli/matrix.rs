//! `belfry matrix` on the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail, ensure};
use belfry_image::rootfs::{self};
use belfry_image::{Cache, Freshness, Progress};
use belfry_matrix::cells::{Build, Cell, cells, digest};
use belfry_matrix::file::Matrix;
use belfry_matrix::kubernetes::Job;
use belfry_matrix::local::{Runner, fitting, run_all};
use belfry_matrix::report::{Report, html, junit};
use belfry_matrix::results::{CellResult, Outcome, Results};
use belfry_matrix::slurm::Slurm;
use clap::{Args, ValueEnum};

use super::pages::VERSION;
use crate::output::{note, say};

/// The file by which kustomize finds the objects of a folder.
const KUSTOMIZATION: &str =
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - matrix.yaml\n";

/// Engines that run cells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Engine {
    /// Processes of this machine, as many as fit its processors and memory.
    #[default]
    Local,
    /// A job array of Slurm. All nodes see the matrix file, this binary and the folder of results.
    Slurm,
}

/// Clusters that a job can be written for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Cluster {
    /// A config map, a volume claim and an Indexed Job, for `kubectl apply -f`.
    Kubernetes,
}

/// One part of several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shard {
    /// From 0.
    index: usize,
    of: usize,
}

impl Shard {
    const ALL: Self = Self { index: 0, of: 1 };

    fn parse(text: &str, first: usize) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, of)| {
            let (index, of) = (index.parse::<usize>().ok()?.checked_sub(first)?, of.parse().ok()?);
            (index < of).then_some(Self { index, of })
        });
        parsed.ok_or(format!(
            "say it as K/N, with K from {first} to N{}",
            if first == 0 { " less 1" } else { "" }
        ))
    }

    const fn has(self, cell: &Cell) -> bool {
        cell.index % self.of == self.index
    }

    fn name(self) -> String {
        if self == Self::ALL { "all".into() } else { format!("shard-{}-of-{}", self.index + 1, self.of) }
    }
}

/// Runs programs on many chips, images, numbers of GPUs, schedules and faults, and reports on all of them; exits with 1 if a cell
/// failed or has no result.
///
/// A cell that passed is not run again as long as its program, image and options and this binary are the same.
#[derive(Debug, Args)]
pub(super) struct MatrixArgs {
    /// The matrix, in TOML.
    file: PathBuf,
    /// Runs cells by this engine.
    #[arg(long, value_enum, default_value_t)]
    engine: Engine,
    /// Cells at a time [default: as many as fit; all with slurm].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
    /// Folder of results, in which a matrix that was interrupted goes on [default: NAME.results].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs one part of the cells, as in 3/8.
    #[arg(long, value_name = "K/N", value_parser = |text: &str| Shard::parse(text, 1))]
    shard: Option<Shard>,
    /// As --shard, with K from 0: for pods.
    #[arg(long, hide = true, value_name = "K/N", conflicts_with = "shard", value_parser = |text: &str| Shard::parse(text, 0))]
    index: Option<Shard>,
    /// Runs every cell anew, those that passed as well.
    #[arg(long)]
    again: bool,
    /// Does not run cells that failed once more to record them for `belfry replay`.
    #[arg(long)]
    no_records: bool,
    /// Runs nothing: reports the results that the folder has.
    #[arg(long, conflicts_with_all = ["again", "cell"])]
    gather: bool,
    /// Lists the cells with their commands, and runs nothing.
    #[arg(long, conflicts_with_all = ["gather", "cell", "emit"])]
    list: bool,
    /// Writes the report as JUnit.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Writes the report as one HTML page with a grid.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints the report as one JSON object on stdout; progress goes to stderr.
    #[arg(long)]
    json: bool,
    /// A further option of `sbatch`, as in --sbatch=--partition=short; repeatable.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Prints a job for a cluster, and runs nothing.
    #[arg(long, value_enum, requires = "container_image")]
    emit: Option<Cluster>,
    /// Image with `belfry`, for --emit.
    #[arg(long, value_name = "IMAGE")]
    container_image: Option<String>,
    /// Writes the job into a folder, for `kubectl apply -k` and kustomize, and prints nothing.
    #[arg(long, value_name = "DIR", requires = "emit")]
    into: Option<PathBuf>,
    /// Pods that share the cells, for --emit [default: one for each cell, 100 at most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    shards: Option<u32>,
    /// Runs the cell of this number alone: for tasks of an engine.
    #[arg(long, hide = true, value_name = "N")]
    cell: Option<usize>,
}

pub(super) fn execute(args: &MatrixArgs) -> anyhow::Result<u8> {
    let matrix = Matrix::read(&args.file)?;
    let binary = std::env::current_exe().context("this program's own file")?;
    if let (Some(Cluster::Kubernetes), Some(image)) = (args.emit, &args.container_image) {
        return emit(args, &matrix, image);
    }
    let all = cells(&matrix, &build(&matrix, &binary)?)?;
    if args.list {
        all.iter()
            .for_each(|cell| say!("{:5}  {}: belfry {}", cell.index, cell.name(), cell.arguments.join(" ")));
        return Ok(0);
    }
    let shard = args.shard.or(args.index).unwrap_or(Shard::ALL);
    let mine: Vec<Cell> = all.into_iter().filter(|cell| shard.has(cell)).collect();
    let results = Results::open(&out(args))?;
    let runner = Runner { binary, base: matrix.base.clone(), limit: matrix.limit, records: !args.no_records };
    if let Some(index) = args.cell {
        let cell = mine
            .iter()
            .find(|cell| cell.index == index)
            .with_context(|| format!("there is no cell {index}"))?;
        let result = runner.run(cell, &results)?;
        results.keep(cell, &result)?;
        return Ok(u8::from(!matches!(result.outcome, Outcome::Passed | Outcome::Absent)));
    }
    let _claim = (!args.gather).then(|| results.claim(&shard.name())).transpose()?;
    // Ends that cannot be written are found out before hours of work, not after.
    for path in [&args.junit, &args.html].into_iter().flatten() {
        fs::File::options()
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
    }
    let mut report = Report { title: &matrix.title, build: VERSION, cells: Vec::new() };
    let kept: Vec<Option<CellResult>> = mine.iter().map(|cell| standing(args, cell, &results)).collect();
    if !args.gather {
        let left: Vec<Cell> =
            mine.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(cell, _)| cell.clone()).collect();
        if left.len() < mine.len() {
            tell(args, &format!("{} of {} cells have a result already", mine.len() - left.len(), mine.len()));
        }
        start(args, &matrix, &runner, &left, &results)?;
    }
    for (cell, kept) in mine.iter().zip(kept) {
        let result =
            kept.or_else(|| results.of(cell).map(|result| CellResult { kept: args.gather, ..result }));
        report.cells.push((cell, result));
    }
    finish(args, &report, &results)
}

/// Returns the result of a cell that need not run.
fn standing(args: &MatrixArgs, cell: &Cell, results: &Results) -> Option<CellResult> {
    let result = results.of(cell)?;
    // A reason to leave a cell out is no part of its key.
    let stands = result.outcome == Outcome::Passed && cell.absent.is_none();
    (args.gather || (stands && !args.again)).then_some(result)
}

fn start(
    args: &MatrixArgs,
    matrix: &Matrix,
    runner: &Runner,
    cells: &[Cell],
    results: &Results,
) -> anyhow::Result<()> {
    let done = AtomicUsize::new(0);
    let told = |result: &CellResult| {
        let at = done.fetch_add(1, Ordering::Relaxed) + 1;
        let CellResult { name, outcome, why, seconds, .. } = result;
        let word = match outcome {
            Outcome::Passed => "pass  ",
            Outcome::Failed | Outcome::TimedOut => "FAIL  ",
            Outcome::Absent => "absent",
        };
        let why = why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        tell(args, &format!("[{at}/{}] {word} {name} ({seconds:.1} s){why}", cells.len()));
    };
    let jobs = args.jobs.map(usize::from);
    match args.engine {
        Engine::Local => Ok(run_all(runner, cells, jobs.unwrap_or_else(|| fitting(matrix)), results, &told)?),
        Engine::Slurm => {
            // What is left out needs no task.
            let (absent, cells): (Vec<Cell>, Vec<Cell>) =
                cells.iter().cloned().partition(|cell| cell.absent.is_some());
            run_all(runner, &absent, 1, results, &told)?;
            let slurm = Slurm {
                binary: runner.binary.clone(),
                file: args.file.canonicalize()?,
                options: args.no_records.then(|| "--no-records".to_owned()).into_iter().collect(),
                sbatch: args.sbatch.clone(),
                jobs: jobs.unwrap_or(0),
            };
            Ok(slurm.run_all(matrix, &cells, results, &told)?)
        }
    }
}

/// Writes the reports. Returns the exit status.
fn finish(args: &MatrixArgs, report: &Report<'_>, results: &Results) -> anyhow::Result<u8> {
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => fs::write(path, text()).with_context(|| path.display().to_string()),
        None => Ok(()),
    };
    write(&args.junit, &|| junit(report))?;
    write(&args.html, &|| html(report))?;
    let counts = report.counts();
    if args.json {
        say!("{:#}", report.json());
    }
    tell(args, &format!("{counts}; results in {}", results.folder().display()));
    Ok(u8::from(!counts.are_good()))
}

fn tell(args: &MatrixArgs, text: &str) {
    if args.json {
        note!("{text}");
    } else {
        say!("{text}");
    }
}

fn out(args: &MatrixArgs) -> PathBuf {
    args.out.clone().unwrap_or_else(|| {
        let mut name = args.file.file_stem().unwrap_or_default().to_owned();
        name.push(".results");
        PathBuf::from(name)
    })
}

/// Returns what results depend on. Images that are not there are made now, once, and not by each cell.
fn build(matrix: &Matrix, binary: &Path) -> anyhow::Result<Build> {
    let mut images = BTreeMap::new();
    for name in matrix.programs.iter().flat_map(|program| &program.image) {
        if !images.contains_key(name) {
            let tree = rootfs::obtain(&Cache::open()?, name, Freshness::Cached, &Progress::new())?;
            // The folder's name has a hash of the recipe and of the packages; its place is another one on other machines.
            let contents = tree.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            images.insert(name.clone(), contents);
        }
    }
    let binary = digest(binary).with_context(|| binary.display().to_string())?;
    Ok(Build { binary, images })
}

fn emit(args: &MatrixArgs, matrix: &Matrix, image: &str) -> anyhow::Result<u8> {
    ensure!(
        matrix.text.len() < 1_000_000,
        "a config map has no room for this matrix file: a mebibyte at most"
    );
    if let Some(program) = matrix.programs.iter().find(|program| {
        let name = &program.run[0];
        (name.contains('/') && !name.starts_with('/')) || !program.files.is_empty()
    }) {
        bail!(
            "program {:?} is a file beside the matrix, which no pod has: put it into the image, and name it by its absolute path",
            program.name
        );
    }
    let count: usize = cells(matrix, &Build::default())?.len();
    let shards = args.shards.map_or(count.min(100), |shards| shards as usize).max(1);
    let parallelism = args.jobs.map_or(shards, usize::from);
    let options = args.no_records.then(|| "--no-records".to_owned()).into_iter().collect();
    let job = Job { image: image.to_owned(), shards, parallelism, options };
    let objects = format!("{:#}\n", job.objects(matrix));
    let Some(folder) = &args.into else {
        say!("{}", objects.trim_end());
        return Ok(0);
    };
    // JSON is YAML, too.
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (name, content) in [("matrix.yaml", objects.as_str()), ("kustomization.yaml", KUSTOMIZATION)] {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_counts_from_one_and_index_from_zero() {
        assert_eq!(Shard::parse("3/8", 1), Ok(Shard { index: 2, of: 8 }));
        assert_eq!(Shard::parse("0/8", 0), Ok(Shard { index: 0, of: 8 }));
        for wrong in ["0/8", "9/8", "8", "a/b", "1/0", "-1/2"] {
            assert!(Shard::parse(wrong, 1).is_err(), "{wrong}");
        }
        assert!(Shard::parse("8/8", 0).is_err());
    }
}
