//! Code of operations on lanes of registers.

use iced_x86::Mnemonic;

use super::{KINDS, decoded, instructions};
use crate::exec::di::Di;
use crate::exec::form::Form;
use crate::exec::lower;
use crate::inst::{Arch, WaveSize};
use crate::lanes::BackendKind;
use crate::tier1::analysis::covered::is_covered;

/// Chip, words, and the text of each instruction.
const COVERED: &str = include_str!("../../../../tests/data/covered.txt");
/// The same, of operations that handlers do for some numbers, or without AVX-512.
const GUARDED: &str = include_str!("../../../../tests/data/guarded.txt");

/// An instruction's text, and its elements, forms and halves.
type Lowered = (String, (Vec<Di>, Vec<Form>), u32);

fn lowered(list: &str) -> Vec<Lowered> {
    let lines = list.lines().filter(|line| line.starts_with("gfx"));
    lines
        .map(|line| {
            let (words, text) = line.split_once(" ; ").unwrap();
            let (chip, words) = words.split_once(' ').unwrap();
            let (arch, size, halves, end) = match chip {
                "gfx942" => (Arch::Gfx942, WaveSize::Wave64, 2, 0xbf81_0000_u32),
                "gfx1201" => (Arch::Gfx1201, WaveSize::Wave32, 1, 0xbfb0_0000),
                _ => (Arch::Gfx1100, WaveSize::Wave32, 1, 0xbfb0_0000),
            };
            let words = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
            let bytes: Vec<u8> = words.chain([end]).flat_map(u32::to_le_bytes).collect();
            (format!("{chip} {text}"), lower::for_test(arch, size, &bytes), halves)
        })
        .collect()
}

/// Code of all of them.
pub(super) fn code(kind: BackendKind) -> Vec<Vec<u8>> {
    let all = [COVERED, GUARDED].map(lowered).concat();
    all.iter().map(|(_, (code, forms), halves)| instructions(kind, code, forms, *halves)).collect()
}

#[test]
fn operations_of_the_list_are_code_without_a_handler() {
    let all = lowered(COVERED);
    let by_handler = all.iter().filter(|(_, (code, forms), halves)| {
        let covered = code.iter().zip(forms).all(|(d, form)| is_covered(*form, d, *halves));
        let calls = |kind| {
            let code = decoded(&instructions(kind, code, forms, *halves));
            code.iter().any(|instruction| instruction.mnemonic() == Mnemonic::Call)
        };
        !covered || KINDS.into_iter().any(calls)
    });
    let by_handler: Vec<&String> = by_handler.map(|(text, ..)| text).collect();
    assert!(by_handler.is_empty() && all.len() > 150, "{by_handler:?} of {}", all.len());
}

#[test]
fn operations_that_leave_some_numbers_to_handlers_have_code() {
    let all = lowered(GUARDED);
    let called = all.iter().filter(|(_, (code, forms), halves)| {
        !code.iter().zip(forms).all(|(d, form)| is_covered(*form, d, *halves))
    });
    let called: Vec<&String> = called.map(|(text, ..)| text).collect();
    assert!(called.is_empty() && all.len() > 150, "{called:?} of {}", all.len());
}
