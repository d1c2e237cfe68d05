//! One run of a program under `belfry exec`: times of the clock, of processors, and what the device says at the end.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use belfry_process::usage;
use serde::{Deserialize, Serialize};

use super::ready::Ready;

/// Bytes of a program's output that are kept for an error.
const KEPT: usize = 4000;

/// A `belfry` and the options of its GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Under<'a> {
    /// The binary.
    pub belfry: &'a Path,
    /// Name of the chip.
    pub chip: &'a str,
    /// Threads that execute waves; as many as `exec` takes by itself if there is no number.
    pub workers: Option<usize>,
    /// True if compiled code counts its time.
    pub costs: bool,
    /// Time limit of a run.
    pub limit: Duration,
}

/// Figures of one run. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// By the clock, with the start of belfry.
    pub wall: f64,
    /// Of processors, of all processes.
    pub processor: f64,
    /// Of the program's own threads.
    pub program: f64,
    /// The part of it in waits of ROCr for signals.
    pub waits: f64,
    /// Of threads that execute waves.
    pub workers: f64,
    /// Of the other threads of driver and device.
    pub device: f64,
    /// Most memory of a process in bytes.
    pub peak: u64,
    /// Wave instructions.
    pub instructions: u64,
    /// The figure that the program prints.
    pub figure: Option<f64>,
    /// Times of compiled code, if it has counted.
    pub code: Option<Code>,
}

/// Times of compiled code in a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Code {
    /// Wave instructions that it has executed, those of handlers that it calls among them.
    pub instructions: u64,
    /// Seconds in it and in those handlers.
    pub time: f64,
    /// Calls of handlers, and seconds in them, by operation.
    pub handlers: BTreeMap<String, (u64, f64)>,
}

