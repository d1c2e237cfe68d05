//! Arrows between packages: the ones that are allowed, and their picture in ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::metadata;

/// Packages of the workspace that each package may name, beside crates from outside.
///
/// ARCHITECTURE.md shows them (`cargo xtask tidy --write`); an arrow that is not listed here is refused.
const ARROWS: &[(&str, &[&str])] = &[
    ("belfry-abi", &[]),
    ("belfry-isa", &[]),
    ("belfry-isa-verify", &["belfry-isa"]),
    ("belfry-pci", &[]),
    ("belfry-lock", &[]),
    ("belfry-device", &["belfry-lock", "belfry-isa", "belfry-abi", "belfry-pci"]),
    ("belfry-kfd-core", &["belfry-abi"]),
    ("belfry-kfd-hosted", &["belfry-lock", "belfry-kfd-core", "belfry-device", "belfry-abi"]),
    (
        "belfry-preload",
        &[
            "belfry-lock",
            "belfry-kfd-hosted",
            "belfry-inspect",
            "belfry-report",
            "belfry-code-folder",
            "belfry-device",
            "belfry-abi",
        ],
    ),
    ("belfry-kmod", &["belfry-kfd-core"]),
    ("belfry-runtime", &["belfry-abi"]),
    // The one place where the runtime meets the driver core without an ioctl in between.
    ("belfry-runtime-hosted", &["belfry-runtime", "belfry-kfd-hosted"]),
    ("belfry-examples", &["belfry-runtime", "belfry-abi"]),
    ("belfry-channel", &[]),
    ("belfry-init", &["belfry-channel"]),
    ("belfry-process", &[]),
    ("belfry-junit", &[]),
    ("belfry-report", &["belfry-device"]),
    ("belfry-tools", &["belfry-device", "belfry-isa", "belfry-abi"]),
    ("belfry-traces", &["belfry-device", "belfry-abi"]),
    ("belfry-code-folder", &["belfry-isa"]),
    ("belfry-listing", &["belfry-runtime", "belfry-device", "belfry-isa", "belfry-abi"]),
    ("belfry-start", &[]),
    ("belfry-opencl", &[]),
    ("belfry-matrix", &["belfry-junit", "belfry-process"]),
    ("belfry-image", &["belfry-process"]),
    // It carries the library of programs, as a file.
    ("belfry-embedded", &["belfry-image", "belfry-preload"]),
    // Used beside any device: those of the binary and those of programs.
    ("belfry-inspect", &["belfry-tools", "belfry-device", "belfry-runtime", "belfry-abi", "belfry-process"]),
    ("belfry-bus", &["belfry-lock", "belfry-device", "belfry-pci", "belfry-abi"]),
    ("belfry-virtio", &["belfry-lock", "belfry-bus", "belfry-device", "belfry-pci", "belfry-channel"]),
    ("belfry-snapshot", &["belfry-virtio", "belfry-device"]),
    (
        "belfry-machine",
        &[
            "belfry-lock",
            "belfry-snapshot",
            "belfry-virtio",
            "belfry-bus",
            "belfry-device",
            "belfry-pci",
            "belfry-channel",
            "belfry-abi",
            "belfry-process",
        ],
    ),
    ("belfry-vfio-user", &["belfry-lock", "belfry-device", "belfry-abi"]),
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
            "belfry-traces",
        ],
    ),
    ("belfry-suite", &["belfry-guest", "belfry-image", "belfry-junit", "belfry-process"]),
    (
        "belfry",
        &[
            "belfry-code-folder",
            "belfry-embedded",
            "belfry-guest",
            "belfry-image",
            "belfry-inspect",
            "belfry-listing",
            "belfry-report",
            "belfry-machine",
            "belfry-junit",
            "belfry-matrix",
            "belfry-vfio-user",
            "belfry-opencl",
            "belfry-start",
            "belfry-suite",
            "belfry-tools",
            "belfry-traces",
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
            "belfry-listing",
            "belfry-pci",
            "belfry-bus",
            "belfry-virtio",
            "belfry-snapshot",
            "belfry-machine",
            "belfry-traces",
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

/// Dependency arrows: every path dependency must be listed in [`ARROWS`].
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut findings = Vec::new();
    let mut manifests = vec![root.join("Cargo.toml")];
    manifests.extend(OUTSIDE.iter().map(|path| root.join(path)).filter(|path| path.exists()));
    for manifest in manifests {
        for package in metadata(&manifest)?["packages"].as_array().into_iter().flatten() {
            let name = package["name"].as_str().context("a package without a name")?;
            let Some(targets) = allowed.get(name) else {
                findings
                    .push(format!("package {name} is not in the list of arrows (xtask/src/tidy/arrows.rs)"));
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
    findings.extend(shown(root, false)?);
    Ok(findings)
}

/// Document with the picture of all arrows, and the lines around it.
const PICTURE: &str = "ARCHITECTURE.md";
const MARKS: [&str; 2] =
    ["<!-- arrows: cargo xtask tidy --write -->\n```\n", "```\n<!-- end of arrows -->\n"];
/// Longest line of the picture, in characters.
const WIDTH: usize = 120;

/// Compares the picture with [`ARROWS`], or writes it.
///
/// # Errors
///
/// A document that cannot be read or written, or has no place for the picture.
pub(super) fn shown(root: &Path, write: bool) -> Result<Vec<String>> {
    let path = root.join(PICTURE);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {PICTURE}"))?;
    let (before, rest) =
        text.split_once(MARKS[0]).with_context(|| format!("{PICTURE} has no {:?}", MARKS[0]))?;
    let (old, after) =
        rest.split_once(MARKS[1]).with_context(|| format!("{PICTURE} has no {:?}", MARKS[1]))?;
    let new = picture(ARROWS);
    if old == new {
        return Ok(Vec::new());
    }
    if write {
        fs::write(&path, [before, MARKS[0], &new, MARKS[1], after].concat())?;
        return Ok(Vec::new());
    }
    Ok(vec![format!("{PICTURE} does not show the arrows of tidy: run `cargo xtask tidy --write`")])
}

/// A line for each package, `from -> to, to`, with further lines below the first name.
fn picture(arrows: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (from, to) in arrows.iter().filter(|(_, to)| !to.is_empty()) {
        let mut line = format!("{from} ->");
        let indent = line.len();
        for (index, name) in to.iter().enumerate() {
            let name = if *name == "*" { "all" } else { name };
            let comma = if index + 1 < to.len() { "," } else { "" };
            if line.len() + 1 + name.len() + comma.len() > WIDTH {
                text.push_str(&line);
                text.push('\n');
                line = " ".repeat(indent);
            }
            line.push(' ');
            line.push_str(name);
            line.push_str(comma);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_has_a_line_for_each_package_and_wraps_long_ones() {
        let many: Vec<&str> = vec!["twelve-chars"; 9];
        let text = picture(&[("a", &["b", "c"]), ("alone", &[]), ("tests", &["*"]), ("long", &many)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["a -> b, c", "tests -> all"]);
        assert_eq!((lines.len(), lines[3].trim_start()), (4, "twelve-chars"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH) && lines[2].ends_with(','));
    }
}
