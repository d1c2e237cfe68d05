//! The files that packages have: the binary, its manual pages, completions and licences.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A file of a package.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Path below `/usr`.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// Everything that is packed.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) version: String,
    /// Commit time in seconds since 1970: the time of every file.
    pub(super) time: u64,
    /// The binary as it was built.
    pub(super) belfry: PathBuf,
    /// Sorted by path.
    pub(super) entries: Vec<Entry>,
}

impl Stage {
    /// Builds the release in `target` with the commit's name in it, and collects the files.
    pub(super) fn build(root: &Path, target: &Path) -> Result<Stage> {
        let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
        let changed = if git(root, &["status", "--porcelain"])?.is_empty() { "" } else { ", changed" };
        let time = git(root, &["log", "-1", "--format=%ct"])?.parse().context("the commit's time")?;
        let built = Command::new(env!("CARGO"))
            .current_dir(root)
            .args([
                "build",
                "--release",
                "--locked",
                "--package",
                "belfry",
                "--bin",
                "belfry",
                "--target-dir",
            ])
            .arg(target)
            .env("BELFRY_VERSION", format!("{} ({commit}{changed})", env!("CARGO_PKG_VERSION")))
            .status()
            .context("starting cargo")?;
        ensure!(built.success(), "cargo build: {built}");
        Stage::of(root, &target.join("release/belfry"), time)
    }

    /// Collects the files for a binary that was built.
    fn of(root: &Path, belfry: &Path, time: u64) -> Result<Stage> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let pages = tempfile::tempdir()?;
        let written = Command::new(belfry).arg("pages").arg(pages.path()).status();
        let written = written.with_context(|| format!("starting {}", belfry.display()))?;
        ensure!(written.success(), "belfry pages: {written}");
        let mut entries = vec![Entry { path: "bin/belfry".into(), mode: 0o755, content: read(belfry)? }];
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            let path = format!("share/doc/belfry/{name}");
            entries.push(Entry { path, mode: 0o644, content: read(&root.join(name))? });
        }
        for file in below(pages.path())? {
            let name = file.strip_prefix(pages.path()).context("a page outside its folder")?;
            let path = format!("share/{}", name.display());
            entries.push(Entry { path, mode: 0o644, content: read(&file)? });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Stage { version, time, belfry: belfry.to_owned(), entries })
    }

    /// Writes the files below `directory`/`prefix`, as they are packed.
    pub(super) fn unpack(&self, directory: &Path, prefix: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        for Entry { path, mode, content } in &self.entries {
            let to = directory.join(prefix).join(path);
            fs::create_dir_all(to.parent().context("a file without a folder")?)?;
            fs::write(&to, content).with_context(|| format!("writing {}", to.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(*mode))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// The files below `directory`.
fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() { files.extend(below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().context("starting git")?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Runs a program that makes a package, and says what it says if it fails.
pub(super) fn tool(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    said(command, &name).map(drop)
}

/// Runs a command, `name` in errors, and returns what it wrote to its output.
///
/// # Errors
///
/// A program that cannot be started, or that fails: with everything that it wrote.
pub(super) fn said(command: &mut Command, name: &str) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {text}{errors}", output.status);
    Ok(text)
}
