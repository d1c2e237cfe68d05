//! Operations under a rounding mode other than to nearest.
//!
//! Operations that are not listed here do not round, or round to nearest in every mode: the transcendental
//! operations, whose results are not correctly rounded in hardware in any mode, dot products, matrices and texture
//! helpers.

use core::marker::PhantomData;

use super::carry::{self, CarryOp};
use super::float::{double, half, single};
use super::op::{Entry, Format, VectorOp};
use super::soft::{self, DOUBLE, HALF, Layout, Number, Round, SINGLE};
use super::{cvt, vop_f16, vop_f32, vop_f64, vop3p};
use crate::exec::di::Handler;
use crate::inst::Op;
use crate::lanes::BackendKind;

/// An operation whose result depends on the rounding mode.
trait RoundedOp: VectorOp {
    fn rounded(a: Self::A, b: Self::B, c: Self::C, round: Round) -> Self::D;
}

/// `O` under rounding mode `R`.
struct Rounded<O, const R: u32>(PhantomData<O>);

impl<O: RoundedOp, const R: u32> VectorOp for Rounded<O, R> {
    type A = O::A;
    type B = O::B;
    type C = O::C;
    type D = O::D;
    const ARITY: usize = O::ARITY;
    const INPUT: Format = O::INPUT;
    const OUTPUT: Format = O::OUTPUT;
    fn scalar(a: O::A, b: O::B, c: O::C) -> O::D {
        O::rounded(a, b, c, Round::from_bits(R))
    }
}

/// `FP_ROUND` of a format.
pub(crate) fn mode_of(format: Format, mode: u32) -> u32 {
    match format {
        Format::Bits => 0,
        Format::F32 => mode & 3,
        Format::F16 | Format::F64 => mode >> 2 & 3,
    }
}

/// Each line: `module::NAME: (a: T, b: T, c: T) in layout, |round| { … }`, for finite operands.
macro_rules! rounded_ops {
    ($($module:ident::$op:ident: ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) -> $D:ty,
        $layout:ident $check:expr, |$round:ident| $body:expr;)*) => {
        $(
            impl RoundedOp for $module::$op {
                fn rounded($a: $A, $b: $B, $c: $C, $round: Round) -> $D {
                    let finite: &[u64] = &$check;
                    if !finite.iter().all(|bits| $layout.is_finite(*bits)) {
                        return <Self as VectorOp>::scalar($a, $b, $c);
                    }
                    let bits: u64 = $body;
                    bits as $D
                }
            }
        )*
        /// The entry of an operation whose rounding `mode` changes.
        pub(crate) fn entry(op: Op, mode: u32) -> Option<Entry> {
            Some(match op {
                $(Op::$op => {
                    let backend = BackendKind::Portable;
                    match mode_of(<$module::$op as VectorOp>::OUTPUT, mode) {
                        0 => return None,
                        1 => Entry::of::<Rounded<$module::$op, 1>>(backend),
                        2 => Entry::of::<Rounded<$module::$op, 2>>(backend),
                        _ => Entry::of::<Rounded<$module::$op, 3>>(backend),
                    }
                })*
                _ => return None,
            })
        }
    };
}

fn add(layout: Layout, a: u64, b: u64, round: Round) -> u64 {
    layout.number(a).plus(layout.number(b), round).rounded(layout, round)
}

fn mul(layout: Layout, a: u64, b: u64, round: Round) -> u64 {
    layout.number(a).times(layout.number(b)).rounded(layout, round)
}

fn ldexp(layout: Layout, a: u64, power: i32, round: Round) -> u64 {
    layout.number(a).scaled(power).rounded(layout, round)
}

/// A product and a sum, each rounded, without denormals.
fn mad(a: u16, b: u16, c: u16, round: Round) -> u16 {
    let [a, b, c] = [a, b, c].map(half::flushed);
    let product = half::flushed(mul(HALF, a.into(), b.into(), round) as u16);
    if !HALF.is_finite(product.into()) {
        return product;
    }
    half::flushed(add(HALF, product.into(), c.into(), round) as u16)
}

/// Returns the part after the point, which stays below 1 in every rounding mode; +0 for integers.
fn fract(layout: Layout, a: u64, round: Round) -> u64 {
    let whole = layout.value(a).floor();
    let exact = layout.number(a).plus(DOUBLE.number((-whole).to_bits()), round);
    let one = Number::integer(1).rounded(layout, Round::Nearest);
    layout.magnitude(exact.rounded(layout, round)).min(one - 1)
}

const SIGN16: u64 = 1 << 15;
const SIGN32: u64 = 1 << 31;

fn is_zero(a: u32, b: u32) -> bool {
    a << 1 == 0 || b << 1 == 0
}

/// `fma` where zero times anything is zero.
fn fma_zero(a: u32, b: u32, c: u32, round: Round) -> u64 {
    if is_zero(a, b) { c.into() } else { soft::fma(SINGLE, a.into(), b.into(), c.into(), round) }
}

