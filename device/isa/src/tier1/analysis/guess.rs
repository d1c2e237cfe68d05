//! A guess at the addresses of loads from LDS: how far those of neighbouring lanes are apart.
//!
//! The region is gone through once, in the order of its elements, as if a wave had begun there: its first vector
//! register has the numbers of its lanes, and nothing is known of its scalar registers. The result chooses the way
//! that a load tries first, and code checks whether it holds: a wrong guess costs only time.

use super::template;
use crate::exec::di::{Di, Kind, Source};
use crate::exec::form::Form;
use crate::inst::Op;

/// Lanes that are looked at.
const LANES: usize = 64;
/// Lanes whose addresses belong together.
const SIXTEEN: usize = 16;
/// The row that has the numbers of lanes when a kernel begins.
const NUMBERS: u32 = 0;

/// Values of a register.
#[derive(Clone, Copy)]
struct Lanes {
    values: [u32; LANES],
    /// True if the values are exact; otherwise an unknown number is to be added that is equal in all lanes of a
    /// sixteen.
    exact: bool,
}

impl Lanes {
    fn same(value: u32, exact: bool) -> Lanes {
        Lanes { values: [value; LANES], exact }
    }

    /// Returns true if all lanes of each sixteen have one value.
    fn is_same(&self) -> bool {
        self.values.chunks(SIXTEEN).all(|sixteen| sixteen.iter().all(|value| *value == sixteen[0]))
    }

    /// Returns the value of all lanes, if it is known.
    fn number(&self) -> Option<u32> {
        (self.exact && self.values.iter().all(|value| *value == self.values[0])).then_some(self.values[0])
    }

    fn with(&self, other: &Lanes, exact: bool, f: impl Fn(u32, u32) -> u32) -> Lanes {
        let mut values = self.values;
        for (value, other) in values.iter_mut().zip(other.values) {
            *value = f(*value, other);
        }
        Lanes { values, exact }
    }

    fn sum(&self, other: &Lanes) -> Lanes {
        self.with(other, self.exact && other.exact, u32::wrapping_add)
    }

    fn difference(&self, other: &Lanes) -> Lanes {
        self.with(other, self.exact && other.exact, u32::wrapping_sub)
    }

    fn shifted(&self, count: &Lanes) -> Option<Lanes> {
        let count = count.number()? & 31;
        Some(Lanes { values: self.values.map(|value| value << count), exact: self.exact })
    }

    fn product(&self, other: &Lanes) -> Option<Lanes> {
        let (of, by) = if let Some(by) = other.number() { (self, by) } else { (other, self.number()?) };
        Some(Lanes { values: of.values.map(|value| value.wrapping_mul(by)), exact: of.exact })
    }

    /// Applies a function of bits, whose result is known only for exact values.
    fn bits(&self, other: &Lanes, f: impl Fn(u32, u32) -> u32) -> Option<Lanes> {
        (self.exact && other.exact).then(|| self.with(other, true, f))
    }

    /// Bits that are in one of both: compilers write sums so whose summands have none in common.
    fn joined(&self, other: &Lanes) -> Lanes {
        self.bits(other, |a, b| a | b).unwrap_or_else(|| self.sum(other))
    }

    /// Returns the distance of neighbours, if every sixteen has one distance.
    fn step(&self) -> Option<u32> {
        let step = self.values[1].wrapping_sub(self.values[0]);
        let holds = |sixteen: &[u32]| sixteen.windows(2).all(|two| two[1].wrapping_sub(two[0]) == step);
        self.values.chunks(SIXTEEN).all(holds).then_some(step)
    }
}

/// Known lanes of registers, by the first row of each register.
#[derive(Default)]
struct Known(Vec<(u32, Lanes)>);

impl Known {
    fn source(&self, source: &Source) -> Option<Lanes> {
        if source.neg || source.abs || source.high {
            return None;
        }
        match source.kind {
            Kind::Vector => self.0.iter().find(|(row, _)| *row == source.value).map(|&(_, lanes)| lanes),
            Kind::Scalar => Some(Lanes::same(0, false)),
            Kind::Constant | Kind::Signed => Some(Lanes::same(source.value, true)),
            Kind::High => None,
        }
    }

