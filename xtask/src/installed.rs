//! `cargo xtask installed`: an installed belfry works where its source tree is gone and no Rust is installed.
//!
//! A copy of the tree is installed from by `cargo install`, and moved away. What was installed then runs in an empty directory,
//! with a cache of its own that has the packages of the user's and nothing that was built, and with programs `cargo` and
//! `rustc` that only complain.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};

/// Names in the cache of files that come from packages; everything else there was built.
const PACKAGES: [&str; 3] = ["qemu", "kernel", "headers"];

/// The code object that is launched, as the tree has it.
const VECADD: &str = "guest-runtime/kernels/vecadd.gfx1100.hsaco";

/// Installs from a copy of the tree in `root`, with its development profile if `debug`, and runs what was installed.
pub(crate) fn run(root: &Path, debug: bool) -> Result<()> {
    let root = root.canonicalize()?;
    // Always the same place, so that cargo finds again what it built.
    let directory = root.join("target/installed");
    let [tree, away, prefix] = ["tree", "away", "prefix"].map(|name| directory.join(name));
    if away.exists() {
        let _ = fs::remove_dir_all(&tree);
        fs::rename(&away, &tree).with_context(|| format!("renaming {}", away.display()))?;
    }
    copy_tree(&root, &tree)?;
    note!("installed: cargo install from {}", tree.display());
    let status = Command::new(env!("CARGO"))
        .args(["install", "--quiet", "--locked", "--force"])
        .args(debug.then_some("--debug"))
        .arg("--path")
        .arg(tree.join("host-vmm"))
        .arg("--root")
        .arg(&prefix)
        .arg("--target-dir")
        .arg(directory.join("target"))
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "cargo install: {status}");

    let scratch = tempfile::tempdir()?;
    let kernel = scratch.path().join("vecadd.hsaco");
    fs::copy(tree.join(VECADD), &kernel)?;
    fs::rename(&tree, &away).with_context(|| format!("moving {} away", tree.display()))?;
    let installed = Installed::new(prefix.join("bin/belfry"), tree, scratch.path())?;
    installed.packages()?;
    installed.check(&kernel)
}

/// Makes `tree` the tree that git would commit. A file that has not changed since the last time keeps its date, and one
/// that has gets today's: cargo rebuilds files that are newer than its last build.
fn copy_tree(root: &Path, tree: &Path) -> Result<()> {
    let (files, before) = (committed(root)?, if tree.exists() { below(tree, tree)? } else { Vec::new() });
    for gone in before.iter().filter(|name| !files.contains(name)) {
        fs::remove_file(tree.join(gone))?;
    }
    for name in files {
        let (from, to) = (root.join(&name), tree.join(&name));
        let content = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(tree))?;
        fs::write(&to, content).with_context(|| format!("writing {}", to.display()))?;
    }
    Ok(())
}

/// The files below `root` that git has or would have.
fn committed(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("starting git")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout)?;
    // A file that was removed may still be in git's index.
    Ok(names.split_terminator('\0').map(PathBuf::from).filter(|name| root.join(name).is_file()).collect())
}

/// The files below `directory`, by their paths within `tree`.
fn below(tree: &Path, directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(below(tree, &path)?);
        } else {
            files.push(path.strip_prefix(tree)?.to_owned());
        }
    }
    Ok(files)
}

/// The program, and where it runs.
struct Installed {
    belfry: PathBuf,
    /// Path of the source tree that it was built from.
    tree: PathBuf,
    /// An empty directory.
    home: PathBuf,
    cache: PathBuf,
    /// `PATH`, beginning with programs that stand in for Rust's.
    path: String,
    /// Written by each of these programs.
    complaint: PathBuf,
}

