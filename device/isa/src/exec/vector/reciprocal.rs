//! `v_rcp_f32` and `v_rsq_f32` as cards have them: within one unit in the last place, and not always the nearest number.
//!
//! A polynomial of the mantissa in fixed point, and a table of the numbers for which cards give a neighbour of what it gives. That is
//! not how cards do it, but what they give: see [`numbers`] and [`root_numbers`]. Denormals are zeros before and behind it. Once
//! code has been compiled that looks at [bits](uppers) in the place of that, sixteen numbers at once do so too.

pub(crate) mod numbers;
pub(crate) mod root_numbers;
mod uppers;

pub(crate) use uppers::Faithful;

use super::float::{flushed, single};
use super::sixteen::defined;
use crate::lanes::Lanes;

/// Bits of a number's place below its part's number.
const PART: u32 = 18;
/// Bits of it below its bucket's number.
const BUCKET: u32 = 15;

/// A function of the mantissa, and of whether the exponent is odd.
struct Mapping {
    terms: &'static [[u32; 4]],
    starts: &'static [u16],
    corrections: &'static [u16],
    /// Digits behind the point that the linear term has more than the constant one.
    digits: u32,
    of: Faithful,
}

const RECIPROCAL: Mapping = Mapping {
    terms: &numbers::TERMS,
    starts: &numbers::STARTS,
    corrections: &numbers::CORRECTIONS,
    digits: 4,
    of: Faithful::Reciprocal,
};

const ROOT: Mapping = Mapping {
    terms: &root_numbers::TERMS,
    starts: &root_numbers::STARTS,
    corrections: &root_numbers::CORRECTIONS,
    digits: 5,
    of: Faithful::ReciprocalRoot,
};

impl Mapping {
    /// A result as if the number were from one to two, or to four, and the digits that it is cut behind.
    #[inline(always)]
    fn polynomial(&self, place: u32) -> (u32, u32) {
        let terms = self.terms[(place >> PART) as usize & (self.terms.len() - 1)];
        let [constant, linear, quadratic, cubic] =
            [terms[0] as u64, terms[1] as u64, terms[2] as u64, terms[3] as u64];
        let x = u64::from(place & ((1 << PART) - 1));
        // The linear term has 24 digits, fewer where that would be more than so many behind the point.
        let least = 18 - self.digits;
        let product = linear * x;
        let shift = u64::from(least) + (product >> (24 + least));
        let kept = product >> shift;
        let rest = product - (kept << shift);
        let first = (kept + u64::from(rest + (kept & 1) > 1 << (shift - 1))) << (shift - u64::from(least));
        // Of the square the last two digits are zeros; the product has 70 digits, so it is made of two.
        let even = x & !1;
        let inner = ((quadratic << PART) - cubic * x) * even;
        let second = ((inner >> 26) * even + (((inner & 0x3ff_ffff) * even) >> 26)) >> 25;
        let value = (constant << self.digits) - first + (second << (self.digits - 3)) + (2 << self.digits);
        (0x3e80_0000 + (value >> (self.digits + 2)) as u32, value as u32 & ((4 << self.digits) - 1))
    }

    /// True if the digits that are cut are so few or so many that there may be a correction.
    #[inline(always)]
    fn is_near(&self, cut: u32) -> bool {
        (cut + (1 << (self.digits - 3))) & ((4 << self.digits) - 1) < 2 << (self.digits - 3)
    }

    /// The error of the polynomial in units of the last place.
    #[cold]
    #[inline(never)]
    fn correction(&self, place: u32) -> i32 {
        let bucket = (place >> BUCKET) as usize;
        let starts = self.starts.get(bucket..bucket + 2).unwrap_or(&[0, 0]);
        let here = &self.corrections[usize::from(starts[0])..usize::from(starts[1])];
        let low = (place & ((1 << BUCKET) - 1)) as u16;
        match here.binary_search_by_key(&low, |entry| entry & 0x7fff) {
            Ok(at) if here[at] & 0x8000 != 0 => 1,
            Ok(_) => -1,
            Err(_) => 0,
        }
    }

