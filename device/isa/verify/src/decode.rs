//! Oracle a: decoder, disassembler and encoder against `llvm-mc`.

pub mod llvm_mc;
mod misread;
pub mod newer;
pub mod sample;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use belfry_isa::decode::decode_for;
use belfry_isa::disasm::{Disassembly, disassemble};
use belfry_isa::encode::{encode, ignored_bits, unused_bits};
use belfry_isa::inst::{Arch, Format, Inst, Op, Operand, WaveSize};
use belfry_isa::tables::{foreign_patterns, patterns};

use crate::tally::Tally;
use crate::target::Facts;
use llvm_mc::{Listed, Release};
use sample::{DWORDS, Sample, Samples};

/// Samples given to one `llvm-mc`, and to one that crashes on some.
const BATCH: usize = 2_000;
const SMALL_BATCH: usize = 500;

/// Findings of the decode oracle.
#[derive(Clone, Debug)]
pub struct Report {
    /// Instruction set that is checked.
    pub arch: Arch,
    /// Text and length against `llvm-mc`'s, per encoding.
    pub text: Tally,
    /// `encode(decode(x)) == x`, per encoding.
    pub encode: Tally,
    /// `llvm-mc` assembling our text to the same bytes, per encoding.
    pub assemble: Tally,
    /// `llvm-mc` of the newer release assembling our text to bytes of the same instruction, per encoding.
    pub newer: Tally,
    /// Forms that only other processors of the family have, which must not be decoded, per encoding.
    pub foreign: Tally,
    /// Instructions that could not be compared with `x` bit for bit, by reason; the reason says what was compared.
    pub exceptions: BTreeMap<String, usize>,
    /// Samples that crash `llvm-mc`.
    pub crashes: Vec<String>,
}

impl Report {
    /// Nothing found yet, of an instruction set.
    pub fn new(arch: Arch) -> Report {
        Report {
            arch,
            text: Tally::default(),
            encode: Tally::default(),
            assemble: Tally::default(),
            newer: Tally::default(),
            foreign: Tally::default(),
            exceptions: BTreeMap::new(),
            crashes: Vec::new(),
        }
    }

    /// Failed checks.
    pub fn wrong(&self) -> usize {
        let tallies = [&self.text, &self.encode, &self.assemble, &self.newer, &self.foreign];
        tallies.into_iter().map(Tally::wrong).sum()
    }

    fn exception(&mut self, reason: &str) {
        *self.exceptions.entry(reason.to_owned()).or_default() += 1;
    }
}

/// Compares `words` random dwords, in waves of 32 and of 64.
///
/// # Errors
///
/// When `llvm-mc` cannot be run.
pub fn random_words(words: usize, seed: u64, report: &mut Report) -> Result<()> {
    for release in Release::ALL {
        release.check()?;
    }
    let samples: Vec<Sample> = Samples::new(report.arch, seed).take(words / DWORDS).collect();
    for &wave in report.arch.wave_sizes() {
        let batch = if Facts::of(report.arch).is_gfx9 { SMALL_BATCH } else { BATCH };
        for chunk in samples.chunks(batch) {
            compare(wave, chunk, report)?;
        }
    }
    Ok(())
}

/// Checks that the forms which only other processors of the family have are no instructions here, for this decoder and for `llvm-mc`.
///
/// # Errors
///
/// When `llvm-mc` cannot be run.
pub fn foreign_forms(report: &mut Report) -> Result<()> {
    let own: BTreeSet<Op> = patterns(report.arch).map(|pattern| pattern.op).collect();
    for &wave in report.arch.wave_sizes() {
        let mut samples = Vec::new();
        for pattern in foreign_patterns(report.arch) {
            // Vector registers in eight bytes, for sources that can be nothing else.
            for operands in [0, 0x100 << 32 | 0x100 << 41 | 0x100 << 50] {
                let bits = pattern.value | operands & !pattern.mask;
                let sample = alone(&bits.to_le_bytes()[..usize::from(pattern.bytes)]);
                let inst = decode_for(report.arch, wave, &sample).ok();
                let wrong = inst.filter(|inst| inst.op == pattern.op && !own.contains(&pattern.op));
                let wrong = wrong.map(|inst| Disassembly::new(inst, report.arch, wave).to_string());
                report.foreign.count(&name(pattern.format), wrong);
                samples.push(sample);
            }
        }
        for chunk in samples.chunks(SMALL_BATCH) {
            compare(wave, chunk, report)?;
        }
    }
    Ok(())
}

/// Checks `encode(decode(x)) == x` for `words` random dwords, without `llvm-mc`.
pub fn random_round_trip(words: usize, seed: u64, report: &mut Report) {
    for sample in Samples::new(report.arch, seed).take(words / DWORDS) {
        for &wave in report.arch.wave_sizes() {
            if let Ok(inst) = decode_for(report.arch, wave, &sample) {
                round_trip(wave, &inst, &sample, report);
            }
        }
    }
}

