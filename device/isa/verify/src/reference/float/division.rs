//! The steps of a division.

use belfry_isa::inst::Op;

use super::super::exact;
use super::super::lane::{Lane, Out};
use super::super::number::{self as n, F32, F64, Format, Rules, is_nan, ldexp, of};
use super::Width;

pub(super) fn div_fixup<F: Format>(quotient: u64, denominator: u64, numerator: u64, rules: Rules) -> u64 {
    let [q, d, m] = [quotient, denominator, numerator].map(|x| n::flushed::<F>(x, rules.flush_in));
    let sign = (d ^ m) & n::sign::<F>();
    let (den, num) = (of::<F>(d), of::<F>(m));
    let infinity = n::bits(F::INFINITY);
    let field = |bits: u64| ((bits & !n::sign::<F>()) >> F::MANTISSA) as i64;
    let underflow = if F::WIDTH == 32 { -150 } else { -1075 };
    if num.is_nan() {
        n::passed::<F>(m, rules)
    } else if den.is_nan() {
        n::passed::<F>(d, rules)
    } else if (den.is_zero() && num.is_zero()) || (den.is_infinite() && num.is_infinite()) {
        n::default_nan::<F>()
    } else if den.is_zero() || num.is_infinite() {
        sign | infinity
    } else if den.is_infinite() || num.is_zero() || (F::WIDTH > 16 && field(m) - field(d) < underflow) {
        sign
    } else if F::WIDTH > 16 && is_nan::<F>(q) {
        // The steps of the division overflowed.
        sign | infinity
    } else {
        n::flushed::<F>(sign | q & !n::sign::<F>(), rules.flush_out)
    }
}

/// `v_div_scale`: the result and whether `v_div_fmas` scales back.
pub(super) fn div_scale<F: Width>(l: &Lane<'_>) -> (u64, bool) {
    let r = F::rules(l);
    let [a, d, m] = [0, 1, 2].map(|n| n::flushed::<F>(F::read(l, n), r.flush_in));
    // Steps of scaling, how far exponents are apart when a quotient is too large or too small, the last but one exponents, and the
    // exponents of numerators that are too small.
    let (step, far, huge, tiny) = if F::WIDTH == 32 { (64, 96, 253, 24) } else { (128, 768, 2045, 53) };
    let field = |bits: u64| ((bits & !n::sign::<F>()) >> F::MANTISSA) as i64;
    let (is_denominator, apart) = (a == d, field(m) - field(d));
    let (too_large, too_small) = (apart >= far, apart <= -far);
    let power = match is_denominator {
        _ if too_large => i32::from(is_denominator) * step,
        _ if field(d) == 0 => step,
        true if field(d) >= huge => -step,
        false if field(d) >= huge => i32::from(!too_small) * -step,
        _ if too_small => i32::from(!is_denominator) * step,
        _ => i32::from(field(m) <= tiny) * step,
    };
    let value = match of::<F>(d).is_zero() || of::<F>(m).is_zero() {
        true => n::default_nan::<F>(),
        false => ldexp::<F>(a, power, Rules { signals: r.signals, ..Rules::IEEE }),
    };
    (n::flushed::<F>(value, r.flush_out), too_large || too_small && field(d) != 0)
}

/// Operations with a second result, a lane mask.
pub(crate) fn with_mask(l: &Lane<'_>) -> Option<(Out, bool)> {
    match l.vector.op {
        Op::V_DIV_SCALE_F32 => {
            let (value, back) = div_scale::<F32>(l);
            Some((l.out32(value), back))
        }
        Op::V_DIV_SCALE_F64 => {
            let (value, back) = div_scale::<F64>(l);
            Some((l.out64(value), back))
        }
        _ => None,
    }
}

/// `v_div_fmas`: the scaling back is part of the one rounding.
pub(super) fn div_fmas<F: Width>(l: &Lane<'_>, scaled: bool) -> u64 {
    let r = F::rules(l);
    let [a, b, c] = [F::read(l, 0), F::read(l, 1), F::read(l, 2)].map(|x| n::flushed::<F>(x, r.flush_in));
    let (power, bias) = if F::WIDTH == 32 { (64, 127) } else { (128, 1023) };
    let field = ((c & !n::sign::<F>()) >> F::MANTISSA) as i64;
    let power = if field > bias { power } else { -power };
    n::fused::<F>([a, b, c], r, |[a, b, c], round| {
        if scaled && a.is_finite() && b.is_finite() && c.is_finite() {
            exact::fma_scaled([a, b, c], power, round)
        } else {
            a.mul_add_r(b, c, round).value
        }
    })
}

/// The lane's bit of `VCC`.
pub(super) fn vcc(l: &Lane<'_>) -> bool {
    l.state.mask(super::super::state::VCC) >> l.lane & 1 != 0
}
