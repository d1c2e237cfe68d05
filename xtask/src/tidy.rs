//! `cargo xtask tidy`: the rules of the tree that no compiler checks.

mod arrows;
mod chips;
mod layers;
pub mod links;
mod modules;
mod prose;
mod targets;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The longest a hand-written source file may be, in lines.
const LONGEST_FILE: usize = 500;

/// Checks to run, and the picture to write before.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Writes the arrows between packages into ARCHITECTURE.md first.
    #[arg(long)]
    write: bool,
}

/// Runs every check and fails with all findings at once.
///
/// # Errors
///
/// All findings; files that cannot be read.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    if options.write {
        arrows::shown(root, true)?;
    }
    let mut findings = arrows::findings(root)?;
    findings.extend(layers::findings(root)?);
    findings.extend(targets::findings(root)?);
    findings.extend(lengths(root)?);
    findings.extend(text(root)?);
    findings.extend(choices(root)?);
    findings.extend(words(root)?);
    findings.extend(links(root)?);
    if !findings.is_empty() {
        bail!("tidy found {} problem(s):\n  {}", findings.len(), findings.join("\n  "));
    }
    // A reader that has left does not make the tree untidy.
    let _ = writeln!(
        std::io::stdout(),
        "tidy: dependency arrows, module arrows, targets, choices by chip, file lengths, texts, words and links are in order"
    );
    Ok(())
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

/// Chips decide in their own places.
fn choices(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)?.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        findings.extend(chips::findings(&path, &text));
    }
    Ok(findings)
}

/// Comments say which part does what.
fn words(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked(root)?.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")) {
        let Ok(text) = fs::read_to_string(root.join(&path)) else { continue };
        if !text.contains("@generated") {
            findings.extend(prose::findings(&path.to_string_lossy(), &text));
        }
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
