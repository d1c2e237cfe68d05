//! `--snapshot` and `--from` of `belfry run`, `belfry snapshot` and `belfry fork`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belfry_device::faults::Chaos;
use belfry_machine::snapshot::{Head, HostedSnapshot, Kind, Snapshot};
use clap::Args;

use crate::inspect::Client;
use crate::output::{note, say};
use crate::snapshot::{ForkOptions, Moment, SnapshotOptions, fork};

/// Snapshot that a run is saved to, and snapshot that it goes on from.
#[derive(Debug, Default, Args)]
pub(super) struct SnapshotArgs {
    /// Saves machine and GPU together to a file while they run; `--from` and `belfry fork` go on from it. With --mode
    /// kvm, it needs a guest without disks, folders and a network; with --mode hosted, it saves the GPU and the
    /// memory that the GPU reaches.
    #[arg(long, value_name = "FILE", requires = "snapshot_at")]
    snapshot: Option<PathBuf>,
    /// Moment of the snapshot: a time after the start of the program, or of the bare-metal guest (250ms, 2s), or an
    /// event of the GPU as `replay --until` takes it (dispatch:3, workgroup:10). Work under way is saved as it is.
    #[arg(long, value_name = "WHEN", requires = "snapshot")]
    snapshot_at: Option<Moment>,
    /// Goes on from a snapshot, in memory that is mapped copy-on-write. The file says what the machine and the GPU
    /// are; --fault, --chaos, --workers, --tier and everything that looks at the GPU are free. The GPU of a hosted
    /// program goes on without the program, until its queues are idle.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "guest", "doorbell", "chip", "cus", "vram", "deterministic", "cpus", "memory", "huge_pages", "disks", "append", "image", "root",
        "shares", "ssh", "net", "interactive", "files", "program", "record", "warm",
    ])]
    from: Option<PathBuf>,
    /// Starts from a snapshot of a guest that has booted and loaded its driver; the first such run makes it and keeps
    /// it in the cache. For --mode kvm with a Debian guest.
    #[arg(long)]
    pub(super) warm: bool,
    /// Reads all memory of the snapshot first, and compares it with its digests.
    #[arg(long, requires = "from")]
    verify: bool,
}

impl SnapshotArgs {
    /// Returns true if any of these options is given.
    pub(super) fn is_asked_for(&self) -> bool {
        self.snapshot.is_some() || self.from.is_some() || self.warm
    }
}

/// Reads a snapshot, with all of its memory if `memory` is set, and prints what it is of.
fn checked(file: &Path, memory: bool) -> anyhow::Result<Head> {
    let head = Snapshot::head_of(file)?;
    match head.kind {
        Kind::Machine => {
            let snapshot = Snapshot::open(file)?;
            if memory {
                snapshot.check_memory()?;
            }
        }
        Kind::Hosted => {
            let snapshot = HostedSnapshot::open(file)?;
            if memory {
                snapshot.check_memory()?;
            }
        }
    }
    Ok(head)
}

impl SnapshotArgs {
    /// Returns the snapshot to make, and the file to go on from.
    ///
    /// # Errors
    ///
    /// A snapshot whose memory is damaged.
    pub(super) fn options(self) -> anyhow::Result<(Option<SnapshotOptions>, Option<PathBuf>)> {
        if let (Some(file), true) = (&self.from, self.verify) {
            checked(file, true)?;
        }
        let snapshot = self.snapshot.zip(self.snapshot_at).map(|(path, at)| SnapshotOptions { path, at });
        Ok((snapshot, self.from))
    }
}

/// Saves a running `belfry run --inspect` of --mode kvm or --mode hosted as it is now; the run goes on.
#[derive(Debug, Args)]
pub(super) struct SnapshotCommand {
    /// The process [default: the only one that there is].
    #[arg(long)]
    pid: Option<u32>,
    /// The file. With --check, an existing one.
    file: PathBuf,
    /// Saves nothing: prints the contents of a snapshot, and compares its memory with its digests.
    #[arg(long, conflicts_with = "pid")]
    check: bool,
}

