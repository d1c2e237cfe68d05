//! Matrices as the vectors that products are made of.

use zerocopy::FromZeros;

use super::super::tile_integer::halves;
use super::shape::{Element, source_lanes};
use crate::exec::vector::float::single;
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Exponent fields of singles that [powers](Matrix::power) are made of: between 2^-30 and 2^30.
pub(super) const FIELDS: [u32; 2] = [97, 157];
/// Difference between a single's exponent field and its power, which is smaller.
pub(super) const BIAS: u32 = 31;
/// [`EMPTY`] in every byte.
pub(super) const EMPTIES: u32 = EMPTY * 0x0101_0101;
/// Less than any sum of two powers, and more than any of a power and a zero's, which is below 128.
pub(super) const EMPTY: u32 = 129;
/// The sum of two powers is larger by this than the product's exponent.
pub(super) const POWERS: u32 = 2 * (127 - BIAS);

/// 2^-39, which elements of B are multiplied by where products are added as integers: those have a negative exponent then that is
/// far from denormal, and an exponent that is added to zero makes less than one.
const SMALLER: u32 = (127 - 39) << 23;

/// Vectors of a block of A or B at most.
pub(super) const VECTORS: usize = 128;
/// From the vectors of sixteen rows or columns to those of the next: only blocks with one sixteen have more k than that.
pub(super) const SIXTEEN: usize = 64;

/// A block of A: elements of sixteen rows with the same k in each vector, in the order of k; the next rows are
/// [`SIXTEEN`] vectors further on.
#[derive(FromZeros)]
pub(super) struct Left {
    /// Singles, integers, or pairs of integers.
    pub(super) value: [Chunk; VECTORS],
    /// Power of each element: the exponent field of a single less [`BIAS`]; 0 for zeros. Four rows are in the bytes
    /// of each word.
    pub(super) power: [[u32; 4]; VECTORS],
}

/// A block of B, as that of A: elements of sixteen columns in each vector.
#[derive(FromZeros)]
pub(super) struct Right {
    /// Singles that are smaller by 2^-39 unless they have no powers, integers, or pairs of integers.
    pub(super) value: [Chunk; VECTORS],
    /// As of A, in all bytes of each element's word.
    pub(super) power: [Chunk; VECTORS],
}

/// Matrix that is filled with a block.
pub(super) enum Matrix<'a> {
    Left(&'a mut Left),
    Right(&'a mut Right),
}

impl Matrix<'_> {
    /// Returns the number of [`BASES`] for its elements.
    #[inline(always)]
    const fn base(&self) -> u32 {
        match self {
            Matrix::Left(_) => BASES[0],
            Matrix::Right(_) => BASES[1],
        }
    }
}

/// Part of a matrix that is read.
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

/// Limits of the elements seen so far, which tell whether all of them have powers.
pub(super) struct Range<L: Lanes> {
    largest: L::V,
    least: L::V,
    /// Of words with two halves.
    halves: L::V,
    /// The least of what differs from a negative zero.
    differs: L::V,
}

impl<L: Lanes> Range<L> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let most = L::splat(u32::MAX);
        Range { largest: L::splat(0), least: most, halves: L::splat(0), differs: most }
    }

    #[inline(always)]
    pub(super) fn is_kept(&self, element: Element) -> bool {
        // The largest half has the exponent field 142; those of infinities and NaNs come out as 143.
        let limit = match element {
            Element::Half | Element::E5m2 => 143 << 24,
            // The NaN comes out as 480.
            Element::E4m3 => 480f32.to_bits() << 1,
            _ => (FIELDS[1] + 1) << 24,
        };
        let above = L::lt_u(L::splat(limit - 1), self.largest);
        let below = L::lt_u(self.least, L::splat((FIELDS[0] << 24) - 1));
        let infinite = L::and(L::add(self.halves, L::splat(0x0400_0400)), L::splat(0x8000_8000));
        let odd = L::eq(self.differs, L::splat(0)) != 0;
        !odd && above | below == 0 && L::eq(infinite, L::splat(0)) == u16::MAX
    }
}