/// The vectors of LLVM's tests, and instructions of compiled kernels, that are kept beside the decoder's tests.
pub fn fixtures(arch: Arch) -> [&'static str; 2] {
    match arch {
        Arch::Gfx942 => [
            include_str!("../../tests/data/llvm-gfx9.txt"),
            include_str!("../../tests/data/kernels-gfx9.txt"),
        ],
        Arch::Gfx950 => [
            include_str!("../../tests/data/llvm-gfx950.txt"),
            include_str!("../../tests/data/kernels-gfx950.txt"),
        ],
        Arch::Gfx1100 => [
            include_str!("../../tests/data/llvm-gfx11.txt"),
            include_str!("../../tests/data/kernels-gfx11.txt"),
        ],
        Arch::Gfx1151 => [
            include_str!("../../tests/data/llvm-gfx1151.txt"),
            include_str!("../../tests/data/kernels-gfx1151.txt"),
        ],
        Arch::Gfx1201 => [
            include_str!("../../tests/data/llvm-gfx12.txt"),
            include_str!("../../tests/data/kernels-gfx12.txt"),
        ],
    }
}

/// Compares lines of LLVM's own vectors: `waves<TAB>bytes<TAB>text`.
pub fn vectors(fixture: &str, report: &mut Report) {
    for line in fixture.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let (Some(waves), Some(hex), Some(expected)) = (fields.next(), fields.next(), fields.next()) else {
            report.text.count("vectors", Some(format!("not a vector: {line}")));
            continue;
        };
        let code: Vec<u8> =
            (0..hex.len() / 2).filter_map(|at| u8::from_str_radix(&hex[at * 2..][..2], 16).ok()).collect();
        for &wave in report.arch.wave_sizes() {
            if matches!((waves, wave), ("32", WaveSize::Wave64) | ("64", WaveSize::Wave32)) {
                continue;
            }
            match decode_for(report.arch, wave, &code) {
                Ok(inst) => {
                    let text = Disassembly::new(inst, report.arch, wave).to_string();
                    // The fixture's lines come from test files, whose spacing is their own.
                    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let same = spaced(&text) == spaced(expected) && usize::from(inst.size) == code.len();
                    let wrong = (!same).then(|| format!("{hex} {wave:?}: {text:?}, LLVM: {expected:?}"));
                    report.text.count(&format!("vectors {}", name(inst.format)), wrong);
                    round_trip(wave, &inst, &code, report);
                }
                Err(error) => {
                    report
                        .text
                        .count("vectors", Some(format!("{hex} {wave:?}: {error}, LLVM: {expected:?}")));
                }
            }
        }
    }
}

/// The encoding's name as the manuals write it.
pub fn name(format: Format) -> String {
    format!("{format:?}").to_uppercase()
}

/// Lists the samples with both disassemblers and counts, per encoding, where they agree.
fn compare(wave: WaveSize, samples: &[Sample], report: &mut Report) -> Result<()> {
    let Some(theirs) = llvm_mc::disassemble(report.arch, wave, samples)? else {
        if let [sample] = samples {
            report.crashes.push(format!("{} in {wave:?}", hex(sample)));
            return Ok(());
        }
        let (left, right) = samples.split_at(samples.len() / 2);
        compare(wave, left, report)?;
        return compare(wave, right, report);
    };
    let mut decoded = Vec::new();
    let mut again = Vec::new();
    for (sample, theirs) in samples.iter().zip(theirs) {
        again.extend(compare_one(wave, sample, &theirs, report, &mut decoded));
    }
    assemble(wave, &decoded, report)?;
    newer::assemble(wave, &decoded, report)?;
    if again.is_empty() { Ok(()) } else { compare(wave, &again, report) }
}

