//! Runs apt, dpkg and the like, and says what they said when they fail.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::error::FetchError;

/// The longest pause between two looks at a child.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Runs a child with its output captured, calling `watch` some ten times a second while it runs.
pub(crate) fn run_command(
    mut command: Command,
    program: &str,
    verb: &str,
    watch: &mut dyn FnMut(),
) -> Result<String, FetchError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FetchError::Missing {
            program: program.to_owned(),
            package: if program == "dpkg-deb" { "dpkg" } else { "apt" },
        },
        _ => FetchError::Command {
            command: format!("{program} {verb}"),
            status: "not started".into(),
            stderr: source.to_string(),
        },
    };
    belfry_process::child::die_with_parent(&mut command);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let stdout = child.stdout.take().map(read_in_background);
    let stderr = child.stderr.take().map(read_in_background);
    // Most children unpack a small package and are done at once; there are hundreds of them.
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        watch();
    };
    let collect = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    Err(FetchError::Command {
        command: format!("{program} {verb}"),
        status: status.to_string(),
        stderr: lines[lines.len().saturating_sub(6)..].join("; "),
    })
}

fn read_in_background(mut stream: impl io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}