    /// The places that have corrections.
    fn corrected(&self) -> impl Iterator<Item = u32> {
        self.starts.windows(2).enumerate().flat_map(|(bucket, starts)| {
            let here = &self.corrections[usize::from(starts[0])..usize::from(starts[1])];
            here.iter().map(move |entry| (bucket as u32) << BUCKET | u32::from(entry & 0x7fff))
        })
    }

    fn exact(&self, place: u32) -> u32 {
        self.polynomial(place).0.wrapping_add_signed(self.correction(place))
    }
}

/// A function of all numbers that a mapping is of.
trait Scaled {
    const MAPPING: Mapping;
    fn place(a: u32) -> u32;
    /// The single below the exact result of a place.
    fn below(place: u32) -> u32;
    /// The result from that of the place.
    fn scaled(a: u32, normalised: u32) -> u32;
    /// True if that is the result.
    fn is_usual(a: u32) -> bool;
    /// The result of any number.
    fn definition(a: u32) -> u32;
}

/// Sixteen results, from those of the polynomial, or of the definition.
#[inline(always)]
fn sixteen<S: Scaled>(a: &[u32; 16]) -> [u32; 16] {
    let (mut again, mut r, mut lanes) = ([0; 16], [0; 16], 0);
    if let Some(bits) = S::MAPPING.of.bits_made() {
        let mut uppers = [0; 16];
        for lane in 0..16 {
            uppers[lane] = uppers::bit(bits, S::place(a[lane]));
        }
        for lane in 0..16 {
            r[lane] = S::scaled(a[lane], S::below(S::place(a[lane])) + uppers[lane]);
            again[lane] = u16::from(!S::is_usual(a[lane]));
        }
    } else {
        for lane in 0..16 {
            let (normalised, cut) = S::MAPPING.polynomial(S::place(a[lane]));
            r[lane] = S::scaled(a[lane], normalised);
            again[lane] = u16::from(!S::is_usual(a[lane]) | S::MAPPING.is_near(cut));
        }
    }
    for (lane, again) in again.iter().enumerate() {
        lanes |= again << lane;
    }
    if lanes != 0 {
        defined(a, &mut r, lanes, S::definition);
    }
    r
}

/// The number of a place: from one to two, or to four.
#[inline(always)]
fn number_of(place: u32) -> f32 {
    single::of(0x3f80_0000 + place)
}

#[inline(always)]
fn mantissa(a: u32) -> u32 {
    a & 0x7f_ffff
}

/// The reciprocal of a normal number, where it is one.
#[inline(always)]
fn divided(a: u32, normalised: u32) -> u32 {
    let magnitude = a & !single::SIGN;
    // Both exponents are biased.
    a & single::SIGN | normalised.wrapping_add(127 << 23).wrapping_sub(magnitude & single::INFINITY)
}

/// True if a number and its reciprocal are normal numbers.
#[inline(always)]
fn has_reciprocal(a: u32) -> bool {
    // From the smallest normal number to 2^126, whose reciprocal is that.
    (a & !single::SIGN).wrapping_sub(0x0080_0000) <= 0x7e80_0000 - 0x0080_0000
}

/// `v_rcp_f32`.
pub(crate) fn reciprocal(a: u32) -> u32 {
    let sign = a & single::SIGN;
    match flushed(a) & !single::SIGN {
        0 => sign | single::INFINITY,
        single::INFINITY => sign,
        _ if single::is_nan(a) => single::quiet(a),
        _ if !has_reciprocal(a) => sign,
        _ => divided(a, RECIPROCAL.exact(mantissa(a))),
    }
}

/// The same of sixteen numbers.
#[inline(always)]
pub(crate) fn reciprocals<L: Lanes>(a: L::V) -> L::V {
    L::from_array(sixteen::<Reciprocal>(&L::to_array(a)))
}

struct Reciprocal;

impl Scaled for Reciprocal {
    const MAPPING: Mapping = RECIPROCAL;
    #[inline(always)]
    fn place(a: u32) -> u32 {
        mantissa(a)
    }
    #[inline(always)]
    fn below(place: u32) -> u32 {
        uppers::reciprocal_in_singles(place)
    }
    #[inline(always)]
    fn scaled(a: u32, normalised: u32) -> u32 {
        divided(a, normalised)
    }
    #[inline(always)]
    fn is_usual(a: u32) -> bool {
        has_reciprocal(a)
    }
    fn definition(a: u32) -> u32 {
        reciprocal(a)
    }
}

