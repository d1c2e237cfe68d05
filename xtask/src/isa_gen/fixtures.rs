//! `cargo xtask isa fixtures`: texts that `device/isa/tests/disassembly.rs` compares with.
//!
//! Each line is `waves<TAB>bytes<TAB>text`: `32`, `64` or `*` for both, the instruction's bytes in hexadecimal, LLVM's
//! text of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::llvm;

use super::source;
use super::target::{EXECUTED_NEIGHBOURS, TARGETS, Target};

/// Program that gives the texts.
const MC: &str = "llvm-mc-22";
/// Folder with kernels and their committed objects.
const KERNELS: &str = "guest-runtime/kernels";
/// Kernels that are compiled for waves of 64 as well. The others use instructions or libraries of one size.
const WAVE64: [&str; 9] =
    ["bench", "bitonic", "gemm", "hist", "intmix", "reduce", "scratch", "sort", "vecadd"];
/// Interval at which LLVM's vectors are committed: one of this many.
const STRIDE: usize = 8;

/// Writes the fixtures of compiled kernels and of LLVM's disassembler tests.
pub(crate) fn run(root: &Path, work: &Path) -> Result<()> {
    let directory = root.join("device/isa/tests/data");
    fs::create_dir_all(&directory)?;
    let tree = source::tree(work)?;
    let mut files = Vec::new();
    for target in TARGETS.iter().chain(&EXECUTED_NEIGHBOURS) {
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
         # them for {processor}, with the text llvm-mc-22 gives it.\n",
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
        if target.is_compiled_for {
            let object = scratch.join(format!("{stem}.hsaco"));
            // Some kernels use features that this processor does not have.
            if stem != "ocml" && compile(target, &path, &object)? {
                listing(&mut out, &mut seen, (target, "64"), &object, &scratch)?;
            }
            continue;
        }
        if !object.exists() {
            // A kernel that uses a feature this processor does not have.
            continue;
        }
        if target.only_waves_of_64 {
            listing(&mut out, &mut seen, (target, "64"), &object, &scratch)?;
            continue;
        }
        listing(&mut out, &mut seen, (target, "32"), &object, &scratch)?;
        if WAVE64.contains(&stem.as_str()) {
            let object = scratch.join(format!("{stem}.w64.hsaco"));
            let compiles = compile(target, &path, &object)?;
            ensure!(compiles, "{} does not compile for waves of 64", path.display());
            listing(&mut out, &mut seen, (target, "64"), &object, &scratch)?;
        }
    }
    fs::remove_dir_all(&scratch)?;
    Ok(out)
}

/// Compiles a kernel for waves of 64. Returns true if it compiles.
fn compile(target: &Target, source: &Path, object: &Path) -> Result<bool> {
    let mut compiler = Command::new(llvm::program("clang-19")?);
    if source.file_stem().is_none_or(|stem| stem != "bench") {
        compiler.arg("-include").arg(source.with_file_name("hdr.h"));
    }
    let status = compiler
        .args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O2"])
        .arg(format!("-mcpu={}", target.processor))
        .args((!target.only_waves_of_64).then_some("-mwavefrontsize64"))
        .args(["-nogpulib", "-Wno-everything", "-o"])
        .args([object, source])
        .stderr(Stdio::null())
        .status()
        .context("running clang-19")?;
    Ok(status.success())
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
    let status = Command::new(llvm::program("llvm-objcopy-22")?)
        .args(["-O", "binary", "--only-section=.text"])
        .args([object, &text])
        .status()
        .context("running llvm-objcopy-22")?;
    ensure!(status.success(), "no .text in {}", object.display());
    let code = fs::read(&text)?;
    let bytes: Vec<String> = code.iter().map(|byte| format!("{byte:#04x}")).collect();
    let input = scratch.join("input");
    fs::write(&input, format!("[{}]\n", bytes.join(",")))?;
    let output = listed(target, waves, &input)?;
    ensure!(output.status.success(), "{MC} does not know all of {}", object.display());
    let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut rest = code.as_str();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((text, encoding)) = encoded(line) else { continue };
        // The printed encodings are the code, as llvm-mc encodes again the instruction that it decoded. The exception
        // is a literal that the linker has made one of the inline constants.
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
    ensure!(rest.is_empty(), "{MC} encodes {} differently", object.display());
    Ok(())
}

/// The listing of a file of bytes by `llvm-mc`, in waves of one size.
fn listed(target: &Target, waves: &str, input: &Path) -> Result<Output> {
    let sizes =
        if waves == "64" { "-wavefrontsize32,+wavefrontsize64" } else { "+wavefrontsize32,-wavefrontsize64" };
    Command::new(llvm::program(MC)?)
        .args(["--disassemble", "-triple=amdgcn-amd-amdhsa", "-show-encoding"])
        .arg(format!("-mcpu={}", target.processor))
        .args((!target.only_waves_of_64).then(|| format!("-mattr={sizes}")))
        .arg(input)
        .stderr(Stdio::null())
        .output()
        .with_context(|| format!("running {MC}"))
}