    /// The result of a vector operation.
    fn result(&self, op: Op, d: &Di) -> Option<Lanes> {
        let source = |n: usize| self.source(&d.src[n]);
        let lanes = match op {
            Op::V_MOV_B32 => source(0),
            Op::V_AND_B32 => source(0)?.bits(&source(1)?, |a, b| a & b),
            Op::V_XOR_B32 => source(0)?.bits(&source(1)?, |a, b| a ^ b),
            Op::V_OR_B32 => Some(source(0)?.joined(&source(1)?)),
            Op::V_OR3_B32 => Some(source(0)?.joined(&source(1)?).joined(&source(2)?)),
            Op::V_AND_OR_B32 => {
                source(0)?.bits(&source(1)?, |a, b| a & b).and_then(|bits| Some(bits.joined(&source(2)?)))
            }
            Op::V_ADD_NC_U32 | Op::V_ADD_NC_I32 => Some(source(0)?.sum(&source(1)?)),
            Op::V_ADD3_U32 => Some(source(0)?.sum(&source(1)?).sum(&source(2)?)),
            Op::V_SUB_NC_U32 | Op::V_SUB_NC_I32 => Some(source(0)?.difference(&source(1)?)),
            Op::V_SUBREV_NC_U32 => Some(source(1)?.difference(&source(0)?)),
            Op::V_LSHLREV_B32 => source(1)?.shifted(&source(0)?),
            Op::V_LSHRREV_B32 => source(1)?.bits(&source(0)?, |value, count| value >> (count & 31)),
            Op::V_LSHL_ADD_U32 => source(0)?.shifted(&source(1)?).and_then(|sum| Some(sum.sum(&source(2)?))),
            Op::V_LSHL_OR_B32 => {
                source(0)?.shifted(&source(1)?).and_then(|bits| Some(bits.joined(&source(2)?)))
            }
            Op::V_ADD_LSHL_U32 => source(0)?.sum(&source(1)?).shifted(&source(2)?),
            Op::V_MUL_LO_U32 | Op::V_MUL_U32_U24 => source(0)?.product(&source(1)?),
            Op::V_MAD_U32_U24 => {
                source(0)?.product(&source(1)?).and_then(|product| Some(product.sum(&source(2)?)))
            }
            Op::V_BFE_U32 => {
                let (from, count) = (source(1)?.number()? & 31, source(2)?.number()? & 31);
                source(0)?.bits(&Lanes::same(0, true), |value, _| value >> from & !(u32::MAX << count))
            }
            _ => None,
        };
        lanes.or_else(|| self.of_same(op, d))
    }

    /// Guesses a result that has one value in each sixteen, if all sources have.
    fn of_same(&self, op: Op, d: &Di) -> Option<Lanes> {
        let arity = template::vector(op, d)?.arity();
        let is_same = |source: &Source| self.source(source).is_some_and(|lanes| lanes.is_same());
        d.src[..arity].iter().all(is_same).then(|| Lanes::same(0, false))
    }

    fn note(&mut self, form: Form, d: &Di, halves: u32) {
        let result = if let Form::Vector(op) = form { self.result(op, d) } else { None };
        let written = template::written(form, d, halves);
        self.0.retain(|(row, _)| !written.contains(row));
        self.0.extend(result.map(|lanes| (d.dst, lanes)));
    }
}

/// For each element that loads from LDS the bytes that the addresses of neighbouring lanes are guessed to be apart; nothing for others, and
/// where there is no guess.
pub(crate) fn steps(code: &[Di], forms: &[Form], halves: u32) -> Vec<Option<u32>> {
    let loads = |form: &Form| matches!(form, Form::LdsLoad(_) | Form::LdsLoadTwo(_));
    let Some(last) = forms.iter().rposition(loads) else { return vec![None; code.len()] };
    let mut known = Known::default();
    let mut numbers = Lanes::same(0, true);
    numbers.values.iter_mut().zip(0..).for_each(|(value, lane)| *value = lane);
    known.0.push((NUMBERS, numbers));
    let mut steps = vec![None; code.len()];
    for ((d, form), step) in code.iter().zip(forms).zip(&mut steps).take(last + 1) {
        if loads(form) {
            *step = known.source(&d.src[0]).and_then(|lanes| lanes.step());
        }
        known.note(*form, d, halves);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier1::x86::tests::elements;

    #[test]
    fn addresses_of_a_tile_s_rows_and_columns_are_guessed() {
        for (code_object, halves) in [
            (&include_bytes!("../../../../../guest-runtime/kernels/bench.gfx1100.hsaco")[..], 1),
            (&include_bytes!("../../../../../guest-runtime/kernels/bench.gfx942.hsaco")[..], 2),
        ] {
            let mut found: Vec<Option<u32>> =
                elements(code_object).iter().flat_map(|(code, forms)| steps(code, forms, halves)).collect();
            found.sort_unstable();
            // Sixteen lanes have the same row of one tile, and neighbours' columns of the other are four floats apart.
            let count = |step: u32| found.iter().filter(|found| **found == Some(step)).count();
            assert!(count(0) >= 16 && count(16) >= 16, "{} and {}", count(0), count(16));
        }
    }
}
