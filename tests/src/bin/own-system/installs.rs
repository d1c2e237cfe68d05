//! `belfry image install-driver` with disks of every kind, and the systems on them afterwards.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_process::child::{KillOnDrop, die_with_parent};
use rustix::process::{Pid, Signal, kill_process};

use super::boots::{at_the_console, over_ssh};
use super::screen::Screen;
use super::{Case, Trial, tool};

pub(super) const CASES: [Case; 9] = [
    ("in-use", in_use),
    ("interrupted-at-the-copy", |trial| interrupted(trial, Signal::INT, "")),
    ("interrupted-at-the-boot", |trial| interrupted(trial, Signal::TERM, "booting")),
    ("interrupted-at-the-build", |trial| interrupted(trial, Signal::KILL, "building")),
    ("full", |trial| no_room(trial, 0)),
    ("little-room", |trial| no_room(trial, LITTLE)),
    ("compressed-qcow2-twice", compressed_qcow2),
    ("overlay-of-raw", overlay),
    ("fetched-by-apt", fetched),
];

/// Offset in the disks of the root file system, in bytes.
const ROOT: u64 = 129 << 20;
/// Bytes of a block of the root file system.
const BLOCK: u64 = 4096;
/// Blocks that are enough for the package, and for less than half of the files that DKMS makes of it.
const LITTLE: u64 = (2 << 20) / BLOCK;

/// Belfry's status when it fails itself.
const FAILED: i32 = 125;

/// A sparse copy of a disk.
pub(super) fn copy_of(disk: &Path, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("disk.raw");
    let (from, to) = (disk.display().to_string(), copy.display().to_string());
    tool("cp", &["--sparse=always", "--reflink=auto", &from, &to])?;
    Ok(copy)
}

/// The sum of a file's content; a program takes it, as code without optimisation needs minutes.
fn hash(path: &Path) -> Result<String> {
    tool("sha256sum", &["--binary", &path.display().to_string()])
}

fn names(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    Ok(entries.collect::<Result<_, _>>()?)
}

/// Puts the driver into a disk, and finds nothing left beside it.
fn install(trial: &Trial, folder: &Path, disk: &str) -> Result<()> {
    let before = names(folder)?;
    let said = trial.belfry(&["image", "install-driver", disk], 0)?;
    ensure!(said.contains("driver for 6."), "no kernel: {said}");
    print!("{said}");
    ensure!(names(folder)? == before, "something is left beside {disk}");
    Ok(())
}

/// A disk that must not have the driver afterwards: the reason is printed, and neither the disk nor its folder is
/// changed.
fn refused(trial: &Trial, folder: &Path, disk: &Path, reason: &str) -> Result<()> {
    let (before, content) = (names(folder)?, hash(disk)?);
    let said = trial.belfry(&["image", "install-driver", &disk.display().to_string()], FAILED)?;
    print!("{said}");
    ensure!(said.contains(reason), "no {reason:?}: {said}");
    ensure!(names(folder)? == before, "something is left beside the disk");
    ensure!(hash(disk)? == content, "the disk was changed");
    Ok(())
}

fn in_use(trial: &Trial) -> Result<()> {
    let folder = trial.folder()?;
    let disk = copy_of(&trial.disk("tools")?, folder.path())?;
    let name = disk.display().to_string();
    let mut screen = Screen::start(&trial.belfry, &["run", "--interactive", "--image", &name])?;
    screen.play(&[("SeaBIOS", "")])?;
    refused(trial, folder.path(), &disk, "is in use by another process")?;
    screen.play(&[("", "\x01x"), ("exit status 0", "")])
}

