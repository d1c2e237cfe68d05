//! `v_mfma_f32_*_f8f6f4` and `v_mfma_scale_*`: matrices whose formats the instruction names, with a scale for each 32 elements of a line
//! or without scales.
//!
//! A lane has 32 elements of a line, from 32 times the number of its sixteen (of blocks of 32 lines: of its half) on, and the scale of
//! those. A scale is a power of two, E8M0; its NaN makes the results NaNs. Products are added sixteen at a time as those of 8-bit
//! floats are ([`fused`]), with the sum of the exponents of both scales.

use super::convert::{BIAS, FIELDS, Left, Right, SIXTEEN, VECTORS, biased, smaller};
use super::sum::{self, Quad, rule};
use super::{Bench, REGISTERS, fused, sum_lanes};
use crate::exec::di::{Di, Flow, Kind, Machine};
use crate::exec::vector::float::byte::Byte;
use crate::exec::vector::float::single;
use crate::exec::vector::op::per_backend;
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// [`Di::dst2`] of an instruction without scales.
pub(crate) const NO_SCALES: u32 = u32::MAX;
/// A scale of 1.
const ONE: u32 = 127;
/// The scale that is a NaN.
const NAN: u32 = 255;
/// Elements of a lane.
const OWN: usize = 32;
/// Products that are added at a time.
const GROUP: usize = 16;

/// Formats by their numbers.
pub(crate) const FORMATS: [Byte; 5] = [Byte::Fp8, Byte::Bf8, Byte::Fp6, Byte::Bf6, Byte::Fp4];

/// The format that a field of [`Di::imm`] names.
#[inline(always)]
const fn format_of(field: u32) -> Byte {
    FORMATS[(field & 7) as usize % FORMATS.len()]
}

/// Exponent of the smallest normal number.
const fn least_exponent(format: Byte) -> i32 {
    1 - format.bias()
}

/// The scale of a lane's elements of A (`side` 0) or B.
fn scale(w: &Wave, d: &Di, side: u32, lane: u32) -> u32 {
    match d.dst2 {
        NO_SCALES => ONE,
        row => w.v.lane(row + lane / 32, lane & 31) >> (8 * side) & 255,
    }
}

/// C of a register's lane, or a constant in its place.
fn start(w: &Wave, d: &Di, register: usize, lane: u32) -> u32 {
    match d.src[2].kind {
        Kind::Vector => w.v.lane(d.src[2].value + register as u32 * 2 + lane / 32, lane & 31),
        _ => d.src[2].scalar(w),
    }
}

/// A line's elements of one lane, as singles.
fn elements(w: &Wave, base: u32, format: Byte, lane: u32) -> [u32; OWN] {
    let bits = format.bits();
    let word = |n: u32| u64::from(w.v.lane(base + n * 2 + lane / 32, lane & 31));
    core::array::from_fn(|number| {
        let at = number as u32 * bits;
        // An element of six bits may begin in one word and end in the next.
        let next = if at % 32 + bits > 32 { word(at / 32 + 1) << 32 } else { 0 };
        let wide = (word(at / 32) | next) >> (at % 32);
        format.to_single((wide & ((1 << bits) - 1)) as u8)
    })
}

/// An element of D.
fn one(w: &Wave, d: &Di, register: usize, lane: u32) -> u32 {
    let formats = [format_of(d.imm), format_of(d.imm >> 8)];
    let least = formats.map(least_exponent);
    let lines = u32::from(d.aux);
    let across = 64 / lines;
    let i = register as u32 % 4 + 4 * (lane / lines + across * (register as u32 / 4));
    let j = lane % lines;
    (0..across).fold(start(w, d, register, lane), |sum, block| {
        let lanes = [i, j].map(|line| (line + lines * block) & 63);
        let scales = [scale(w, d, 0, lanes[0]), scale(w, d, 1, lanes[1])];
        if scales.contains(&NAN) {
            return single::NAN;
        }
        let power = (scales[0] + scales[1]).cast_signed() - 2 * ONE.cast_signed();
        let [a, b] = [0, 1].map(|n: usize| elements(w, d.src[n].value, formats[n], lanes[n]));
        let groups = a.chunks_exact(GROUP).zip(b.chunks_exact(GROUP));
        groups.fold(sum, |sum, (a, b)| fused::scaled_group(least, true, [a, b], sum, power))
    })
}

