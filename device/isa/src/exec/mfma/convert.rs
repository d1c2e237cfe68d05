//! Matrices as the vectors that products are made of.

use super::super::float::single;
use super::shape::{Element, source_lanes};
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Exponent fields of singles that [powers](Matrix::power) are made of: between 2^-30 and 2^30.
const FIELDS: [u32; 2] = [97, 157];
/// What a power is larger by than a single's exponent field is smaller.
const BIAS: u32 = 31;
/// [`EMPTY`] in every byte.
pub(super) const EMPTIES: u32 = EMPTY * 0x0101_0101;
/// Less than any sum of two powers, and more than any of a power and a zero's.
pub(super) const EMPTY: u32 = 130;
/// The sum of two powers is larger by this than the product's exponent.
pub(super) const POWERS: u32 = 2 * (127 - BIAS);

/// A block of A or B: elements of sixteen lines in each vector, those of the same k one after the other.
pub(super) struct Matrix<const N: usize> {
    /// Singles, or integers.
    pub(super) value: [Chunk; N],
    /// Of each element the exponent, in all bytes: [`BIAS`] less than in a single; 0 for zeros.
    pub(super) power: [Chunk; N],
    /// The same of four lines in the bytes of each word.
    pub(super) packed: [[u32; 4]; N],
}

impl<const N: usize> Matrix<N> {
    pub(super) const ZERO: Self =
        Matrix { value: [Chunk([0; 16]); N], power: [Chunk([0; 16]); N], packed: [[0; 4]; N] };
}

/// Which part of a matrix is read.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Row of its first register.
    pub(super) base: u32,
    /// 16 or 32.
    pub(super) lines: u32,
    /// Elements of a line.
    pub(super) count: u32,
    pub(super) block: u32,
    pub(super) blocks: u32,
    /// `BLGP`.
    pub(super) pattern: u32,
}

/// Whether all elements seen have powers.
pub(super) struct Range<L: Lanes> {
    largest: L::V,
    least: L::V,
    odd: bool,
}

impl<L: Lanes> Range<L> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Range { largest: L::splat(0), least: L::splat(u32::MAX), odd: false }
    }

    #[inline(always)]
    pub(super) fn is_kept(&self, element: Element) -> bool {
        // The largest half has the exponent field 142; those of infinities and NaNs come out as 143.
        let most = if matches!(element, Element::Half) { 142 } else { FIELDS[1] };
        let above = L::lt_u(L::splat((most + 1 << 24) - 1), self.largest);
        let below = L::lt_u(self.least, L::splat((FIELDS[0] << 24) - 1));
        !self.odd && above | below == 0
    }
}

/// A number with the exponent's bias of fewer bits: a denormal single is the same multiple of the smallest number as a denormal
/// one of few bits, and scaling makes both normal.
#[inline(always)]
fn scaled<L: Lanes>(magnitude: L::V, sign: L::V, scale: u32) -> L::V {
    L::or(L::fmul(magnitude, L::splat(scale << 23)), L::and(sign, L::splat(single::SIGN)))
}

/// Element `sub` of each word, as a single or an integer. Infinities and NaNs do not come out as such.
#[inline(always)]
pub(super) fn convert<L: Lanes>(element: Element, word: L::V, sub: u32) -> L::V {
    let at = |shift: u32| shift.wrapping_sub(8 * sub);
    match (element, sub) {
        (Element::Half, 0) => {
            let magnitude = L::shl(L::and(word, L::splat(0x7fff)), L::splat(13));
            scaled::<L>(magnitude, L::shl(word, L::splat(16)), 127 + 112)
        }
        (Element::Half, _) => {
            let magnitude = L::shr(L::and(word, L::splat(0x7fff_0000)), L::splat(3));
            scaled::<L>(magnitude, word, 127 + 112)
        }
        (Element::Brain, 0) => L::shl(word, L::splat(16)),
        (Element::Brain, _) => L::and(word, L::splat(0xffff_0000)),
        (Element::Xf32, _) => L::and(word, L::splat(0xffff_e000)),
        (Element::Fp8, _) => {
            let moved = if sub < 3 { L::shl(word, L::splat(at(20))) } else { L::shr(word, L::splat(4)) };
            let magnitude = L::and(moved, L::splat(0x7f << 20));
            scaled::<L>(magnitude, L::shl(word, L::splat(at(24))), 127 + 119)
        }
        (Element::Bf8, _) => {
            let moved = if sub < 3 { L::shl(word, L::splat(at(21))) } else { L::shr(word, L::splat(3)) };
            let magnitude = L::and(moved, L::splat(0x7f << 21));
            scaled::<L>(magnitude, L::shl(word, L::splat(at(24))), 127 + 111)
        }
        (Element::Byte, _) => L::sar(L::shl(word, L::splat(at(24))), L::splat(24)),
        (Element::Single | Element::Double, _) => word,
    }
}

/// The powers of singles, and whether there are any they do not have.
#[inline(always)]
pub(super) fn powers<L: Lanes>(element: Element, value: L::V, range: &mut Range<L>) -> L::V {
    let magnitude = L::shl(value, L::splat(1));
    range.largest = L::max_u(range.largest, magnitude);
    range.least = L::min_u(range.least, L::sub(magnitude, L::splat(1)));
    let least = match element {
        Element::Half => 127 - 14,
        Element::Fp8 => 127 - 7,
        Element::Bf8 => 127 - 15,
        _ => 0,
    };
    if matches!(element, Element::Fp8 | Element::Bf8) {
        // The NaN has come out as a negative zero.
        range.odd |= L::eq(value, L::splat(single::SIGN)) != 0;
    }
    let mut field = L::shr(magnitude, L::splat(24));
    if least != 0 {
        field = L::max_u(field, L::splat(least));
    }
    let zero = L::splat(0);
    L::select(L::eq(magnitude, zero), zero, L::sub(field, L::splat(BIAS)))
}

/// The same byte four times.
#[inline(always)]
pub(super) fn spread<L: Lanes>(power: L::V) -> L::V {
    let twice = L::or(power, L::shl(power, L::splat(8)));
    L::or(twice, L::shl(twice, L::splat(16)))
}

/// Reads a block; of its powers those that the left matrix, or the right one, is read by.
#[inline(always)]
pub(super) fn read<L: Lanes, const N: usize>(
    w: &Wave,
    element: Element,
    at: &Block,
    is_left: bool,
    matrix: &mut Matrix<N>,
) -> Range<L> {
    let mut range = Range::new();
    let own = at.count * at.lines * at.blocks / 64;
    let per = 32 / element.bits().min(32);
    let chunks = at.lines / 16;
    let with_powers = !matches!(element, Element::Byte | Element::Single);
    for group in 0..at.count / own {
        for chunk in 0..chunks {
            let sixteen = source_lanes(at.pattern, chunks * (at.block + at.blocks * group) + chunk);
            for register in 0..own / per {
                let row = w.v.row(at.base + register * 2 + sixteen / 2);
                let word = L::load(&row[(sixteen & 1) as usize]);
                for sub in 0..per {
                    let k = group * own + register * per + sub;
                    let n = (k * chunks + chunk) as usize % N;
                    let value = convert::<L>(element, word, sub);
                    L::store(&mut matrix.value[n], value);
                    if !with_powers {
                        continue;
                    }
                    let power = powers::<L>(element, value, &mut range);
                    if is_left {
                        matrix.packed[n] = L::low_bytes(power);
                    } else {
                        L::store(&mut matrix.power[n], spread::<L>(power));
                    }
                }
            }
        }
    }
    range
}
