//! `cargo xtask isa verify`: every oracle of the instruction set, in one command.
//!
//! Decoder, semantics and random programs are `belfry-isa-verify`, the OpenCL programs are tests of `belfry-hosted-tests`. Both
//! are programs of their own, so that this one does not depend on the crate whose tables it generates.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::llvm;

/// Packages and targets of the tests of OpenCL programs: hosted, of the examples' kernels, and for gfx1201.
const PROGRAMS: [&str; 2] = ["belfry-hosted-tests", "hosted"];
const KERNELS: [&str; 2] = ["belfry-isa", "kernels"];
const OTHER_PROGRAMS: [&str; 2] = ["belfry-isa", "programs"];

/// Runs all oracles and fails when one of them does.
pub(crate) fn run(root: &Path, long: bool, seed: u64, cards: bool) -> Result<()> {
    if cards {
        return captured(root);
    }
    let mut failed = Vec::new();
    let mut verify = Command::new(env!("CARGO"));
    verify.current_dir(root).args(["run", "--quiet", "--package", "belfry-isa-verify", "--"]);
    verify.args(["--seed", &seed.to_string()]);
    name_llvm(&mut verify)?;
    if long {
        verify.arg("--long");
    }
    if !verify.status().context("running belfry-isa-verify")?.success() {
        failed.push("decode, semantics, random programs or captured results");
    }
    if !opencl(root)? {
        failed.push("OpenCL programs");
    }
    if !failed.is_empty() {
        bail!("mismatches in: {}", failed.join(", "));
    }
    say!("isa verify: zero mismatches");
    Ok(())
}

/// Writes LLVM 23's vectors beside the decoder's tests.
pub(crate) fn write_vectors(root: &Path) -> Result<()> {
    let mut writer = Command::new(env!("CARGO"));
    writer.current_dir(root).args(["run", "--quiet", "--package", "belfry-isa-verify", "--"]);
    writer.args(["--write-vectors", "device/isa/tests/data"]);
    name_llvm(&mut writer)?;
    let status = writer.status().context("running belfry-isa-verify")?;
    ensure!(status.success(), "belfry-isa-verify: {status}");
    Ok(())
}

/// Says in the environment of belfry-isa-verify where `llvm-mc` of each release is, where the environment here does not.
fn name_llvm(verify: &mut Command) -> Result<()> {
    for (variable, program) in [("LLVM_MC", "llvm-mc-22"), ("LLVM_MC_23", "llvm-mc-23")] {
        if env::var_os(variable).is_none() {
            verify.env(variable, llvm::program(program)?);
        }
    }
    Ok(())
}

/// Compares with results captured on cards, and nothing else.
fn captured(root: &Path) -> Result<()> {
    let mut verify = Command::new(env!("CARGO"));
    verify.current_dir(root).args([
        "run",
        "--quiet",
        "--package",
        "belfry-isa-verify",
        "--",
        "--only",
        "cards",
    ]);
    ensure!(
        verify.status().context("running belfry-isa-verify")?.success(),
        "mismatches with captured results"
    );
    say!("isa verify --cards: zero mismatches");
    Ok(())
}

/// Runs the OpenCL programs. Returns true if all of them give the expected results.
fn opencl(root: &Path) -> Result<bool> {
    say!("c. OpenCL programs compiled for gfx1100");
    let programs = tests(root, PROGRAMS, "programs::")?;
    say!(
        "  {} of {} tests hold: hosted, against the same source compiled for this processor, words equal bit for bit, \
         those of `approximate` to 4 ulp",
        programs.held,
        programs.all
    );
    let kernels = tests(root, KERNELS, "")?;
    say!(
        "  {} of {} tests hold: kernels of the examples for both chips on every backend, integers and IEEE operations exact, \
         transcendental ones within the ulp stated there",
        kernels.held,
        kernels.all
    );
    say!("c. OpenCL programs compiled for gfx1201");
    let others = tests(root, OTHER_PROGRAMS, "")?;
    say!(
        "  {} of {} tests hold: on the engine alone, against the results of the same programs compiled for gfx1100, words \
         equal bit for bit, those of `approximate` to 8 ulp",
        others.held,
        others.all
    );
    Ok(programs.pass() && kernels.pass() && others.pass())
}

/// Results of the tests of one target.
struct Tests {
    held: usize,
    all: usize,
}

impl Tests {
    fn pass(&self) -> bool {
        self.all > 0 && self.held == self.all
    }
}

/// Runs the tests of a target whose names have `filter` in them, printing what fails.
fn tests(root: &Path, [package, target]: [&str; 2], filter: &str) -> Result<Tests> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--quiet", "--package", package, "--test", target, "--", "--format=pretty", filter])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running the tests `{target}` of {package}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = || text.lines().filter(|line| line.starts_with("test ") && line.contains(" ... "));
    let held = lines().filter(|line| line.ends_with("ok")).count();
    if !output.status.success() {
        say!("{text}");
        ensure!(held < lines().count(), "{package} --test {target}: {}", output.status);
    }
    Ok(Tests { held, all: lines().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_the_programs_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let metadata = xtask::tidy::metadata(&root.join("Cargo.toml")).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        for [package, target] in [PROGRAMS, KERNELS, OTHER_PROGRAMS] {
            let found = packages.iter().find(|found| found["name"] == package).unwrap();
            let targets = found["targets"].as_array().unwrap();
            let is_there = targets.iter().any(|found| found["name"] == target && found["kind"][0] == "test");
            assert!(is_there, "{package} has no tests {target}");
        }
        let modules = std::fs::read_to_string(root.join("tests/hosted/tests/main.rs")).unwrap();
        assert!(modules.contains("\nmod programs;\n"), "the filter names a module of the target");
    }
}
