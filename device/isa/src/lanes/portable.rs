//! Lanes as arrays: correct everywhere, vectorised as far as the compiler manages.

use super::Chunk;
use super::{BackendKind, Lanes};

/// Arrays of sixteen.
#[derive(Debug)]
pub(crate) struct Portable;

type V = [u32; 16];

#[inline(always)]
fn map2(a: V, b: V, f: impl Fn(u32, u32) -> u32) -> V {
    core::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn float2(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    map2(a, b, |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits())
}

#[inline(always)]
fn mask2(a: V, b: V, f: impl Fn(u32, u32) -> bool) -> u16 {
    let mut mask = 0;
    for i in 0..16 {
        mask |= u16::from(f(a[i], b[i])) << i;
    }
    mask
}

#[inline(always)]
fn float_mask(a: V, b: V, f: impl Fn(f32, f32) -> bool) -> u16 {
    mask2(a, b, |a, b| f(f32::from_bits(a), f32::from_bits(b)))
}

impl Lanes for Portable {
    type V = V;
    const KIND: BackendKind = BackendKind::Portable;

    #[inline(always)]
    fn load(chunk: &Chunk) -> V {
        chunk.0
    }
    #[inline(always)]
    fn store(chunk: &mut Chunk, value: V) {
        chunk.0 = value;
    }
    #[inline(always)]
    fn store_mask(chunk: &mut Chunk, value: V, mask: u16) {
        chunk.0 = Self::select(mask, value, chunk.0);
    }
    #[inline(always)]
    fn splat(value: u32) -> V {
        [value; 16]
    }
    #[inline(always)]
    fn add(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn mul(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn and(a: V, b: V) -> V {
        map2(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(a: V, b: V) -> V {
        map2(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor(a: V, b: V) -> V {
        map2(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn shl(a: V, count: V) -> V {
        map2(a, count, u32::wrapping_shl)
    }
    #[inline(always)]
    fn shr(a: V, count: V) -> V {
        map2(a, count, u32::wrapping_shr)
    }
    #[inline(always)]
    fn sar(a: V, count: V) -> V {
        map2(a, count, |a, count| a.cast_signed().wrapping_shr(count).cast_unsigned())
    }
    #[inline(always)]
    fn min_u(a: V, b: V) -> V {
        map2(a, b, u32::min)
    }
    #[inline(always)]
    fn max_u(a: V, b: V) -> V {
        map2(a, b, u32::max)
    }
    #[inline(always)]
    fn min_i(a: V, b: V) -> V {
        map2(a, b, |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned())
    }
    #[inline(always)]
    fn max_i(a: V, b: V) -> V {
        map2(a, b, |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned())
    }
    #[inline(always)]
    fn fadd(a: V, b: V) -> V {
        float2(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn fsub(a: V, b: V) -> V {
        float2(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn fmul(a: V, b: V) -> V {
        float2(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn fma(a: V, b: V, c: V) -> V {
        core::array::from_fn(|i| {
            f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i])).to_bits()
        })
    }
    #[inline(always)]
    fn max_bytes(a: V, b: V) -> V {
        map2(a, b, |a, b| {
            let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
            u32::from_le_bytes(core::array::from_fn(|i| a[i].max(b[i])))
        })
    }
    #[inline(always)]
    fn max_halves(a: V, b: V) -> V {
        map2(a, b, |a, b| (a & 0xffff).max(b & 0xffff) | (a >> 16).max(b >> 16) << 16)
    }
    #[inline(always)]
    fn min_halves(a: V, b: V) -> V {
        map2(a, b, |a, b| (a & 0xffff).min(b & 0xffff) | (a >> 16).min(b >> 16) << 16)
    }
    #[inline(always)]
    fn truncated(a: V) -> V {
        a.map(|a| (f32::from_bits(a) as i32).cast_unsigned())
    }
    #[inline(always)]
    fn floored(a: V) -> V {
        a.map(|a| {
            let number = f32::from_bits(a);
            if number.is_nan() { i32::MIN.cast_unsigned() } else { (number.floor() as i32).cast_unsigned() }
        })
    }
    #[inline(always)]
    fn numbers(a: V) -> V {
        a.map(|a| (a.cast_signed() as f32).to_bits())
    }
    #[inline(always)]
    fn select(mask: u16, a: V, b: V) -> V {
        core::array::from_fn(|i| if mask >> i & 1 != 0 { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn eq(a: V, b: V) -> u16 {
        mask2(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn lt_u(a: V, b: V) -> u16 {
        mask2(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn lt_i(a: V, b: V) -> u16 {
        mask2(a, b, |a, b| a.cast_signed() < b.cast_signed())
    }
    #[inline(always)]
    fn feq(a: V, b: V) -> u16 {
        float_mask(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn flt(a: V, b: V) -> u16 {
        float_mask(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn unordered(a: V, b: V) -> u16 {
        float_mask(a, b, |a, b| a.is_nan() || b.is_nan())
    }
}
