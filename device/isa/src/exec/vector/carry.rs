//! Operations with a lane mask beside their registers: carries, `v_div_scale`, `v_div_fmas`.

use super::float::{self, double, single};
use super::op::{Format, Reg, exec_half, fetch, per_backend, read, split, write};
use super::soft::{DOUBLE, Round, SINGLE, fma_scaled};
use crate::exec::di::{Di, Flow, Handler, Machine, flag};
use crate::inst::Op;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Wave;

/// An operation with a mask in, a mask out, or both.
pub(crate) trait CarryOp: Sized + 'static {
    type A: Reg;
    type B: Reg;
    type C: Reg;
    type D: Reg;
    const ARITY: usize;
    const FORMAT: Format;
    /// True if the operation writes a mask.
    const OUT: bool;
    /// Handler, by the lane form where there is one.
    fn handler(backend: BackendKind) -> Handler {
        each_handler::<Self>(backend)
    }
    fn scalar(a: Self::A, b: Self::B, c: Self::C, carry: bool) -> (Self::D, bool);
    #[inline(always)]
    fn lanes<L: Lanes>(a: L::V, _b: L::V, _carry: u16) -> (L::V, u16) {
        (a, 0)
    }
}

/// One half by the lane form.
#[inline(always)]
fn half<O: CarryOp, L: Lanes>(w: &mut Wave, d: &Di, half: u32) -> u32 {
    let exec = exec_half(w, half);
    let carry = split(w.s[(d.imm + half) as usize & 255]);
    let a = read::<L, false>(w, &d.src[0], half, O::FORMAT);
    let b = read::<L, false>(w, &d.src[1], half, O::FORMAT);
    let (low, low_out) = O::lanes::<L>(a[0], b[0], carry[0]);
    let (high, high_out) = O::lanes::<L>(a[1], b[1], carry[1]);
    write::<L>(w, d.dst + half, exec, [low, high]);
    (u32::from(low_out) | u32::from(high_out) << 16) & exec
}

/// One half by the scalar definition.
#[inline(always)]
fn half_each<O: CarryOp>(w: &mut Wave, d: &Di, half: u32) -> u32 {
    let exec = exec_half(w, half);
    let carry = split(w.s[(d.imm + half) as usize & 255]);
    let slow = d.flags & flag::SLOW != 0;
    let mut out = 0;
    for (chunk, mask) in split(exec).into_iter().enumerate() {
        let a = fetch::<O::A>(w, d, 0, O::ARITY, half, chunk, O::FORMAT, slow);
        let b = fetch::<O::B>(w, d, 1, O::ARITY, half, chunk, O::FORMAT, slow);
        let c = fetch::<O::C>(w, d, 2, O::ARITY, half, chunk, O::FORMAT, slow);
        let mut r = [O::D::default(); 16];
        for i in 0..16 {
            let (value, carry_out) = O::scalar(a[i], b[i], c[i], carry[chunk] >> i & 1 != 0);
            let signals = d.flags & flag::SIGNALS != 0;
            let operands = [a[i].bits(), b[i].bits(), c[i].bits()];
            r[i] = if signals { float::signalling(value, O::FORMAT, &operands) } else { value };
            out |= u32::from(carry_out) << (chunk * 16 + i);
        }
        if slow {
            let mode = w.mode;
            r = r.map(|x| float::flush_output(x, O::FORMAT, mode));
        }
        if O::FORMAT != Format::Bits && (d.omod != 0 || d.flags & flag::CLAMP != 0) {
            let (clamp, mode) = (d.flags & flag::CLAMP != 0, w.mode);
            r = r.map(|x| float::output_in_mode(x, O::FORMAT, d.omod, clamp, mode));
        }
        O::D::scatter(w, d, half, chunk, mask, &r);
    }
    out & exec
}

/// Writes the mask out, after both halves: it may be the mask in.
#[inline(always)]
fn write_mask<O: CarryOp>(w: &mut Wave, d: &Di, first: u32, second: u32) -> Flow {
    if O::OUT {
        w.s[d.dst2 as usize & 255] = first;
        if w.halves == 2 {
            w.s[(d.dst2 as usize + 1) & 255] = second;
        }
    }
    Flow::NEXT
}

