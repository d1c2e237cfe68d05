//! A root file system with ROCm and without Rust, in which a package is installed and used.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::super::stage::{said, tool};

/// Mounts what programs need of the machine into the folder that is its first argument, and starts the others there. The namespace that
/// it runs in takes the mounts with it.
const ENTER: &str = "for d in dev proc sys; do mount --rbind /$d \"$0/$d\" || exit 1; done
mount -t tmpfs tmp \"$0/tmp\" || exit 1
exec chroot \"$0\" \"$@\"";

/// A copy of a tree that shares its files; only new ones are written.
pub(super) struct Root(tempfile::TempDir);

impl Root {
    /// Copies `tree`, beside it.
    pub(super) fn of(tree: &Path) -> Result<Self> {
        let beside = tree.parent().context("a root file system that is in no folder")?;
        let folder = tempfile::Builder::new().prefix("package-trial.tmp").tempdir_in(beside)?;
        tool(Command::new("cp").arg("-al").arg(tree.join(".")).arg(folder.path()))?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes a folder of the root, and returns it as it is from outside.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path().join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Runs a program in the root, in a folder of it, and returns what it wrote to its output.
    ///
    /// # Errors
    ///
    /// A machine without user namespaces, a program that fails.
    pub(super) fn run(&self, folder: &str, program: &[&str]) -> Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", ENTER]).arg(self.path());
        command.args(["/usr/bin/env", "-C", folder, "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"]);
        said(command.args(program), &format!("unshare, {}", program.join(" ")))
    }
}
