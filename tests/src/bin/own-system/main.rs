//! A user's own system with the GPU, from its packages to its console; `cargo xtask own-system` is its front.
//!
//! With the argument `--install-driver` the disks are made without the driver, and `belfry image install-driver` puts it in.
//! Each case is named and told as `ok` or `FAILED`; names as arguments choose cases.

mod boots;
mod installs;
mod screen;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_image::dkms;
use belfry_tests::own_system::{self, Content};
use belfry_tests::suite::process::{Outcome, run};
use belfry_tests::suite::{self, Ended};

/// Time limit of a guest; far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(2400);

/// A named case.
type Case = (&'static str, fn(&Trial) -> Result<()>);

/// State that the cases share.
struct Trial {
    belfry: PathBuf,
    /// Folder in which disks are made and found again.
    disks: PathBuf,
    /// Folder in which cases have their own disks.
    scratch: PathBuf,
}

fn main() -> Result<()> {
    let (mut installs, mut kept, mut names) = (false, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--install-driver" => installs = true,
            "--disks" => kept = Some(PathBuf::from(arguments.next().context("--disks wants a folder")?)),
            option if option.starts_with('-') => {
                bail!("{option:?} is no option; --install-driver and --disks are")
            }
            name => names.push(name.to_owned()),
        }
    }
    let all: &[Case] = if installs { &installs::CASES } else { &boots::CASES };
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        bail!("{unknown:?} is no case; these are: {}", known.join(", "));
    }
    let scratch = tempfile::tempdir_in("/var/tmp")?;
    readable(scratch.path())?;
    let disks = kept.unwrap_or_else(|| scratch.path().join("disks"));
    fs::create_dir_all(&disks)?;
    // Hooks of mmdebstrap run in another folder.
    let trial = Trial {
        belfry: suite::belfry()?,
        disks: fs::canonicalize(disks)?,
        scratch: scratch.path().to_owned(),
    };
    readable(&trial.disks)?;
    let mut failed = Vec::new();
    for (name, case) in all.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name)) {
        println!("own-system: {name} ...");
        let started = Instant::now();
        let outcome = case(&trial);
        let seconds = started.elapsed().as_secs();
        match outcome {
            Ok(()) => println!("own-system: {name} ok ({seconds} s)"),
            Err(error) => {
                println!("own-system: {name} FAILED ({seconds} s): {error:#}");
                failed.push(*name);
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Lets other users read a folder: mmdebstrap reads it as another user, in its user namespace.
fn readable(folder: &Path) -> Result<()> {
    Ok(fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?)
}

impl Trial {
    /// A disk of packages, made where it is not there.
    fn disk(&self, name: &str) -> Result<PathBuf> {
        let path = self.disks.join(format!("{name}.raw"));
        if path.is_file() {
            return Ok(path);
        }
        println!("own-system: making {} of packages", path.display());
        let started = Instant::now();
        let work = tempfile::tempdir_in(&self.disks)?;
        readable(work.path())?;
        let package;
        let content = match name {
            "driver" => {
                package = dkms::package(&belfry_embedded::PARTS, work.path())?;
                Content::Driver(&package)
            }
            "tools" => Content::Tools,
            "bare" => Content::Bare,
            other => bail!("no disk is called {other}"),
        };
        fs::rename(own_system::make(work.path(), content)?, &path)?;
        println!("own-system: made in {} s", started.elapsed().as_secs());
        Ok(path)
    }

    /// A folder for the disks of one case.
    fn folder(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(&self.scratch)?)
    }

    /// Runs belfry to its end, which must have this status. Returns its output, standard output first.
    fn belfry(&self, arguments: &[&str], status: i32) -> Result<String> {
        let mut command = Command::new(&self.belfry);
        command.args(arguments);
        said(&run(command, LIMIT)?, status)
    }
}

/// Output of a program that ended with this status.
fn said(outcome: &Outcome, status: i32) -> Result<String> {
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    ensure!(outcome.ended == Ended::Status(status), "{}: {said}", outcome.ended);
    Ok(said)
}

/// Runs a program of this machine.
fn tool(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    // Tools of file systems are where an ordinary user's PATH does not lead.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    command.args(arguments).env("PATH", path);
    said(&run(command, LIMIT)?, 0).with_context(|| format!("{program} {}", arguments.join(" ")))
}
