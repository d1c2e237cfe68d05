//! Files that the binary cannot use: files that may not grow, files without an end, and pipes without a writer.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const BELFRY: &str = env!("CARGO_BIN_EXE_belfry");

/// Runs belfry where no file may have more than `blocks` of 512 bytes, memory of the device included; `arguments` are words for a
/// shell.
fn limited(blocks: u32, arguments: &str, folder: &Path) -> Output {
    let script = format!("ulimit -f {blocks}; exec {BELFRY} {arguments}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder).env("TMPDIR", folder).stdin(Stdio::null());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.signal(), None, "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn file_that_may_not_grow_is_an_error_that_says_so() {
    for option in ["--record=out", "--trace=out"] {
        let folder = tempfile::tempdir().unwrap();
        let output = limited(1, &format!("run --mode hosted {option} -- vector-add"), folder.path());
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains("File too large") && said.contains("out"),
            "{option}: {:?} {said}",
            output.status
        );
    }
}

/// Programs that belfry starts find the signal as it was before belfry.
#[test]
fn programs_end_by_their_own_writes_beyond_the_limit() {
    let arguments = ["exec", "--quiet", "--", "sh", "-c", "kill -XFSZ $$; echo survived"];
    let output = Command::new(BELFRY).args(arguments).output().unwrap();
    assert_eq!(output.status.signal(), Some(25), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn files_that_never_end_or_never_begin_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for file in [pipe, "/dev/zero"] {
        for arguments in [
            &["disasm", file][..],
            &["replay", file],
            &["trace", "summary", file],
            &["run", "--mode", "hosted", "--gdb", "--symbols", file, "--", "vector-add"],
            &[
                "run", "--mode", "hosted", "--", "launch", file, "--kernel", "k", "--grid", "32", "--block",
                "32",
            ],
            &["run", "--mode", "hosted", "--sanitize", "--suppressions", file, "--", "vector-add"],
        ] {
            // Ended from outside, if it is held up.
            let output = Command::new("timeout").arg("60").arg(BELFRY).args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.status.code() != Some(124), "{arguments:?}: {said}");
            assert!(said.contains("regular file") || said.contains("not a file"), "{arguments:?}: {said}");
        }
    }
}
