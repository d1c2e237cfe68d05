//! Floating-point operations of the vector ALU, by lane.

mod division;
mod trigonometry;

use belfry_isa::inst::Op;
use rustc_apfloat::{Float, Round};

use super::gfx9::packed_into;
use super::lane::{Lane, Out};
use super::number::{
    self as n, B16, F16, F32, F64, Format, Rules, add, bits, convert, extreme, extreme_number,
    extreme_or_nan, fma, frexp, half_value, integral, is_nan, ldexp, mul, neg, of, operation, to_signed,
    to_unsigned,
};
use super::reciprocal::{reciprocal, reciprocal_root};
use super::transcendental::{self, Function};
use super::{curve, dot, double_root};
pub(crate) use division::with_mask;
use division::{div_fixup, div_fmas, vcc};
use trigonometry::trig_preop;

/// Sources and result in one format, so that an operation is written once for all widths.
pub(crate) trait Width: Format {
    fn read(l: &Lane<'_>, n: usize) -> u64;
    fn rules(l: &Lane<'_>) -> Rules;
    fn out(l: &Lane<'_>, value: u64) -> Out;
}

impl Width for F16 {
    fn read(l: &Lane<'_>, n: usize) -> u64 {
        l.f16(n)
    }
    fn rules(l: &Lane<'_>) -> Rules {
        l.wide()
    }
    fn out(l: &Lane<'_>, value: u64) -> Out {
        l.out16(value)
    }
}

impl Width for F32 {
    fn read(l: &Lane<'_>, n: usize) -> u64 {
        l.f32(n)
    }
    fn rules(l: &Lane<'_>) -> Rules {
        l.single()
    }
    fn out(l: &Lane<'_>, value: u64) -> Out {
        l.out32(value)
    }
}

impl Width for F64 {
    fn read(l: &Lane<'_>, n: usize) -> u64 {
        l.f64(n)
    }
    fn rules(l: &Lane<'_>) -> Rules {
        l.wide()
    }
    fn out(l: &Lane<'_>, value: u64) -> Out {
        l.out64(value)
    }
}

/// An operation that exists in several widths, by its name without `v_` and the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Add,
    Sub,
    Subrev,
    Mul,
    Fma,
    Mad,
    Min,
    Max,
    Min3,
    Max3,
    Med3,
    Maxmin,
    Minmax,
    MinNum,
    MaxNum,
    Min3Num,
    Max3Num,
    Med3Num,
    MaxminNum,
    MinmaxNum,
    Minimum,
    Maximum,
    Minimum3,
    Maximum3,
    Minimummaximum,
    Maximumminimum,
    Floor,
    Ceil,
    Trunc,
    Rndne,
    Fract,
    Mant,
    DivFixup,
    Rcp,
    Rsq,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
}

/// Operation and width that a mnemonic names.
pub(crate) fn kind(name: &str) -> Option<(Kind, u32)> {
    use Kind::*;
    let (name, bits) = name.strip_prefix("v_")?.rsplit_once("_f")?;
    let kind = match name {
        "add" => Add,
        "sub" => Sub,
        "subrev" => Subrev,
        "mul" => Mul,
        "fma" | "fmac" | "fmaak" | "fmamk" => Fma,
        "mad" | "mac" | "madak" | "madmk" | "mad_legacy" => Mad,
        "min" => Min,
        "max" => Max,
        "min3" => Min3,
        "max3" => Max3,
        "med3" => Med3,
        "maxmin" => Maxmin,
        "minmax" => Minmax,
        "min_num" => MinNum,
        "max_num" => MaxNum,
        "min3_num" => Min3Num,
        "max3_num" => Max3Num,
        "med3_num" => Med3Num,
        "maxmin_num" => MaxminNum,
        "minmax_num" => MinmaxNum,
        "minimum" => Minimum,
        "maximum" => Maximum,
        "minimum3" => Minimum3,
        "maximum3" => Maximum3,
        "minimummaximum" => Minimummaximum,
        "maximumminimum" => Maximumminimum,
        "floor" => Floor,
        "ceil" => Ceil,
        "trunc" => Trunc,
        "rndne" => Rndne,
        "fract" => Fract,
        "frexp_mant" => Mant,
        "div_fixup" => DivFixup,
        "rcp" | "rcp_iflag" => Rcp,
        "rsq" => Rsq,
        "sqrt" => Sqrt,
        "exp" => Exp,
        "log" => Log,
        "sin" => Sin,
        "cos" => Cos,
        _ => return None,
    };
    Some((kind, bits.parse().ok()?))
}

/// The result of a floating-point operation; `None` when it is none.
pub(crate) fn run(l: &Lane<'_>) -> Option<Out> {
    match kind(l.vector.op.mnemonic()) {
        Some((kind, 16)) => Some(of_width::<F16>(l, kind)),
        Some((kind, 32)) => Some(of_width::<F32>(l, kind)),
        Some((kind, _)) => Some(of_width::<F64>(l, kind)),
        None => other(l),
    }
}

/// A function of a half that hardware approximates, rounded to nearest in every mode.
fn rounded<F: Width>(a: u64, rules: Rules, function: Function) -> u64 {
    operation::<F, 1>([a], rules.nearest(), |[a], _| transcendental::rounded(function, a))
}

/// A function by the mappings of singles, which are that of halves as well, and of doubles, in every mode.
fn mapped<F: Width>(a: u64, rules: Rules, single: impl Fn(u64) -> u64, double: impl Fn(u64) -> u64) -> u64 {
    operation::<F, 1>([a], rules.nearest(), |[a], _| {
        of::<F>(match F::WIDTH {
            16 => convert::<F32, F16>(
                single(convert::<F16, F32>(bits(a), Rules::IEEE, Rules::IEEE)),
                Rules::IEEE,
                Rules::IEEE,
            ),
            32 => single(bits(a)),
            _ => double(bits(a)),
        })
    })
}

impl Kind {
    /// Returns the number of sources.
    pub(crate) fn sources(self) -> usize {
        match self {
            Kind::Add | Kind::Sub | Kind::Subrev | Kind::Mul | Kind::Min | Kind::Max => 2,
            Kind::MinNum | Kind::MaxNum | Kind::Minimum | Kind::Maximum => 2,
            Kind::Fma
            | Kind::Mad
            | Kind::Min3
            | Kind::Max3
            | Kind::Med3
            | Kind::Maxmin
            | Kind::Minmax
            | Kind::Min3Num
            | Kind::Max3Num
            | Kind::Med3Num
            | Kind::MaxminNum
            | Kind::MinmaxNum
            | Kind::Minimum3
            | Kind::Maximum3
            | Kind::Minimummaximum
            | Kind::Maximumminimum
            | Kind::DivFixup => 3,
            _ => 1,
        }
    }
}

/// The one in the middle, with -0 below +0; with a NaN the minimum.
fn med3<F: Format>(a: u64, b: u64, c: u64, rules: Rules) -> u64 {
    let mut all = [a, b, c].map(|x| n::flushed::<F>(x, rules.flush_in));
    if let [a, b, c] = all
        && all.into_iter().any(is_nan::<F>)
    {
        let within = Rules { signals: rules.signals, ..Rules::IEEE };
        return extreme::<F>(extreme::<F>(a, b, within, false), c, rules, false);
    }
    all.sort_by(|&a, &b| n::below::<F>(b, a).cmp(&n::below::<F>(a, b)));
    n::flushed::<F>(all[1], rules.flush_out)
}

/// Returns the part after the point: exact except for numbers that are a little below 0, never 1, and +0 for
/// integers.
fn fract<F: Format>(a: F, round: Round) -> F {
    let whole = a.round_to_integral(Round::TowardNegative).value;
    let fraction = a.sub_r(whole, round).value;
    // An infinity has no such part: the difference is a NaN.
    let limit = of::<F>(n::one::<F>() - 1);
    if fraction.is_zero() {
        F::ZERO
    } else if fraction > limit {
        limit
    } else {
        fraction
    }
}

/// A product, then a sum; of the sources the first NaN is the result. Denormals are zeros throughout.
pub(super) fn mad<F: Format>([a, b, c]: [u64; 3], rules: Rules) -> u64 {
    let rules = Rules { flush_in: true, flush_out: true, ..rules };
    add::<F>(mul::<F>(a, b, rules), c, rules)
}

fn of_width<F: Width>(l: &Lane<'_>, kind: Kind) -> Out {
    let r = F::rules(l);
    let a = || F::read(l, 0);
    let b = || F::read(l, 1);
    let c = || F::read(l, 2);
    let round = |mode| integral::<F>(a(), r, mode);
    let min = |a, b| extreme::<F>(a, b, r, false);
    let max = |a, b| extreme::<F>(a, b, r, true);
    let number = |a, b, maximum| extreme_number::<F>(a, b, r, maximum);
    let or_nan = |a, b, maximum| extreme_or_nan::<F>(a, b, r, maximum);
    let value = match kind {
        Kind::Add => add::<F>(a(), b(), r),
        // A NaN that is subtracted has the other sign.
        Kind::Sub => add::<F>(a(), bits(-of::<F>(b())), r),
        Kind::Subrev => add::<F>(bits(-of::<F>(a())), b(), r),
        Kind::Mul => mul::<F>(a(), b(), r),
        Kind::Fma => fma::<F>(a(), b(), c(), r),
        Kind::Mad => mad::<F>([a(), b(), c()], r),
        Kind::Min => min(a(), b()),
        Kind::Max => max(a(), b()),
        Kind::Min3 => min(min(a(), b()), c()),
        Kind::Max3 => max(max(a(), b()), c()),
        Kind::Med3 => med3::<F>(a(), b(), c(), r),
        Kind::Maxmin => min(max(a(), b()), c()),
        Kind::Minmax => max(min(a(), b()), c()),
        Kind::MinNum => number(a(), b(), false),
        Kind::MaxNum => number(a(), b(), true),
        Kind::Min3Num => number(number(a(), b(), false), c(), false),
        Kind::Max3Num => number(number(a(), b(), true), c(), true),
        Kind::Med3Num if [a(), b(), c()].into_iter().any(is_nan::<F>) => {
            number(number(a(), b(), false), c(), false)
        }
        Kind::Med3Num => med3::<F>(a(), b(), c(), r),
        Kind::MaxminNum => number(number(a(), b(), true), c(), false),
        Kind::MinmaxNum => number(number(a(), b(), false), c(), true),
        Kind::Minimum => or_nan(a(), b(), false),
        Kind::Maximum => or_nan(a(), b(), true),
        Kind::Minimum3 => or_nan(or_nan(a(), b(), false), c(), false),
        Kind::Maximum3 => or_nan(or_nan(a(), b(), true), c(), true),
        Kind::Minimummaximum => or_nan(or_nan(a(), b(), false), c(), true),
        Kind::Maximumminimum => or_nan(or_nan(a(), b(), true), c(), false),
        Kind::Floor => round(Round::TowardNegative),
        Kind::Ceil => round(Round::TowardPositive),
        Kind::Trunc => round(Round::TowardZero),
        Kind::Rndne => round(Round::NearestTiesToEven),
        Kind::Fract => operation::<F, 1>([a()], r, |[a], round| fract(a, round)),
        Kind::Mant => n::flushed::<F>(frexp::<F>(a(), r).0, r.flush_out),
        Kind::DivFixup => div_fixup::<F>(a(), b(), c(), r),
        Kind::Rcp => mapped::<F>(a(), r, |a| bits(reciprocal(of::<F32>(a))), double_root::reciprocal),
        Kind::Rsq => {
            mapped::<F>(a(), r, |a| bits(reciprocal_root(of::<F32>(a))), double_root::reciprocal_root)
        }
        Kind::Sqrt => mapped::<F>(a(), r, curve::root, double_root::root),
        Kind::Exp if F::WIDTH == 32 => mapped::<F>(a(), r, curve::power, |a| a),
        Kind::Log if F::WIDTH == 32 => mapped::<F>(a(), r, curve::logarithm, |a| a),
        Kind::Exp => rounded::<F>(a(), r, Function::Power),
        Kind::Log => rounded::<F>(a(), r, Function::Logarithm),
        Kind::Sin => mapped::<F>(a(), r, |a| curve::turned(a, false), |a| a),
        Kind::Cos => mapped::<F>(a(), r, |a| curve::turned(a, true), |a| a),
    };
    if F::WIDTH != 16 {
        return F::out(l, value);
    }
    let infinite = (0..kind.sources()).any(|n| of::<F>(F::read(l, n)).is_infinite());
    F::out(l, l.limited(value, infinite || kind == Kind::DivFixup))
}

/// Products where anything times zero is zero.
fn dx9(l: &Lane<'_>, accumulate: bool) -> Out {
    let r = l.single();
    let [a, b] = [l.f32(0), l.f32(1)].map(|x| n::flushed::<F32>(x, r.flush_in));
    let zero = of::<F32>(a).is_zero() || of::<F32>(b).is_zero();
    l.out32(match (zero, accumulate) {
        (true, true) => operation::<F32, 1>([l.f32(2)], r, |[c], _| c),
        (true, false) => 0,
        (false, true) => fma::<F32>(a, b, l.f32(2), r),
        (false, false) => mul::<F32>(a, b, r),
    })
}

/// Normalised integer: scaled and rounded to nearest even, NaN to 0.
fn norm(value: f64, signed: bool) -> u64 {
    if value.is_nan() {
        return 0;
    }
    let scaled = if signed { value.clamp(-1.0, 1.0) * 32767.0 } else { value.clamp(0.0, 1.0) * 65535.0 };
    let nearest = to_signed::<F64>(scaled.to_bits(), 32, Round::NearestTiesToEven);
    nearest as u64 & 0xffff
}

/// Face, major axis, and the two coordinates on the face.
fn cube(l: &Lane<'_>) -> [u64; 4] {
    let rules = l.single();
    let [x, y, z] = [l.f32(0), l.f32(1), l.f32(2)].map(|x| n::flushed::<F32>(x, rules.flush_in));
    if let Some(&nan) = [x, y, z].iter().find(|&&source| is_nan::<F32>(source)) {
        return [n::passed::<F32>(nan, rules); 4];
    }
    let value = |bits: u64| f64::from(f32::from_bits(bits as u32));
    let (ax, ay, az) = (value(x).abs(), value(y).abs(), value(z).abs());
    let face = |number: f32| u64::from(number.to_bits());
    let twice = |a: u64| mul::<F32>(face(2.0), a, rules.nearest());
    if az >= ax && az >= ay {
        if value(z) < 0.0 {
            [face(5.0), twice(z), neg::<F32>(x), neg::<F32>(y)]
        } else {
            [face(4.0), twice(z), x, neg::<F32>(y)]
        }
    } else if ay >= ax {
        if value(y) < 0.0 { [face(3.0), twice(y), x, neg::<F32>(z)] } else { [face(2.0), twice(y), x, z] }
    } else if value(x) < 0.0 {
        [face(1.0), twice(x), z, neg::<F32>(y)]
    } else {
        [face(0.0), twice(x), neg::<F32>(z), neg::<F32>(y)]
    }
}

/// Everything that exists in one width only.
#[expect(clippy::too_many_lines, reason = "one line for each operation")]
fn other(l: &Lane<'_>) -> Option<Out> {
    use Op::*;
    let (single, wide) = (l.single(), l.wide());
    let word = |value: u64| Some(Out::B32(value & 0xffff_ffff));
    let half = |value: u64| Some(Out::B16(value & 0xffff));
    let from_int = |value: i64| Some(l.out32(n::from_int::<F32>(i128::from(value), single.round)));
    let flush32 = |n: usize| n::flushed::<F32>(l.f32(n), single.flush_in);
    let flush16 = |n: usize| n::flushed::<F16>(l.f16(n), wide.flush_in);
    let double = |bits: u64| f64::from(f32::from_bits(bits as u32));
    let zero = Round::TowardZero;
    match l.vector.op {
        V_MUL_DX9_ZERO_F32 => Some(dx9(l, false)),
        V_FMA_DX9_ZERO_F32 | V_FMAC_DX9_ZERO_F32 => Some(dx9(l, true)),
        V_LDEXP_F32 => Some(l.out32(ldexp::<F32>(l.f32(0), l.integer(1) as i32, single))),
        V_LDEXP_F64 => Some(l.out64(ldexp::<F64>(l.f64(0), l.integer(1) as i32, wide))),
        V_LDEXP_F16 => {
            // A constant in place of the exponent is one of half precision.
            let power = (l.packed(1, true) >> (16 * (u32::from(l.vector.mods.op_sel) >> 1 & 1))) as i16;
            let value = ldexp::<F16>(l.f16(0), i32::from(power), wide);
            Some(l.out16(l.limited(value, of::<F16>(l.f16(0)).is_infinite())))
        }
        V_FREXP_EXP_I32_F32 => word(frexp::<F32>(l.f32(0), single).1 as u64),
        V_FREXP_EXP_I32_F64 => word(frexp::<F64>(l.f64(0), wide).1 as u64),
        V_FREXP_EXP_I16_F16 => half(frexp::<F16>(l.f16(0), wide).1 as u64),
        V_CVT_F32_I32 => from_int(i64::from(l.i32(0))),
        V_CVT_F32_U32 => from_int(i64::from(l.u32(0))),
        V_CVT_F32_UBYTE0 => from_int(i64::from(l.u32(0) & 255)),
        V_CVT_F32_UBYTE1 => from_int(i64::from(l.u32(0) >> 8 & 255)),
        V_CVT_F32_UBYTE2 => from_int(i64::from(l.u32(0) >> 16 & 255)),
        V_CVT_F32_UBYTE3 => from_int(i64::from(l.u32(0) >> 24)),
        V_CVT_OFF_F32_I4 => {
            let value = f32::from(((l.u32(0) << 4) as u8 as i8) >> 4) / 16.0;
            Some(l.out32(u64::from(value.to_bits())))
        }
        V_CVT_I32_F32 => word(to_signed::<F32>(flush32(0), 32, zero) as u64),
        V_CVT_U32_F32 => word(to_unsigned::<F32>(flush32(0), 32, zero)),
        V_CVT_FLOOR_I32_F32 => word(n::to_lower::<F32>(flush32(0), false) as u64),
        V_CVT_NEAREST_I32_F32 => word(n::to_lower::<F32>(flush32(0), true) as u64),
        V_CVT_F64_F32 => Some(l.out64(convert::<F32, F64>(l.f32(0), single, wide))),
        V_CVT_F32_F64 => Some(l.out32(convert::<F64, F32>(l.f64(0), wide, single))),
        V_CVT_F64_I32 => Some(l.out64(n::from_int::<F64>(i128::from(l.i32(0)), wide.round))),
        V_CVT_F64_U32 => Some(l.out64(n::from_int::<F64>(i128::from(l.u32(0)), wide.round))),
        V_CVT_I32_F64 => word(to_signed::<F64>(n::flushed::<F64>(l.f64(0), wide.flush_in), 32, zero) as u64),
        V_CVT_U32_F64 => word(to_unsigned::<F64>(n::flushed::<F64>(l.f64(0), wide.flush_in), 32, zero)),
        V_CVT_F16_F32 => {
            let value = convert::<F32, F16>(l.f32(0), single, wide);
            Some(l.out16(l.limited(value, of::<F32>(l.f32(0)).is_infinite())))
        }
        V_CVT_F32_F16 => Some(l.out32(convert::<F16, F32>(l.f16(0), wide, single))),
        V_CVT_F16_U16 => {
            Some(l.out16(l.limited(n::from_int::<F16>(i128::from(l.u16(0)), wide.round), false)))
        }
        V_CVT_F16_I16 => {
            Some(l.out16(l.limited(n::from_int::<F16>(i128::from(l.i16(0)), wide.round), false)))
        }
        V_CVT_U16_F16 => half(to_unsigned::<F16>(flush16(0), 16, zero)),
        V_CVT_I16_F16 => half(to_signed::<F16>(flush16(0), 16, zero) as u64),
        V_CVT_NORM_I16_F16 => half(norm(half_value(flush16(0)), true)),
        V_CVT_NORM_U16_F16 => half(norm(half_value(flush16(0)), false)),
        V_CVT_PK_NORM_I16_F16 => {
            word(norm(half_value(flush16(0)), true) | norm(half_value(flush16(1)), true) << 16)
        }
        V_CVT_PK_NORM_U16_F16 => {
            word(norm(half_value(flush16(0)), false) | norm(half_value(flush16(1)), false) << 16)
        }
        V_CVT_PK_NORM_I16_F32 => word(norm(double(flush32(0)), true) | norm(double(flush32(1)), true) << 16),
        V_CVT_PK_NORM_U16_F32 => {
            word(norm(double(flush32(0)), false) | norm(double(flush32(1)), false) << 16)
        }
        V_CVT_PK_I16_F32 => word(
            to_signed::<F32>(flush32(0), 16, zero) as u64 & 0xffff
                | (to_signed::<F32>(flush32(1), 16, zero) as u64 & 0xffff) << 16,
        ),
        V_CVT_PK_U16_F32 => {
            word(to_unsigned::<F32>(flush32(0), 16, zero) | to_unsigned::<F32>(flush32(1), 16, zero) << 16)
        }
        V_CVT_PK_U8_F32 | V_CVT_PKACCUM_U8_F32 => {
            let byte = to_unsigned::<F32>(flush32(0), 8, zero);
            let shift = (l.u32(1) & 3) * 8;
            word(u64::from(packed_into(l)? & !(255 << shift)) | byte << shift)
        }
        V_CVT_PK_RTZ_F16_F32 => {
            let rules = Rules { round: zero, ..Rules::IEEE };
            let part = |n: usize| convert::<F32, F16>(flush32(n), Rules::IEEE, rules);
            word(part(0) | part(1) << 16)
        }
        V_PACK_B32_F16 => word(flush16(0) | flush16(1) << 16),
        V_CUBEID_F32 => Some(l.out32(cube(l)[0])),
        V_CUBEMA_F32 => Some(l.out32(n::flushed::<F32>(cube(l)[1], single.flush_out))),
        V_CUBESC_F32 => Some(l.out32(n::flushed::<F32>(cube(l)[2], single.flush_out))),
        V_CUBETC_F32 => Some(l.out32(n::flushed::<F32>(cube(l)[3], single.flush_out))),
        V_MULLIT_F32 => {
            const LOWEST: u64 = 0xff7f_ffff;
            let [a, b, c] = [0, 1, 2].map(flush32);
            let third = double(c);
            let value =
                if b == LOWEST || b == 0xff80_0000 || is_nan::<F32>(b) || is_nan::<F32>(c) || third <= 0.0 {
                    LOWEST
                } else if of::<F32>(a).is_zero() || of::<F32>(b).is_zero() {
                    0
                } else {
                    mul::<F32>(a, b, single.nearest())
                };
            Some(l.out32(value))
        }
        V_DIV_FMAS_F32 => Some(l.out32(div_fmas::<F32>(l, vcc(l)))),
        V_DIV_FMAS_F64 => Some(l.out64(div_fmas::<F64>(l, vcc(l)))),
        V_TRIG_PREOP_F64 => Some(l.out64(trig_preop(l))),
        V_DOT2ACC_F32_F16 | V_DOT2ACC_F32_BF16 => {
            let halves = l.vector.op == V_DOT2ACC_F32_F16;
            let dot = if halves { dot::single::<F16> } else { dot::single::<B16> };
            let sum = dot(pairs(l), l.f32(2), l.state.arch);
            Some(l.out32(n::flushed::<F32>(sum, single.flush_out)))
        }
        V_DOT2_F16_F16 => {
            let third = u64::from(l.third());
            let result = dot::halves(pairs(l), third, l.state.arch);
            let infinite = pairs(l).into_iter().flatten().chain([third]).any(|x| of::<F16>(x).is_infinite());
            Some(l.out16(l.limited(n::flushed::<F16>(result, wide.flush_out), infinite)))
        }
        V_DOT2_BF16_BF16 => Some(Out::B16(dot::brains(pairs(l), u64::from(l.third()), l.state.arch))),
        _ => None,
    }
}

/// The halves of the first two sources, in pairs.
fn pairs(l: &Lane<'_>) -> [[u64; 2]; 2] {
    [0, 16].map(|shift| [0, 1].map(|n| u64::from(l.packed(n, true) >> shift & 0xffff)))
}
