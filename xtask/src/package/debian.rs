//! Debian's packages: belfry, and the guest's driver, which DKMS builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::stage::{Stage, tool};

/// The package `belfry`. The binary needs no library; what it fetches needs Debian's own tools.
pub(super) fn write(stage: &Stage, into: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    stage.unpack(scratch.path(), "usr")?;
    let size: usize = stage.entries.iter().map(|entry| entry.content.len().div_ceil(1024)).sum();
    let control = scratch.path().join("DEBIAN");
    fs::create_dir(&control)?;
    fs::write(control.join("control"), text(&stage.version, size))?;
    let path = into.join(format!("belfry_{}_amd64.deb", stage.version));
    let mut builder = Command::new("dpkg-deb");
    builder.args(["--root-owner-group", "-Zgzip", "--build"]).arg(scratch.path()).arg(&path);
    // Temporary folders are their owner's alone.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))?;
    tool(builder.env("SOURCE_DATE_EPOCH", stage.time.to_string()))?;
    Ok(path)
}

/// The driver's package, which the binary makes of the parts that it carries.
pub(super) fn write_driver(stage: &Stage, into: &Path) -> Result<PathBuf> {
    let output = Command::new(&stage.belfry).args(["image", "driver-deb"]).arg(into).output();
    let output = output.with_context(|| format!("starting {}", stage.belfry.display()))?;
    ensure!(output.status.success(), "belfry image driver-deb: {}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn text(version: &str, size: usize) -> String {
    format!(
        "Package: belfry
Version: {version}
Architecture: amd64
Maintainer: The Belfry developers <belfry@localhost>
Installed-Size: {size}
Recommends: apt, binutils, debian-archive-keyring, dpkg, gcc, make
Section: devel
Priority: optional
Description: AMD GPU that exists only in software
 Unmodified ROCm programs, Linux drivers and compiled kernels use it as they use a
 card: as plain processes (belfry exec), in QEMU, or on a machine of its own.
"
    )
}