rounded_ops! {
    vop_f32::V_ADD_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into(), b.into()], |r| add(SINGLE, a.into(), b.into(), r);
    vop_f32::V_SUB_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into(), b.into()], |r| add(SINGLE, a.into(), u64::from(b) ^ SIGN32, r);
    vop_f32::V_SUBREV_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into(), b.into()], |r| add(SINGLE, b.into(), u64::from(a) ^ SIGN32, r);
    vop_f32::V_MUL_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into(), b.into()], |r| mul(SINGLE, a.into(), b.into(), r);
    vop_f32::V_FMA_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| soft::fma(SINGLE, a.into(), b.into(), c.into(), r);
    vop_f32::V_FMAC_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| soft::fma(SINGLE, a.into(), b.into(), c.into(), r);
    vop_f32::V_FMAAK_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| soft::fma(SINGLE, a.into(), b.into(), c.into(), r);
    vop_f32::V_FMAMK_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| soft::fma(SINGLE, a.into(), b.into(), c.into(), r);
    vop_f32::V_MUL_DX9_ZERO_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into(), b.into()], |r| if is_zero(a, b) { 0 } else { mul(SINGLE, a.into(), b.into(), r) };
    vop_f32::V_FMA_DX9_ZERO_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| fma_zero(a, b, c, r);
    vop_f32::V_FMAC_DX9_ZERO_F32: (a: u32, b: u32, c: u32) -> u32, SINGLE [a.into(), b.into(), c.into()], |r| fma_zero(a, b, c, r);
    vop_f32::V_FRACT_F32: (a: u32, _b: u32, _c: u32) -> u32, SINGLE [a.into()], |r| fract(SINGLE, a.into(), r);
    vop_f32::V_LDEXP_F32: (a: u32, b: u32, _c: u32) -> u32, SINGLE [a.into()], |r| ldexp(SINGLE, a.into(), b.cast_signed(), r);
    vop_f64::V_ADD_F64: (a: u64, b: u64, _c: u32) -> u64, DOUBLE [a, b], |r| add(DOUBLE, a, b, r);
    vop_f64::V_MUL_F64: (a: u64, b: u64, _c: u32) -> u64, DOUBLE [a, b], |r| mul(DOUBLE, a, b, r);
    vop_f64::V_FMA_F64: (a: u64, b: u64, c: u64) -> u64, DOUBLE [a, b, c], |r| soft::fma(DOUBLE, a, b, c, r);
    vop_f64::V_FRACT_F64: (a: u64, _b: u32, _c: u32) -> u64, DOUBLE [a], |r| fract(DOUBLE, a, r);
    vop_f64::V_LDEXP_F64: (a: u64, b: u32, _c: u32) -> u64, DOUBLE [a], |r| ldexp(DOUBLE, a, b.cast_signed(), r);
    vop_f16::V_ADD_F16: (a: u16, b: u16, _c: u32) -> u16, HALF [a.into(), b.into()], |r| add(HALF, a.into(), b.into(), r);
    vop_f16::V_SUB_F16: (a: u16, b: u16, _c: u32) -> u16, HALF [a.into(), b.into()], |r| add(HALF, a.into(), u64::from(b) ^ SIGN16, r);
    vop_f16::V_SUBREV_F16: (a: u16, b: u16, _c: u32) -> u16, HALF [a.into(), b.into()], |r| add(HALF, b.into(), u64::from(a) ^ SIGN16, r);
    vop_f16::V_MUL_F16: (a: u16, b: u16, _c: u32) -> u16, HALF [a.into(), b.into()], |r| mul(HALF, a.into(), b.into(), r);
    vop_f16::V_FMA_F16: (a: u16, b: u16, c: u16) -> u16, HALF [a.into(), b.into(), c.into()], |r| soft::fma(HALF, a.into(), b.into(), c.into(), r);
    vop_f16::V_FMAC_F16: (a: u16, b: u16, c: u16) -> u16, HALF [a.into(), b.into(), c.into()], |r| soft::fma(HALF, a.into(), b.into(), c.into(), r);
    vop_f16::V_FMAAK_F16: (a: u16, b: u16, c: u16) -> u16, HALF [a.into(), b.into(), c.into()], |r| soft::fma(HALF, a.into(), b.into(), c.into(), r);
    vop_f16::V_FMAMK_F16: (a: u16, b: u16, c: u16) -> u16, HALF [a.into(), b.into(), c.into()], |r| soft::fma(HALF, a.into(), b.into(), c.into(), r);
    vop_f16::V_MAD_F16: (a: u16, b: u16, c: u16) -> u16, HALF [a.into(), b.into(), c.into()], |r| mad(a, b, c, r).into();
    vop_f16::V_FRACT_F16: (a: u16, _b: u32, _c: u32) -> u16, HALF [a.into()], |r| fract(HALF, a.into(), r);
    vop_f16::V_LDEXP_F16: (a: u16, b: u16, _c: u32) -> u16, HALF [a.into()], |r| ldexp(HALF, a.into(), b.cast_signed().into(), r);
    cvt::V_CVT_F32_I32: (a: u32, _b: u32, _c: u32) -> u32, SINGLE [], |r| Number::integer(a.cast_signed().into()).rounded(SINGLE, r);
    cvt::V_CVT_F32_U32: (a: u32, _b: u32, _c: u32) -> u32, SINGLE [], |r| Number::integer(a.into()).rounded(SINGLE, r);
    cvt::V_CVT_F32_F64: (a: u64, _b: u32, _c: u32) -> u32, DOUBLE [a], |r| DOUBLE.number(a).rounded(SINGLE, r);
    cvt::V_CVT_F16_F32: (a: u32, _b: u32, _c: u32) -> u16, SINGLE [a.into()], |r| SINGLE.number(a.into()).rounded(HALF, r);
    cvt::V_CVT_F16_U16: (a: u16, _b: u32, _c: u32) -> u16, HALF [], |r| Number::integer(a.into()).rounded(HALF, r);
    cvt::V_CVT_F16_I16: (a: u16, _b: u32, _c: u32) -> u16, HALF [], |r| Number::integer(a.cast_signed().into()).rounded(HALF, r);
}

