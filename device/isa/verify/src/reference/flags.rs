//! Float exceptions of vector operations by lane, from the status flags of `rustc_apfloat`.

use belfry_isa::inst::{Format as Encoding, Op};
use rustc_apfloat::ieee::Quad;
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

use super::compare;
use super::float::{Kind, Width, kind};
use super::lane::Lane;
use super::number::{self as n, F16, F32, F64, Format, Rules, flushed, of};

const INVALID: u32 = 1;
const DENORMAL: u32 = 1 << 1;
const BY_ZERO: u32 = 1 << 2;
const OVERFLOW: u32 = 1 << 3;
const UNDERFLOW: u32 = 1 << 4;
const INEXACT: u32 = 1 << 5;
const INTEGER_BY_ZERO: u32 = 1 << 6;

/// Returns the exceptions that a lane's operation raises, as bits of `TRAPSTS`; `None` if this reference does not
/// say.
pub(crate) fn raised(l: &Lane<'_>) -> Option<u32> {
    let name = l.vector.op.mnemonic();
    if compare::parse(name).is_some() {
        return Some(if name.contains("_class_") {
            0
        } else if name.contains("_f16") {
            quiet::<F16>(l, 2)
        } else if name.contains("_f32") {
            quiet::<F32>(l, 2)
        } else if name.contains("_f64") {
            quiet::<F64>(l, 2)
        } else {
            0
        });
    }
    if l.vector.format == Encoding::Vop3P || l.vector.op == Op::V_PK_FMAC_F16 {
        return packed(l);
    }
    match kind(name) {
        Some((kind, 16)) => Some(of_kind::<F16>(l, kind)),
        Some((kind, 32)) => Some(of_kind::<F32>(l, kind)),
        Some((kind, _)) => Some(of_kind::<F64>(l, kind)),
        None => other(l),
    }
}

fn wide<F: Format>(value: F) -> Quad {
    match F::WIDTH {
        16 => of::<F16>(n::bits(value)).convert(&mut false).value,
        32 => of::<F32>(n::bits(value)).convert(&mut false).value,
        _ => of::<F64>(n::bits(value)).convert(&mut false).value,
    }
}

/// The bits of a rounded result. It overflows when a number of more exponents would have been too large; `exact` is the
/// result cut to 113 digits.
fn rounded<F: Format>(result: StatusAnd<F>, exact: Quad) -> u32 {
    let mut bits = 0;
    for (status, bit) in
        [(Status::INVALID_OP, INVALID), (Status::UNDERFLOW, UNDERFLOW), (Status::INEXACT, INEXACT)]
    {
        bits |= if result.status.contains(status) { bit } else { 0 };
    }
    // The power of two behind the largest number.
    let mut exponent = 0;
    let _ = wide(F::largest()).frexp(&mut exponent);
    let limit = Quad::from_u128(1).value.scalbn(exponent);
    let magnitude = if exact.is_negative() { -exact } else { exact };
    if bits & INEXACT != 0 && (result.value.is_infinite() || magnitude >= limit) {
        bits |= OVERFLOW;
    }
    bits
}

/// Signalling NaNs among the first sources.
fn quiet<F: Width>(l: &Lane<'_>, sources: usize) -> u32 {
    let signals = (0..sources).any(|n| of::<F>(F::read(l, n)).is_signaling());
    if signals { INVALID } else { 0 }
}

/// Returns the exceptions that sources raise by themselves; `Err` if a NaN among them settles the whole result.
fn sources<F: Format>(values: &[u64]) -> Result<u32, u32> {
    if values.iter().any(|&value| n::is_nan::<F>(value)) {
        return Err(if values.iter().any(|&value| of::<F>(value).is_signaling()) { INVALID } else { 0 });
    }
    Ok(if values.iter().any(|&value| of::<F>(value).is_denormal()) { DENORMAL } else { 0 })
}

