//! Every 16-bit operation with halves: which half of which register each operand is, and that the operation does on these
//! halves what it does on low ones.
//!
//! The cases are those of `data/true16.txt`, so that which half an operand is comes from LLVM's text and not from the decoder.

use core::cell::RefCell;

use belfry_isa::decode::decode;
use belfry_isa::encode::encode;
use belfry_isa::inst::{Arch, Inst, Operand};

use super::{lanes, program};

const END: u32 = 0xbfb0_0000;
/// First register that operands are moved to; the operands of the cases are below it.
const ELSEWHERE: u8 = 10;
/// Registers that have values.
const REGISTERS: u32 = 16;

/// The register of an operand, and whether it is its high half; `None` of a whole register.
type Place = (u8, Option<bool>);

fn place(text: &str) -> Option<Place> {
    let text = text.trim_matches(|c| c == '|' || c == '-').strip_prefix('v')?;
    match text.split_once('.') {
        Some((number, half)) => Some((number.parse().ok()?, Some(half == "h"))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// A case of the list: its text, mnemonic and operands, and the bytes.
pub(super) struct Case {
    pub(super) text: &'static str,
    mnemonic: &'static str,
    operands: Vec<&'static str>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let data = include_str!("../data/true16.txt");
    data.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (text, bytes) = line.split_once(" ; ").expect("text ; bytes");
        let (mnemonic, operands) = text.split_once(' ').expect("a mnemonic and operands");
        let operands = operands.split(", ").map(|operand| operand.split(' ').next().expect("one word"));
        let bytes = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"));
        Case { text, mnemonic, operands: operands.collect(), bytes: bytes.collect() }
    })
}

impl Case {
    /// Returns a text if operands of an instruction are not those of the case.
    pub(super) fn mistaken(&self, inst: &Inst) -> Option<String> {
        let sources = inst.src.iter().zip([1, 2, 4]);
        // The destination of a `v_cmpx` is EXEC, which text does not name.
        let places =
            std::iter::once((&inst.dst, 8)).chain(sources).skip(self.mnemonic.starts_with("v_cmpx").into());
        let errors: Vec<_> = places
            .zip(&self.operands)
            .filter_map(|((&operand, bit), text)| check(inst, operand, bit, text))
            .collect();
        (!errors.is_empty()).then(|| format!("{}: {}", self.text, errors.join("; ")))
    }
}

/// Returns a text if an operand of an instruction is wrong.
fn check(inst: &Inst, operand: Operand, bit: u8, text: &str) -> Option<String> {
    let (number, half) = place(text)?;
    let high = inst.mods.op_sel & bit != 0;
    let right = operand == Operand::Vgpr(number) && half.is_none_or(|half| half == high);
    (!right).then(|| format!("{text}: {operand:?} {}", if high { "high" } else { "low" }))
}

/// Returns the value of a lane of a register: halves that are numbers as floats, and not all alike.
fn value(register: u32, lane: u32) -> u32 {
    let half = |seed: u32| (seed.wrapping_mul(0x9e37_79b1) >> 13 & 0x3ff) | (0x34 + seed % 14) << 10 & 0x7c00;
    let (low, high) = (half(register * 64 + lane), half(register * 64 + lane + 4711));
    low | (high | (lane & 1) << 15) << 16
}

/// State that a program leaves: registers by number and lane, VCC, s1, and EXEC.
struct After {
    vgprs: Vec<Vec<u32>>,
    masks: [u64; 3],
}

fn run(bytes: &[u8], vgprs: &[[u32; 64]]) -> Vec<After> {
    let words = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("dwords")));
    let words: Vec<u32> = words.chain([END]).collect();
    let after = RefCell::new(Vec::new());
    program(&words, vgprs, &[0x3c00_4400; 8], |wave, _| {
        let vgprs = (0..REGISTERS).map(|r| (0..32).map(|lane| wave.vgpr(r as u8, lane)).collect()).collect();
        let masks = [wave.sgpr(106).into(), wave.sgpr(1).into(), wave.exec()];
        after.borrow_mut().push(After { vgprs, masks });
    });
    after.into_inner()
}

