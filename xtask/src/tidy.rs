//! `cargo xtask tidy`: the rules of the tree that no compiler checks.

mod chips;
mod links;
mod modules;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Packages of the workspace that each package may name, beside crates from outside.
///
/// ARCHITECTURE.md explains each arrow; anything not listed here is refused.
const ARROWS: &[(&str, &[&str])] = &[
    ("belfry-abi", &[]),
    ("belfry-isa", &[]),
    ("belfry-isa-verify", &["belfry-isa"]),
    ("belfry-pci", &[]),
    ("belfry-device", &["belfry-isa", "belfry-abi", "belfry-pci"]),
    ("belfry-kfd-core", &["belfry-abi"]),
    ("belfry-kfd-hosted", &["belfry-kfd-core", "belfry-device", "belfry-abi"]),
    (
        "belfry-preload",
        &["belfry-kfd-hosted", "belfry-inspect", "belfry-code-folder", "belfry-device", "belfry-abi"],
    ),
    ("belfry-kmod", &["belfry-kfd-core"]),
    ("belfry-runtime", &["belfry-abi"]),
    // The one place where the runtime meets the driver core without an ioctl in between.
    ("belfry-runtime-hosted", &["belfry-runtime", "belfry-kfd-hosted"]),
    ("belfry-examples", &["belfry-runtime", "belfry-abi"]),
    ("belfry-channel", &[]),
    ("belfry-init", &["belfry-channel"]),
    ("belfry-process", &[]),
    ("belfry-code-folder", &["belfry-isa"]),
    ("belfry-start", &[]),
    ("belfry-opencl", &[]),
    ("belfry-image", &["belfry-process"]),
    ("belfry-embedded", &["belfry-image"]),
    // Used beside any device: those of the binary and those of programs.
    ("belfry-inspect", &["belfry-device", "belfry-runtime", "belfry-abi", "belfry-process"]),
    ("belfry-machine", &["belfry-device", "belfry-pci", "belfry-channel", "belfry-abi", "belfry-process"]),
    ("belfry-vfio-user", &["belfry-device", "belfry-abi"]),
    (
        "belfry-guest",
        &[
            "belfry-image",
            "belfry-machine",
            "belfry-vfio-user",
            "belfry-device",
            "belfry-abi",
            "belfry-channel",
            "belfry-process",
        ],
    ),
    ("belfry-suite", &["belfry-guest", "belfry-image", "belfry-process"]),
    (
        "belfry",
        &[
            "belfry-code-folder",
            "belfry-embedded",
            "belfry-guest",
            "belfry-image",
            "belfry-inspect",
            "belfry-machine",
            "belfry-vfio-user",
            "belfry-opencl",
            "belfry-start",
            "belfry-suite",
            "belfry-process",
            "belfry-device",
            "belfry-isa",
            "belfry-abi",
            "belfry-channel",
            // The composition root: it runs the examples on a GPU in its own process.
            "belfry-kfd-hosted",
            "belfry-runtime",
            "belfry-runtime-hosted",
            "belfry-examples",
        ],
    ),
    ("belfry-models", &[]),
    ("belfry-test-roles", &["belfry-runtime", "belfry-abi"]),
    ("belfry-tests", &["*"]),
    // The package itself only compiles its kernels; its tests depend on the hosted path, and on no machine or packages.
    ("belfry-hosted-tests", &[]),
    (
        "belfry-fuzz",
        &[
            "belfry-device",
            "belfry-isa",
            "belfry-pci",
            "belfry-vfio-user",
            "belfry-runtime",
            "belfry-abi",
            "belfry-channel",
        ],
    ),
    ("xtask", &["belfry-isa", "belfry-abi"]),
];

/// Packages outside the workspace that the rules cover all the same.
const OUTSIDE: &[&str] = &["guest-driver/linux/Cargo.toml", "fuzz/Cargo.toml"];

/// Crates whose top-level modules must not form a cycle, by their source folders, with the arrows that still may be on one. Such a list
/// can only become shorter.
const LAYERED: &[(&str, &[modules::Exception])] = &[
    ("device/src", &[("device", "inspect"), ("shader", "firmware")]),
    (
        "guest-driver/core/src",
        &[
            ("debug", "aperture"),
            ("debug", "process"),
            ("device", "interrupt"),
            ("device", "proc_files"),
            ("device", "process"),
            ("device", "processes"),
            ("device", "svm"),
            ("memory", "process"),
            ("object", "drm"),
            ("process", "proc_files"),
            ("process", "queue_manager"),
            ("svm", "process"),
        ],
    ),
];

