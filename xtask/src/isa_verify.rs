//! `cargo xtask isa verify`: every oracle of the instruction set, in one command.
//!
//! Decoder, semantics and random programs are `belfry-isa-verify`, the OpenCL programs are tests of `belfry-tests`. Both
//! are programs of their own, so that this one does not depend on the crate whose tables it generates.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What is needed beside cargo, what for, and the Debian package that has it.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("llvm-mc-19", "to hold the decoder against", "llvm-19"),
    ("clang-19", "to compile the OpenCL programs for this processor", "clang-19"),
];

/// Runs all oracles and fails when one of them does.
pub(crate) fn run(root: &Path, long: bool, seed: u64) -> Result<()> {
    for (program, purpose, package) in PROGRAMS {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        ensure!(
            found.is_ok_and(|status| status.success()),
            "{program} cannot be run, which is needed {purpose}: apt-get install {package}"
        );
    }
    let mut failed = Vec::new();
    let mut verify = Command::new(env!("CARGO"));
    verify.current_dir(root).args(["run", "--quiet", "--package", "belfry-isa-verify", "--"]);
    verify.args(["--seed", &seed.to_string()]);
    if long {
        verify.arg("--long");
    }
    if !verify.status().context("running belfry-isa-verify")?.success() {
        failed.push("decode, semantics or random programs");
    }
    if !opencl(root)? {
        failed.push("OpenCL programs");
    }
    if !failed.is_empty() {
        bail!("mismatches in: {}", failed.join(", "));
    }
    println!("isa verify: zero mismatches");
    Ok(())
}

/// Runs the OpenCL programs; whether all of them agree with the processor.
fn opencl(root: &Path) -> Result<bool> {
    println!("c. OpenCL programs, compiled for gfx1100 and for this processor");
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--quiet", "--package", "belfry-tests", "--test", "programs", "--", "--format=pretty"])
        .stderr(Stdio::inherit())
        .output()
        .context("running the OpenCL programs")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut counts = [0; 2];
    for line in text.lines().filter(|line| line.starts_with("test ") && line.contains(" ... ")) {
        let passed = line.ends_with("ok");
        counts[usize::from(!passed)] += 1;
        if !passed {
            println!("  {line}");
        }
    }
    if !output.status.success() {
        println!("{text}");
    }
    let [equal, different] = counts;
    println!(
        "  {equal} tests hold, {different} do not: every work-item's words are equal bit for bit, but those a program \
         declares approximate (4 ulp)"
    );
    Ok(output.status.success() && different == 0 && equal > 0)
}
