//! The mappings of `v_rcp_f32` and `v_rsq_f32`, from the files of their numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::number::{self as n, F32, of};
use rustc_apfloat::Float;

static RECIPROCAL: LazyLock<Numbers> =
    LazyLock::new(|| Numbers::read(include_str!("../../data/cards/reciprocal.txt"), 16));
static ROOT: LazyLock<Numbers> =
    LazyLock::new(|| Numbers::read(include_str!("../../data/cards/reciprocal-root.txt"), 32));

/// Content of a file.
struct Numbers {
    /// Parts of a unit of the constant terms in which sums are.
    parts: u128,
    terms: Vec<[u128; 4]>,
    /// Steps that results are off by, by mantissa: 1 or -1.
    off: HashMap<u64, i64>,
}

impl Numbers {
    fn read(text: &str, parts: u128) -> Numbers {
        let mut numbers = Numbers { parts, terms: Vec::new(), off: HashMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let kind = words.next().unwrap_or_default();
            let step = if kind == "lower" { -1 } else { 1 };
            if kind == "terms" {
                let terms: Vec<u128> = words.filter_map(|word| word.parse().ok()).collect();
                numbers.terms.extend(<[u128; 4]>::try_from(terms));
            } else {
                let mantissas = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
                numbers.off.extend(mantissas.map(|mantissa| (mantissa, step)));
            }
        }
        numbers
    }

    /// A mantissa's result, as if the number were between 1 and 2.
    fn of(&self, mantissa: u64) -> u64 {
        let [constant, linear, quadratic, cubic] = self.terms[(mantissa / 0x4_0000) as usize];
        let x = u128::from(mantissa % 0x4_0000);
        // To 24 digits, or to whole units, to nearest even.
        let exact = linear * x;
        let whole = (1 << 18) / self.parts;
        let unit = if exact < whole << 24 { whole } else { 2 * whole };
        let (quotient, twice) = (exact / unit, exact % unit * 2);
        let up = twice > unit || twice == unit && quotient % 2 == 1;
        let first = (quotient + u128::from(up)) * unit / whole;
        let even = x / 2 * 2;
        let second = (quadratic * 0x4_0000 - cubic * x) * even * even / (1 << 51);
        let value =
            (constant * self.parts - first + second * (self.parts / 8) + self.parts * 2) / (self.parts * 4);
        (0x3e80_0000 + value as u64).wrapping_add_signed(self.off.get(&mantissa).copied().unwrap_or(0))
    }
}

/// The reciprocal of a single that is no NaN; denormals are zeros before and behind it.
pub(crate) fn reciprocal(a: F32) -> F32 {
    let sign = n::bits(a) & 0x8000_0000;
    let with_sign = |magnitude: u64| of::<F32>(sign | magnitude);
    if a.is_zero() || a.is_denormal() {
        return with_sign(0x7f80_0000);
    }
    if a.is_infinite() {
        return with_sign(0);
    }
    let bits = n::bits(a) & 0x7fff_ffff;
    let normalised = of::<F32>(RECIPROCAL.of(bits & 0x7f_ffff));
    let result = normalised.scalbn(127 - (bits >> 23) as i32);
    if result.is_denormal() || result.is_zero() { with_sign(0) } else { with_sign(n::bits(result)) }
}

/// The reciprocal root of a single that is no NaN; denormals are zeros before it.
pub(crate) fn reciprocal_root(a: F32) -> F32 {
    let bits = n::bits(a);
    if a.is_zero() || a.is_denormal() {
        return of::<F32>(bits & 0x8000_0000 | 0x7f80_0000);
    }
    if a.is_negative() {
        return of::<F32>(n::default_nan::<F32>());
    }
    if a.is_infinite() {
        return F32::ZERO;
    }
    let exponent = (bits >> 23) as i32 - 127;
    let is_odd = exponent.rem_euclid(2);
    let normalised = of::<F32>(ROOT.of(bits & 0x7f_ffff | (is_odd as u64) << 23));
    normalised.scalbn(-(exponent - is_odd) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        assert_eq!((RECIPROCAL.terms.len(), RECIPROCAL.off.len()), (32, 2761));
        assert_eq!((ROOT.terms.len(), ROOT.off.len()), (64, 2484));
        let rcp = |x: f32| f32::from_bits(n::bits(reciprocal(of::<F32>(x.to_bits().into()))) as u32);
        assert_eq!([1.0, 2.0, -4.0].map(rcp), [1.0, 0.5, -0.25]);
        // As captured.
        assert_eq!(rcp(1.5).to_bits(), 0x3f2a_aaaa);
    }
}