/// The JSON of `exec --json`, of this version or an older one.
#[derive(Debug, Deserialize)]
struct Report {
    exit_status: i32,
    #[serde(default)]
    processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Process {
    #[serde(default)]
    wave_instructions: u64,
    #[serde(default)]
    processor_ms: Times,
    #[serde(default)]
    peak_bytes: u64,
    #[serde(default)]
    code: Option<Counted>,
}

#[derive(Debug, Default, Deserialize)]
struct Times {
    program: f64,
    waits: f64,
    workers: f64,
    device: f64,
}

#[derive(Debug, Deserialize)]
struct Counted {
    instructions: u64,
    ms: f64,
    handlers: BTreeMap<String, (u64, f64)>,
}

/// Runs a program on the GPU.
///
/// # Errors
///
/// A program that fails or takes too long, with the end of its output.
pub(super) fn on_gpu(under: Under<'_>, ready: &Ready, figure: impl Fn(&str) -> Option<f64>) -> Result<Run> {
    let Under { belfry, chip, workers, costs, .. } = under;
    let mut command = Command::new(belfry);
    command.args(["exec", "--quiet", "--json", "--chip", chip, "--image", &ready.image]);
    if let Some(workers) = workers {
        command.args(["--workers", &workers.to_string()]);
    }
    if costs {
        command.arg("--costs");
    }
    command.arg("--").args(&ready.command);
    let ended = run(command, under.limit)?;
    let report: Report = serde_json::from_str(ended.out.trim())
        .with_context(|| format!("{}: no summary\n{}", ready.command[0], ended.last()))?;
    if report.exit_status != 0 {
        bail!("{}: exit status {}\n{}", ready.command[0], report.exit_status, ended.last());
    }
    Ok(sum(&report, &ended, figure(&ended.err)))
}

/// Runs the same work on the processor: its figure, or the time by the clock.
///
/// # Errors
///
/// As for [`on_gpu`].
pub(super) fn on_processor(
    under: Under<'_>,
    (image, words): (&str, &[String]),
    figure: impl Fn(&str) -> Option<f64>,
) -> Result<f64> {
    let mut command = Command::new(under.belfry);
    command.args(["exec", "--quiet", "--image", image, "--"]).args(words);
    let ended = run(command, under.limit)?;
    if ended.status != 0 {
        bail!("{}: exit status {}\n{}", words.join(" "), ended.status, ended.last());
    }
    Ok(figure(&ended.out).unwrap_or(ended.wall))
}

/// End of a process with its output.
#[derive(Debug)]
struct Ended {
    status: i32,
    wall: f64,
    processor: f64,
    out: String,
    err: String,
}

impl Ended {
    /// The end of the output.
    fn last(&self) -> &str {
        let text = if self.err.trim().is_empty() { &self.out } else { &self.err };
        let mut from = text.len().saturating_sub(KEPT);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        &text[from..]
    }
}

fn run(mut command: Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {name}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // An output that breaks off is as good as one that ends.
            let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(out.map(|out| Box::new(out) as Box<dyn std::io::Read + Send>));
    let err = read(err.map(|err| Box::new(err) as Box<dyn std::io::Read + Send>));
    let ended = usage::wait(&mut child, limit).with_context(|| format!("waiting for {name}"))?;
    let wall = begin.elapsed().as_secs_f64();
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    let Some(usage::Usage { status, processor }) = ended else {
        bail!("{name}: did not end within {} s", limit.as_secs());
    };
    Ok(Ended { status, wall, processor: processor.as_secs_f64(), out, err })
}

fn sum(report: &Report, ended: &Ended, figure: Option<f64>) -> Run {
    let all = |part: fn(&Times) -> f64| {
        report.processes.iter().map(|process| part(&process.processor_ms)).sum::<f64>() / 1e3
    };
    let counted = report.processes.iter().filter_map(|process| process.code.as_ref());
    let code = counted.fold(None, |sum: Option<Code>, more| {
        let mut sum = sum.unwrap_or_default();
        sum.instructions += more.instructions;
        sum.time += more.ms / 1e3;
        for (name, &(calls, ms)) in &more.handlers {
            let handler = sum.handlers.entry(name.clone()).or_default();
            handler.0 += calls;
            handler.1 += ms / 1e3;
        }
        Some(sum)
    });
    Run {
        wall: ended.wall,
        processor: ended.processor,
        program: all(|times| times.program),
        waits: all(|times| times.waits),
        workers: all(|times| times.workers),
        device: all(|times| times.device),
        peak: report.processes.iter().map(|process| process.peak_bytes).max().unwrap_or_default(),
        instructions: report.processes.iter().map(|process| process.wave_instructions).sum(),
        figure,
        code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Ended {
        Ended { status: 0, wall: 2.0, processor: 3.0, out: String::new(), err: String::new() }
    }

    #[test]
    fn processes_of_a_program_are_added_up() {
        let report: Report = serde_json::from_str(
            r#"{"exit_status":0,"processes":[
                {"wave_instructions":5,"processor_ms":{"program":1000,"waits":500,"workers":250,"device":1},
                 "peak_bytes":7,"code":{"instructions":4,"ms":100,"handlers":{"v_a":[1,500]}}},
                {"wave_instructions":6,"processor_ms":{"program":500,"waits":0,"workers":250,"device":1},
                 "peak_bytes":9,"code":{"instructions":6,"ms":100,"handlers":{"v_a":[2,250],"v_b":[1,1]}}}]}"#,
        )
        .unwrap();
        let run = sum(&report, &ended(), Some(1.5));
        assert_eq!((run.program, run.waits, run.workers, run.peak), (1.5, 0.5, 0.5, 9));
        assert_eq!((run.instructions, run.figure), (11, Some(1.5)));
        let code = run.code.unwrap();
        assert_eq!((code.instructions, code.time), (10, 0.2));
        assert_eq!(code.handlers["v_a"], (3, 0.75));
    }

    #[test]
    fn summaries_of_older_versions_have_what_they_have() {
        let report: Report =
            serde_json::from_str(r#"{"exit_status":0,"processes":[{"wave_instructions":5}]}"#).unwrap();
        let run = sum(&report, &ended(), None);
        assert_eq!((run.instructions, run.workers, run.code), (5, 0.0, None));
    }

    #[test]
    fn programs_that_fail_or_never_end_are_errors() {
        let shell = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        let ended = run(shell("echo said >&2; exit 3"), Duration::from_secs(60)).unwrap();
        assert_eq!((ended.status, ended.last()), (3, "said\n"));
        assert!(run(shell("exec sleep 60"), Duration::from_millis(50)).is_err());
    }
}
