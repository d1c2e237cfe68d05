//! Programs that cargo builds: those of this package beside its tests, and the binary where nothing is beside it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// The belfry of this workspace, built as these tests are, unless `BELFRY_BINARY` names another.
///
/// # Errors
///
/// When cargo fails.
pub fn belfry() -> Result<PathBuf> {
    match env::var_os("BELFRY_BINARY").filter(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        // In tests, cargo has built the one of this package; building the other takes minutes.
        None => beside_tests("belfry-under-test").map_or_else(|| build("belfry", "belfry"), Ok),
    }
}

/// The test roles as a static program that runs in any guest, without debug sections.
///
/// # Errors
///
/// When cargo fails, or objcopy.
pub fn guest_roles() -> Result<Vec<u8>> {
    const NAME: &str = "guest-roles";
    let program = beside_tests(NAME).map_or_else(|| build(env!("CARGO_PKG_NAME"), NAME), Ok)?;
    let directory = tempfile::tempdir()?;
    let stripped = directory.path().join(NAME);
    strip(&program, &stripped)?;
    Ok(fs::read(stripped)?)
}

/// Copies a program without its debug sections.
///
/// # Errors
///
/// When objcopy is missing or fails.
pub(crate) fn strip(program: &Path, to: &Path) -> Result<()> {
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--strip-debug").args([program, to]);
    let status = objcopy.status().context("cannot start objcopy, of package binutils")?;
    ensure!(status.success(), "objcopy --strip-debug {}: {status}", program.display());
    Ok(())
}

/// A program of this package, where cargo says that it has built it: in tests.
fn beside_tests(name: &str) -> Option<PathBuf> {
    env::var_os(format!("CARGO_BIN_EXE_{name}")).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Builds a program; cargo tells on stderr when that takes long.
fn build(package: &str, name: &str) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", package, "--bin", name, "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(
        output.status.success(),
        "cargo build --package {package} --bin {name} failed: {}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo build --package {package} --bin {name} names no executable"))
}