/// Of sums, products and fused ones.
fn arithmetic<F: Format>(kind: Kind, values: &[u64], round: Round) -> u32 {
    let raised = match sources::<F>(values) {
        Ok(raised) => raised,
        Err(raised) => return raised,
    };
    let value = |n: usize| of::<F>(values[n]);
    let cut = Round::TowardZero;
    let quad = |n: usize| wide(value(n));
    let (result, exact) = match kind {
        Kind::Add => (value(0).add_r(value(1), round), quad(0).add_r(quad(1), cut).value),
        Kind::Sub => (value(0).sub_r(value(1), round), quad(0).sub_r(quad(1), cut).value),
        Kind::Subrev => (value(1).sub_r(value(0), round), quad(1).sub_r(quad(0), cut).value),
        Kind::Mul => (value(0).mul_r(value(1), round), quad(0).mul_r(quad(1), cut).value),
        _ => (value(0).mul_add_r(value(1), value(2), round), quad(0).mul_add_r(quad(1), quad(2), cut).value),
    };
    raised | rounded(result, exact)
}

/// From a number to a format, rounded.
fn narrowing<F: Format>(exact: Quad, round: Round) -> u32
where
    Quad: FloatConvert<F>,
{
    let result: StatusAnd<F> = exact.convert_r(round, &mut false);
    rounded(result, exact)
}

/// Of a product and a sum of it, without denormals.
fn mad<F: Format>(values: &[u64], round: Round) -> u32 {
    let values: Vec<u64> = values.iter().map(|value| flushed::<F>(*value, true)).collect();
    if let Err(raised) = sources::<F>(&values) {
        return raised;
    }
    let product = arithmetic::<F>(Kind::Mul, &values[..2], round);
    if product & INVALID != 0 {
        return product;
    }
    let rules = Rules { round, flush_in: true, flush_out: true, signals: false };
    product | arithmetic::<F>(Kind::Add, &[n::mul::<F>(values[0], values[1], rules), values[2]], round)
}

fn of_kind<F: Width>(l: &Lane<'_>, kind: Kind) -> u32 {
    let rules = F::rules(l);
    if kind == Kind::Mad {
        let values: Vec<u64> = (0..3).map(|n| F::read(l, n)).collect();
        return mad::<F>(&values, rules.round);
    }
    let values: Vec<u64> = (0..kind.sources()).map(|n| flushed::<F>(F::read(l, n), rules.flush_in)).collect();
    if matches!(kind, Kind::Add | Kind::Sub | Kind::Subrev | Kind::Mul | Kind::Fma) {
        return arithmetic::<F>(kind, &values, rules.round);
    }
    let (first, negative) = (of::<F>(values[0]), of::<F>(values[0]).is_negative());
    let settled = sources::<F>(&values);
    let (Ok(raised), true) = (
        settled,
        matches!(
            kind,
            Kind::Rcp | Kind::Rsq | Kind::Sqrt | Kind::Log | Kind::Sin | Kind::Cos | Kind::DivFixup
        ),
    ) else {
        return quiet::<F>(l, kind.sources());
    };
    raised
        | match kind {
            Kind::Rcp if first.is_zero() && l.vector.op == Op::V_RCP_IFLAG_F32 => INTEGER_BY_ZERO,
            Kind::Rcp | Kind::Rsq | Kind::Log if first.is_zero() => BY_ZERO,
            Kind::Rsq | Kind::Sqrt | Kind::Log if negative && !first.is_zero() => INVALID,
            Kind::Sin | Kind::Cos if first.is_infinite() => INVALID,
            Kind::DivFixup => {
                let (den, num) = (of::<F>(values[1]), of::<F>(values[2]));
                if den.is_zero() && num.is_zero() || den.is_infinite() && num.is_infinite() {
                    INVALID
                } else if den.is_zero() && !num.is_infinite() {
                    BY_ZERO
                } else {
                    0
                }
            }
            _ => 0,
        }
}

/// From one float format to another.
fn conversion<A: Format, B: Format>(value: u64, from: Rules, to: Rules) -> u32
where
    Quad: FloatConvert<B>,
{
    let value = flushed::<A>(value, from.flush_in);
    match sources::<A>(&[value]) {
        Err(raised) => raised,
        Ok(raised) if of::<A>(value).is_infinite() => raised,
        Ok(raised) => raised | narrowing::<B>(wide(of::<A>(value)), to.round),
    }
}

