//! Powers, logarithms and sines of sixteen singles at once.
//!
//! They are computed in double precision, as [`trans`](super::trans) computes one, but by series that are the same instructions
//! for every lane. A series is off by less than 2^-48 of the value. A lane whose value is that near to a bound between two
//! singles, or that is no normal number, is done again by the definition: so results are those of the definition, to the bit.

#![expect(clippy::manual_range_contains, reason = "bounds are compared without a branch in between")]

use core::f64::consts::{LN_2, TAU};

/// Bits of a double that a single does not have, the half of their range, and how near to that a value counts as near.
const BELOW: u64 = (1 << 29) - 1;
const MIDDLE: u64 = 1 << 28;
const NEAR: u64 = 1 << 10;

/// Added to a double below 2^51, the whole number next to it is in the low bits; subtracted again, it is left.
const TO_WHOLE: f64 = 6_755_399_441_055_744.0;

/// Values that are normal singles, whichever way they are rounded.
const NORMAL: core::ops::Range<f64> = f32::MIN_POSITIVE as f64..1.7e38;

/// Turns above which the part behind the point is left to the definition.
const MANY_TURNS: f32 = 1_048_576.0;

/// Sixteen results: those of `fast`, which says whether a lane is within its range, or of the definition.
#[inline(always)]
fn each(
    a: &[u32; 16],
    r: &mut [u32; 16],
    fast: impl Fn(f32) -> (f64, bool),
    definition: impl Fn(u32) -> u32,
) {
    let mut again = [0_u64; 16];
    for ((&a, r), again) in a.iter().zip(r.iter_mut()).zip(&mut again) {
        let (value, within) = fast(f32::from_bits(a));
        let near = (value.to_bits() & BELOW).wrapping_sub(MIDDLE - NEAR) < 2 * NEAR;
        let normal = value.abs() >= NORMAL.start && value.abs() < NORMAL.end;
        *again = u64::from(near | !normal | !within);
        *r = (value as f32).to_bits();
    }
    if again.iter().fold(0, |any, lane| any | lane) != 0 {
        for (lane, _) in again.iter().enumerate().filter(|(_, again)| **again != 0) {
            r[lane] = definition(a[lane]);
        }
    }
}

/// A polynomial, its last term first.
#[inline(always)]
fn polynomial<const N: usize>(terms: &[f64; N], x: f64) -> f64 {
    let mut sum = terms[N - 1];
    for term in terms[..N - 1].iter().rev() {
        sum = sum.mul_add(x, *term);
    }
    sum
}

/// `ln(2)^k / k!`: for half an exponent and less the next one is below 2^-52.
const POWER: [f64; 13] = {
    let mut terms = [1.0; 13];
    let mut k = 1;
    while k < terms.len() {
        terms[k] = terms[k - 1] * LN_2 / k as f64;
        k += 1;
    }
    terms
};

/// `2 / (ln(2) (2k + 1))`: of a mantissa between the root of a half and that of two, the next one is below 2^-58.
const LOGARITHM: [f64; 11] = {
    let mut terms = [0.0; 11];
    let mut k = 0;
    while k < terms.len() {
        terms[k] = 2.0 / LN_2 / (2 * k + 1) as f64;
        k += 1;
    }
    terms
};

/// `(-1)^k / (2k + 1)!`: of a quarter turn and less, the next one is below 2^-64.
const SINE: [f64; 12] = {
    let mut terms = [1.0; 12];
    let mut k = 1;
    while k < terms.len() {
        terms[k] = -terms[k - 1] / (2 * k * (2 * k + 1)) as f64;
        k += 1;
    }
    terms
};

#[inline(always)]
pub(super) fn powers(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let fast = |x: f32| {
        let whole = f64::from(x) + TO_WHOLE;
        let value = polynomial(&POWER, f64::from(x) - (whole - TO_WHOLE));
        let scaled = f64::from_bits(value.to_bits().wrapping_add(whole.to_bits() << 52));
        (scaled, (x >= -125.0) & (x <= 127.0))
    };
    each(a, r, fast, definition);
}