/// Runs `belfry snapshot`.
pub(super) fn snapshot(args: &SnapshotCommand) -> anyhow::Result<u8> {
    if args.check {
        let head = checked(&args.file, true)?;
        let chip = if head.chip.is_empty() { "no GPU" } else { &head.chip };
        let of = match head.kind {
            Kind::Machine => format!("{} vCPUs", head.cpus),
            Kind::Hosted => Kind::Hosted.to_string(),
        };
        say!(
            "{}: release {}, {of}, {} MiB of memory ({} pages used), {chip}, {} MiB of VRAM ({} pages used), {} waves in flight",
            args.file.display(),
            head.release,
            head.ram.length >> 20,
            head.ram.pages,
            head.vram.length >> 20,
            head.vram.pages,
            head.waves
        );
        return Ok(0);
    }
    let path = std::path::absolute(&args.file)?;
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", args.file.display()))?;
    let answer = Client::connect(args.pid)?.ask(&format!("snapshot {path}"))?;
    say!("{}", answer.as_str().unwrap_or_default());
    Ok(0)
}

/// Explores several futures of one moment: N processes go on from a snapshot at once, each with faults of its own.
///
/// Prints a line for each future as it ends, and exits with 0 if all of them ended with 0, otherwise with 1.
#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// Futures to run.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    count: u32,
    /// Lets parts of the GPU fail by chance: the first future has this seed, each next one the next seed [default:
    /// nothing fails].
    #[arg(long, value_name = "SEED[:RATE]")]
    chaos: Option<Chaos>,
    /// Time limit of a future in seconds.
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Prints the futures as one JSON array.
    #[arg(long)]
    json: bool,
    /// The moment of a run at which it is forked, as `run --snapshot-at` takes it.
    #[arg(long, value_name = "WHEN", requires = "run", conflicts_with = "snapshot")]
    at: Option<Moment>,
    /// A snapshot.
    #[arg(required_unless_present = "run")]
    snapshot: Option<PathBuf>,
    /// Arguments of `belfry run`, which runs to its end first and is saved at --at.
    #[arg(last = true, value_name = "RUN", conflicts_with = "snapshot", requires = "at")]
    run: Vec<OsString>,
}

/// Runs the program to be forked, and saves it.
fn first_run(args: &ForkArgs, file: &Path) -> anyhow::Result<()> {
    let at = args.at.map(|at| at.to_string()).unwrap_or_default();
    let split = args.run.iter().position(|argument| argument == "--").unwrap_or(args.run.len());
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").args(&args.run[..split]).arg("--snapshot").arg(file).args(["--snapshot-at", &at]);
    let status = command.args(&args.run[split..]).stdout(std::io::stderr()).status()?;
    note!("belfry: the run that is forked ended with {status}");
    ensure!(file.exists(), "there is nothing to fork: the run was not saved");
    Ok(())
}

/// Runs `belfry fork`.
pub(super) fn execute_fork(args: &ForkArgs) -> anyhow::Result<u8> {
    let folder = tempfile::tempdir().context("a place for the snapshot")?;
    let file = match &args.snapshot {
        Some(file) => file.clone(),
        None => {
            let file = folder.path().join("snapshot");
            first_run(args, &file)?;
            file
        }
    };
    // Problems of the file are told once, here.
    checked(&file, false)?;
    let options = ForkOptions {
        snapshot: file,
        count: args.count,
        chaos: args.chaos,
        limit: Duration::from_secs(args.timeout),
    };
    let json = args.json;
    let futures = fork(&options, &|future| {
        if !json {
            say!("{future}");
        }
    })?;
    if json {
        say!("{}", serde_json::to_string(&futures)?);
    }
    Ok(u8::from(futures.iter().any(|future| future.status != 0)))
}