#[inline(always)]
fn by_lanes<O: CarryOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let first = half::<O, L>(w, d, 0);
    let second = if w.halves == 2 { half::<O, L>(w, d, 1) } else { 0 };
    write_mask::<O>(w, d, first, second)
}

#[inline(always)]
fn by_scalar<O: CarryOp>(w: &mut Wave, d: &Di) -> Flow {
    let first = half_each::<O>(w, d, 0);
    let second = if w.halves == 2 { half_each::<O>(w, d, 1) } else { 0 };
    write_mask::<O>(w, d, first, second)
}

per_backend! {
    lanes_handler [O: CarryOp] [O] |w, _m, d, L| by_lanes::<O, L>(w, d)
}

fn each_portable<O: CarryOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    by_scalar::<O>(w, d)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn each_avx2<O: CarryOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    by_scalar::<O>(w, d)
}

/// Handler by the scalar definition.
pub(crate) fn each_handler<O: CarryOp>(backend: BackendKind) -> Handler {
    match backend {
        BackendKind::Portable => each_portable::<O>,
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx2 | BackendKind::Avx512 => each_avx2::<O> as Handler,
        #[cfg(not(target_arch = "x86_64"))]
        _ => each_portable::<O>,
    }
}

/// Handler and operand types that lowering needs.
pub(crate) struct CarryEntry {
    pub(crate) handler: Handler,
    pub(crate) arity: usize,
    pub(crate) bits: [u32; 3],
    pub(crate) dst_bits: u32,
    pub(crate) format: Format,
    /// Source of the mask in.
    pub(crate) carry: CarryIn,
}

/// Source of the mask in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarryIn {
    None,
    /// `src[2]`.
    Third,
    /// `VCC`.
    Vcc,
}

macro_rules! carry_ops {
    ($($op:ident: $format:ident $in:ident $out:literal $arity:literal
        ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty, $carry:ident) -> $D:ty $scalar:block
        $(, lanes $lanes:block)?)*) => {
        $(
            #[expect(non_camel_case_types, reason = "named as the operation")]
            struct $op;
            impl CarryOp for $op {
                type A = $A;
                type B = $B;
                type C = $C;
                type D = $D;
                const ARITY: usize = $arity;
                const FORMAT: Format = Format::$format;
                const OUT: bool = $out;
                #[inline(always)]
                fn scalar($a: $A, $b: $B, $c: $C, $carry: bool) -> ($D, bool) $scalar
                $(
                    fn handler(backend: BackendKind) -> Handler {
                        lanes_handler::<Self>(backend)
                    }
                    #[inline(always)]
                    fn lanes<L: Lanes>($a: L::V, $b: L::V, $carry: u16) -> (L::V, u16) $lanes
                )?
            }
        )*
        /// The entry of an operation defined here.
        pub(crate) fn entry(op: Op, backend: BackendKind) -> Option<CarryEntry> {
            Some(match op {
                $(Op::$op => CarryEntry {
                    handler: $op::handler(backend),
                    arity: $arity,
                    bits: [<$A>::BITS, <$B>::BITS, <$C>::BITS],
                    dst_bits: <$D>::BITS,
                    format: Format::$format,
                    carry: CarryIn::$in,
                },)*
                _ => return None,
            })
        }
    };
}

pub(crate) use carry_ops;

#[inline(always)]
pub(crate) fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u32::from(carry));
    (sum, first | second)
}

#[inline(always)]
pub(crate) fn sub(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(u32::from(carry));
    (difference, first | second)
}

#[inline(always)]
fn add_lanes<L: Lanes>(a: L::V, b: L::V, carry: u16) -> (L::V, u16) {
    let sum = L::add(a, b);
    let first = L::lt_u(sum, a);
    let total = L::select(carry, L::add(sum, L::splat(1)), sum);
    // Adding the carry wraps where the sum was all ones.
    (total, first | (carry & L::eq(sum, L::splat(u32::MAX))))
}

#[inline(always)]
fn sub_lanes<L: Lanes>(a: L::V, b: L::V, carry: u16) -> (L::V, u16) {
    let difference = L::sub(a, b);
    let first = L::lt_u(a, b);
    let total = L::select(carry, L::sub(difference, L::splat(1)), difference);
    (total, first | (carry & L::eq(difference, L::splat(0))))
}

