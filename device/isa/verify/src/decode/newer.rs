//! Oracle a, against LLVM 23: it must assemble our texts to the instructions that they were made from.
//!
//! From GFX10 on it puts the inline constant 0 into source fields that an operation does not have, where LLVM 22 has zeros.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use belfry_isa::decode::decode_for;
use belfry_isa::disasm::Disassembly;
use belfry_isa::encode::encode;
use belfry_isa::inst::{Arch, Format, Inst, Op, WaveSize};
use belfry_isa::tables::{Pattern, patterns};

use super::llvm_mc::{self, Release};
use super::{Report, canonical, hex, name};
use crate::random::Random;
use crate::target::Facts;

/// Formats whose every form has a vector.
const FORMATS: [Format; 4] = [Format::Vop3, Format::Vop3Sd, Format::Vop3P, Format::Vopc];
/// Operands that are drawn for a form until one of its instructions is assembled.
const TRIES: usize = 120;

/// Lets LLVM 23 assemble texts, and decodes the bytes that it gives.
pub(super) fn assemble(
    wave: WaveSize,
    decoded: &[(Inst, Vec<u8>, String)],
    report: &mut Report,
) -> Result<()> {
    let plain: Vec<_> = decoded.iter().filter(|(_, _, text)| !text.contains("/*")).collect();
    let texts: Vec<String> = plain.iter().map(|(_, _, text)| text.clone()).collect();
    let assembled = llvm_mc::assemble(Release::Newer, (report.arch, wave), &texts)?;
    for ((inst, _, text), bytes) in plain.into_iter().zip(assembled) {
        let format = name(inst.format);
        match bytes {
            Ok(bytes) => {
                if let Some(reason) = lost(report.arch, wave, inst, &bytes) {
                    report.exception(reason);
                    continue;
                }
                let same = is_same(report.arch, wave, inst, &bytes, text);
                report.newer.count(&format, (!same).then(|| format!("`{text}`: {}", hex(&bytes))));
            }
            Err(error) => report.exception(&format!("{format}: llvm-mc 23 does not assemble: {error}")),
        }
    }
    Ok(())
}

/// Returns the reason if `bytes` differ from `inst` only in a part that LLVM 23 is known to leave out when it
/// assembles the text that it has read.
fn lost(arch: Arch, wave: WaveSize, inst: &Inst, bytes: &[u8]) -> Option<&'static str> {
    let again = decode_for(arch, wave, bytes).ok().filter(|again| again != inst)?;
    let old = Facts::of(arch).is_gfx9;
    let mut less = *inst;
    if old && inst.op.mnemonic().ends_with("_f64") && inst.mem.dlc {
        less.mem.dlc = false;
        return (less == again).then_some("sc1 of atomics with doubles: llvm-mc 23 does not encode it");
    }
    if inst.op == Op::V_LDEXP_F16 && inst.dpp.is_some() {
        // The other modifier says nothing of an integer.
        (less.mods.neg, less.mods.abs) = (less.mods.neg & !2, less.mods.abs & !2);
        return (less == again).then_some("sext() of v_ldexp_f16_dpp: llvm-mc 23 does not encode it");
    }
    None
}

/// Returns true if `bytes` are `inst` for a decoder, or another encoding with the same text.
fn is_same(arch: Arch, wave: WaveSize, inst: &Inst, bytes: &[u8], text: &str) -> bool {
    match decode_for(arch, wave, bytes) {
        Ok(again) if usize::from(again.size) != bytes.len() => false,
        Ok(again) if again == *inst => true,
        _ => canonical(arch, wave, inst, bytes, text).is_some(),
    }
}

/// The file of [`fixture`].
pub fn file(arch: Arch) -> &'static str {
    match arch {
        Arch::Gfx942 => "llvm23-gfx9.txt",
        Arch::Gfx950 => "llvm23-gfx950.txt",
        Arch::Gfx1100 => "llvm23-gfx11.txt",
        Arch::Gfx1151 => "llvm23-gfx1151.txt",
        Arch::Gfx1201 => "llvm23-gfx12.txt",
    }
}

