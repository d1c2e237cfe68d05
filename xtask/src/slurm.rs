//! `cargo xtask slurm`: a Slurm cluster of three nodes on this machine, whose GPUs are Belfry's.
//!
//! Each node is a `slurmd` under `belfry exec`, so that Slurm finds the node's GPUs by itself (`AutoDetect=rsmi`). Jobs are bound to
//! their GPUs, a matrix runs by `--engine slurm` while a node dies, the accounting has each job's GPUs, and nothing is left
//! afterwards. The cluster has a folder, ports and a key of its own; another Slurm on this machine is not touched.

mod accounting;
mod cluster;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use cluster::{Cluster, NODES};

/// Results after which a node dies.
const RESULTS_BEFORE: usize = 3;
/// The node that dies.
const VICTIM: &str = "n2";

/// The belfry of the nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A belfry that is there (built as a release when absent).
    #[arg(long, value_name = "FILE")]
    belfry: Option<PathBuf>,
}

/// Makes the cluster, uses it and takes it down.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    cluster::requirements()?;
    let belfry = match &options.belfry {
        Some(belfry) => belfry.canonicalize().with_context(|| belfry.display().to_string())?,
        None => crate::rocm::build(root)?,
    };
    let mut cluster = Cluster::start(&belfry, &root.join("docs/slurm/epilog.sh"))?;
    say!("{}", cluster.output("sinfo", &["-N", "-o", "%N %T %G"])?);
    bound_jobs(&cluster, &belfry)?;
    leavings(&mut cluster)?;
    matrix(root, &mut cluster, &belfry)?;
    accounting::check(&mut cluster)?;
    cluster.stop()
}

/// Runs two jobs of one GPU each on one node, and rocminfo in a third.
fn bound_jobs(cluster: &Cluster, belfry: &Path) -> Result<()> {
    let job = || {
        let mut srun = cluster.command("srun");
        srun.args(["--gres=gpu:1", "--nodelist=n1", "--overlap", "sh", "-c"]);
        srun.arg("sleep 5; echo $ROCR_VISIBLE_DEVICES").stdin(Stdio::null()).stdout(Stdio::piped());
        srun.stderr(Stdio::piped()).spawn().context("starting srun")
    };
    let jobs = [job()?, job()?];
    let mut devices = Vec::new();
    for job in jobs {
        let output = job.wait_with_output()?;
        ensure!(output.status.success(), "srun: {}", String::from_utf8_lossy(&output.stderr));
        devices.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    devices.sort();
    ensure!(devices == ["0", "1"], "two jobs at a time have the GPUs {devices:?}");
    say!("jobs: two at a time on n1, bound to the GPUs {}", devices.join(" and "));

    let node = &NODES[1];
    let belfry = belfry.to_string_lossy();
    let exec = ["exec", "--quiet", "--gpus", "2", "--chip", node.chip, "--image", "rocm", "--", "rocminfo"];
    let arguments = ["--gres=gpu:1", "--nodelist", node.name, &belfry];
    let listed = cluster.output("srun", &[&arguments[..], &exec[..]].concat())?;
    let agents =
        listed.lines().filter(|line| line.trim() == format!("Name:                    {}", node.chip));
    let agents = agents.count();
    ensure!(agents == 1, "rocminfo in a job with one of two GPUs lists {agents}:\n{listed}");
    say!("jobs: rocminfo on {} lists the job's GPU alone, of {}", node.name, node.gpus);
    Ok(())
}

/// Runs a job that leaves a process in a session of its own, which the epilog has to end.
fn leavings(cluster: &mut Cluster) -> Result<()> {
    let log = cluster.epilog_log();
    let said =
        cluster.output("srun", &["--nodelist=n1", "sh", "-c", "setsid sleep 1000 >&- 2>&- & echo $!"])?;
    let process: u32 = said.trim().parse().with_context(|| format!("the job says {said:?}"))?;
    cluster.wait("note of the epilog", |_| Ok(log.exists()))?;
    let note = std::fs::read_to_string(&log)?;
    ensure!(note.trim_end().ends_with(&format!(" left process {process}")), "the epilog says {note:?}");
    cluster.wait("end of that process", |_| Ok(!Path::new(&format!("/proc/{process}/environ")).exists()))?;
    say!("epilog: {}, and has ended it", note.trim_end());
    Ok(())
}

/// Runs the tests' matrix on the cluster, and kills a node in the middle.
fn matrix(root: &Path, cluster: &mut Cluster, belfry: &Path) -> Result<()> {
    let results = cluster.folder().join("results");
    let started = Instant::now();
    let mut command = cluster.environment(Command::new(belfry));
    command.arg("matrix").arg(root.join("tests/matrix.toml")).args(["--engine", "slurm", "--json"]);
    command.arg("--sbatch=--gres=gpu:1").arg("--out").arg(&results).stdout(Stdio::piped());
    let mut running = command.spawn().context("starting belfry matrix")?;
    // The node dies with a job on it.
    while ended(&results) < RESULTS_BEFORE || !cluster.is_busy(VICTIM)? {
        ensure!(running.try_wait()?.is_none(), "belfry matrix ended with {} results", ended(&results));
        ensure!(started.elapsed() < Duration::from_secs(300), "there is no result after 5 minutes");
        thread::sleep(Duration::from_millis(20));
    }
    let killed = cluster.kill(VICTIM)?;
    say!("matrix: {VICTIM} killed after {} results, with its {killed} processes", ended(&results));
    let output = running.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("the report of belfry matrix")?;
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let [passed, failed, absent, missing] = ["passed", "failed", "absent", "missing"].map(count);
    say!(
        "matrix: {} cells: {passed} passed, {failed} failed, {absent} absent, {missing} without a result; {} s",
        passed + failed + absent + missing,
        started.elapsed().as_secs()
    );
    ensure!(output.status.success(), "belfry matrix: {}", output.status);
    // The matrix may end before Slurm has given the node up.
    cluster.wait("word of Slurm that the dead node is down", |cluster| {
        Ok(cluster.output("sinfo", &["-h", "-N", "-n", VICTIM, "-o", "%T"])?.contains("down"))
    })
}

/// Number of results in a folder.
fn ended(results: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(results) else { return 0 };
    files.flatten().filter(|file| file.path().extension().is_some_and(|end| end == "json")).count()
}
