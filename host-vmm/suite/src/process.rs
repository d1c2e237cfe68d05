//! A child in a process group of its own, with a time limit: nothing of it outlives the call.

use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_process::usage::ends_within;
use rustix::process::{Pid, Signal, kill_process_group};

/// Most that is kept of one output stream, in bytes.
const KEPT: u64 = 1 << 20;
/// Longest time outputs may stay open after all of the child's group is dead.
const GRACE: Duration = Duration::from_secs(5);

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// The program did not end within this time, and was killed.
    TimedOut(Duration),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut(limit) => write!(f, "no end within {} s, killed", limit.as_secs()),
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        // A status has either a code or a signal.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Status)
    }
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// End of the program.
    pub ended: Ended,
    /// Its standard output, at most a mebibyte of it.
    pub stdout: String,
    /// Its standard error, at most as much; after that, if it was killed, the waits of its threads.
    pub stderr: String,
}

/// Runs `command` for at most `limit` without input, then kills the rest of its process group.
///
/// # Errors
///
/// A program that cannot be started or waited for; how it ends is no error.
pub fn run(command: Command, limit: Duration) -> Result<Outcome> {
    run_with_input(command, Stdio::null(), limit)
}

/// Runs `command` as [`run`] does, with `input` to read.
///
/// # Errors
///
/// As of [`run`].
pub fn run_with_input(mut command: Command, input: Stdio, limit: Duration) -> Result<Outcome> {
    let name = command.get_program().display().to_string();
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    belfry_process::child::die_with_parent(&mut command);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let pid = Pid::from_child(&child);
    let ended_in_time = ends_within(pid, limit);
    let waiting = matches!(ended_in_time, Ok(false)).then(|| crate::threads::describe(pid));
    // Before it is reaped, so that the number cannot be another group's; the group may have no process left.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    let ended =
        if ended_in_time.context("waiting for its end")? { status.into() } else { Ended::TimedOut(limit) };
    let mut stderr = text(&stderr);
    if let Some(waiting) = waiting {
        stderr.push_str("\n--- its threads before it was killed\n");
        stderr.push_str(&waiting);
    }
    Ok(Outcome { ended, stdout: text(&stdout), stderr })
}

/// Reads a pipe to its end on a thread of its own.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            // A pipe that breaks gives the bytes before; the rest is read so that the writer does not stop.
            let _ = (&mut pipe).take(KEPT).read_to_end(&mut kept);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            let _ = sender.send(kept);
        });
    }
    receiver
}

fn text(output: &Receiver<Vec<u8>>) -> String {
    output.recv_timeout(GRACE).map_or_else(
        |_| "(this output is held open by a process that left the program's group)".to_owned(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit).unwrap()
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn status_and_both_outputs_are_told() {
        let outcome = shell("echo out; echo err >&2; exit 3", LONG);
        assert_eq!(
            outcome,
            Outcome { ended: Ended::Status(3), stdout: "out\n".into(), stderr: "err\n".into() }
        );
    }

    #[test]
    fn signal_is_told() {
        assert_eq!(shell("kill -ABRT $$", LONG).ended, Ended::Signal(6));
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed_when_it_ends() {
        // Without the kill the reader of the output would wait for the sleeper.
        let outcome = shell("sleep 10000 & echo $!", LONG);
        assert_eq!(outcome.ended, Ended::Status(0));
        let sleeper = outcome.stdout.trim();
        let state = || std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        let gone = |state: &str| state.is_empty() || state.contains(") Z");
        // A process that was killed closes its files before it is gone.
        let soon = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            gone(&state())
        });
        assert!(soon, "{}", state());
    }

    #[test]
    fn endless_program_is_killed_with_its_children() {
        let limit = Duration::from_millis(300);
        let outcome = shell("sleep 10000 & echo started; wait", limit);
        assert_eq!(outcome.ended, Ended::TimedOut(limit));
        assert_eq!(outcome.stdout, "started\n");
        assert!(
            outcome.stderr.contains("sleep 10000\n") && outcome.stderr.contains("system call"),
            "{}",
            outcome.stderr
        );
    }

    #[test]
    fn endless_output_is_cut() {
        let outcome = shell("head -c 5000000 /dev/zero", LONG);
        assert_eq!(outcome.stdout.len() as u64, KEPT);
    }
}