/// The half of a word, or all of it.
fn part(word: u32, half: Option<bool>) -> u32 {
    match half {
        Some(high) => word >> if high { 16 } else { 0 } & 0xffff,
        None => word,
    }
}

/// The instruction on low halves of other registers, which hold what the case's operands are.
fn on_low_halves(inst: &Inst, places: &[Option<Place>; 4], vgprs: &mut [[u32; 64]]) -> (Inst, u8) {
    let mut inst = *inst;
    inst.mods.op_sel = 0;
    for (n, place) in places.iter().enumerate() {
        let to = ELSEWHERE + n as u8;
        if let Some((from, half)) = place {
            vgprs[usize::from(to)] = core::array::from_fn(|lane| {
                part(vgprs[usize::from(*from)][lane], *half)
                    | match half {
                        // What is not looked at.
                        Some(_) => 0x7bcd_0000,
                        None => 0,
                    }
            });
            let operand = if n == 0 { &mut inst.dst } else { &mut inst.src[n - 1] };
            assert!(matches!(operand, Operand::Vgpr(_)), "{inst:?}");
            *operand = Operand::Vgpr(to);
        }
    }
    (inst, ELSEWHERE)
}

#[test]
fn operations_on_halves_are_those_on_low_halves() {
    let mut seen = 0;
    for Case { text, mnemonic, operands, bytes } in cases() {
        // `v_swap_b16` is absent. A permutation of lanes is for the tests of DPP.
        if mnemonic == "v_swap_b16" || text.contains("dpp8") {
            continue;
        }
        let inst = decode(Arch::Gfx1100, &bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut places: [Option<Place>; 4] = [None; 4];
        let first = usize::from(mnemonic.starts_with("v_cmpx"));
        for (slot, operand) in places[first..].iter_mut().zip(operands) {
            *slot = place(operand);
        }
        // Numbers above 128 are whole registers, which have their place further down.
        let low = |place: Option<Place>| place.map(|(number, half)| (number % 128, half));
        let mut inst_low = inst;
        for (n, slot) in places.iter_mut().enumerate() {
            *slot = low(*slot);
            let operand = if n == 0 { &mut inst_low.dst } else { &mut inst_low.src[n - 1] };
            if let (Operand::Vgpr(number), Some(_)) = (&mut *operand, &slot) {
                *number %= 128;
            }
        }
        let mut vgprs: Vec<[u32; 64]> = (0..REGISTERS).map(|r| lanes(|lane| value(r, lane))).collect();
        let original = encode(Arch::Gfx1100, &inst_low).unwrap_or_else(|error| panic!("{text}: {error}"));
        let after = run(original.bytes(), &vgprs);
        let (other, dst) = on_low_halves(&inst_low, &places, &mut vgprs);
        let other = encode(Arch::Gfx1100, &other).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected = run(other.bytes(), &vgprs);
        for (after, expected) in after.iter().zip(&expected) {
            assert_eq!(after.masks, expected.masks, "{text}: masks");
            let Some((number, half)) = places[0] else { continue };
            for lane in 0..32 {
                let (got, want) =
                    (after.vgprs[usize::from(number)][lane], expected.vgprs[usize::from(dst)][lane]);
                assert_eq!(part(got, half), part(want, half.map(|_| false)), "{text}: lane {lane}");
                if let Some(high) = half {
                    let before = value(number.into(), lane as u32);
                    assert_eq!(part(got, Some(!high)), part(before, Some(!high)), "{text}: other half");
                }
            }
        }
        seen += 1;
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn halves_of_registers_are_decoded_as_llvm_has_them() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for case in cases() {
        let inst = match decode(Arch::Gfx1100, &case.bytes) {
            Ok(inst) => inst,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.text));
                continue;
            }
        };
        seen += 1;
        wrong.extend(case.mistaken(&inst));
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