/// Sixteen lanes of D, of those in `mask`.
#[cold]
#[inline(never)]
fn again(w: &Wave, d: &Di, [register, sixteen]: [usize; 2], mask: u16, values: &mut Chunk) {
    for (lane, value) in (0..16).zip(&mut values.0).filter(|(lane, _)| mask >> lane & 1 != 0) {
        *value = one(w, d, register, sixteen as u32 * 16 + lane);
    }
}

/// A matrix that is filled.
enum Side<'a> {
    A(&'a mut Left),
    B(&'a mut Right),
}

/// Sixteen lines' elements, with their scales in them, as products want them. Returns true if all of them have powers.
struct Reader<'a> {
    w: &'a Wave,
    /// Row of the first register.
    base: u32,
    lines: usize,
    /// Scales of all lanes, unless they are 1.
    scales: Option<&'a [Chunk; 4]>,
}

impl Reader<'_> {
    #[inline(always)]
    fn read<L: Lanes, const FORMAT: usize>(&self, mut side: Side<'_>) -> bool {
        let format = FORMATS[FORMAT];
        let bits = format.bits();
        let less = (127 - format.bias()).cast_unsigned();
        let least = (127 + least_exponent(format)).cast_unsigned();
        let chunks = self.lines / 16;
        // Fields and powers are more than 0 with this added.
        let bias = 256u32;
        let (mut largest, mut low, mut high) = (L::splat(0), L::splat(u32::MAX), L::splat(0));
        for sixteen in 0..4usize {
            let (chunk, group) = (sixteen % chunks, sixteen / chunks);
            let power = match self.scales {
                Some(scales) => L::sub(L::load(&scales[sixteen]), L::splat(ONE)),
                None => L::splat(0),
            };
            let factor = L::shl(power, L::splat(23));
            let power = L::add(power, L::splat(bias));
            let word = |n: u32| L::load(&self.w.v.row(self.base + n * 2 + sixteen as u32 / 2)[sixteen & 1]);
            for number in 0..OWN {
                let at = number as u32 * bits;
                let mut code = L::shr(word(at / 32), L::splat(at % 32));
                if at % 32 + bits > 32 {
                    code = L::or(code, L::shl(word(at / 32 + 1), L::splat(32 - at % 32)));
                }
                // The sign to its place, then the exponent.
                let raised = L::shl(code, L::splat(32 - bits));
                let magnitude =
                    L::shr(L::and(raised, L::splat(!single::SIGN)), L::splat(8 - format.exponent_bits()));
                let value = biased::<L>(magnitude, raised, less);
                let doubled = L::shl(value, L::splat(1));
                largest = L::max_u(largest, doubled);
                let field = L::shr(doubled, L::splat(24));
                // All bits of a zero.
                let is_zero = L::sub(L::min_u(field, L::splat(1)), L::splat(1));
                let scaled = L::add(field, power);
                low = L::min_u(low, L::or(scaled, is_zero));
                high = L::max_u(high, L::and(scaled, L::not(is_zero)));
                let value = L::add(value, L::and(factor, L::not(is_zero)));
                // A denormal number begins where the smallest normal one does.
                let begin = L::add(L::max_u(field, L::splat(least)), power);
                let power = L::and(L::sub(begin, L::splat(bias + BIAS)), L::not(is_zero));
                let n = (chunk * SIXTEEN + group * OWN + number) % VECTORS;
                match &mut side {
                    Side::A(left) => {
                        L::store(&mut left.value[n], value);
                        left.power[n] = L::low_bytes(power);
                    }
                    Side::B(right) => {
                        L::store(&mut right.value[n], smaller::<L>(value));
                        L::store(&mut right.power[n], L::byte_everywhere::<0>(power));
                    }
                }
            }
        }
        // Infinities and NaNs have come out as numbers beyond the largest.
        let limit = match format {
            Byte::Fp8 => 480f32.to_bits() << 1,
            Byte::Bf8 => 143 << 24,
            _ => u32::MAX,
        };
        let is_finite = L::lt_u(L::splat(limit - 1), largest) == 0;
        let is_low = L::lt_u(low, L::splat(FIELDS[0] + bias)) != 0;
        is_finite && !is_low && L::lt_u(L::splat(FIELDS[1] + bias), high) == 0
    }

    #[inline(always)]
    fn read_as<L: Lanes>(&self, format: u32, side: Side<'_>) -> bool {
        match format & 7 {
            0 => self.read::<L, 0>(side),
            1 => self.read::<L, 1>(side),
            2 => self.read::<L, 2>(side),
            3 => self.read::<L, 3>(side),
            _ => self.read::<L, 4>(side),
        }
    }
}

