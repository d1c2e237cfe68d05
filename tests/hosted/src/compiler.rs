//! The compiler that tests start: the machine's own clang 19, or Debian 13's, fetched into the cache on first use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Result, anyhow, ensure};

/// Names of the compiler and the linker; the compiler starts the linker.
const CLANG: &str = "clang-19";
const LINKER: &str = "ld.lld-19";

static FOUND: LazyLock<Result<PathBuf>> = LazyLock::new(|| {
    let runs = |program| {
        let status =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if runs(CLANG) && runs(LINKER) { Ok(CLANG.into()) } else { Ok(fetched()?.join(CLANG)) }
});

/// clang 19, which finds its linker for the GPU by itself.
///
/// # Errors
///
/// When the machine has none and none can be fetched.
pub fn clang() -> Result<&'static Path> {
    FOUND.as_deref().map_err(|error| anyhow!("no {CLANG}: {error:#}"))
}

/// Has LLVM fetched by a program of its own: most runs of these tests do not need it, and build nothing for it.
fn fetched() -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "belfry-image", "--bin", "belfry-llvm"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "it could not be fetched, as said above");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
