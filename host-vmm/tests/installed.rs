//! Checks of an installed belfry that need no installation; `cargo xtask installed` does the rest.

use std::path::Path;
use std::process::{Command, Output};

/// Runs belfry in an empty directory, where `PATH` has the programs of `directories` alone.
fn belfry(arguments: &[&str], directories: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.args(arguments).current_dir(directory.path()).env("PATH", directories);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO")) {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn doctor_names_what_is_in_belfry_and_no_place_of_the_build() {
    let output = belfry(&["doctor"], "/usr/bin:/bin");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert!(!text.contains(workspace.to_str().unwrap()), "{text}");
    for part in ["the guest's driver", "the bare-metal guest"] {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains(" in belfry ") && line.contains(part)).expect(&text);
        assert!(line.starts_with("ok "), "{line}");
    }
    for rust in ["cargo", "rustc", "Rust"] {
        assert!(!text.contains(rust), "{text}");
    }
}

#[test]
fn hosted_programs_run_without_any_other_program() {
    let output = belfry(&["run", "--mode", "hosted", "--", "vector-add", "1024"], "/nowhere");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1024 floats verified"), "{text}{output:?}");
}
