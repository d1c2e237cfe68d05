//! Files of the kernel that no program is needed for.

use std::fs;

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, mount};

/// Place of the files for people who debug the kernel.
const DEBUGFS: &str = "/sys/kernel/debug";

/// Mounts debugfs, for as long as the guest runs.
///
/// # Errors
///
/// A kernel that has none, or that mounts none.
pub fn mount_debugfs() -> Result<()> {
    fs::create_dir_all(DEBUGFS).context(DEBUGFS)?;
    mount("debugfs", DEBUGFS, "debugfs", MountFlags::empty(), None).context("mounting debugfs")
}

/// Writes a text to a file of sysfs.
///
/// # Errors
///
/// When the kernel does not take it.
pub fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{text} to {path}"))
}
