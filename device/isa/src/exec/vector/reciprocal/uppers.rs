//! A bit for each mantissa: which of the two singles that the exact result lies between is what cards give.
//!
//! The lower one is quick to find with what a processor has, so results need a look at a bit instead of a polynomial. The bits take
//! some time to make and one or two megabytes, so that they are made when code is compiled that looks at them.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the same code is there for wider registers")
)]

use std::sync::OnceLock;

use super::{Mapping, RECIPROCAL, ROOT, number_of};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Backend, BackendKind};

/// Bytes behind the last one: code reads four from each on.
const BEHIND: usize = 3;

/// A function whose results have bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faithful {
    Reciprocal,
    ReciprocalRoot,
}

static OF_RECIPROCALS: OnceLock<Box<[u8]>> = OnceLock::new();
static OF_ROOTS: OnceLock<Box<[u8]>> = OnceLock::new();

impl Faithful {
    fn cell(self) -> &'static OnceLock<Box<[u8]>> {
        match self {
            Faithful::Reciprocal => &OF_RECIPROCALS,
            Faithful::ReciprocalRoot => &OF_ROOTS,
        }
    }

    /// Its bits, which are made unless they are there; bytes behind them may be read as a part of the last four.
    pub(crate) fn bits(self) -> &'static [u8] {
        self.cell().get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            if Backend::force(BackendKind::Avx2).is_some() {
                // SAFETY: the host has what the function is compiled for.
                return unsafe { made_by_avx2(self) };
            }
            self.made()
        })
    }

    #[inline(always)]
    fn made(self) -> Box<[u8]> {
        match self {
            Faithful::Reciprocal => made(&RECIPROCAL, 1 << 23, reciprocal_below),
            Faithful::ReciprocalRoot => made(&ROOT, 1 << 24, root_below),
        }
    }

    /// Its bits if they are there.
    #[inline(always)]
    pub(super) fn bits_made(self) -> Option<&'static [u8]> {
        self.cell().get().map(|bits| &**bits)
    }
}

/// A bit of a place, 0 or 1.
#[inline(always)]
pub(super) fn bit(bits: &[u8], place: u32) -> u32 {
    bits.get(place as usize >> 3).map_or(0, |&byte| u32::from(byte) >> (place & 7) & 1)
}

/// A double, which is in the range of singles, as a single that is not greater.
#[inline(always)]
fn cut(x: f64) -> u32 {
    // Exponents have other biases.
    ((x.to_bits() >> 29) as u32).wrapping_sub((1023 - 127) << 23)
}

/// The reciprocal of a number from one to two, its mantissa, cut.
#[inline(always)]
pub(super) fn reciprocal_below(place: u32) -> u32 {
    cut(1.0 / f64::from(number_of(place)))
}

/// The reciprocal root of a number from one to four by its place, cut.
#[inline(always)]
pub(super) fn root_below(place: u32) -> u32 {
    cut(1.0 / f64::from(number_of(place)).sqrt())
}

/// The same in singles, as compiled code finds it: a quotient, less one where that is too large.
#[inline(always)]
pub(super) fn reciprocal_in_singles(place: u32) -> u32 {
    let x = number_of(place);
    let quotient = 1.0 / x;
    let rest = (-quotient).mul_add(x, 1.0);
    quotient.to_bits() - (rest.to_bits() >> 31)
}

/// A root of the reciprocal, less one where that is too large.
#[inline(always)]
pub(super) fn root_in_singles(place: u32) -> u32 {
    let x = number_of(place);
    let root = (1.0 / x).sqrt();
    let product = x * root;
    let rest = (-root).mul_add(product, 1.0);
    let rest = (-x.mul_add(root, -product)).mul_add(root, rest);
    root.to_bits() - (rest.to_bits() >> 31)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn made_by_avx2(of: Faithful) -> Box<[u8]> {
    of.made()
}

#[inline(always)]
fn made(mapping: &Mapping, places: u32, below: impl Fn(u32) -> u32) -> Box<[u8]> {
    // Where the polynomial is off by one there is a correction by one, which changes the bit.
    let is_upper = |place: u32| mapping.polynomial(place).0.wrapping_sub(below(place)) & 1;
    let byte = |first: u32| (0..8).fold(0, |byte, n| byte | is_upper(first + n) << n) as u8;
    let mut bits: Vec<u8> = (0..places).step_by(8).map(byte).collect();
    for place in mapping.corrected() {
        bits[place as usize >> 3] ^= 1 << (place & 7);
    }
    bits.extend([0; BEHIND]);
    bits.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::vector::float::single;

    #[test]
    fn bits_choose_what_cards_give() {
        for place in 0..1 << 23 {
            let below = reciprocal_below(place);
            let x = number_of(place);
            assert!(f64::from(single::of(below)) * f64::from(x) <= 1.0, "{place:x}");
            assert!(f64::from(single::of(below + 1)) * f64::from(x) > 1.0, "{place:x}");
            assert_eq!(below, reciprocal_in_singles(place), "{place:x}");
            let result = below + bit(Faithful::Reciprocal.bits(), place);
            assert_eq!(result, RECIPROCAL.exact(place), "{place:x}");
        }
        for place in 0..1 << 24 {
            let below = root_below(place);
            assert_eq!(below, root_in_singles(place), "{place:x}");
            let result = below + bit(Faithful::ReciprocalRoot.bits(), place);
            assert_eq!(result, ROOT.exact(place), "{place:x}");
        }
    }
}