#[inline(always)]
fn multiply<L: Lanes>(w: &mut Wave, d: &Di) {
    let lines = if d.aux == 16 { 16 } else { 32 };
    let (across, sixteens) = (64 / lines, lines / 16);
    let mut bench = Bench::take();
    let mut scales = [[const { Chunk([0; 16]) }; 4]; 2];
    let mut is_usual = true;
    let has_scales = d.dst2 != NO_SCALES;
    if has_scales {
        for sixteen in 0..4 {
            let word = L::load(&w.v.row(d.dst2 + sixteen as u32 / 2)[sixteen & 1]);
            for (side, scales) in scales.iter_mut().enumerate() {
                let scale = L::and(L::shr(word, L::splat(8 * side as u32)), L::splat(255));
                is_usual &= L::eq(scale, L::splat(NAN)) == 0;
                L::store(&mut scales[sixteen], scale);
            }
        }
    }
    let reader = |side: usize| Reader {
        w,
        base: d.src[side].value,
        lines,
        scales: has_scales.then_some(&scales[side]),
    };
    is_usual = is_usual
        && reader(0).read_as::<L>(d.imm, Side::A(&mut bench.a))
        && reader(1).read_as::<L>(d.imm >> 8, Side::B(&mut bench.b));
    for rows in 0..lines / 4 {
        for columns in 0..sixteens {
            let (first, sixteen) = (rows / across * 4, rows % across * sixteens + columns);
            let mut c = [L::splat(0); 4];
            for (r, c) in c.iter_mut().enumerate() {
                *c = sum_lanes::<L>(w, d, false, first + r, sixteen);
            }
            let sums = match is_usual {
                true => {
                    let at = Quad { rows, columns, count: across * OWN };
                    sum::quad::<L, { rule::HALVES }>(&bench.a, &bench.b, at, c)
                }
                false => sum::Sums { value: c, again: [u16::MAX; 4] },
            };
            for r in 0..4 {
                let result = &mut bench.results[(first + r) % REGISTERS][sixteen % 4];
                L::store(result, sums.value[r]);
                if sums.again[r] != 0 {
                    again(w, d, [first + r, sixteen], sums.again[r], result);
                }
            }
        }
    }
    bench.write(w, d, lines * lines / 64);
}

per_backend! {
    /// Handler; `imm` is a [`Control`](super::Control), `aux` 16 or 32, the rows and columns. Row `dst2` and the next have the scales of A in
    /// their lowest bytes and those of B in the next ones.
    run [] [] |w, _m, d, L| { multiply::<L>(w, d); Flow::NEXT }
}

/// Puts the bytes `aux` (two bits for each source) of both sources beside each other: the scales of [`run`].
pub(crate) fn load_scales(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let [first, second] = [0, 2].map(|shift: u32| u32::from(d.aux) >> shift & 3);
    for lane in 0..64 {
        let byte = |n: usize, byte: u32| d.src[n].lane(w, lane) >> (8 * byte) & 255;
        let both = byte(0, first) | byte(1, second) << 8;
        w.v.set_lane(d.dst + lane / 32, lane & 31, both);
    }
    Flow::NEXT
}
