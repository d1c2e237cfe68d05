//! Crates and their layers: each crate's top-level modules form no cycle.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{metadata, modules, tracked};

/// Source folders of all packages.
const LAYERED: &[&str] = &[
    "abi/src",
    "device/src",
    "device/isa/src",
    "device/code-folder/src",
    "device/isa/verify/src",
    "device/lock/src",
    "device/report/src",
    "device/tools/src",
    "device/traces/src",
    "fuzz/src",
    "guest-driver/core/src",
    "guest-driver/hosted/src",
    "guest-driver/linux/src",
    "guest-driver/preload/src",
    "guest-runtime/src",
    "guest-runtime/examples/src",
    "guest-runtime/hosted/src",
    "guests/bare-metal/src",
    "host-vmm/src",
    "host-vmm/bus/src",
    "host-vmm/embedded/src",
    "host-vmm/guest/src",
    "host-vmm/image/src",
    "host-vmm/inspect/src",
    "host-vmm/listing/src",
    "host-vmm/machine/src",
    "host-vmm/junit/src",
    "host-vmm/matrix/src",
    "host-vmm/opencl/src",
    "host-vmm/process/src",
    "host-vmm/snapshot/src",
    "host-vmm/start/src",
    "host-vmm/suite/src",
    "host-vmm/vfio-user/src",
    "host-vmm/virtio/src",
    "images/channel/src",
    "images/init/src",
    "pci/src",
    "tests/src",
    "tests/hosted/src",
    "tests/models/src",
    "tests/roles/src",
    "xtask/src",
];

/// Module arrows: those of each crate in [`LAYERED`] must form no cycle, and each package of the workspace must be there.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = absent(&packages(root)?);
    let files = tracked(root)?;
    for folder in LAYERED {
        let mut sources = Vec::new();
        for path in &files {
            let Ok(below) = path.strip_prefix(folder) else { continue };
            if below.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let Ok(text) = fs::read_to_string(root.join(path)) else { continue };
            sources.push(modules::Source { path: below.to_string_lossy().into_owned(), text });
        }
        ensure!(!sources.is_empty(), "{folder} has no sources: correct LAYERED (xtask/src/tidy/layers.rs)");
        findings
            .extend(modules::findings(&sources).into_iter().map(|finding| format!("{folder}: {finding}")));
    }
    Ok(findings)
}

/// Source folders of the workspace's packages, below the root.
fn packages(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifests = packages.filter_map(|package| package["manifest_path"].as_str());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).parent()?.strip_prefix(root).ok());
    Ok(folders.map(|folder| folder.join("src").to_string_lossy().into_owned()).collect())
}

/// Findings about packages that [`LAYERED`] lacks.
fn absent(packages: &[String]) -> Vec<String> {
    let is_there = |folder: &str| LAYERED.contains(&folder);
    let absent = packages.iter().filter(|folder| !is_there(folder));
    absent.map(|folder| format!("{folder} is not in LAYERED (xtask/src/tidy/layers.rs)")).collect()
}