/// Handler of a packed operation whose rounding `mode` changes.
pub(crate) fn packed(op: Op, mode: u32) -> Option<Handler> {
    macro_rules! table {
        ($($op:ident = $handler:ident $of:ident;)*) => {
            match (op, mode_of(Format::F16, mode)) {
                (_, 0) => return None,
                $(
                    (Op::$op, 1) => vop3p::$handler::<Rounded<vop_f16::$of, 1>> as Handler,
                    (Op::$op, 2) => vop3p::$handler::<Rounded<vop_f16::$of, 2>> as Handler,
                    (Op::$op, _) => vop3p::$handler::<Rounded<vop_f16::$of, 3>> as Handler,
                )*
                _ => return None,
            }
        };
    }
    Some(table! {
        V_PK_ADD_F16 = packed2 V_ADD_F16;
        V_PK_MUL_F16 = packed2 V_MUL_F16;
        V_PK_FMA_F16 = packed3 V_FMA_F16;
        V_PK_FMAC_F16 = packed3 V_FMAC_F16;
    })
}

/// `a * b + c` in single precision, as `FP_ROUND` says.
pub(crate) fn fma_f32(a: u32, b: u32, c: u32, round: Round) -> u32 {
    <vop_f32::V_FMA_F32 as RoundedOp>::rounded(a, b, c, round)
}

/// Single to half precision, as `FP_ROUND` says.
pub(crate) fn half_from_single(a: u32, round: Round) -> u16 {
    <cvt::V_CVT_F16_F32 as RoundedOp>::rounded(a, 0, 0, round)
}

struct Fmas32<const R: u32>;

impl<const R: u32> CarryOp for Fmas32<R> {
    type A = u32;
    type B = u32;
    type C = u32;
    type D = u32;
    const ARITY: usize = 3;
    const FORMAT: Format = Format::F32;
    const OUT: bool = false;
    fn scalar(a: u32, b: u32, c: u32, carry: bool) -> (u32, bool) {
        let round = Round::from_bits(R);
        let operands = [a, b, c].map(u64::from);
        if !carry || !operands.iter().all(|bits| SINGLE.is_finite(*bits)) {
            return (fma_f32(a, b, c, round), false);
        }
        let power = if single::exponent(c) > 127 { 64 } else { -64 };
        (soft::fma_scaled(SINGLE, operands, power, round) as u32, false)
    }
}

struct Fmas64<const R: u32>;

impl<const R: u32> CarryOp for Fmas64<R> {
    type A = u64;
    type B = u64;
    type C = u64;
    type D = u64;
    const ARITY: usize = 3;
    const FORMAT: Format = Format::F64;
    const OUT: bool = false;
    fn scalar(a: u64, b: u64, c: u64, carry: bool) -> (u64, bool) {
        let round = Round::from_bits(R);
        if !carry || ![a, b, c].iter().all(|bits| DOUBLE.is_finite(*bits)) {
            return (<vop_f64::V_FMA_F64 as RoundedOp>::rounded(a, b, c, round), false);
        }
        let power = if double::exponent(c) > 1023 { 128 } else { -128 };
        (soft::fma_scaled(DOUBLE, [a, b, c], power, round), false)
    }
}

/// Handler of an operation with a mask whose rounding `mode` changes.
pub(crate) fn with_carry(op: Op, mode: u32) -> Option<Handler> {
    let backend = BackendKind::Portable;
    let (single, double) = (mode_of(Format::F32, mode), mode_of(Format::F64, mode));
    Some(match (op, single, double) {
        (Op::V_DIV_FMAS_F32, 1, _) => carry::each_handler::<Fmas32<1>>(backend),
        (Op::V_DIV_FMAS_F32, 2, _) => carry::each_handler::<Fmas32<2>>(backend),
        (Op::V_DIV_FMAS_F32, 3, _) => carry::each_handler::<Fmas32<3>>(backend),
        (Op::V_DIV_FMAS_F64, _, 1) => carry::each_handler::<Fmas64<1>>(backend),
        (Op::V_DIV_FMAS_F64, _, 2) => carry::each_handler::<Fmas64<2>>(backend),
        (Op::V_DIV_FMAS_F64, _, 3) => carry::each_handler::<Fmas64<3>>(backend),
        _ => return None,
    })
}
