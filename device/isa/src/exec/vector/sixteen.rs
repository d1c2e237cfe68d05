//! Functions of singles in lanes, by code without branches: rare cases are done again by the definition.
//!
//! There are no closures here, nor in functions called from here: closures are compiled without the backend's instructions.

use super::float::single::{ONE, SIGN};
use crate::lanes::Lanes;

/// From this number on singles are whole.
const WHOLE: u32 = 0x4b00_0000;

/// Results of the lanes of a mask by the definition.
#[inline(always)]
pub(crate) fn again<L: Lanes>(a: L::V, r: L::V, lanes: u16, definition: fn(u32) -> u32) -> L::V {
    if lanes == 0 {
        return r;
    }
    let (a, mut r) = (L::to_array(a), L::to_array(r));
    defined(&a, &mut r, lanes, definition);
    L::from_array(r)
}

#[cold]
#[inline(never)]
pub(crate) fn defined(a: &[u32; 16], r: &mut [u32; 16], lanes: u16, definition: fn(u32) -> u32) {
    for lane in 0..16 {
        if lanes >> lane & 1 != 0 {
            r[lane] = definition(a[lane]);
        }
    }
}

/// Integers times a power of two.
#[inline(always)]
pub(crate) fn scaled<L: Lanes>(a: L::V, power: i32) -> L::V {
    L::fmul(L::numbers(a), L::splat(power_of_two(power)))
}

/// A power of two as a single.
pub(crate) const fn power_of_two(power: i32) -> u32 {
    ONE.wrapping_add_signed(power << 23)
}

/// The product of two singles as an integer: to nearest even, of 24 digits at most.
#[inline(always)]
pub(crate) fn product<L: Lanes>(a: L::V, b: L::V) -> L::V {
    let (whole, exact) = (L::splat(WHOLE), L::fmul(a, b));
    let rounded = L::fsub(L::fma(a, b, whole), whole);
    L::truncated(L::select(L::flt(exact, whole), rounded, exact))
}

/// `value` without so many digits, rounded to nearest even.
#[inline(always)]
pub(crate) fn rounded<L: Lanes>(value: L::V, digits: u32) -> L::V {
    let last = L::and(L::shr(value, L::splat(digits)), L::splat(1));
    L::shr(L::add(L::add(value, last), L::splat((1 << digits >> 1) - 1)), L::splat(digits))
}

/// Positive integers below 2^31 as singles towards zero, or away from it in the lanes of `up`, as if `digits` of their digits were after
/// the point.
#[inline(always)]
pub(crate) fn cut<L: Lanes>(value: L::V, digits: L::V, up: u16) -> L::V {
    let near = L::numbers(value);
    let back = L::truncated(near);
    let too_large = L::select(L::lt_i(value, back) & !up, L::splat(u32::MAX), L::splat(0));
    let change = L::select(L::lt_i(back, value) & up, L::splat(1), too_large);
    L::sub(L::add(near, change), L::shl(digits, L::splat(23)))
}

/// All ones for negative numbers, 0 for others.
#[inline(always)]
pub(crate) fn signs<L: Lanes>(a: L::V) -> L::V {
    L::sar(a, L::splat(31))
}

/// Magnitudes of numbers.
#[inline(always)]
pub(crate) fn magnitudes<L: Lanes>(a: L::V) -> L::V {
    L::and(a, L::splat(!SIGN))
}

/// Terms of 32 parts, each of which is a column.
pub(crate) const fn columns<const N: usize>(terms: &[[u32; N]; 32]) -> [[u32; 32]; N] {
    let mut columns = [[0; 32]; N];
    let mut part = 0;
    while part < 32 {
        let mut term = 0;
        while term < N {
            columns[term][part] = terms[part][term];
            term += 1;
        }
        part += 1;
    }
    columns
}

/// The digest that stands for a capture of many results: FNV-1a, a word at a time.
#[cfg(test)]
pub(crate) fn digest(results: impl Iterator<Item = u32>) -> u64 {
    let step = |sum: u64, word: u32| (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
    results.fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::op::VectorOp;
    use super::super::trans;
    use super::*;
    use crate::lanes::{Backend, BackendKind};

    /// Sixteen results on a backend, if the host has it.
    pub(crate) fn on<O: VectorOp<A = u32>>(kind: BackendKind) -> Option<impl Fn(&[u32; 16]) -> [u32; 16]> {
        Backend::force(kind)?;
        Some(move |a: &[u32; 16]| crate::exec::vector::op::lanes_of::<O>(kind, a))
    }

    /// The digest of a function's results on a backend.
    pub(crate) fn digest_on<O: VectorOp<A = u32>>(
        kind: BackendKind,
        numbers: impl Iterator<Item = u32>,
    ) -> Option<u64> {
        let (function, mut numbers) = (on::<O>(kind)?, numbers.peekable());
        let sixteens = core::iter::from_fn(|| {
            numbers.peek()?;
            let a: [u32; 16] = core::array::from_fn(|_| numbers.next().unwrap_or_default());
            Some(function(&a))
        });
        Some(digest(sixteens.flatten()))
    }

    /// Every step-th single, and what is next to bounds.
    fn singles() -> impl Iterator<Item = [u32; 16]> {
        let special = [1.0_f32, 0.5, 0.25, 0.125, 2.0, 127.0, -125.0, 128.0, -126.0, 3.75, 1e9, 5e-39];
        let near = special
            .into_iter()
            .map(|x| core::array::from_fn(|n| x.to_bits().wrapping_add(n as u32).wrapping_sub(8)));
        let all =
            (0..1 << 18).map(|n: u32| core::array::from_fn(|lane| (n * 16 + lane as u32).wrapping_mul(1021)));
        near.chain(all)
    }

    fn same<O: VectorOp<A = u32, D = u32, B = u32, C = u32>>() {
        for kind in [BackendKind::Portable, BackendKind::Avx2, BackendKind::Avx512] {
            let Some(function) = on::<O>(kind) else { continue };
            for a in singles() {
                for (a, r) in a.into_iter().zip(function(&a)) {
                    let expected = O::scalar(a, 0, 0);
                    assert_eq!(r, expected, "{kind:?}: of {:e} ({a:#x})", f32::from_bits(a));
                }
            }
        }
    }

    #[test]
    fn lanes_are_as_each_alone() {
        same::<trans::V_SQRT_F32>();
        same::<trans::V_EXP_F32>();
        same::<trans::V_LOG_F32>();
        same::<trans::V_SIN_F32>();
        same::<trans::V_COS_F32>();
        same::<trans::V_RCP_F32>();
        same::<trans::V_RSQ_F32>();
    }
}
