//! Runs apt, dpkg and the like, and reports their output when they fail.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::error::FetchError;

/// The longest pause between two looks at a child.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Lines of each stream that an error has.
const LINES: usize = 6;

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
    let command = format!("{program} {verb}");
    let stderr = reason(&String::from_utf8_lossy(&stdout), &String::from_utf8_lossy(&stderr));
    if stderr.contains("No space left on device") {
        return Err(FetchError::DiskFull { command });
    }
    Err(FetchError::Command { command, status: status.to_string(), stderr })
}

/// The end of a child's output on stderr, and before it the packages that keep others out: apt writes those to stdout.
fn reason(stdout: &str, stderr: &str) -> String {
    let is_text = |line: &&str| !line.trim().is_empty();
    let unmet: Vec<&str> = stdout
        .lines()
        .skip_while(|line| !line.ends_with("unmet dependencies:"))
        .skip(1)
        .filter(is_text)
        .map(str::trim)
        .collect();
    let errors: Vec<&str> = stderr.lines().filter(is_text).collect();
    let errors = &errors[errors.len().saturating_sub(LINES)..];
    let left_out = unmet.len().saturating_sub(LINES);
    let more = (left_out != 0).then(|| format!("and {left_out} lines more"));
    let unmet = unmet.into_iter().take(LINES).map(str::to_owned).chain(more);
    unmet.chain(errors.iter().map(|&line| line.to_owned())).collect::<Vec<_>>().join("; ")
}

fn read_in_background(mut stream: impl io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_named_with_its_remedy_and_not_blamed_on_the_network() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'E: Write error - write (28: No space left on device)' >&2; exit 100"]);
        let error = run_command(command, "apt-get", "update", &mut || ()).unwrap_err();
        assert!(matches!(error, FetchError::DiskFull { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("apt-get update") && text.contains("BELFRY_CACHE"), "{text}");
    }

    #[test]
    fn reason_has_the_packages_that_apt_names_on_stdout() {
        let stdout = "Reading package lists...\n\nThe following packages have unmet dependencies:\n \
                      libnew7 : Depends: libold (>= 7) but 6 is to be installed\n           \
                      Depends: libother but it is not going to be installed\n";
        let stderr = "E: Unable to correct problems, you have held broken packages.\n";
        assert_eq!(
            reason(stdout, stderr),
            "libnew7 : Depends: libold (>= 7) but 6 is to be installed; Depends: libother but it is not going to be \
             installed; E: Unable to correct problems, you have held broken packages."
        );
        assert_eq!(reason("Reading package lists...\n", "W: a\nE: b\n"), "W: a; E: b");
        let many: String = (0..9).map(|at| format!(" p{at} : Depends: q\n")).collect();
        let long = reason(&format!("x unmet dependencies:\n{many}"), "E: c");
        assert!(long.ends_with("p5 : Depends: q; and 3 lines more; E: c"), "{long}");
    }
}