fn from_integer<F: Format>(value: i128, round: Round) -> u32 {
    rounded(F::from_i128_r(value, round), Quad::from_i128(value).value)
}

fn to_integer<F: Format>(value: u64, rules: Rules, width: usize, signed: bool) -> u32 {
    let value = flushed::<F>(value, rules.flush_in);
    let status = match sources::<F>(&[value]) {
        Err(_) => return INVALID,
        Ok(_) if signed => of::<F>(value).to_i128_r(width, Round::TowardZero, &mut false).status,
        Ok(_) => of::<F>(value).to_u128_r(width, Round::TowardZero, &mut false).status,
    };
    let denormal = if of::<F>(value).is_denormal() { DENORMAL } else { 0 };
    denormal
        | if status.contains(Status::INVALID_OP) {
            INVALID
        } else if status.contains(Status::INEXACT) {
            INEXACT
        } else {
            0
        }
}

/// A power of two times a number.
fn scaled<F: Width>(l: &Lane<'_>, power: i32) -> u32
where
    Quad: FloatConvert<F>,
{
    let rules = F::rules(l);
    let value = flushed::<F>(F::read(l, 0), rules.flush_in);
    match sources::<F>(&[value]) {
        Err(raised) => raised,
        Ok(raised) if of::<F>(value).is_infinite() => raised,
        Ok(raised) => {
            let exact = wide(of::<F>(value)).scalbn(power.clamp(-9000, 9000));
            raised | narrowing::<F>(exact, rules.round)
        }
    }
}

fn other(l: &Lane<'_>) -> Option<u32> {
    use Op::*;
    let (single, wide) = (l.single(), l.wide());
    Some(match l.vector.op {
        V_LDEXP_F32 => scaled::<F32>(l, l.integer(1) as i32),
        V_LDEXP_F64 => scaled::<F64>(l, l.integer(1) as i32),
        V_CVT_F64_F32 => conversion::<F32, F64>(l.f32(0), single, wide),
        V_CVT_F32_F64 => conversion::<F64, F32>(l.f64(0), wide, single),
        V_CVT_F16_F32 => conversion::<F32, F16>(l.f32(0), single, wide),
        V_CVT_F32_F16 => conversion::<F16, F32>(l.f16(0), wide, single),
        V_CVT_F32_I32 => from_integer::<F32>(l.i32(0).into(), single.round),
        V_CVT_F32_U32 => from_integer::<F32>(l.u32(0).into(), single.round),
        V_CVT_F64_I32 | V_CVT_F64_U32 => 0,
        V_CVT_F16_I16 => from_integer::<F16>(l.i16(0).into(), wide.round),
        V_CVT_F16_U16 => from_integer::<F16>(l.u16(0).into(), wide.round),
        V_CVT_I32_F32 => to_integer::<F32>(l.f32(0), single, 32, true),
        V_CVT_U32_F32 => to_integer::<F32>(l.f32(0), single, 32, false),
        V_CVT_I32_F64 => to_integer::<F64>(l.f64(0), wide, 32, true),
        V_CVT_U32_F64 => to_integer::<F64>(l.f64(0), wide, 32, false),
        V_CVT_I16_F16 => to_integer::<F16>(l.f16(0), wide, 16, true),
        V_CVT_U16_F16 => to_integer::<F16>(l.f16(0), wide, 16, false),
        V_MUL_DX9_ZERO_F32 => quiet::<F32>(l, 2),
        V_FMA_DX9_ZERO_F32 | V_FMAC_DX9_ZERO_F32 => quiet::<F32>(l, 3),
        V_FREXP_EXP_I32_F32 => quiet::<F32>(l, 1),
        V_FREXP_EXP_I16_F16 => quiet::<F16>(l, 1),
        V_FREXP_EXP_I32_F64 => quiet::<F64>(l, 1),
        // A scaling whose rounding is part of the division it belongs to.
        V_DIV_SCALE_F32 | V_DIV_SCALE_F64 | V_DIV_FMAS_F32 | V_DIV_FMAS_F64 => 0,
        V_DOT2_F16_F16 | V_DOT2_BF16_BF16 | V_DOT2ACC_F32_F16 | V_DOT2ACC_F32_BF16 => return None,
        op => {
            let name = op.mnemonic();
            let floats = ["f16", "f32", "f64", "cube", "norm"].iter().any(|part| name.contains(part));
            return if floats { None } else { Some(0) };
        }
    })
}

fn packed(l: &Lane<'_>) -> Option<u32> {
    use Op::*;
    let rules = l.wide();
    let both = |kind: Kind, sources: usize| {
        [false, true].into_iter().fold(0, |raised, high| {
            let values: Vec<u64> = (0..sources)
                .map(|n| flushed::<F16>(u64::from(l.element(n, high, true)), rules.flush_in))
                .collect();
            raised
                | match kind {
                    Kind::Min => self::sources::<F16>(&values).err().unwrap_or(0),
                    _ => arithmetic::<F16>(kind, &values, rules.round),
                }
        })
    };
    Some(match l.vector.op {
        V_PK_ADD_F16 => both(Kind::Add, 2),
        V_PK_MUL_F16 => both(Kind::Mul, 2),
        V_PK_FMA_F16 | V_PK_FMAC_F16 => both(Kind::Fma, 3),
        V_PK_MINIMUM3_F16 | V_PK_MAXIMUM3_F16 => both(Kind::Min, 3),
        V_PK_MIN_F16 | V_PK_MAX_F16 | V_PK_MIN_NUM_F16 | V_PK_MAX_NUM_F16 | V_PK_MINIMUM_F16
        | V_PK_MAXIMUM_F16 => both(Kind::Min, 2),
        V_FMA_MIX_F32 | V_FMA_MIXLO_F16 | V_FMA_MIXHI_F16 => return mixed(l),
        V_PK_ADD_F32 => pair(l, Kind::Add, 2),
        V_PK_MUL_F32 => pair(l, Kind::Mul, 2),
        V_PK_FMA_F32 => pair(l, Kind::Fma, 3),
        // Dot products raise none.
        _ => 0,
    })
}

/// Returns the exceptions that an operation on two singles of each source raises.
fn pair(l: &Lane<'_>, kind: Kind, sources: usize) -> u32 {
    let rules = l.single();
    [false, true].into_iter().fold(0, |raised, high| {
        let values: Vec<u64> = (0..sources)
            .map(|n| flushed::<F32>(super::gfx9::single_of(l, n, high), rules.flush_in))
            .collect();
        raised | arithmetic::<F32>(kind, &values, rules.round)
    })
}

/// Returns the exceptions of `v_fma_mix*`: of its halves by themselves, of the sum, and of making the sum a half.
fn mixed(l: &Lane<'_>) -> Option<u32> {
    if l.clamp() {
        return None;
    }
    let mods = &l.vector.mods;
    let mut raised = 0;
    for n in (0..3).filter(|n| mods.op_sel_hi >> n & 1 != 0) {
        let word = l.packed(n, true) >> (16 * (u32::from(mods.op_sel) >> n & 1)) & 0xffff;
        let half = of::<F16>(flushed::<F16>(u64::from(word), l.wide().flush_in));
        raised |= if half.is_signaling() {
            INVALID
        } else if half.is_denormal() {
            DENORMAL
        } else {
            0
        };
    }
    let rules = l.single();
    let values: Vec<u64> = (0..3).map(|n| flushed::<F32>(l.mixed(n), rules.flush_in)).collect();
    raised |= arithmetic::<F32>(Kind::Fma, &values, rules.round);
    if l.vector.op != Op::V_FMA_MIX_F32 {
        let sum = n::fma::<F32>(l.mixed(0), l.mixed(1), l.mixed(2), rules);
        let exact = Rules { flush_in: false, ..rules };
        raised |= conversion::<F32, F16>(sum, exact, l.wide()) & !DENORMAL;
    }
    Some(raised)
}
