//! The images, loaded and run by a container engine.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::super::stage::said;

/// Options of a container that needs little of the machine: no network, no groups of processes, limits that any user may set.
const RUN: [&str; 5] =
    ["--rm", "--network=none", "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"];

/// Loads an image into podman, in a store of its own, and runs `program` in a container of it. Returns false if there is no podman.
pub(super) fn podman(image: &Path, name: &str, program: &[&str], expected: &str) -> Result<bool> {
    if Command::new("podman").arg("--version").output().is_err() {
        return Ok(false);
    }
    let store = tempfile::Builder::new()
        .prefix("podman-")
        .tempdir_in(image.parent().context("an image in no folder")?)?;
    let run = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new("podman");
        command.arg("--root").arg(store.path().join("root")).arg("--runroot").arg(store.path().join("run"));
        said(command.args(arguments), &format!("podman {}", arguments.join(" ")))
    };
    let tried = (|| {
        run(&["load", "--quiet", "--input", &image.to_string_lossy()])?;
        let name = format!("localhost/{name}");
        let output = run(&[&["run"], &RUN[..], &[&name], program].concat())?;
        ensure!(output.contains(expected), "{program:?} in {name} says {output:?}");
        Ok(true)
    })();
    // Files of other users are removed by podman alone.
    let _ = run(&["rmi", "--all", "--force"]);
    tried
}
