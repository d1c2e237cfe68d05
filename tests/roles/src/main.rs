//! Runs a role as a process of its own, for guests: `guest-roles ROLE ARGUMENTS`.

use anyhow::{Context as _, Result};
use belfry_runtime::Runtime;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().context("usage: guest-roles ROLE ARGUMENTS")?;
    if role == "bad-ioctls" {
        return belfry_test_roles::bad_ioctls::run(&mut std::io::stdout());
    }
    if role == "disk" {
        return belfry_test_roles::disk::run(&mut std::io::stdout());
    }
    if role == "share" {
        return belfry_test_roles::share::run(&mut std::io::stdout());
    }
    if role == "syncobj" {
        return belfry_test_roles::syncobj::run(&mut std::io::stdout());
    }
    if role == "render" {
        return belfry_test_roles::render::run(&mut std::io::stdout());
    }
    if role == "proc-files" {
        return belfry_test_roles::proc_files::run(&mut std::io::stdout());
    }
    if role == "partitions" {
        let count = arguments.next().context("partitions: how many?")?.parse()?;
        return belfry_test_roles::partitions::run(count, &mut std::io::stdout());
    }
    if role == "partition-switch" {
        return belfry_test_roles::partitions::switch(&mut std::io::stdout());
    }
    if role == "unbind" {
        return belfry_test_roles::unbind::run(&mut std::io::stdout());
    }
    if role == "race" {
        let rounds = arguments.next().context("race: how many rounds?")?.parse()?;
        return belfry_test_roles::race::run(rounds, &mut std::io::stdout());
    }
    if role == "kills" {
        let points = arguments.next().context("kills: at how many points?")?.parse()?;
        return belfry_test_roles::kills::run(points, &mut std::io::stdout());
    }
    if role == "race-child" {
        let kind = arguments.next().context("race-child: of what kind?")?;
        let seed = arguments.next().context("race-child: with which seed?")?.parse()?;
        return belfry_test_roles::race::child(&kind, seed);
    }
    let arguments: Vec<String> = arguments.collect();
    if role == "processor" && arguments.is_empty() {
        return belfry_test_roles::processor::run(&mut std::io::stdout());
    }
    let runtime = Runtime::open()?;
    belfry_test_roles::run(&role, &runtime, &arguments, &mut std::io::stdout())
}
