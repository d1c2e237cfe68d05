//! `v_mfma_f32_*_f8f6f4` and `v_mfma_scale_*`: matrices whose formats the instruction names, with a scale for each 32 elements of a line
//! or without scales.
//!
//! A lane has 32 elements of a line, from 32 times the number of its sixteen (of blocks of 32 lines: of its half) on, and the scale of
//! those. A scale is a power of two, E8M0; its NaN makes the results NaNs. Products are added sixteen at a time as those of 8-bit
//! floats are ([`fused`]), with the sum of the exponents of both scales.

use super::fused;
use crate::exec::di::{Di, Flow, Kind, Machine};
use crate::exec::vector::float::byte::Byte;
use crate::exec::vector::float::single;
use crate::wave::Wave;

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

/// A line's elements of one lane, as singles.
type Elements = [u32; OWN];

/// The elements of each lane of registers that begin at row `base`.
fn elements(w: &Wave, base: u32, format: Byte) -> [Elements; 64] {
    let bits = format.bits();
    core::array::from_fn(|lane| {
        let word = |n: u32| u64::from(w.v.lane(base + n * 2 + lane as u32 / 32, lane as u32 & 31));
        core::array::from_fn(|number| {
            let at = number as u32 * bits;
            // An element of six bits may begin in one word and end in the next.
            let next = if at % 32 + bits > 32 { word(at / 32 + 1) << 32 } else { 0 };
            let wide = (word(at / 32) | next) >> (at % 32);
            format.to_single((wide & ((1 << bits) - 1)) as u8)
        })
    })
}

/// Exponent of the smallest normal number.
fn least_exponent(format: Byte) -> i32 {
    1 - format.bias()
}

/// Handler; `imm` is a [`Control`](super::Control), `aux` 16 or 32, the rows and columns. Row `dst2` and the next have the scales of A in
/// their lowest bytes and those of B in the next ones.
pub(crate) fn run(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let of = |number: u32| FORMATS[(number & 7) as usize % FORMATS.len()];
    let formats = [of(d.imm), of(d.imm >> 8)];
    let least = formats.map(least_exponent);
    let [a, b] = [0, 1].map(|n: usize| elements(w, d.src[n].value, formats[n]));
    let scales: [u32; 64] = core::array::from_fn(|lane| match d.dst2 {
        NO_SCALES => ONE | ONE << 8,
        row => w.v.lane(row + lane as u32 / 32, lane as u32 & 31),
    });
    let lines = u32::from(d.aux);
    let across = 64 / lines;
    let registers = lines * lines / 64;
    let mut results = [[0u32; 64]; 16];
    for register in 0..registers.min(16) {
        for lane in 0..64 {
            let i = register % 4 + 4 * (lane / lines + across * (register / 4));
            let j = lane % lines;
            let mut sum = match d.src[2].kind {
                Kind::Vector => w.v.lane(d.src[2].value + register * 2 + lane / 32, lane & 31),
                _ => d.src[2].scalar(w),
            };
            for block in 0..across {
                let (left, right) = ((i + lines * block) as usize % 64, (j + lines * block) as usize % 64);
                let (scale_a, scale_b) = (scales[left] & 255, scales[right] >> 8 & 255);
                if scale_a == NAN || scale_b == NAN {
                    sum = single::NAN;
                    continue;
                }
                let scale = (scale_a + scale_b) as i32 - 2 * ONE as i32;
                let groups = a[left].chunks_exact(GROUP).zip(b[right].chunks_exact(GROUP));
                sum = groups.fold(sum, |sum, (a, b)| fused::scaled_group(least, true, [a, b], sum, scale));
            }
            results[register as usize][lane as usize] = sum;
        }
    }
    for (register, lanes) in (0..registers).zip(&results) {
        for (lane, value) in (0..).zip(lanes) {
            w.v.set_lane(d.dst + register * 2 + lane / 32, lane & 31, *value);
        }
    }
    Flow::NEXT
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
