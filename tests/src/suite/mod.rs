//! The suite of unmodified programs as tests: `belfry-suite` has the cases, and the code that runs and judges them.
//!
//! | part | file |
//! | --- | --- |
//! | a guest for the whole suite, on a thread of its own | `guest.rs` |
//! | the suite as a test program | `harness.rs` |
//! | the binary that is tested | `mod.rs` |

pub mod guest;
pub mod harness;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

pub use belfry_suite::{Ended, Exec, Outcome, Plan, Ready, Runner, Test, process, verdict};

/// The belfry of this workspace, built as these tests are, unless `BELFRY_BINARY` names another.
///
/// # Errors
///
/// When cargo fails.
pub fn belfry() -> Result<PathBuf> {
    // In tests, cargo has built the one of this package and says where it is; building the other takes minutes.
    let there = ["BELFRY_BINARY", "CARGO_BIN_EXE_belfry-under-test"].map(std::env::var_os);
    match there.into_iter().flatten().find(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        None => build_belfry(),
    }
}

/// Builds the binary; cargo tells on stderr when that takes long.
fn build_belfry() -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "belfry", "--bin", "belfry", "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "cargo build --package belfry failed: {}", output.status);
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo build --package belfry names no executable")
}
