//! Operations that compiled code does on lanes of registers, against the interpreter, over numbers that are special to one of the formats.

use belfry_isa::inst::{Arch, WaveSize};

use super::arithmetic::compare;

/// Chip, words, and the text of each instruction.
const COVERED: &str = include_str!("../data/covered.txt");
/// The same, of operations that handlers do for some numbers, or without AVX-512.
const GUARDED: &str = include_str!("../data/guarded.txt");

/// Instructions of a chip in a list.
fn of(list: &'static str, chip: &str) -> Vec<(&'static str, Vec<u32>)> {
    let lines = list.lines().filter_map(|line| line.strip_prefix(chip)?.split_once(" ; "));
    lines
        .map(|(words, text)| {
            let words = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
            (text, words.collect())
        })
        .collect()
}

fn check(chip: &str, arch: Arch, size: WaveSize) {
    for list in [COVERED, GUARDED] {
        let all = of(list, chip);
        assert!(all.len() > 40, "{} instructions of {chip}", all.len());
        let all: Vec<(&str, &[u32])> = all.iter().map(|(text, words)| (*text, &words[..])).collect();
        compare(arch, size, &all);
    }
}

#[test]
fn lanes_of_gfx1100_in_waves_of_32_lanes_give_what_the_interpreter_gives() {
    check("gfx1100", Arch::Gfx1100, WaveSize::Wave32);
}

#[test]
fn lanes_of_gfx1100_in_waves_of_64_lanes_give_what_the_interpreter_gives() {
    check("gfx1100", Arch::Gfx1100, WaveSize::Wave64);
}

#[test]
fn lanes_of_gfx1201_give_what_the_interpreter_gives() {
    check("gfx1201", Arch::Gfx1201, WaveSize::Wave32);
}

#[test]
fn lanes_of_gfx942_give_what_the_interpreter_gives() {
    check("gfx942", Arch::Gfx942, WaveSize::Wave64);
}
