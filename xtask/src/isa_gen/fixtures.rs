//! `cargo xtask isa fixtures`: what `device/isa/tests/disassembly.rs` compares with.
//!
//! Each line is `waves<TAB>bytes<TAB>text`: `32`, `64` or `*` for both, the instruction's bytes in hexadecimal, LLVM's
//! text of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::source;

/// Folder with kernels and their committed objects.
const KERNELS: &str = "guest-runtime/kernels";
/// Kernels that are compiled for waves of 64 as well. The others use instructions or libraries of one size.
const WAVE64: [&str; 9] =
    ["bench", "bitonic", "gemm", "hist", "intmix", "reduce", "scratch", "sort", "vecadd"];
/// Of LLVM's vectors every how many-th is committed.
const STRIDE: usize = 8;

/// Writes the fixtures of compiled kernels and of LLVM's disassembler tests.
pub(crate) fn run(root: &Path, work: &Path) -> Result<()> {
    let directory = root.join("device/isa/tests/data");
    fs::create_dir_all(&directory)?;
    for (name, text) in [("kernels.txt", kernels(root)?), ("llvm-gfx11.txt", vectors(&source::tree(work)?)?)]
    {
        let path = directory.join(name);
        note!(
            "{}: {} instructions",
            path.display(),
            text.lines().filter(|line| !line.starts_with('#')).count()
        );
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Every distinct instruction of the project's kernels.
fn kernels(root: &Path) -> Result<String> {
    let mut out = String::from(
        "# Written by `cargo xtask isa fixtures`: every distinct instruction of this project's kernels as clang-19 compiles\n\
         # them for gfx1100, with the text llvm-mc-19 gives it.\n",
    );
    let scratch = std::env::temp_dir().join(format!("belfry-isa-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let mut seen = BTreeSet::new();
    let folder = root.join(KERNELS);
    let mut sources: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cl"));
    sources.sort();
    for path in sources {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        listing(&mut out, &mut seen, "32", &path.with_extension("gfx1100.hsaco"), &scratch)?;
        if WAVE64.contains(&stem.as_str()) {
            let object = scratch.join(format!("{stem}.w64.hsaco"));
            let mut compiler = Command::new("clang-19");
            if stem != "bench" {
                compiler.arg("-include").arg(folder.join("hdr.h"));
            }
            let status = compiler
                .args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-O2"])
                .args(["-mwavefrontsize64", "-nogpulib", "-Wno-everything", "-o"])
                .args([&object, &path])
                .status()
                .context("running clang-19")?;
            ensure!(status.success(), "{} does not compile for waves of 64", path.display());
            listing(&mut out, &mut seen, "64", &object, &scratch)?;
        }
    }
    fs::remove_dir_all(&scratch)?;
    Ok(out)
}

/// Adds the instructions of an object's `.text`.
fn listing(
    out: &mut String,
    seen: &mut BTreeSet<String>,
    waves: &str,
    object: &Path,
    scratch: &Path,
) -> Result<()> {
    let text = scratch.join("text");
    let status = Command::new("llvm-objcopy-19")
        .args(["-O", "binary", "--only-section=.text"])
        .args([object, &text])
        .status()
        .context("running llvm-objcopy-19")?;
    ensure!(status.success(), "no .text in {}", object.display());
    let code = fs::read(&text)?;
    let bytes: Vec<String> = code.iter().map(|byte| format!("{byte:#04x}")).collect();
    let input = scratch.join("input");
    fs::write(&input, format!("[{}]\n", bytes.join(",")))?;
    let sizes =
        if waves == "64" { "-wavefrontsize32,+wavefrontsize64" } else { "+wavefrontsize32,-wavefrontsize64" };
    let output = Command::new("llvm-mc-19")
        .args(["--disassemble", "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-show-encoding"])
        .arg(format!("-mattr={sizes}"))
        .arg(&input)
        .stderr(Stdio::null())
        .output()
        .context("running llvm-mc-19")?;
    ensure!(output.status.success(), "llvm-mc-19 does not know all of {}", object.display());
    let mut listed = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((text, encoding)) = encoded(line) else { continue };
        let hex = hex(encoding)?;
        listed.push(hex.clone());
        let line = format!("{waves}\t{hex}\t{text}\n");
        if seen.insert(line.clone()) {
            out.push_str(&line);
        }
    }
    // The printed encodings must be the code: llvm-mc encodes again what it decoded.
    let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(listed.concat() == code, "llvm-mc-19 encodes {} differently", object.display());
    Ok(())
}

/// A sample of LLVM's disassembler tests for gfx11.
fn vectors(tree: &Path) -> Result<String> {
    let mut out = String::from(
        "# Every eighth vector of LLVM 19's test/MC/Disassembler/AMDGPU/gfx11_*.txt (non-true16 texts), written by\n\
         # `cargo xtask isa fixtures`.\n\
         #\n\
         # Part of the LLVM Project, under the Apache License v2.0 with LLVM Exceptions.\n\
         # See https://llvm.org/LICENSE.txt for license information.\n\
         # SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n",
    );
    let directory = tree.join("llvm/test/MC/Disassembler/AMDGPU");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gfx11_")));
    files.sort();
    ensure!(!files.is_empty(), "no gfx11 tests in {}", directory.display());
    for path in files {
        let text = fs::read_to_string(&path)?;
        let both = text.to_ascii_lowercase().contains("+wavefrontsize64");
        // A comment's expectations belong to the bytes that follow them; all of one instruction are taken or none.
        let mut count = 0;
        for line in text.lines() {
            if line.starts_with("0x") {
                count += 1;
            }
            let Some((prefix, rest)) = line.strip_prefix("# ").and_then(|line| line.split_once(": ")) else {
                continue;
            };
            let waves = match prefix {
                "GFX11" | "GFX11-FAKE16" if both => "*",
                "GFX11" | "GFX11-FAKE16" | "W32" => "32",
                "W64" => "64",
                _ => continue,
            };
            let Some((text, encoding)) = encoded(rest) else { continue };
            if count % STRIDE == 0 {
                writeln!(out, "{waves}\t{}\t{text}", hex(encoding)?)?;
            }
        }
    }
    Ok(out)
}

/// Splits `text ; encoding: [bytes]`.
fn encoded(line: &str) -> Option<(&str, &str)> {
    let (text, encoding) = line.split_once("; encoding: [")?;
    Some((text.trim(), encoding.trim_end().strip_suffix(']')?))
}

/// `0x01,0x02` to `0102`.
fn hex(bytes: &str) -> Result<String> {
    let mut out = String::new();
    for byte in bytes.split(',') {
        match byte.trim().strip_prefix("0x") {
            Some(digits) if digits.len() == 2 => out.push_str(digits),
            _ => bail!("{byte} is no byte"),
        }
    }
    Ok(out)
}