/// A number of a format whose exponent has a smaller bias than that of singles, by `less`, and is moved to the place of theirs.
///
/// A denormal number is calculated as the difference to the smallest normal one: hosts are slow with denormal singles.
#[inline(always)]
pub(super) fn biased<L: Lanes>(magnitude: L::V, sign: L::V, less: u32) -> L::V {
    let normal = L::add(magnitude, L::splat(less << 23));
    let least = L::splat((less + 1) << 23);
    let denormal = L::fsub(L::add(magnitude, least), least);
    // A mask of bits, of a number below 2^31.
    let is_denormal = L::sar(L::sub(magnitude, L::splat(1 << 23)), L::splat(31));
    let number = L::xor(normal, L::and(L::xor(normal, denormal), is_denormal));
    L::or(number, L::and(sign, L::splat(single::SIGN)))
}

/// Difference between the biases of singles and of 8-bit floats.
const fn bias(element: Element) -> u32 {
    match element {
        Element::E4m3 => 127 - 7,
        Element::Fp8 => 127 - 8,
        Element::E5m2 => 127 - 15,
        _ => 127 - 16,
    }
}

/// Element `sub` of each word, as a single or an integer. Infinities and NaNs do not come out as such.
#[inline(always)]
pub(super) fn convert<L: Lanes>(element: Element, word: L::V, sub: u32) -> L::V {
    let at = |shift: u32| shift.wrapping_sub(8 * sub);
    match (element, sub) {
        (Element::Half, 0) => {
            let magnitude = L::shl(L::and(word, L::splat(0x7fff)), L::splat(13));
            biased::<L>(magnitude, L::shl(word, L::splat(16)), 127 - 15)
        }
        (Element::Half, _) => {
            let magnitude = L::shr(L::and(word, L::splat(0x7fff_0000)), L::splat(3));
            biased::<L>(magnitude, word, 127 - 15)
        }
        (Element::Brain, 0) => L::shl(word, L::splat(16)),
        (Element::Brain, _) => L::and(word, L::splat(0xffff_0000)),
        (Element::Xf32, _) => L::and(word, L::splat(0xffff_e000)),
        (Element::Fp8 | Element::E4m3, _) => {
            let moved = if sub < 3 { L::shl(word, L::splat(at(20))) } else { L::shr(word, L::splat(4)) };
            let magnitude = L::and(moved, L::splat(0x7f << 20));
            biased::<L>(magnitude, L::shl(word, L::splat(at(24))), bias(element))
        }
        (Element::Bf8 | Element::E5m2, _) => {
            let moved = if sub < 3 { L::shl(word, L::splat(at(21))) } else { L::shr(word, L::splat(3)) };
            let magnitude = L::and(moved, L::splat(0x7f << 21));
            biased::<L>(magnitude, L::shl(word, L::splat(at(24))), bias(element))
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
        Element::E4m3 => 127 - 6,
        Element::E5m2 => 127 - 14,
        _ => 0,
    };
    if matches!(element, Element::Fp8 | Element::Bf8) {
        // The NaN has come out as a negative zero.
        range.differs = L::min_u(range.differs, L::xor(value, L::splat(single::SIGN)));
    }
    let mut field = L::shr(magnitude, L::splat(24));
    // A mask of bits; denormal singles have no powers.
    let is_zero = L::sub(L::min_u(field, L::splat(1)), L::splat(1));
    if least != 0 {
        field = L::max_u(field, L::splat(least));
    }
    L::and(L::sub(field, L::splat(BIAS)), L::not(is_zero))
}

/// As [`powers`] of the halves in each word, both in a half of their word.
#[inline(always)]
fn powers_of_halves<L: Lanes>(word: L::V, base: u32, range: &mut Range<L>) -> L::V {
    let magnitude = L::and(word, L::splat(0x7fff_7fff));
    range.halves = L::max_halves(range.halves, magnitude);
    L::half_exponents(word, base)
}

/// Numbers that are added to the exponent field of a half to give the power of an element of A, and of B. The field
/// is 15 more than the exponent, so the two powers of a product make [`POWERS`]; the largest of either is below 128.
const BASES: [u32; 2] = [80, POWERS - 2 * 15 - 80];

/// Scales an element of B whose products are added as integers.
#[inline(always)]
pub(super) fn smaller<L: Lanes>(value: L::V) -> L::V {
    L::fmul(value, L::splat(SMALLER))
}

/// Reads a block; returns true if all of its elements have powers.
#[inline(always)]
pub(super) fn read<L: Lanes>(w: &Wave, element: Element, at: &Block, mut into: Matrix<'_>) -> bool {
    let mut range = Range::<L>::new();
    let own = at.count * at.lines * at.blocks / 64;
    let per = 32 / element.bits().min(32);
    let chunks = at.lines / 16;
    for group in 0..at.count / own {
        for chunk in 0..chunks {
            let sixteen = source_lanes(at.pattern, chunks * (at.block + at.blocks * group) + chunk);
            for register in 0..own / per {
                let row = w.v.row(at.base + register * 2 + sixteen / 2);
                let word = L::load(&row[(sixteen & 1) as usize]);
                let first = chunk as usize * SIXTEEN + (group * own + register * per) as usize;
                if matches!(element, Element::Half) {
                    put_pair::<L>(element, &mut into, first, word, &mut range);
                    continue;
                }
                for sub in 0..per {
                    let n = (first + sub as usize) % VECTORS;
                    let value = convert::<L>(element, word, sub);
                    put::<L>(element, &mut into, n, value, &mut range);
                }
            }
        }
    }
    range.is_kept(element)
}

/// Reads a block of signed bytes: pairs of elements, as [`halves`] has them, in the place of single ones.
#[inline(always)]
pub(super) fn read_pairs<L: Lanes>(w: &Wave, at: &Block, into: &mut [Chunk; VECTORS]) {
    let own = at.count * at.lines * at.blocks / 64;
    let chunks = at.lines / 16;
    for group in 0..at.count / own {
        for chunk in 0..chunks {
            let sixteen = source_lanes(at.pattern, chunks * (at.block + at.blocks * group) + chunk);
            for register in 0..own / 4 {
                let row = w.v.row(at.base + register * 2 + sixteen / 2);
                let word = L::load(&row[(sixteen & 1) as usize]);
                let first = chunk as usize * SIXTEEN + (group * own + register * 4) as usize / 2;
                for j in 0..2 {
                    L::store(&mut into[(first + j as usize) % VECTORS], halves::<L>(word, 8, j, true));
                }
            }
        }
    }
}

/// Puts both 16-bit elements of each word into the place of the first one and the place after it.
#[inline(always)]
pub(super) fn put_pair<L: Lanes>(
    element: Element,
    into: &mut Matrix<'_>,
    first: usize,
    word: L::V,
    range: &mut Range<L>,
) {
    if matches!(element, Element::Half) {
        let values = match L::wide_halves(word) {
            Some(values) => values,
            None => [convert::<L>(Element::Half, word, 0), convert::<L>(Element::Half, word, 1)],
        };
        let power = powers_of_halves::<L>(word, into.base(), range);
        put_halves::<L>(into, [first, first + 1], values, power);
        return;
    }
    for sub in 0..2 {
        let value = convert::<L>(element, word, sub);
        put::<L>(element, into, (first + sub as usize) % VECTORS, value, range);
    }
}

#[inline(always)]
fn put<L: Lanes>(element: Element, into: &mut Matrix<'_>, n: usize, value: L::V, range: &mut Range<L>) {
    let with_powers = !matches!(element, Element::Byte | Element::Single);
    match into {
        Matrix::Left(left) => {
            L::store(&mut left.value[n], value);
            if with_powers {
                left.power[n] = L::low_bytes(powers::<L>(element, value, range));
            }
        }
        Matrix::Right(right) if with_powers => {
            L::store(&mut right.value[n], smaller::<L>(value));
            L::store(&mut right.power[n], L::byte_everywhere::<0>(powers::<L>(element, value, range)));
        }
        Matrix::Right(right) => L::store(&mut right.value[n], value),
    }
}

#[inline(always)]
fn put_halves<L: Lanes>(into: &mut Matrix<'_>, places: [usize; 2], values: [L::V; 2], power: L::V) {
    let [low, high] = [places[0] % VECTORS, places[1] % VECTORS];
    match into {
        Matrix::Left(left) => {
            L::store(&mut left.value[low], values[0]);
            L::store(&mut left.value[high], values[1]);
            [left.power[low], left.power[high]] = L::low_bytes_of_halves(power);
        }
        Matrix::Right(right) => {
            L::store(&mut right.value[low], smaller::<L>(values[0]));
            L::store(&mut right.value[high], smaller::<L>(values[1]));
            L::store(&mut right.power[low], L::byte_everywhere::<0>(power));
            L::store(&mut right.power[high], L::byte_everywhere::<2>(power));
        }
    }
}