/// Ends belfry by a signal once the copy is begun and it has said the name of a step; the next one clears up, or refuses for want of a system.
fn interrupted(trial: &Trial, signal: Signal, step: &str) -> Result<()> {
    let folder = trial.folder()?;
    let disk = copy_of(&trial.disk("tools")?, folder.path())?;
    let content = hash(&disk)?;
    let mut command = Command::new(&trial.belfry);
    command.args(["image", "install-driver"]).arg(&disk);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    die_with_parent(&mut command);
    let mut belfry = KillOnDrop(command.spawn()?);
    let mut said = String::new();
    let mut lines = BufReader::new(belfry.0.stderr.take().context("its standard error")?);
    while !names(folder.path())?.iter().any(|name| name.to_string_lossy().contains(".belfry-copy-")) {
        ensure!(belfry.0.try_wait()?.is_none(), "it has ended without a copy");
        std::thread::sleep(Duration::from_millis(1));
    }
    while !said.contains(step) {
        ensure!(lines.read_line(&mut said)? > 0, "no {step:?}: {said}");
    }
    kill_process(Pid::from_child(&belfry.0), signal)?;
    let status = belfry.0.wait()?;
    lines.read_to_string(&mut said)?;
    ensure!(!status.success(), "{status}: {said}");
    println!("{status}: {:?} are there", names(folder.path())?);
    ensure!(hash(&disk)? == content, "the disk was changed");
    // A disk without a system is refused after copies of others were removed; that takes less than putting a driver in.
    fs::write(&disk, vec![0; 1 << 20])?;
    let said = trial.belfry(&["image", "install-driver", &disk.display().to_string()], FAILED)?;
    ensure!(said.contains("no ext4 file system"), "{said}");
    ensure!(names(folder.path())?.len() == 1, "{:?} are left: {said}", names(folder.path())?);
    Ok(())
}

/// A root file system with only `blocks` free blocks.
fn no_room(trial: &Trial, blocks: u64) -> Result<()> {
    let folder = trial.folder()?;
    let disk = copy_of(&trial.disk("tools")?, folder.path())?;
    let place = format!("{}?offset={ROOT}", disk.display());
    let free = free_blocks(&place)?;
    ensure!(free > blocks, "{free} blocks are free already");
    let last = (free - blocks).saturating_sub(1);
    tool("debugfs", &["-w", "-R", "write /dev/null fill", &place])?;
    tool("debugfs", &["-w", "-R", &format!("fallocate fill 0 {last}"), &place])?;
    ensure!(free_blocks(&place)? <= blocks, "{} blocks are free still", free_blocks(&place)?);
    refused(trial, folder.path(), &disk, "its root file system is full")
}

fn free_blocks(place: &str) -> Result<u64> {
    let said = tool("debugfs", &["-R", "stats", place])?;
    let line = said.lines().find_map(|line| line.strip_prefix("Free blocks:"));
    Ok(line.with_context(|| said.clone())?.trim().parse()?)
}

fn compressed_qcow2(trial: &Trial) -> Result<()> {
    let folder = trial.folder()?;
    let disk = folder.path().join("disk.qcow2").display().to_string();
    let raw = trial.disk("tools")?.display().to_string();
    tool("qemu-img", &["convert", "-c", "-O", "qcow2", &raw, &disk])?;
    install(trial, folder.path(), &disk)?;
    // Once more brings the driver of a disk up to date that has one.
    install(trial, folder.path(), &disk)?;
    tool("qemu-img", &["check", &disk])?;
    over_ssh(trial, &disk)
}

fn overlay(trial: &Trial) -> Result<()> {
    let folder = trial.folder()?;
    let base = copy_of(&trial.disk("tools")?, folder.path())?;
    let before = hash(&base)?;
    let (disk, base_name) =
        (folder.path().join("disk.qcow2").display().to_string(), base.display().to_string());
    tool("qemu-img", &["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &base_name, &disk])?;
    // An image does not choose which files are opened.
    let said = trial.belfry(&["image", "install-driver", &disk], FAILED)?;
    ensure!(said.contains("add `backing=`"), "{said}");
    let disk_and_base = format!("{disk},backing={base_name}");
    install(trial, folder.path(), &disk_and_base)?;
    ensure!(hash(&base)? == before, "the backing file was changed");
    tool("qemu-img", &["check", &disk])?;
    at_the_console(trial, &disk_and_base)
}

/// A disk without a compiler and headers, which its own apt fetches.
fn fetched(trial: &Trial) -> Result<()> {
    let folder = trial.folder()?;
    let disk = copy_of(&trial.disk("bare")?, folder.path())?;
    install(trial, folder.path(), &disk.display().to_string())?;
    over_ssh(trial, &disk.display().to_string())
}
