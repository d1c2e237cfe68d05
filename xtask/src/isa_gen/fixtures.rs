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
use super::target::{TARGETS, Target};

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
    let tree = source::tree(work)?;
    let mut files = Vec::new();
    for target in &TARGETS {
        files.push((format!("kernels-{}.txt", target.file), kernels(root, target)?));
        files.push((format!("llvm-{}.txt", target.file), vectors(&tree, target)?));
    }
    for (name, text) in files {
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
fn kernels(root: &Path, target: &Target) -> Result<String> {
    let processor = target.processor;
    let mut out = format!(
        "# Written by `cargo xtask isa fixtures`: every distinct instruction of this project's kernels as clang-19 compiles\n\
         # them for {processor}, with the text llvm-mc-19 gives it.\n",
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
        let object = path.with_extension(format!("{processor}.hsaco"));
        if !object.exists() {
            // A kernel of what this processor does not have.
            continue;
        }
        listing(&mut out, &mut seen, (target, "32"), &object, &scratch)?;
        if WAVE64.contains(&stem.as_str()) {
            let object = scratch.join(format!("{stem}.w64.hsaco"));
            let mut compiler = Command::new("clang-19");
            if stem != "bench" {
                compiler.arg("-include").arg(folder.join("hdr.h"));
            }
            let status = compiler
                .args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O2"])
                .arg(format!("-mcpu={processor}"))
                .args(["-mwavefrontsize64", "-nogpulib", "-Wno-everything", "-o"])
                .args([&object, &path])
                .status()
                .context("running clang-19")?;
            ensure!(status.success(), "{} does not compile for waves of 64", path.display());
            listing(&mut out, &mut seen, (target, "64"), &object, &scratch)?;
        }
    }
    fs::remove_dir_all(&scratch)?;
    Ok(out)
}

/// Adds the instructions of an object's `.text`.
fn listing(
    out: &mut String,
    seen: &mut BTreeSet<String>,
    (target, waves): (&Target, &str),
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
        .args(["--disassemble", "-triple=amdgcn-amd-amdhsa", "-show-encoding"])
        .arg(format!("-mcpu={}", target.processor))
        .arg(format!("-mattr={sizes}"))
        .arg(&input)
        .stderr(Stdio::null())
        .output()
        .context("running llvm-mc-19")?;
    ensure!(output.status.success(), "llvm-mc-19 does not know all of {}", object.display());
    let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut rest = code.as_str();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((text, encoding)) = encoded(line) else { continue };
        // The printed encodings are the code, as llvm-mc encodes again what it decoded; but for a literal that the linker has
        // made one of the inline constants.
        let printed = hex(encoding)?;
        let length = printed.len() + if rest.starts_with(&printed) { 0 } else { 8 };
        let (hex, behind) =
            rest.split_at_checked(length).with_context(|| format!("{} ends early", object.display()))?;
        rest = behind;
        let line = format!("{waves}\t{hex}\t{text}\n");
        if seen.insert(line.clone()) {
            out.push_str(&line);
        }
    }
    ensure!(rest.is_empty(), "llvm-mc-19 encodes {} differently", object.display());
    Ok(())
}

/// A sample of LLVM's disassembler tests for the target's family.
fn vectors(tree: &Path, target: &Target) -> Result<String> {
    let (file, family) = (target.file, target.family());
    let mut out = format!(
        "# Every eighth vector of LLVM 19's test/MC/Disassembler/AMDGPU/{file}_*.txt (non-true16 texts), written by\n\
         # `cargo xtask isa fixtures`.\n\
         #\n\
         # Part of the LLVM Project, under the Apache License v2.0 with LLVM Exceptions.\n\
         # See https://llvm.org/LICENSE.txt for license information.\n\
         # SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n",
    );
    let directory = tree.join("llvm/test/MC/Disassembler/AMDGPU");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{file}_")))
    });
    files.sort();
    ensure!(!files.is_empty(), "no {file} tests in {}", directory.display());
    for path in files {
        let text = fs::read_to_string(&path)?;
        // Which waves the file is for, where its lines do not say it: those of 32 unless a run asks for others.
        let lower = text.to_ascii_lowercase();
        let runs = || lower.lines().filter(|line| line.contains("run:"));
        let wide = |line: &str| line.contains("+wavefrontsize64");
        let usual = match (runs().any(wide), runs().all(wide)) {
            (true, true) => "64",
            (true, false) => "*",
            _ => "32",
        };
        // A comment's expectations belong to the bytes that follow them; all of one instruction are taken or none.
        let mut count = 0;
        for line in text.lines() {
            if line.starts_with("0x") || line.starts_with("[0x") {
                count += 1;
            }
            let Some((prefix, rest)) = line.strip_prefix("# ").and_then(|line| line.split_once(": ")) else {
                continue;
            };
            let waves = match prefix {
                prefix if prefix == family || prefix == format!("{family}-FAKE16") => usual,
                "W32" => "32",
                "W64" => "64",
                _ => continue,
            };
            let Some((text, encoding)) = encoded(rest) else { continue };
            // What is no operand is not encoded as it was.
            if count % STRIDE == 0 && !text.contains("/*Invalid immediate*/") {
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