/// The vectors of LLVM 23 that are kept beside the decoder's tests.
pub fn fixture(arch: Arch) -> &'static str {
    match arch {
        Arch::Gfx942 => include_str!("../../../tests/data/llvm23-gfx9.txt"),
        Arch::Gfx950 => include_str!("../../../tests/data/llvm23-gfx950.txt"),
        Arch::Gfx1100 => include_str!("../../../tests/data/llvm23-gfx11.txt"),
        Arch::Gfx1151 => include_str!("../../../tests/data/llvm23-gfx1151.txt"),
        Arch::Gfx1201 => include_str!("../../../tests/data/llvm23-gfx12.txt"),
    }
}

/// The forms of VOP3, VOP3P and VOPC, those with two destinations included.
pub fn forms(arch: Arch) -> impl Iterator<Item = (usize, Pattern)> {
    patterns(arch)
        .map(|pattern| (usize::from(pattern.form), pattern))
        .filter(|(_, pattern)| FORMATS.contains(&pattern.format))
}

/// A vector of LLVM 23 for each of [`forms`] that it knows: `waves<TAB>bytes<TAB>text`. The text is that of LLVM 22.
///
/// # Errors
///
/// When `llvm-mc` cannot be run.
pub fn vectors(arch: Arch) -> Result<String> {
    Release::Newer.check()?;
    let mut out = format!(
        "# Written by `cargo xtask isa fixtures`: an instruction of each form of VOP3, VOP3P, VOPC and VOP3SD as llvm-mc-23 assembles\n\
         # LLVM 22's text of it for {}.\n",
        arch.name()
    );
    let mut missing: BTreeSet<usize> = forms(arch).map(|(index, _)| index).collect();
    let mut random = Random::new(23);
    for attempt in 0..TRIES {
        for &wave in arch.wave_sizes() {
            let drawn: Vec<(usize, Inst, String)> = forms(arch)
                .filter(|(index, _)| missing.contains(index))
                .filter_map(|(index, pattern)| {
                    let inst = draw((arch, wave), &pattern, &mut random, attempt % 2 == 1)?;
                    (usize::from(inst.form) == index)
                        .then(|| (index, inst, Disassembly::new(inst, arch, wave).to_string()))
                })
                .filter(|(_, _, text)| !text.contains("/*"))
                .collect();
            let texts: Vec<String> = drawn.iter().map(|(_, _, text)| text.clone()).collect();
            let assembled = llvm_mc::assemble(Release::Newer, (arch, wave), &texts)?;
            for ((index, inst, text), bytes) in drawn.into_iter().zip(assembled) {
                // Another form that is written the same has a line of its own.
                if let Ok(bytes) = bytes
                    && bytes.len() == usize::from(inst.size)
                    && missing.remove(&index)
                {
                    let waves = if wave == WaveSize::Wave32 { "32" } else { "64" };
                    writeln!(out, "{waves}\t{}\t{text}", hex(&bytes))?;
                }
            }
        }
    }
    Ok(out)
}

/// An instruction of a form with random operands, and no bits that none has. A plain one has no modifiers, and vector registers with
/// even numbers.
fn draw((arch, wave): (Arch, WaveSize), pattern: &Pattern, random: &mut Random, plain: bool) -> Option<Inst> {
    const MODIFIERS: u128 = 0x1f << 59 | 0xff << 8;
    // Of packed operations the default.
    const HIGH_HALVES: u128 = 1 << 14 | 3 << 59;
    const LOWEST: u128 = 1 | 1 << 32 | 1 << 41 | 1 << 50;
    const VECTORS: u128 = 1 << 40 | 1 << 49 | 1 << 58;
    let mut noise = u128::from(random.long()) << 64 | u128::from(random.long());
    if plain {
        noise = noise & !(MODIFIERS | LOWEST) | VECTORS & !if random.one_in(2) { 1 << 58 } else { 0 };
        if pattern.format == Format::Vop3P && random.one_in(2) {
            noise |= HIGH_HALVES;
        }
    }
    let bits = noise & !pattern.mask | pattern.value;
    let inst = decode_for(arch, wave, &bits.to_le_bytes()).ok()?;
    decode_for(arch, wave, encode(arch, &inst).ok()?.bytes()).ok()
}