#[inline(always)]
pub(super) fn logarithms(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let fast = |x: f32| {
        // From the root of a half to that of two, times a power of two.
        let exponent = x.to_bits().wrapping_sub(0x3f35_04f3).cast_signed() >> 23;
        let mantissa = f64::from(f32::from_bits(x.to_bits().wrapping_sub(exponent.cast_unsigned() << 23)));
        let s = (mantissa - 1.0) / (mantissa + 1.0);
        let value = s.mul_add(polynomial(&LOGARITHM, s * s), f64::from(exponent));
        (value, (x >= f32::MIN_POSITIVE) & (x <= f32::MAX))
    };
    each(a, r, fast, definition);
}

/// Of a part of a turn, a quarter of it at most.
#[inline(always)]
fn sine(turn: f64) -> f64 {
    let angle = turn * TAU;
    angle * polynomial(&SINE, angle * angle)
}

/// What is behind the point, from minus a half to a half.
#[inline(always)]
fn part(x: f32) -> f64 {
    let x = f64::from(x);
    x - (x + TO_WHOLE - TO_WHOLE)
}

#[inline(always)]
pub(super) fn sines(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let fast = |x: f32| {
        let turn = part(x);
        // From the nearer of its zeros.
        let near = if turn.abs() > 0.25 { 0.5 - turn.abs() } else { turn.abs() };
        (sine(near).copysign(turn), x.abs() < MANY_TURNS)
    };
    each(a, r, fast, definition);
}

#[inline(always)]
pub(super) fn cosines(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let fast = |x: f32| (sine(0.25 - part(x).abs()), x.abs() < MANY_TURNS);
    each(a, r, fast, definition);
}

#[cfg(test)]
mod tests {
    use super::super::op::VectorOp;
    use super::super::trans;
    use super::*;

    /// Every step-th single, and what is next to bounds.
    fn singles() -> impl Iterator<Item = [u32; 16]> {
        let special = [1.0_f32, 0.5, 0.25, 0.125, 2.0, 127.0, -125.0, 128.0, -126.0, 3.75, 1e9, 5e-39];
        let near = special
            .into_iter()
            .map(|x| core::array::from_fn(|n| x.to_bits().wrapping_add(n as u32).wrapping_sub(8)));
        let all =
            (0..1 << 16).map(|n: u32| core::array::from_fn(|lane| (n * 16 + lane as u32).wrapping_mul(4099)));
        near.chain(all)
    }

    fn same<O: VectorOp<A = u32, D = u32, B = u32, C = u32>>() {
        for a in singles() {
            let mut r = [0; 16];
            O::sixteen(&a, &[0; 16], &[0; 16], &mut r);
            for (a, r) in a.into_iter().zip(r) {
                let expected = O::scalar(a, 0, 0);
                assert_eq!(r, expected, "of {:e} ({a:#x})", f32::from_bits(a));
            }
        }
    }

    #[test]
    fn sixteen_lanes_are_as_each_alone() {
        same::<trans::V_EXP_F32>();
        same::<trans::V_LOG_F32>();
        same::<trans::V_SIN_F32>();
        same::<trans::V_COS_F32>();
    }

    /// The most that series are off, of the value.
    fn off(from: f32, to: f32, fast: impl Fn(f32) -> f64, exact: impl Fn(f64) -> f64) -> f64 {
        let steps = 300_000;
        let xs = (0..=steps).map(|n| from + (to - from) * n as f32 / steps as f32);
        let off = xs.map(|x| (fast(x), exact(f64::from(x)))).filter(|(_, exact)| *exact != 0.0);
        off.map(|(fast, exact)| (fast / exact - 1.0).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn series_are_nearer_than_what_counts_as_near() {
        // `NEAR` is in units of 2^-52 of a number from 1 to 2.
        let bound = NEAR as f64 * 2f64.powi(-53);
        let power = |x: f32| polynomial(&POWER, f64::from(x));
        let logarithm = |x: f32| {
            let s = (f64::from(x) - 1.0) / (f64::from(x) + 1.0);
            s * polynomial(&LOGARITHM, s * s)
        };
        let most = [
            off(-0.5, 0.5, power, libm::exp2),
            off(0.7, 1.45, logarithm, libm::log2),
            off(0.0, 0.25, |x| sine(f64::from(x)), trans::sin_turns),
        ];
        assert!(most.iter().all(|&off| off < 2f64.powi(-48) && off < bound), "{most:?}");
    }
}
