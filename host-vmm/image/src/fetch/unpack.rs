//! Unpacks packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::run_command;
use super::error::FetchError;
use crate::cache::create_dir;
use crate::progress::Progress;

/// Unpacks `.deb` files into `root`, which is created; no maintainer script runs.
pub fn unpack(what: &str, debs: &[PathBuf], root: &Path, progress: &Progress) -> Result<(), FetchError> {
    create_dir(root)?;
    let step = progress.count(&format!("unpacking {what}"), debs.len() as u64);
    for (index, deb) in debs.iter().enumerate() {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(deb).arg(root);
        run_command(command, "dpkg-deb", "-x", &mut || ())?;
        step.set(index as u64 + 1);
    }
    step.done("done");
    Ok(())
}
