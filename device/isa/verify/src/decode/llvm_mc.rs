//! `llvm-mc` as a child process: disassembling samples and assembling texts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use belfry_isa::inst::{Arch, WaveSize};

use super::sample::Sample;

/// Ends a sample in the listings: `s_sethalt 0x5a5a`, as unlikely as any word in random code.
const fn end(arch: Arch) -> [u8; 4] {
    match arch {
        Arch::Gfx942 | Arch::Gfx950 => [0x5a, 0x5a, 0x8d, 0xbf],
        Arch::Gfx1100 | Arch::Gfx1151 | Arch::Gfx1201 => [0x5a, 0x5a, 0x82, 0xbf],
    }
}
/// Its text.
const END_TEXT: &str = "s_sethalt 0x5a5a";

/// One line of a listing: text and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Assembler text.
    pub text: String,
    /// Bytes the instruction has.
    pub bytes: Vec<u8>,
}

/// A release of LLVM that is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// LLVM 22, whose tables are the decoder's.
    OfTables,
    /// LLVM 23, which fills fields that an operation does not have.
    Newer,
}

impl Release {
    /// Both.
    pub const ALL: [Release; 2] = [Release::OfTables, Release::Newer];

    /// Its number.
    const fn number(self) -> u32 {
        match self {
            Release::OfTables => 22,
            Release::Newer => 23,
        }
    }

    /// The variable with the program's name.
    const fn variable(self) -> &'static str {
        match self {
            Release::OfTables => "LLVM_MC",
            Release::Newer => "LLVM_MC_23",
        }
    }

    /// The program's name: `$LLVM_MC` or `llvm-mc-22`, `$LLVM_MC_23` or `llvm-mc-23`.
    fn program(self) -> String {
        std::env::var(self.variable()).unwrap_or_else(|_| format!("llvm-mc-{}", self.number()))
    }

    /// Checks that `llvm-mc` is there and is this release.
    ///
    /// # Errors
    ///
    /// An error that says what to install, if it is not.
    pub fn check(self) -> Result<()> {
        let (program, number) = (self.program(), self.number());
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| self.missing(&error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(text.contains(&format!("LLVM version {number}.")), "{program} is not LLVM {number}\n{text}");
        Ok(())
    }

    fn missing(self, error: &std::io::Error) -> anyhow::Error {
        let (program, number, variable) = (self.program(), self.number(), self.variable());
        anyhow!("{program} cannot be run ({error}): install `llvm-{number}`, or set {variable}")
    }
}

fn run(release: Release, arch: Arch, wave: WaveSize, mode: &str, input: String) -> Result<Output> {
    let program = release.program();
    let size = match wave {
        WaveSize::Wave32 => "-mattr=+wavefrontsize32,-wavefrontsize64",
        WaveSize::Wave64 => "-mattr=-wavefrontsize32,+wavefrontsize64",
    };
    // Of gfx1201 operands of 16 bits have the names of whole registers, as LLVM 22 has it.
    let attributes = match (release, arch) {
        (Release::Newer, Arch::Gfx1201) => format!("{size},-real-true16"),
        _ => size.to_owned(),
    };
    let mut child = Command::new(&program)
        .args([mode, "-triple=amdgcn-amd-amdhsa", "-show-encoding"])
        .args((arch.wave_sizes().len() > 1).then_some(attributes))
        .arg(format!("-mcpu={}", arch.name()))
        // Some code crashes it: what it says then takes a second, and is not read.
        .env("LLVM_DISABLE_SYMBOLIZATION", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| release.missing(&error))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // A crash of the program closes the pipe, which is no failure of ours.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow!("the writer panicked"))?;
    Ok(output)
}

/// Text and bytes of an output line, when it has an encoding.
fn listed(line: &str) -> Option<Listed> {
    let (text, rest) = line.split_once("; encoding: [")?;
    let bytes = rest.split_once(']')?.0;
    let bytes = bytes
        .split(',')
        .map(|byte| u8::from_str_radix(byte.trim().trim_start_matches("0x"), 16).ok())
        .collect::<Option<Vec<u8>>>()?;
    Some(Listed { text: text.trim().to_owned(), bytes })
}

/// `llvm-mc`'s listing of each sample, up to the first bytes that are no instruction; `None` when it crashes.
///
/// # Errors
///
/// When it cannot be run or its output makes no sense.
pub fn disassemble(arch: Arch, wave: WaveSize, samples: &[Sample]) -> Result<Option<Vec<Vec<Listed>>>> {
    let mut input = String::new();
    for sample in samples {
        for bytes in [&sample[..], &end(arch)] {
            input.push('[');
            for byte in bytes {
                write!(input, "{byte:#04x},")?;
            }
            input.pop();
            input.push_str("]\n");
        }
    }
    let output = run(Release::OfTables, arch, wave, "--disassemble", input)?;
    // 1 says that some bytes were no instruction.
    match output.status.code() {
        None => return Ok(None),
        Some(0 | 1) => {}
        Some(_) => bail!("{} failed: {}", Release::OfTables.program(), output.status),
    }
    let (mut listings, mut current) = (Vec::new(), Vec::new());
    for line in String::from_utf8(output.stdout)?.lines() {
        match listed(line) {
            Some(line) if line.text == END_TEXT => listings.push(std::mem::take(&mut current)),
            Some(line) => current.push(line),
            None => {}
        }
    }
    ensure!(
        listings.len() == samples.len(),
        "llvm-mc listed {} samples of {}",
        listings.len(),
        samples.len()
    );
    Ok(Some(listings))
}

/// The bytes `llvm-mc` assembles each text to, or why it does not.
///
/// # Errors
///
/// When it cannot be run or its output makes no sense.
pub fn assemble(
    release: Release,
    (arch, wave): (Arch, WaveSize),
    texts: &[String],
) -> Result<Vec<Result<Vec<u8>, String>>> {
    let mut input = texts.join("\n");
    input.push('\n');
    let output = run(release, arch, wave, "--assemble", input)?;
    let errors = String::from_utf8(output.stderr)?;
    let mut refused = BTreeSet::new();
    let mut reasons = vec![String::new(); texts.len()];
    for line in errors.lines() {
        let Some((place, reason)) = line.split_once(": error: ") else { continue };
        let number = place.split(':').nth(1).and_then(|number| number.parse::<usize>().ok());
        let index = number.context("an error without a line")? - 1;
        refused.insert(index);
        reason.clone_into(reasons.get_mut(index).context("an error beyond the end")?);
    }
    let stdout = String::from_utf8(output.stdout)?;
    let mut lines = stdout.lines().filter_map(listed).peekable();
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all = Vec::with_capacity(texts.len());
    for (index, reason) in reasons.into_iter().enumerate() {
        if refused.contains(&index) {
            // After an error about `nv` or `scale_offset` it writes the instruction nevertheless.
            lines.next_if(|line| spaced(&line.text) == spaced(&texts[index]));
            all.push(Err(reason));
        } else {
            let line = lines.next().with_context(|| format!("no encoding for `{}`", texts[index]))?;
            all.push(Ok(line.bytes));
        }
    }
    ensure!(lines.next().is_none(), "llvm-mc assembled more than it was given");
    Ok(all)
}