/// Compares one sample's listings; instructions that both agree on go to `decoded`. The result is another sample to
/// compare in its place: if LLVM 22 knows no instruction because of bits that no operand has, the instruction as it
/// writes it.
fn compare_one(
    wave: WaveSize,
    sample: &Sample,
    theirs: &[Listed],
    report: &mut Report,
    decoded: &mut Vec<(Inst, Vec<u8>, String)>,
) -> Option<Sample> {
    let mut theirs = theirs.iter();
    for line in disassemble(report.arch, wave, sample, 0) {
        // llvm-mc gives a block up where it meets no instruction.
        let Ok(inst) = line.inst else { break };
        let at = usize::try_from(line.address).unwrap_or(0);
        let code = &sample[at..at + usize::from(inst.size)];
        round_trip(wave, &inst, code, report);
        let (mine, expected) = (line.text(), theirs.next());
        if let Some(usual) = misread::with_usual_halves(report.arch, &inst) {
            report.exception(
                "op_sel and op_sel_hi of v_dot4_*, v_dot8_*: LLVM 22 has no text of them; compared without them",
            );
            return Some(alone(usual.bytes()));
        }
        if let Some(reason) = misread::unknown(report.arch, &inst).filter(|_| expected.is_none()) {
            report.exception(reason);
            return None;
        }
        if expected.is_none() && misread::no_triple(&mine) {
            report.exception(misread::NO_TRIPLE);
            return None;
        }
        let differs = expected.filter(|theirs| theirs.text != mine);
        if let Some(reason) = differs.and_then(|theirs| misread::otherwise(&inst, theirs, &mine)) {
            report.exception(reason);
            return None;
        }
        if expected.is_some_and(|theirs| misread::no_tuple(&theirs.text)) {
            report.exception(misread::NO_TUPLE);
            return None;
        }
        let mut same = expected.is_some_and(|theirs| theirs.text == mine);
        if !same && expected.is_some_and(|theirs| misread::vcc_outside(&theirs.text) == mine) {
            same = true;
            report.exception(
                "v_cndmask_b32_dpp: LLVM 22 writes the implied VCC inside of the bars of `|src1|`, and does not assemble that; all \
                 else was compared",
            );
        }
        if !same && let Some(usual) = as_usual(report.arch, &inst, code) {
            report.exception("bits no operand has, of which LLVM 22 knows one value: compared with that");
            return Some(usual);
        }
        let wrong = (!same)
            .then(|| format!("{} {wave:?}: {mine:?}, llvm-mc: {:?}", hex(code), expected.map(|e| &e.text)));
        report.text.count(&name(inst.format), wrong);
        if !same {
            return None;
        }
        decoded.push((inst, code.to_vec(), mine));
    }
    if let Some(listed) = theirs.next() {
        if misread::no_tuple(&listed.text) {
            report.exception(misread::NO_TUPLE);
            return None;
        }
        if let Some(reason) =
            misread::of_other_chips(&listed.text).or_else(|| misread::no_destination(&listed.text, sample))
        {
            report.exception(reason);
            return None;
        }
        report.text.count("missed", Some(format!("{} {wave:?}: llvm-mc: {:?}", hex(sample), listed.text)));
    }
    None
}

/// A sample of the instruction alone with the bits that no operand has as LLVM 22 writes them, when they are others in `code`.
fn as_usual(arch: Arch, inst: &Inst, code: &[u8]) -> Option<Sample> {
    let encoded = encode(arch, inst).ok()?;
    if encoded.bytes() == code {
        return None;
    }
    Some(alone(encoded.bytes()))
}

/// A sample of one instruction.
fn alone(code: &[u8]) -> Sample {
    // Words that begin no instruction.
    let mut sample = [0xcf; sample::SAMPLE];
    sample[..code.len()].copy_from_slice(code);
    sample
}

/// Checks that encoding `inst` gives the bytes it was decoded from.
fn round_trip(wave: WaveSize, inst: &Inst, code: &[u8], report: &mut Report) {
    let format = name(inst.format);
    let encoded = match encode(report.arch, inst) {
        Ok(encoded) => encoded,
        Err(error) => return report.encode.count(&format, Some(format!("{}: {error}", hex(code)))),
    };
    let code = &code[..usize::from(inst.size)];
    let ignored = ignored_bits(report.arch, wave, inst).to_le_bytes();
    let differs =
        |bytes: &[u8]| -> Vec<u8> { code.iter().zip(bytes).map(|(left, right)| left ^ right).collect() };
    let lost = differs(encoded.bytes());
    let kept = lost.iter().zip(ignored).all(|(lost, ignored)| lost & !ignored == 0);
    // Unused bits mean nothing, so the instruction must decode the same with all of them inverted.
    let unused = unused_bits(report.arch, inst).to_le_bytes();
    let turned: Vec<u8> = code.iter().zip(unused).map(|(byte, unused)| byte ^ unused).collect();
    let same = encoded.bytes().len() == code.len()
        && kept
        && [encoded.bytes(), &turned].iter().all(|code| decode_for(report.arch, wave, code) == Ok(*inst));
    let wrong = (!same).then(|| {
        let text = Disassembly::new(*inst, report.arch, wave);
        format!("{} {wave:?}: {} `{text}`", hex(code), hex(encoded.bytes()))
    });
    report.encode.count(&format, wrong);
    if lost.iter().any(|byte| *byte != 0) {
        report.exception(&format!(
            "{format}: bits no operand has, lost by encode(decode(x)); the others were checked"
        ));
    }
}

