//! Several futures of one moment: processes that all go on from one snapshot, each with faults of its own.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belfry_device::faults::Chaos;
use belfry_process::child::{KillOnDrop, die_with_parent};
use serde::Serialize;
use serde_json::Value;

/// Bytes that are kept of the end of a future's output, and of its summary.
const KEPT: usize = 4096;
const SUMMARY: u64 = 1 << 20;

/// Reason for having no futures.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A process cannot be started.
    #[error("cannot start a process of this program: {0}")]
    Start(#[from] io::Error),
    /// A thread of this process panicked.
    #[error("a thread that waits for a future panicked")]
    Thread,
}

/// Snapshot to fork, and the choices of its futures.
#[derive(Clone, Debug)]
pub struct ForkOptions {
    /// The snapshot.
    pub snapshot: PathBuf,
    /// Futures, all at once.
    pub count: u32,
    /// Faults of the first future; each next one has the next seed. `None`: nothing fails.
    pub chaos: Option<Chaos>,
    /// Time limit of each future.
    pub limit: Duration,
}

/// End of a future.
#[derive(Clone, Debug, Serialize)]
pub struct Future {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its faults, as `run --chaos` takes them.
    pub chaos: Option<String>,
    /// The guest's status; 125 if the guest did not end by itself.
    pub status: i32,
    /// The last line of its output.
    pub last: String,
    /// Milliseconds from its start to its end.
    pub ms: f64,
    /// Milliseconds of these until the machine goes on.
    pub resume_ms: Option<f64>,
    /// Number of completed dispatches, those before the snapshot included.
    pub dispatches: Option<u64>,
    /// Strikes of faults, by rule.
    pub struck: Option<Value>,
}

impl fmt::Display for Future {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3}  status {:<3}  {:>8.1} ms", self.number, self.status, self.ms)?;
        if let Some(resume) = self.resume_ms {
            write!(f, "  (resumed in {resume:.0} ms)")?;
        }
        if let Some(chaos) = &self.chaos {
            write!(f, "  chaos {chaos}")?;
        }
        let struck = self.struck.as_ref().and_then(Value::as_object).filter(|struck| !struck.is_empty());
        for (rule, times) in struck.into_iter().flatten() {
            write!(f, "  {rule} x{times}")?;
        }
        write!(f, "  {}", self.last)
    }
}

/// Runs `count` processes that go on from the snapshot, and waits for all of them; `ended` gets each one when it has
/// ended.
///
/// # Errors
///
/// A process that cannot be started.
pub fn fork(options: &ForkOptions, ended: &(dyn Fn(&Future) + Sync)) -> Result<Vec<Future>, ForkError> {
    let program = std::env::current_exe()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=options.count)
            .map(|number| {
                let program = &program;
                scope.spawn(move || {
                    let future = one(program.as_os_str().to_owned(), options, number)?;
                    ended(&future);
                    Ok(future)
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<Future>>| {
            thread.join().map_err(|_| ForkError::Thread)?.map_err(ForkError::Start)
        };
        threads.into_iter().map(join).collect()
    })
}

/// Reads to the end, and keeps the last part.
fn tail(mut from: impl Read) -> String {
    let (mut text, mut part) = (Vec::new(), [0; KEPT]);
    while let Ok(count @ 1..) = from.read(&mut part) {
        text.extend_from_slice(&part[..count]);
        text.drain(..text.len().saturating_sub(KEPT));
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn one(program: OsString, options: &ForkOptions, number: u32) -> io::Result<Future> {
    let seed = |chaos: Chaos| Chaos { seed: chaos.seed.wrapping_add(u64::from(number) - 1), ..chaos };
    let chaos = options.chaos.map(|chaos| seed(chaos).to_string());
    let mut command = Command::new(program);
    command.args(["run", "--json", "--from"]).arg(&options.snapshot);
    command.args(["--timeout", &options.limit.as_secs().to_string()]);
    if let Some(chaos) = &chaos {
        command.args(["--chaos", chaos]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    die_with_parent(&mut command);
    let started = Instant::now();
    let mut process = KillOnDrop(command.spawn()?);
    let (stdout, stderr) = (process.0.stdout.take(), process.0.stderr.take());
    let (summary, said) = std::thread::scope(|scope| {
        let said = scope.spawn(|| stderr.map(tail).unwrap_or_default());
        let mut summary = Vec::new();
        // Text that is no summary leaves the fields of the summary empty.
        let _ = stdout.map(|stdout| stdout.take(SUMMARY).read_to_end(&mut summary));
        (summary, said.join().unwrap_or_default())
    });
    let status = process.0.wait()?;
    let summary: Value = serde_json::from_slice(&summary).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Ok(Future {
        number,
        chaos,
        status: status.code().unwrap_or_else(|| {
            128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
        }),
        last: last.trim().to_owned(),
        ms: started.elapsed().as_secs_f64() * 1000.0,
        resume_ms: summary["boot_ms"].as_f64(),
        dispatches: summary["dispatches"].as_u64(),
        struck: summary.get("struck").cloned(),
    })
}
