//! Random code for the decode oracle.

use belfry_isa::decode::decode;
use belfry_isa::encode::encode;
use belfry_isa::inst::{Arch, Format};
use belfry_isa::tables::{Pattern, patterns};

use crate::random::Random;
use crate::target::Facts;

/// Bytes of a sample: the longest instruction with its literal and room for what follows it.
pub const SAMPLE: usize = 16;
/// Dwords of a sample.
pub const DWORDS: usize = SAMPLE / 4;

/// Bytes that are disassembled together.
pub type Sample = [u8; SAMPLE];

/// Draws samples: of four, one is random bits throughout and three are an instruction with random operands.
///
/// The three take the encodings (SOP1, SOP2, …) in turn, so that each gets the same share, even if few of all words
/// are its own. Within an encoding they draw among its forms (operation, DPP or not, literal or not, …) evenly. Of
/// four such instructions one has its SRC0 field set to ask for a literal if the field is free. Every second one has
/// the bits that no operand takes as LLVM 22 writes them.
#[derive(Debug)]
pub struct Samples {
    arch: Arch,
    random: Random,
    formats: Vec<Vec<Pattern>>,
    drawn: usize,
}

impl Samples {
    /// The samples of `seed` for an instruction set.
    pub fn new(arch: Arch, seed: u64) -> Samples {
        let mut formats: Vec<(Format, Vec<Pattern>)> = Vec::new();
        for pattern in patterns(arch) {
            match formats.iter_mut().find(|(format, _)| *format == pattern.format) {
                Some((_, patterns)) => patterns.push(pattern),
                None => formats.push((pattern.format, vec![pattern])),
            }
        }
        let formats = formats.into_iter().map(|(_, patterns)| patterns).collect();
        Samples { arch, random: Random::new(seed), formats, drawn: 0 }
    }
}

impl Iterator for Samples {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let random = &mut self.random;
        let mut bits = u128::from(random.long()) << 64 | u128::from(random.long());
        let index = self.drawn;
        self.drawn += 1;
        if !index.is_multiple_of(4) {
            let format = &self.formats[(index - index / 4) % self.formats.len()];
            let pattern = random.pick(&(0..format.len()).collect::<Vec<_>>());
            let pattern = format[pattern];
            let long = matches!(pattern.format, Format::Vop3 | Format::Vop3Sd | Format::Vop3P);
            // On gfx9 no literal follows eight bytes, and asking for one crashes `llvm-mc`.
            if random.one_in(4) && !(long && Facts::of(self.arch).is_gfx9) {
                bits |= if long { 0xff << 32 } else { 0xff };
            }
            bits = bits & !pattern.mask | pattern.value;
            if random.one_in(2)
                && let Ok(inst) = decode(self.arch, &bits.to_le_bytes())
                && let Ok(encoded) = encode(self.arch, &inst)
            {
                bits = with_bytes(bits, encoded.bytes());
            }
        }
        if Facts::of(self.arch).is_gfx9 {
            bits = without_reserved_parts(bits);
        }
        Some(bits.to_le_bytes())
    }
}

/// `bits` that begin with these bytes, as far as there is room for them.
fn with_bytes(bits: u128, begin: &[u8]) -> u128 {
    let mut bytes = bits.to_le_bytes();
    for (byte, new) in bytes.iter_mut().zip(begin) {
        *byte = *new;
    }
    u128::from_le_bytes(bytes)
}

/// Sample `bits` without SDWA's numbers beyond the last part of a register, which crash `llvm-mc` or get a part's name from it.
/// Each dword can be where an instruction begins.
fn without_reserved_parts(bits: u128) -> u128 {
    let mut bits = bits;
    for dword in (0..DWORDS - 1).map(|index| index * 32) {
        let word = bits >> dword;
        if word & 0x1ff == 0xf9 && word >> 31 & 1 == 0 {
            for (at, last) in [(40, 7), (43, 3), (48, 7), (56, 7)] {
                if word >> at & last == last {
                    bits ^= 1 << (dword + at);
                }
            }
        }
    }
    bits
}