/// Has `llvm-mc` assemble the texts again.
fn assemble(wave: WaveSize, decoded: &[(Inst, Vec<u8>, String)], report: &mut Report) -> Result<()> {
    let (commented, plain): (Vec<_>, Vec<_>) = decoded.iter().partition(|(_, _, text)| text.contains("/*"));
    for _ in commented {
        report.exception(
            "texts with a comment for an operand that is none (`/*Invalid …*/`) are not assembled",
        );
    }
    let texts: Vec<String> = plain.iter().map(|(_, _, text)| text.clone()).collect();
    for ((inst, code, text), assembled) in
        plain.into_iter().zip(llvm_mc::assemble(Release::OfTables, (report.arch, wave), &texts)?)
    {
        let format = name(inst.format);
        match assembled {
            Ok(bytes) if bytes == *code => report.assemble.count(&format, None),
            Ok(bytes) => match canonical(report.arch, wave, inst, &bytes, text) {
                Some(reason) => report.exception(&format!("{format}: {reason}")),
                None => {
                    report.assemble.count(&format, Some(format!("{} `{text}`: {}", hex(code), hex(&bytes))));
                }
            },
            Err(error) => {
                report.exception(&format!("{format}: llvm-mc disassembles but does not assemble: {error}"));
            }
        }
    }
    Ok(())
}

/// Why llvm-mc may write `inst` with other bytes: they must decode to the same text.
fn canonical(arch: Arch, wave: WaveSize, inst: &Inst, bytes: &[u8], text: &str) -> Option<&'static str> {
    let other = decode_for(arch, wave, bytes).ok()?;
    if inst.op == Op::DS_SWIZZLE_B32 && other.op == inst.op {
        return same_permutation(inst.mem.offset, other.mem.offset);
    }
    if other.op == inst.op && other.src != inst.src && inst.src.iter().zip(other.src).all(same_half) {
        return Some(
            "16-bit constants are assembled as the inline constant or literal that they are written as",
        );
    }
    let number = matches!(inst.src[0], Operand::InlineInt(_));
    if inst.format == Format::Sop1 && inst.op.mnemonic().contains("barrier") && !number {
        return Some("a barrier in a source that is no number: LLVM disassembles and does not assemble it");
    }
    if other.op != inst.op || Disassembly::new(other, arch, wave).to_string() != text {
        return None;
    }
    let ignored = ignored_bits(arch, wave, inst) != 0;
    let literal = |inst: &Inst| inst.src.iter().any(|source| matches!(source, Operand::Literal(_)));
    let dual = |inst: &Inst| {
        inst.dual.is_some_and(|dual| dual.src.iter().any(|source| matches!(source, Operand::Literal(_))))
    };
    if (literal(inst) || dual(inst)) && other.size < inst.size {
        return Some("a literal an inline constant can be is assembled as that");
    }
    if other.form == inst.form && ignored {
        return Some("bits no operand has are assembled as LLVM's default");
    }
    Some("another encoding with the same text")
}

/// Returns true if two sources are equal for an operation of 16 bits.
fn same_half((left, right): (&Operand, Operand)) -> bool {
    match (*left, right) {
        (Operand::Literal(left), Operand::InlineInt(right)) => left as u16 == i16::from(right) as u16,
        (Operand::InlineFloat(left), Operand::Literal(right)) => u32::from(left.f16_bits()) == right,
        (left, right) => left == right,
    }
}

/// Lane a `ds_swizzle_b32` of the bit-mask kind reads from.
fn permuted(offset: i32, lane: i32) -> i32 {
    (lane & offset & 31 | offset >> 5 & 31) ^ (offset >> 10 & 31)
}

/// Says why two offsets of `ds_swizzle_b32` that are written alike are no difference, if they are none.
fn same_permutation(one: i32, other: i32) -> Option<&'static str> {
    const FFT: i32 = 0xe000;
    const ROTATE: i32 = 0xc000;
    if one >= FFT && other >= FFT {
        return (one & 31 == other & 31).then_some("ds_swizzle_b32 by FFT: bits that nothing reads");
    }
    if (ROTATE..FFT).contains(&one) && (ROTATE..FFT).contains(&other) {
        // The direction, and by how much.
        return (one & 0x7e0 == other & 0x7e0)
            .then_some("ds_swizzle_b32 by rotation: LLVM 22 has no text of its mask; all else was compared");
    }
    let lanes = |offset| (0..32).map(|lane| permuted(offset, lane)).collect::<Vec<_>>();
    (lanes(one) == lanes(other)).then_some("a permutation that several offsets describe")
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_swizzles_differ_where_lanes_do() {
        assert!(same_permutation(0xe1fd, 0xe01d).is_some(), "FFT");
        assert!(same_permutation(0xe01c, 0xe01d).is_none());
        assert!(same_permutation(0xca9f, 0xc280).is_some(), "rotation by 20, without its mask");
        assert!(same_permutation(0xca9f, 0xc6a0).is_none());
        assert!(same_permutation(0x001f, 0x001e).is_none());
    }
}