/// A mantissa, and whether the exponent, which is biased by an odd number, is odd.
#[inline(always)]
fn place_of_root(a: u32) -> u32 {
    mantissa(a) | !a & 0x0080_0000
}

/// The reciprocal root of a positive normal number.
#[inline(always)]
fn root_scaled(a: u32, normalised: u32) -> u32 {
    // Half of the even exponent that is not greater.
    let exponent = ((a >> 23).wrapping_sub(127) & !1).cast_signed() >> 1;
    normalised.wrapping_sub(exponent.cast_unsigned() << 23)
}

/// True if a number is a positive normal one.
#[inline(always)]
fn has_root(a: u32) -> bool {
    a.wrapping_sub(0x0080_0000) < single::INFINITY - 0x0080_0000
}

/// `v_rsq_f32`.
pub(crate) fn reciprocal_root(a: u32) -> u32 {
    match flushed(a) {
        _ if single::is_nan(a) => single::quiet(a),
        zero if zero & !single::SIGN == 0 => zero | single::INFINITY,
        single::INFINITY => 0,
        _ if a & single::SIGN != 0 => single::NAN,
        _ => root_scaled(a, ROOT.exact(place_of_root(a))),
    }
}

/// The same of sixteen numbers.
#[inline(always)]
pub(crate) fn reciprocal_roots<L: Lanes>(a: L::V) -> L::V {
    L::from_array(sixteen::<ReciprocalRoot>(&L::to_array(a)))
}

struct ReciprocalRoot;

impl Scaled for ReciprocalRoot {
    const MAPPING: Mapping = ROOT;
    #[inline(always)]
    fn place(a: u32) -> u32 {
        place_of_root(a)
    }
    #[inline(always)]
    fn below(place: u32) -> u32 {
        uppers::root_in_singles(place)
    }
    #[inline(always)]
    fn scaled(a: u32, normalised: u32) -> u32 {
        root_scaled(a, normalised)
    }
    #[inline(always)]
    fn is_usual(a: u32) -> bool {
        has_root(a)
    }
    fn definition(a: u32) -> u32 {
        reciprocal_root(a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of numbers that have a correction, and of results that are not the nearest number.
    fn counts(mapping: &Mapping, last: u32, exact: impl Fn(u32) -> f32) -> (u32, u32) {
        let (mut differ, mut corrected) = (0, 0);
        for place in 0..last {
            let (bits, cut) = mapping.polynomial(place);
            let off = mapping.correction(place);
            assert!(off == 0 || mapping.is_near(cut), "{place:x}: {cut}");
            corrected += u32::from(off != 0);
            let (exact, result) = (exact(place).to_bits(), bits.wrapping_add_signed(off));
            assert!(result.abs_diff(exact) <= 1, "{place:x}: {result:x} {exact:x}");
            differ += u32::from(result != exact);
        }
        (corrected, differ)
    }

    #[test]
    fn results_are_within_a_unit_and_corrections_where_results_are_near_to_others() {
        let quotient = |place: u32| 1.0 / single::of(0x3f80_0000 | place);
        assert_eq!(counts(&RECIPROCAL, 1 << 23, quotient), (2761, 897_675));
        let root = |place: u32| {
            let x = single::of((0x3f80_0000 + (place >> 23 << 23)) | mantissa(place));
            (1.0 / f64::from(x).sqrt()) as f32
        };
        assert_eq!(counts(&ROOT, 1 << 24, root), (2484, 1_851_555));
    }

    #[test]
    fn sixteen_are_as_each_alone() {
        for (n, start) in (0..1_u32 << 28).step_by(4099).enumerate() {
            if n == 1 << 15 {
                // From here on by bits, if other tests have not made them.
                Faithful::Reciprocal.bits();
                Faithful::ReciprocalRoot.bits();
            }
            let a = core::array::from_fn(|lane| (start * 16).wrapping_add(lane as u32 * 0x0123_4567));
            let (r, s) = (sixteen::<Reciprocal>(&a), sixteen::<ReciprocalRoot>(&a));
            assert_eq!((r, s), (a.map(reciprocal), a.map(reciprocal_root)), "{a:x?}");
        }
    }
}
