//! Runs over the hosted driver, in this process.

use belfry_examples::launch;
use belfry_guest::Stream;

use super::report::{from_device, milliseconds};
use super::{Mode, RunError, RunOptions, RunReport};
use crate::hosted::{self, Around};

/// Runs an example.
pub(super) fn run(
    options: &RunOptions,
    program: &str,
    arguments: &[String],
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    // A file that a guest would have at the mapped path is here under its own name.
    let mut arguments = arguments.to_vec();
    for mapping in &options.files {
        for argument in &mut arguments {
            *argument = substitute(argument, &mapping.guest, &mapping.host.display().to_string());
        }
    }
    if program == "launch" {
        launch::check(&arguments).map_err(RunError::Arguments)?;
    }
    let around = Around { inspect: options.inspect.as_ref(), snapshot: options.snapshot.as_ref() };
    let outcome = hosted::run((&options.gpus, around), program, &arguments, options.timeout, output)?;
    Ok(RunReport {
        mode: Mode::Hosted,
        program: program.to_owned(),
        arguments: options.program.get(1..).unwrap_or_default().to_vec(),
        exit_status: outcome.exit_status,
        boot_ms: milliseconds(outcome.device),
        driver_ms: milliseconds(outcome.driver),
        program_ms: milliseconds(outcome.program),
        ..from_device(&outcome.stats, outcome.unmodelled)
    }
    .with_faults(&outcome.faults))
}

/// Replaces `guest` by `host` if it is the whole argument or a path within a buffer's specification.
fn substitute(argument: &str, guest: &str, host: &str) -> String {
    if argument == guest {
        return host.to_owned();
    }
    let mut text = argument.to_owned();
    for key in ["file:", "out="] {
        let wanted = format!("{key}{guest}");
        if let Some(at) = text.find(&wanted) {
            let end = at + wanted.len();
            if end == text.len() || text[end..].starts_with(":out=") {
                text.replace_range(at + key.len()..end, host);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitution_touches_whole_paths_only() {
        for (argument, expected) in [
            ("/g/a", "/h/b"),
            ("/g/ab", "/g/ab"),
            ("buf:f32:4:file:/g/a", "buf:f32:4:file:/h/b"),
            ("buf:f32:4:file:/g/a:out=/g/a", "buf:f32:4:file:/h/b:out=/h/b"),
            ("buf:f32:4:file:/g/abc", "buf:f32:4:file:/g/abc"),
            ("i32:5", "i32:5"),
        ] {
            assert_eq!(substitute(argument, "/g/a", "/h/b"), expected);
        }
    }
}
