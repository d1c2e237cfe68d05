//! 16-bit operands: which half of which register each of them is, as LLVM's disassembler has it.

use belfry_isa::decode::decode;
use belfry_isa::inst::{Arch, Inst, Operand};

/// Text of operands, and bytes.
fn cases() -> impl Iterator<Item = (&'static str, Vec<&'static str>, Vec<u8>)> {
    let data = include_str!("data/true16.txt");
    data.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (text, bytes) = line.split_once(" ; ").expect("text ; bytes");
        let (mnemonic, operands) = text.split_once(' ').expect("a mnemonic and operands");
        let operands = operands.split(", ").map(|operand| operand.split(' ').next().expect("one"));
        let bytes = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"));
        (mnemonic, operands.collect(), bytes.collect())
    })
}

/// A vector register in text: its number, and the half if one is named.
fn register(text: &str) -> Option<(u8, Option<bool>)> {
    let text = text.trim_matches(|c| c == '|' || c == '-').strip_prefix('v')?;
    match text.split_once('.') {
        Some((number, half)) => Some((number.parse().ok()?, Some(half == "h"))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// What is wrong with an operand of an instruction.
fn check(inst: &Inst, operand: Operand, bit: u8, text: &str) -> Option<String> {
    let (number, half) = register(text)?;
    let (got, high) = (operand, inst.mods.op_sel & bit != 0);
    let right = got == Operand::Vgpr(number) && half.is_none_or(|half| half == high);
    (!right).then(|| format!("{text}: {got:?} {}", if high { "high" } else { "low" }))
}

#[test]
fn halves_of_registers_are_decoded_as_llvm_has_them() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (mnemonic, operands, bytes) in cases() {
        let inst = match decode(Arch::Gfx1100, &bytes) {
            Ok(inst) => inst,
            // Not in LLVM 19's tables, and absent.
            Err(error) if mnemonic == "v_swap_b16" => {
                assert!(error.to_string().contains("VOP1"), "{error}");
                continue;
            }
            Err(error) => {
                wrong.push(format!("{mnemonic} {operands:?} {bytes:02x?}: {error}"));
                continue;
            }
        };
        let sources = inst.src.iter().zip([1, 2, 4]);
        // The destination of a `v_cmpx` is EXEC, which text does not name.
        let places =
            std::iter::once((&inst.dst, 8)).chain(sources).skip(mnemonic.starts_with("v_cmpx").into());
        let errors: Vec<_> = places
            .zip(&operands)
            .filter_map(|((&operand, bit), text)| check(&inst, operand, bit, text))
            .collect();
        seen += 1;
        if !errors.is_empty() {
            wrong.push(format!("{mnemonic} {operands:?} {bytes:02x?}: {}", errors.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