/// The longest a hand-written source file may be, in lines.
const LONGEST_FILE: usize = 500;

/// Runs every check and fails with all findings at once.
pub fn run(root: &Path) -> Result<()> {
    let mut findings = arrows(root)?;
    findings.extend(cycles(root)?);
    findings.extend(lengths(root)?);
    findings.extend(text(root)?);
    findings.extend(choices(root)?);
    findings.extend(links(root)?);
    if !findings.is_empty() {
        bail!("tidy found {} problem(s):\n  {}", findings.len(), findings.join("\n  "));
    }
    // A reader that has left does not make the tree untidy.
    let _ = writeln!(
        std::io::stdout(),
        "tidy: dependency arrows, module arrows, choices by chip, file lengths, texts and links are in order"
    );
    Ok(())
}

/// Dependency arrows: every path dependency must be listed in [`ARROWS`].
fn arrows(root: &Path) -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut findings = Vec::new();
    let mut manifests = vec![root.join("Cargo.toml")];
    manifests.extend(OUTSIDE.iter().map(|path| root.join(path)).filter(|path| path.exists()));
    for manifest in manifests {
        for package in metadata(&manifest)?["packages"].as_array().into_iter().flatten() {
            let name = package["name"].as_str().context("a package without a name")?;
            let Some(targets) = allowed.get(name) else {
                findings.push(format!("package {name} is not in the list of arrows (xtask/src/tidy.rs)"));
                continue;
            };
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                // Only our own packages are path dependencies.
                if dependency["path"].is_null() || dependency["kind"] == "dev" {
                    continue;
                }
                let to = dependency["name"].as_str().unwrap_or_default();
                if !targets.contains(&"*") && !targets.contains(&to) {
                    findings.push(format!("{name} must not depend on {to}"));
                }
            }
        }
    }
    Ok(findings)
}

/// Output of `cargo metadata` about a workspace's own packages.
///
/// # Errors
///
/// When cargo cannot be run, or refuses the manifest.
pub fn metadata(manifest: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .context("running cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata of {} failed: {}",
        manifest.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Module arrows: those of each crate in [`LAYERED`] must form no cycle.
fn cycles(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (folder, exceptions) in LAYERED {
        let mut sources = Vec::new();
        for path in tracked(root)? {
            let Ok(below) = path.strip_prefix(folder) else { continue };
            if below.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
            sources.push(modules::Source { path: below.to_string_lossy().into_owned(), text });
        }
        ensure!(!sources.is_empty(), "{folder} has no sources: correct LAYERED (xtask/src/tidy.rs)");
        findings.extend(
            modules::findings(&sources, exceptions).into_iter().map(|finding| format!("{folder}: {finding}")),
        );
    }
    Ok(findings)
}

/// Chips decide in their own places.
fn choices(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)?.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        findings.extend(chips::findings(&path, &text));
    }
    Ok(findings)
}

/// Links of documents lead somewhere.
fn links(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)?.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        findings.extend(links::findings(root, &path, &text));
    }
    Ok(findings)
}

/// Hand-written files stay readable; generated tables are exempt.
fn lengths(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)? {
        let source = path.extension().is_some_and(|ext| ext == "rs" || ext == "c" || ext == "h");
        if !source || path.components().any(|part| part.as_os_str() == "tables") {
            continue;
        }
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        let lines = text.lines().count();
        if lines > LONGEST_FILE && !text.contains("@generated") {
            findings.push(format!(
                "{} has {lines} lines (limit {LONGEST_FILE}): split it by noun",
                path.display()
            ));
        }
    }
    Ok(findings)
}

/// Texts that must not be in the repository: a mirror is part of the machine's configuration.
fn text(root: &Path) -> Result<Vec<String>> {
    let forbidden = [
        ["deb.debian", ".org"].concat(),
        ["static.crates", ".io"].concat(),
        ["index.crates", ".io"].concat(),
    ];
    let mut findings = Vec::new();
    for path in tracked(root)? {
        if path.extension().is_some_and(|ext| ext == "lock" || ext == "hsaco") {
            continue;
        }
        let Ok(content) = fs::read_to_string(root.join(&path)) else { continue };
        for host in &forbidden {
            if content.contains(host.as_str()) {
                findings.push(format!("{} names the registry host {host}", path.display()));
            }
        }
    }
    Ok(findings)
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z"])
        .output()
        .context("running git ls-files")?;
    ensure!(output.status.success(), "git ls-files failed in {}", root.display());
    Ok(output
        .stdout
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
        .collect())
}
