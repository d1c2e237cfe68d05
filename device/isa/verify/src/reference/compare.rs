//! VOPC: comparisons and classes.

use std::cmp::Ordering;

use super::lane::Lane;
use super::number::{F16, F32, F64, Format, Rules, flushed, of};

/// Parts of a comparison's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    condition: &'static str,
    kind: &'static str,
    /// Writes `EXEC`.
    pub(crate) to_exec: bool,
}

/// Takes a mnemonic apart; `None` when it is no comparison.
pub(crate) fn parse(mnemonic: &'static str) -> Option<Comparison> {
    let (to_exec, rest) = match mnemonic.strip_prefix("v_cmpx_") {
        Some(rest) => (true, rest),
        None => (false, mnemonic.strip_prefix("v_cmp_")?),
    };
    let (condition, kind) = rest.split_once('_')?;
    Some(Comparison { condition, kind, to_exec })
}

/// The condition on an order; `None` is the order of NaNs.
fn holds(condition: &str, order: Option<Ordering>) -> bool {
    use Ordering::{Equal, Greater, Less};
    match condition {
        "f" => false,
        "lt" => order == Some(Less),
        "eq" => order == Some(Equal),
        "le" => matches!(order, Some(Less | Equal)),
        "gt" => order == Some(Greater),
        "lg" => matches!(order, Some(Less | Greater)),
        "ge" => matches!(order, Some(Greater | Equal)),
        "o" => order.is_some(),
        "u" => order.is_none(),
        "nge" => !matches!(order, Some(Greater | Equal)),
        "nlg" => !matches!(order, Some(Less | Greater)),
        "ngt" => order != Some(Greater),
        "nle" => !matches!(order, Some(Less | Equal)),
        "neq" | "ne" => order != Some(Equal),
        "nlt" => order != Some(Less),
        _ => true,
    }
}

fn float<F: Format>(condition: &str, a: u64, b: u64, rules: Rules) -> bool {
    let [a, b] = [a, b].map(|x| of::<F>(flushed::<F>(x, rules.flush_in)));
    holds(condition, a.partial_cmp(&b))
}

fn class<F: Format>(value: u64, mask: u32, rules: Rules) -> bool {
    let value = of::<F>(flushed::<F>(value, rules.flush_in));
    let bit = if value.is_signaling() {
        0
    } else if value.is_nan() {
        1
    } else {
        let magnitude = if value.is_infinite() {
            0
        } else if value.is_zero() {
            3
        } else if value.is_denormal() {
            2
        } else {
            1
        };
        if value.is_negative() { 2 + magnitude } else { 9 - magnitude }
    };
    mask >> bit & 1 != 0
}

/// Returns true if the comparison holds in a lane.
pub(crate) fn run(l: &Lane<'_>, comparison: Comparison) -> bool {
    let condition = comparison.condition;
    let ordered = |order: Ordering| holds(condition, Some(order));
    match (condition, comparison.kind) {
        ("class", "f16") => class::<F16>(l.f16(0), u32::from(l.u16(1)), l.wide()),
        ("class", "f32") => class::<F32>(l.f32(0), l.u32(1), l.single()),
        ("class", _) => class::<F64>(l.f64(0), l.u32(1), l.wide()),
        (_, "f16") => float::<F16>(condition, l.f16(0), l.f16(1), l.wide()),
        (_, "f32") => float::<F32>(condition, l.f32(0), l.f32(1), l.single()),
        (_, "f64") => float::<F64>(condition, l.f64(0), l.f64(1), l.wide()),
        (_, "i16") => ordered(l.i16(0).cmp(&l.i16(1))),
        (_, "u16") => ordered(l.u16(0).cmp(&l.u16(1))),
        (_, "i32") => ordered(l.i32(0).cmp(&l.i32(1))),
        (_, "u32") => ordered(l.u32(0).cmp(&l.u32(1))),
        (_, "i64") => ordered(l.i64(0).cmp(&l.i64(1))),
        _ => ordered(l.u64(0).cmp(&l.u64(1))),
    }
}
