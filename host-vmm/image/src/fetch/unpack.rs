//! Unpacks packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::run_command;
use super::error::FetchError;
use crate::cache::create_dir;
use crate::progress::Progress;

/// Unpacks `.deb` files into `root`, which is created; no maintainer script runs.
///
/// # Errors
///
/// `dpkg-deb` is missing or fails, or the directory cannot be made.
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

/// Returns the maintainer scripts of this name that packages have, in the packages' order; nothing runs.
///
/// `scratch` is a directory for them that does not exist yet; the caller removes it.
///
/// # Errors
///
/// `dpkg-deb` is missing or fails, or the directory cannot be made.
pub fn scripts(debs: &[PathBuf], name: &str, scratch: &Path) -> Result<Vec<String>, FetchError> {
    create_dir(scratch)?;
    let mut scripts = Vec::new();
    for (index, deb) in debs.iter().enumerate() {
        let directory = scratch.join(index.to_string());
        let mut command = Command::new("dpkg-deb");
        command.arg("-e").arg(deb).arg(&directory);
        run_command(command, "dpkg-deb", "-e", &mut || ())?;
        // Most packages have none, and one that is no text is of no use here.
        scripts.extend(std::fs::read_to_string(directory.join(name)));
    }
    Ok(scripts)
}
