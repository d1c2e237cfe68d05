//! Results of a program and its processes: the JSON of `exec --json`.
#![expect(unsafe_code, reason = "passes signals on")]

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use belfry_report::{End, Line, milliseconds};
pub use belfry_report::{ProcessReport, RecordOfProcess};
use serde::Serialize;

use super::{ExecError, ExecOptions, Prepare};

/// Result of the program; `exec --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecReport {
    /// Always `exec`.
    pub mode: &'static str,
    /// The program's name or path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its exit status; 128 + the signal's number for a killed program.
    pub exit_status: i32,
    /// The signal that has ended it.
    pub signal: Option<i32>,
    /// Milliseconds the program took.
    pub program_ms: f64,
    /// Each process that used the GPU, in the order of their ends as far as it is known.
    pub processes: Vec<ProcessReport>,
}

/// The number of the program's process, for passing signals on to it.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: i32) {
    let pid = PROGRAM.load(Ordering::Relaxed);
    if pid > 0 {
        // SAFETY: the program has not been waited for, so that the number is its own.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Starts the program, passes signals on to it, and waits for its end.
fn wait_for(mut prepared: Prepare) -> Result<(i32, ExitStatus), ExecError> {
    let mut child = match prepared.command.spawn() {
        Ok(child) => child,
        Err(source) => return Err(prepared.failed(source)),
    };
    let pid = child.id() as i32;
    PROGRAM.store(pid, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler calls kill and nothing else.
        unsafe { libc::signal(signal, pass_on as *const () as libc::sighandler_t) };
    }
    let status = child.wait().map_err(ExecError::io("wait for", &prepared.program))?;
    PROGRAM.store(0, Ordering::Relaxed);
    Ok((pid, status))
}

/// Returns the status as a shell has it: 128 + the signal's number for a killed program.
fn exit_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

pub(super) fn wait(options: &ExecOptions) -> Result<i32, ExecError> {
    wait_for(options.prepare(None)?).map(|(_, status)| exit_status(status))
}

/// Destination of the program's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// Standard output stays the program's.
    Kept,
    /// Standard output goes to standard error: a report needs standard output for itself.
    Moved,
}

pub(super) fn run(options: &ExecOptions, stdout: Stdout) -> Result<ExecReport, ExecError> {
    let summary = tempfile::NamedTempFile::new().map_err(ExecError::io("create in", std::env::temp_dir()))?;
    let mut prepared = options.prepare(Some(summary.path()))?;
    if stdout == Stdout::Moved {
        let output = io::stderr();
        prepared.command.stdout(Stdio::from(
            std::os::fd::AsFd::as_fd(&output)
                .try_clone_to_owned()
                .map_err(ExecError::io("copy", "stderr"))?,
        ));
    }
    let arguments =
        prepared.command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let program = prepared.program.clone();
    let started = Instant::now();
    let (pid, status) = wait_for(prepared)?;
    let program_ms = milliseconds(started.elapsed());
    let text = fs::read_to_string(summary.path()).map_err(ExecError::io("read", summary.path()))?;
    let signal = status.signal();
    let exit_status = exit_status(status);
    let settled = processes(&text)?.into_iter().map(|line| {
        let signal = (line.process.pid == pid).then_some(signal).flatten();
        settle(line, signal)
    });
    let processes = settled.collect();
    Ok(ExecReport { mode: "exec", program, arguments, exit_status, signal, program_ms, processes })
}

/// Adds what the process could not report: that it runs, or `signal`, which is known to have ended it.
fn settle(Line { started, mut process }: Line, signal: Option<i32>) -> ProcessReport {
    process.counted = process.end != End::Lost;
    if process.end == End::Lost && runs(process.pid, started) {
        process.end = End::Running;
    } else if signal.is_some() {
        process.end = End::Signalled;
        process.signal = signal;
    }
    process
}

/// Returns true if the process with that number and start time has not ended.
fn runs(pid: i32, started: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name, which may hold anything, is followed by the state; the 22nd field is the start time.
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    let state = fields.next();
    let since = fields.nth(18).and_then(|field| field.parse().ok());
    since == Some(started) && !matches!(state, Some("Z" | "X"))
}

/// Reads the processes that have written a line; of several lines of one process, the last counts.
fn processes(text: &str) -> Result<Vec<Line>, ExecError> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line)?;
        lines.retain(|earlier| earlier.process.pid != line.process.pid);
        lines.push(line);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_of_a_process_counts() {
        let line = |pid: i32, dispatches: u64| {
            format!(
                r#"{{"pid":{pid},"started":0,"end":"exited","signal":null,"program":"p","arguments":[],"start_ms":1.0,"program_ms":2.0,"dispatches":{dispatches},
                "waves":0,"wave_instructions":0,"doorbells":{{"trapped":0,"woken":0,"polled":0}},"page_walks":0,
                "interrupts":0,"errors":{{}},"unmodelled":[]}}"#
            )
            .replace('\n', "")
        };
        let found = processes(&[line(1, 1), line(2, 5), line(1, 2)].join("\n")).unwrap();
        let found: Vec<_> = found.iter().map(|line| (line.process.pid, line.process.dispatches)).collect();
        assert_eq!(found, [(2, 5), (1, 2)]);
        assert!(processes("no json").is_err());
    }

    #[test]
    fn what_a_process_could_not_tell_is_found_out() {
        let pid = std::process::id() as i32;
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        let settled = |pid: i32, started: u64, end: &str, killed: Option<i32>| {
            let line = format!(
                r#"{{"pid":{pid},"started":{started},"end":"{end}","signal":null,"program":"p","arguments":[],
                "start_ms":1.0,"program_ms":2.0,"dispatches":3,"waves":0,"wave_instructions":0,
                "doorbells":{{"trapped":0,"woken":0,"polled":0}},"page_walks":0,"interrupts":0,"errors":{{}},"unmodelled":[]}}"#
            );
            let process = settle(processes(&line.replace('\n', "")).unwrap().remove(0), killed);
            (process.end, process.signal, process.counted)
        };
        assert_eq!(settled(pid, started, "lost", None), (End::Running, None, false));
        assert_eq!(settled(pid, started + 1, "lost", None), (End::Lost, None, false), "another process");
        assert_eq!(settled(pid, started + 1, "lost", Some(9)), (End::Signalled, Some(9), false));
        assert_eq!(settled(pid, started, "exited", None), (End::Exited, None, true));
        assert_eq!(
            settled(pid, started, "exited", Some(11)),
            (End::Signalled, Some(11), true),
            "while it ended"
        );
    }
}
