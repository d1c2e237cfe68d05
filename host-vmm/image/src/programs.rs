//! The guest's own programs, static binaries built from this source tree: its init and the bundled examples.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{Cache, CacheError};
use super::progress::Progress;

/// What can go wrong while they are built.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The source tree is not where it was when this binary was built.
    #[error(
        "Belfry's sources are not at {0}; a guest's programs are built from them, so run from the source tree"
    )]
    NoSources(PathBuf),
    /// cargo could not be started.
    #[error("cannot start cargo: {0}; install Rust through https://rustup.rs")]
    NoCargo(std::io::Error),
    /// cargo failed.
    #[error("building the guest's programs failed:\n{0}")]
    Build(String),
}

/// The binaries.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The guest's first process.
    pub init: PathBuf,
    /// All bundled examples in one binary.
    pub examples: PathBuf,
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The root of Belfry's sources, as of when this binary was built.
#[must_use]
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}

/// Where programs of this source tree that run in guests are built.
#[must_use]
pub fn target_directory(cache: &Cache) -> PathBuf {
    cache.target_directory("programs", &workspace())
}

/// Builds the programs, or finds that nothing has changed.
pub fn build(cache: &Cache, progress: &Progress) -> Result<Programs, ProgramError> {
    let workspace = workspace();
    if !workspace.join("images/init/Cargo.toml").exists() {
        return Err(ProgramError::NoSources(workspace));
    }
    let _lock = cache.lock("programs", || progress.line("waiting for another belfry that is building"))?;
    let target = target_directory(cache);
    let step = progress.spinner("building the guest's programs");
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .args(["-p", "belfry-init", "-p", "belfry-examples", "--bins"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&workspace)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .stdin(Stdio::null());
    belfry_process::child::die_with_parent(&mut command);
    let output = command.output().map_err(ProgramError::NoCargo)?;
    if !output.status.success() {
        return Err(ProgramError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let binaries = target.join(TARGET).join("release");
    step.done("up to date");
    Ok(Programs { init: binaries.join("belfry-init"), examples: binaries.join("belfry-examples") })
}
