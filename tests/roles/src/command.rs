//! Runs a role as a process of its own, for guests: `guest-roles ROLE ARGUMENTS`, a program of belfry-tests.

use anyhow::{Context as _, Result};
use belfry_runtime::Runtime;

/// Runs the role that the process's arguments name, with output on stdout.
///
/// # Errors
///
/// A role that fails, and arguments that name none.
pub fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().context("usage: guest-roles ROLE ARGUMENTS")?;
    if role == "bad-ioctls" {
        return crate::bad_ioctls::run(&mut std::io::stdout());
    }
    if role == "debugfs" {
        return crate::system_files::mount_debugfs();
    }
    if role == "write" {
        let path = arguments.next().context("write: to which file?")?;
        return crate::system_files::write(&path, &arguments.next().context("write: which text?")?);
    }
    if role == "disk" {
        return crate::disk::run(&mut std::io::stdout());
    }
    if role == "share" {
        return crate::share::run(&mut std::io::stdout());
    }
    if role == "syncobj" {
        return crate::syncobj::run(&mut std::io::stdout());
    }
    if role == "render" {
        return crate::render::run(&mut std::io::stdout());
    }
    if role == "proc-files" {
        return crate::proc_files::run(&mut std::io::stdout());
    }
    if role == "partitions" {
        let count = arguments.next().context("partitions: how many?")?.parse()?;
        return crate::partitions::run(count, &mut std::io::stdout());
    }
    if role == "partition-switch" {
        return crate::partitions::switch(&mut std::io::stdout());
    }
    if role == "unbind" {
        return crate::unbind::run(&mut std::io::stdout());
    }
    if role == "race" {
        let rounds = arguments.next().context("race: how many rounds?")?.parse()?;
        return crate::race::run(rounds, &mut std::io::stdout());
    }
    if role == "kills" {
        let points = arguments.next().context("kills: at how many points?")?.parse()?;
        return crate::kills::run(points, &mut std::io::stdout());
    }
    if role == "race-child" {
        let kind = arguments.next().context("race-child: of what kind?")?;
        let seed = arguments.next().context("race-child: with which seed?")?.parse()?;
        return crate::race::child(&kind, seed);
    }
    let arguments: Vec<String> = arguments.collect();
    if role == "processor" && arguments.is_empty() {
        return crate::processor::run(&mut std::io::stdout());
    }
    let runtime = Runtime::open()?;
    crate::run(&role, &runtime, &arguments, &mut std::io::stdout())
}