carry_ops! {
    V_ADD_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { add(a, b, false) }, lanes {
        let sum = L::add(a, b);
        (sum, L::lt_u(sum, a))
    }
    V_SUB_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { sub(a, b, false) }, lanes {
        (L::sub(a, b), L::lt_u(a, b))
    }
    V_SUBREV_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { sub(b, a, false) }, lanes {
        (L::sub(b, a), L::lt_u(b, a))
    }
    V_ADD_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { add(a, b, carry) }, lanes { add_lanes::<L>(a, b, carry) }
    V_SUB_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { sub(a, b, carry) }, lanes { sub_lanes::<L>(a, b, carry) }
    V_SUBREV_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { sub(b, a, carry) }, lanes { sub_lanes::<L>(b, a, carry) }
    V_MAD_U64_U32: Bits None true 3 (a: u32, b: u32, c: u64, _carry) -> u64 { (u64::from(a) * u64::from(b)).overflowing_add(c) }
    V_MAD_I64_I32: Bits None true 3 (a: u32, b: u32, c: u64, _carry) -> u64 {
        let product = i64::from(a.cast_signed()) * i64::from(b.cast_signed());
        let (sum, overflow) = product.overflowing_add(c.cast_signed());
        (sum.cast_unsigned(), overflow)
    }
    V_DIV_SCALE_F32: F32 None true 3 (a: u32, b: u32, c: u32, _carry) -> u32 { div_scale_f32(a, b, c) }
    V_DIV_SCALE_F64: F64 None true 3 (a: u64, b: u64, c: u64, _carry) -> u64 { div_scale_f64(a, b, c) }
    V_DIV_FMAS_F32: F32 Vcc false 3 (a: u32, b: u32, c: u32, carry) -> u32 {
        if !carry {
            return (single::fma(a, b, c), false);
        }
        // The operand to be scaled back was made larger or smaller, as the estimate in `c` shows.
        let power = if single::exponent(c) > 127 { 64 } else { -64 };
        let operands = [a, b, c].map(u64::from);
        if operands.iter().all(|bits| SINGLE.is_finite(*bits)) {
            // Rounded once, so that denormal quotients are right.
            return (fma_scaled(SINGLE, operands, power, Round::Nearest) as u32, false);
        }
        (single::fma(a, b, c), false)
    }
    V_DIV_FMAS_F64: F64 Vcc false 3 (a: u64, b: u64, c: u64, carry) -> u64 {
        if !carry {
            return (double::fma(a, b, c), false);
        }
        let power = if double::exponent(c) > 1023 { 128 } else { -128 };
        if [a, b, c].iter().all(|bits| DOUBLE.is_finite(*bits)) {
            return (fma_scaled(DOUBLE, [a, b, c], power, Round::Nearest), false);
        }
        (double::fma(a, b, c), false)
    }
}

/// `v_div_scale`: `a` (the denominator `b` or the numerator `c`) scaled so that the division's steps neither overflow nor lose
/// bits, and whether `v_div_fmas` must scale back. The fields of the exponents alone decide, those of zeros too.
macro_rules! div_scale {
    ($name:ident, $format:ident, $bits:ty, $step:literal, $far:literal, $large:literal, $tiny:literal) => {
        fn $name(a: $bits, b: $bits, c: $bits) -> ($bits, bool) {
            let (den, num) = ($format::exponent(b), $format::exponent(c));
            let is_denominator = a == b;
            let (power, back) = if num - den >= $far {
                // The quotient is near the largest number: only the denominator is scaled.
                (if is_denominator { $step } else { 0 }, true)
            } else if den == 0 {
                ($step, false)
            } else if den >= $large {
                let back = num - den <= -$far;
                (if back && !is_denominator { 0 } else { -$step }, back)
            } else if num - den <= -$far {
                (if is_denominator { 0 } else { $step }, true)
            } else if num <= $tiny {
                ($step, false)
            } else {
                (0, false)
            };
            if b & !$format::SIGN == 0 || c & !$format::SIGN == 0 {
                return ($format::NAN, back);
            }
            ($format::ldexp(a, power), back)
        }
    };
}

div_scale!(div_scale_f32, single, u32, 64, 96, 253, 24);
div_scale!(div_scale_f64, double, u64, 128, 768, 2045, 53);