/// A sample of the encodings in LLVM's tests that the processor has, with its texts: those of the tests are for other
/// processors and settings as well.
fn vectors(tree: &Path, target: &Target) -> Result<String> {
    let (processor, family) = (target.processor, target.vectors[0].trim_end_matches('_'));
    let mut out = format!(
        "# Every eighth encoding in LLVM 22's tests of {family} below test/MC that {processor} has, with the text that llvm-mc-22\n\
         # gives it for that, written by `cargo xtask isa fixtures`.\n\
         #\n\
         # Part of the LLVM Project, under the Apache License v2.0 with LLVM Exceptions.\n\
         # See https://llvm.org/LICENSE.txt for license information.\n\
         # SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n",
    );
    let (mut whole, mut codes, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for directory in ["llvm/test/MC/Disassembler/AMDGPU", "llvm/test/MC/AMDGPU"] {
        let mut files: Vec<PathBuf> =
            fs::read_dir(tree.join(directory))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            target.vectors.iter().chain(target.whole_vectors).any(|prefix| name.starts_with(prefix))
        });
        files.sort();
        ensure!(!files.is_empty(), "no tests in {directory}");
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_whole = target.whole_vectors.iter().any(|prefix| name.starts_with(prefix));
            for line in fs::read_to_string(&path)?.lines() {
                let Some((_, rest)) = line.split_once("encoding: [") else { continue };
                if let Some((bytes, _)) = rest.split_once(']')
                    && let Ok(code) = hex(bytes)
                    && seen.insert(code.clone())
                {
                    if is_whole { &mut whole } else { &mut codes }.push(code);
                }
            }
        }
    }
    let codes: Vec<String> = codes.into_iter().step_by(STRIDE).chain(whole).collect();
    let mut sizes = Vec::new();
    for waves in if target.only_waves_of_64 { &["64"][..] } else { &["32", "64"] } {
        let mut all = Vec::new();
        for codes in codes.chunks(1_000) {
            all.extend(texts(target, waves, codes)?);
        }
        sizes.push((*waves, all));
    }
    for (index, code) in codes.iter().enumerate() {
        let known = |text: &&String| !text.contains("/*Invalid");
        let texts: Vec<_> = sizes
            .iter()
            .filter_map(|(waves, all)| Some((*waves, all[index].as_ref().filter(known)?)))
            .collect();
        match &texts[..] {
            [(_, first), (_, second)] if first == second => writeln!(out, "*\t{code}\t{first}")?,
            texts => texts.iter().try_for_each(|(waves, text)| writeln!(out, "{waves}\t{code}\t{text}"))?,
        }
    }
    Ok(out)
}

/// Text of `llvm-mc` for each code; `None` for a code that is not one instruction.
fn texts(target: &Target, waves: &str, codes: &[String]) -> Result<Vec<Option<String>>> {
    const END_TEXT: &str = "s_sethalt 0x5a5a";
    let end = if target.only_waves_of_64 { "[0x5a,0x5a,0x8d,0xbf]\n" } else { "[0x5a,0x5a,0x82,0xbf]\n" };
    let mut input = String::new();
    for code in codes {
        let bytes: Vec<String> =
            (0..code.len() / 2).map(|at| format!("0x{}", &code[at * 2..][..2])).collect();
        writeln!(input, "[{}]", bytes.join(","))?;
        input.push_str(end);
    }
    let scratch = std::env::temp_dir().join(format!("belfry-isa-{}.txt", std::process::id()));
    fs::write(&scratch, input)?;
    let output = listed(target, waves, &scratch)?;
    fs::remove_file(&scratch)?;
    // Some code crashes it. Under a loader of its own that is the status of a shell's.
    if output.status.code().is_none_or(|code| code > 128) {
        let (left, right) = codes.split_at(codes.len() / 2);
        return match codes.len() {
            1 => Ok(vec![None]),
            _ => Ok([texts(target, waves, left)?, texts(target, waves, right)?].concat()),
        };
    }
    let (mut all, mut current) = (Vec::new(), Vec::new());
    for line in String::from_utf8(output.stdout)?.lines() {
        match encoded(line) {
            Some((END_TEXT, _)) => {
                let lines: Vec<String> = std::mem::take(&mut current);
                all.push(if let [text] = &lines[..] { Some(text.clone()) } else { None });
            }
            Some((text, _)) => current.push(text.to_owned()),
            None => {}
        }
    }
    ensure!(all.len() == codes.len(), "{MC} listed {} of {} instructions", all.len(), codes.len());
    Ok(all)
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