impl Installed {
    fn new(belfry: PathBuf, tree: PathBuf, scratch: &Path) -> Result<Self> {
        let [home, cache, programs] = ["home", "cache", "no-rust"].map(|name| scratch.join(name));
        for directory in [&home, &cache, &programs] {
            fs::create_dir(directory)?;
        }
        let complaint = scratch.join("complaint");
        for name in ["cargo", "rustc", "rustup"] {
            let program = programs.join(name);
            let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\nexit 1\n", complaint.display());
            fs::write(&program, script)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
        Ok(Self { belfry, tree, home, cache, path, complaint })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.belfry);
        command.args(arguments).current_dir(&self.home).env("PATH", &self.path);
        command
    }

    /// Has the packages fetched into the user's cache, and lets the new cache lead there.
    fn packages(&self) -> Result<()> {
        self.expect("image", &self.command(&["image"]).output()?, &["kernel", "amdgpu"])?;
        let user = self.command(&["doctor"]).output()?;
        let user = String::from_utf8(user.stdout)?;
        let user = user
            .lines()
            .find_map(|line| line.split_once(" cache ").map(|(_, path)| PathBuf::from(path.trim())))
            .context("belfry doctor names no cache")?;
        for entry in fs::read_dir(&user)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let package = |artifact: &&str| {
                name == format!("{artifact}.json") || name.starts_with(&format!("{artifact}-"))
            };
            if PACKAGES.iter().any(package) {
                symlink(entry.path(), self.cache.join(&name))?;
            }
        }
        Ok(())
    }

    fn check(&self, kernel: &Path) -> Result<()> {
        let kernel = kernel.to_str().context("a temporary directory whose name is not UTF-8")?;
        let launch = ["--kernel", "vecadd", "--grid", "256", "--block", "256"];
        let buffers = ["buf:f32:256:iota", "buf:f32:256:iota", "buf:f32:256:zero", "u32:256"];
        let launch: Vec<&str> =
            launch.into_iter().chain(buffers.iter().flat_map(|&buffer| ["--arg", buffer])).collect();
        let hosted: Vec<&str> = ["run", "--mode", "hosted", "--", "launch", kernel]
            .into_iter()
            .chain(launch.iter().copied())
            .collect();
        let guest: Vec<&str> =
            ["run", "--", "launch", kernel].into_iter().chain(launch.iter().copied()).collect();
        let gpu = "test -e /dev/kfd && cat /sys/class/kfd/kfd/topology/nodes/1/name";
        let packed = self.home.join("packed");
        let packed = packed.to_str().context("a temporary directory whose name is not UTF-8")?;
        let cases: [(&[&str], &[&str]); 9] = [
            (&["run", "--mode", "hosted"], &["1048576 floats verified"]),
            (&hosted, &[]),
            (&["exec", "--", "sh", "-c", gpu], &["ip discovery"]),
            (&["image", "--rootfs"], &["rocm"]),
            (&["run"], &["1048576 floats verified", "guest 6."]),
            (&guest, &["guest 6."]),
            (&["run", "--mode", "kvm", "--guest", "bare-metal"], &["verified"]),
            (&["image", "--pack", packed], &["packed"]),
            (&["doctor"], &["the guest's driver", "the bare-metal guest"]),
        ];
        for (arguments, expected) in cases {
            note!("installed: belfry {}", arguments.join(" "));
            let output = self.command(arguments).env("BELFRY_CACHE", &self.cache).output()?;
            self.expect(&arguments.join(" "), &output, expected)?;
        }
        ensure!(!self.tree.exists(), "{} came back", self.tree.display());
        say!("installed: {} commands work without the source tree and without Rust", cases.len());
        Ok(())
    }

    /// Checks that a command has succeeded with the expected output, which does not name the path of the build.
    fn expect(&self, what: &str, output: &Output, expected: &[&str]) -> Result<()> {
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "belfry {what}: {}\n{text}", output.status);
        for part in expected {
            ensure!(text.contains(part), "belfry {what} does not say {part:?}:\n{text}");
        }
        let tree = self.tree.display().to_string();
        ensure!(!text.contains(&tree), "belfry {what} names the tree it was built from:\n{text}");
        if let Ok(calls) = fs::read_to_string(&self.complaint) {
            anyhow::bail!("belfry {what} has called {calls}");
        }
        Ok(())
    }
}
