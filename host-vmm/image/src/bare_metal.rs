//! The bare-metal guest, built from its sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{Cache, CacheError};
use super::packed::{self, PackedError};
use super::programs;

const TARGET: &str = "x86_64-unknown-none";

/// Why the guest could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The packed guest in use lacks it.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// The source tree is not where it was when this binary was built.
    #[error(
        "Belfry's sources are not at {0}; the bare-metal guest is built from them, so run from the source tree"
    )]
    NoSources(PathBuf),
    /// cargo or rustc could not be started.
    #[error("cannot start {program}: {source}; install Rust through https://rustup.rs")]
    NoTool {
        /// Which one.
        program: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The target's library is missing.
    #[error("Rust's library for {TARGET} is not installed; run: rustup target add {TARGET}")]
    NoTarget,
    /// cargo failed.
    #[error("building the bare-metal guest failed:\n{0}")]
    Build(String),
}

/// Builds the guest, or finds that nothing has changed; a packed guest in use has it built.
pub fn build(cache: &Cache) -> Result<PathBuf, BuildError> {
    if let Some(kernel) = packed::bare_metal() {
        return Ok(kernel?);
    }
    let workspace = programs::workspace();
    let directory = workspace.join("guests/bare-metal");
    if !directory.join("Cargo.toml").exists() {
        return Err(BuildError::NoSources(directory));
    }
    let library = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(&directory)
        .stderr(Stdio::null())
        .output()
        .map_err(|source| BuildError::NoTool { program: "rustc", source })?;
    if !Path::new(String::from_utf8_lossy(&library.stdout).trim()).is_dir() {
        return Err(BuildError::NoTarget);
    }
    let _lock =
        cache.lock("bare-metal", || log::info!(target: "image", "waiting for another build of the guest"))?;
    let target = cache.target_directory("bare-metal", &workspace);
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--release", "--locked", "--target", TARGET, "--target-dir"])
        .arg(&target)
        .current_dir(&directory)
        .stdin(Stdio::null());
    // An outer cargo's settings are for another target.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    belfry_process::child::die_with_parent(&mut command);
    let output = command.output().map_err(|source| BuildError::NoTool { program: "cargo", source })?;
    if !output.status.success() {
        return Err(BuildError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(target.join(TARGET).join("release/belfry-bare-metal"))
}
