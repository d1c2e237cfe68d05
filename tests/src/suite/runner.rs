//! What runs a program of the suite.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::suite::process::{self, Outcome};

/// A way to run programs; cases of one suite share one, side by side.
pub trait Runner: Send + Sync {
    /// Runs `argv` for at most `limit`; a program of the suite is named by its path on this machine.
    ///
    /// # Errors
    ///
    /// A runner that fails itself; how the program ends is no error.
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome>;
}

/// `belfry exec --root TREE`: a process of this machine.
#[derive(Debug)]
pub struct Exec {
    belfry: PathBuf,
    tree: PathBuf,
}

impl Exec {
    /// With the belfry of this workspace, built as these tests are, unless `BELFRY_BINARY` names another.
    ///
    /// # Errors
    ///
    /// When cargo fails.
    pub fn new(tree: &Path) -> Result<Self> {
        // In tests, cargo has built the one of this package and says where it is; building the other takes minutes.
        let there = ["BELFRY_BINARY", "CARGO_BIN_EXE_belfry-under-test"].map(std::env::var_os);
        let belfry = match there.into_iter().flatten().find(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => build_belfry()?,
        };
        Ok(Self { belfry, tree: tree.to_owned() })
    }
}

impl Exec {
    /// The binary.
    #[must_use]
    pub fn belfry(&self) -> &Path {
        &self.belfry
    }
}

impl Runner for Exec {
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome> {
        // Where a program leaves what it leaves, core files for example.
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(&self.belfry);
        // What a case does to its card is not what another one sees of its own.
        command.env("BELFRY_EXEC_CARD", directory.path());
        command.arg("exec").arg("--root").arg(&self.tree).arg("--").args(argv).current_dir(directory.path());
        process::run(command, limit)
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
