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

#[test]
fn every_command_has_a_manual_page_and_shells_complete_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(belfry(&["pages", path], "").status.success());
    let help = String::from_utf8(belfry(&["--help"], "").stdout).unwrap();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"exec") && !commands.contains(&"pages"), "{commands:?}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    for name in commands.iter().filter(|name| **name != "help") {
        assert!(read(&format!("man/man1/belfry-{name}.1")).contains(".SH SYNOPSIS"), "{name}");
        for file in ["bash-completion/completions/belfry", "fish/vendor_completions.d/belfry.fish"] {
            assert!(read(file).contains(name), "{file} has {name}");
        }
    }
    assert!(read("zsh/vendor-completions/_belfry").starts_with("#compdef belfry"));
}
