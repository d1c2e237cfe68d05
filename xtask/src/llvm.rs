//! LLVM 19, 22 and 23: the machine's own, or Debian's, fetched into the cache on first use.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Path of a program of LLVM, `llvm-mc-19` for example.
///
/// # Errors
///
/// When the machine has none and none can be fetched.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if own.is_ok_and(|status| status.success()) {
        return Ok(name.into());
    }
    // A program of its own, so that the tasks do not depend on the code that fetches packages.
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "belfry-image", "--bin", "belfry-llvm", "--"])
        .args(name.rsplit_once('-').map(|(_, release)| release))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running belfry-llvm")?;
    ensure!(output.status.success(), "{name} cannot be run, and could not be fetched");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()).join(name))
}
