//! Floats of eight bits, in the formats of the Open Compute Project ("OCP 8-bit Floating Point Specification"): E4M3 (`fp8`),
//! which has no infinities, and E5M2 (`bf8`); and those of CDNA3, which have an exponent bias that is larger by one, no infinities,
//! no negative zero, and one NaN in its place ("FNUZ"). Beside them the smaller formats of "OCP Microscaling Formats (MX)": E2M3
//! (`fp6`), E3M2 (`bf6`) and E2M1 (`fp4`), of numbers alone.

use super::single;

/// A format of eight bits or less, in the low bits of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Byte {
    /// E4M3.
    Fp8,
    /// E5M2.
    Bf8,
    /// E4M3 of CDNA3.
    Fp8Fnuz,
    /// E5M2 of CDNA3.
    Bf8Fnuz,
    /// E2M3.
    Fp6,
    /// E3M2.
    Bf6,
    /// E2M1.
    Fp4,
}

/// The NaN of the formats of CDNA3.
const FNUZ_NAN: u8 = 0x80;

impl Byte {
    /// The format with this number.
    #[inline(always)]
    pub(crate) fn from_number(number: u8) -> Byte {
        match number & 3 {
            0 => Byte::Fp8,
            1 => Byte::Bf8,
            2 => Byte::Fp8Fnuz,
            _ => Byte::Bf8Fnuz,
        }
    }

    /// Returns true for a format of CDNA3.
    const fn is_fnuz(self) -> bool {
        matches!(self, Byte::Fp8Fnuz | Byte::Bf8Fnuz)
    }

    /// Bits of a number.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Byte::Fp8 | Byte::Bf8 | Byte::Fp8Fnuz | Byte::Bf8Fnuz => 8,
            Byte::Fp6 | Byte::Bf6 => 6,
            Byte::Fp4 => 4,
        }
    }

    /// The bias of the exponent.
    pub(crate) const fn bias(self) -> i32 {
        self.shape().1
    }

    /// Bits of the exponent.
    pub(crate) const fn exponent_bits(self) -> u32 {
        self.bits() - 1 - self.shape().0
    }

    /// Digits of the mantissa, and the bias of the exponent.
    const fn shape(self) -> (u32, i32) {
        match self {
            Byte::Fp8 => (3, 7),
            Byte::Bf8 => (2, 15),
            Byte::Fp8Fnuz => (3, 8),
            Byte::Bf8Fnuz => (2, 16),
            Byte::Fp6 => (3, 1),
            Byte::Bf6 => (2, 3),
            Byte::Fp4 => (1, 1),
        }
    }

    /// Without their signs the largest finite number, the infinity or NaN that an overflow gives, and a NaN.
    const fn limits(self) -> (u8, u8, u8) {
        match self {
            Byte::Fp8 => (0x7e, 0x7f, 0x7f),
            Byte::Bf8 => (0x7b, 0x7c, 0x7f),
            Byte::Fp8Fnuz | Byte::Bf8Fnuz => (0x7f, FNUZ_NAN, FNUZ_NAN),
            // There is nothing beyond the largest number.
            Byte::Fp6 | Byte::Bf6 => (0x1f, 0x1f, 0x1f),
            Byte::Fp4 => (7, 7, 7),
        }
    }

    /// As a single, exactly; every NaN is the quiet one of its sign.
    pub(crate) fn to_single(self, bits: u8) -> u32 {
        let (digits, bias) = self.shape();
        let (largest, infinity, nan) = self.limits();
        let top = self.bits() - 1;
        let (sign, magnitude) = (u32::from(bits >> top & 1) << 31, bits & ((1 << top) - 1));
        if self.is_fnuz() && bits == FNUZ_NAN {
            return single::INFINITY | single::QUIET;
        }
        if magnitude > largest {
            let is_infinite = magnitude == infinity && infinity != nan;
            return sign | if is_infinite { single::INFINITY } else { single::INFINITY | single::QUIET };
        }
        let (exponent, fraction) =
            (i32::from(magnitude >> digits), u32::from(magnitude) & ((1 << digits) - 1));
        // A denormal is its fraction times the smallest step.
        let (significand, power) = match exponent {
            0 => (fraction, 1 - bias),
            _ => (fraction | 1 << digits, exponent - bias),
        };
        let value = f64::from(significand) * 2f64.powi(power - digits as i32);
        sign | (value as f32).to_bits()
    }

    /// From a single, rounded to nearest even; what is too large is the largest number with `limited`, otherwise an infinity
    /// (E4M3: a NaN).
    pub(crate) fn encoded(self, value: u32, limited: bool) -> u8 {
        self.divided(value, 0, None, limited)
    }

    /// As [`Byte::encoded`], with the highest bits of `random` added behind the last digit and the rest cut off.
    pub(crate) fn encoded_by_chance(self, value: u32, random: u32, limited: bool) -> u8 {
        self.divided(value, 0, Some(random), limited)
    }

    /// As [`Byte::encoded`], or with random bits [`Byte::encoded_by_chance`], of a single divided by this power of two.
    pub(crate) fn divided(self, value: u32, power: i32, random: Option<u32>, limited: bool) -> u8 {
        let Some(random) = random else {
            return self.rounded(value, power, limited, |kept, rest, step| {
                kept + u64::from(rest * 2 > step || (rest * 2 == step && kept & 1 != 0))
            });
        };
        self.rounded(value, power, limited, |kept, rest, step| {
            // `step` is a power of two: so many of the highest bits are below the last digit.
            let bits = step.trailing_zeros().min(32);
            let chance = (u64::from(random) << 32 >> 32) >> (32 - bits);
            kept + u64::from(rest + (chance << (step.trailing_zeros() - bits)) >= step)
        })
    }

    /// Divides by a power of two and rounds by a function of the digits kept, the rest below them, and what the last digit kept is
    /// worth.
    fn rounded(self, value: u32, divisor: i32, limited: bool, round: impl Fn(u64, u64, u64) -> u64) -> u8 {
        let (digits, bias) = self.shape();
        let (largest, infinity, nan) = self.limits();
        // Neither the NaN nor zero has a sign in the formats of CDNA3.
        let unsigned = self.is_fnuz();
        let sign = (value >> 31 << (self.bits() - 1)) as u8;
        if single::is_nan(value) {
            return sign | nan;
        }
        let magnitude = value & !single::SIGN;
        if magnitude == single::INFINITY {
            return sign | infinity;
        }
        let exponent = (magnitude >> 23) as i32;
        let fraction = u64::from(magnitude & 0x7f_ffff);
        if magnitude == 0 {
            return if unsigned { 0 } else { sign };
        }
        // The highest digit, of a denormal too, is at 23.
        let up = if exponent == 0 { magnitude.leading_zeros() - 8 } else { 0 };
        let significand = if exponent == 0 { fraction << up } else { fraction | 1 << 23 };
        let power = exponent.max(1) - 127 - up.cast_signed() - divisor;
        // Digits below those that are kept; more of them where the result is denormal.
        let shift = (23 - digits) + (1 - bias - power).max(0).unsigned_abs();
        if shift > 60 {
            return if unsigned { 0 } else { sign };
        }
        let step = 1u64 << shift;
        let kept = round(significand >> shift, significand & (step - 1), step);
        // The digit in front of the fraction counts as one of the exponent's: carries come out right.
        let field = (power + bias - 1).max(0).unsigned_abs();
        let bits = kept + (u64::from(field) << digits);
        let overflows = bits > u64::from(largest);
        sign | match (overflows, limited) {
            (false, _) if bits == 0 && unsigned => return 0,
            (false, _) => bits as u8,
            (true, true) => largest,
            (true, false) => infinity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        for format in [Byte::Fp8, Byte::Bf8, Byte::Fp8Fnuz, Byte::Bf8Fnuz] {
            let (largest, infinity, _) = format.limits();
            for bits in 0..=255u8 {
                let single = format.to_single(bits);
                let is_nan = bits & 0x7f > largest.max(infinity);
                let expected = if is_nan && !format.is_fnuz() { bits | 0x7f } else { bits };
                assert_eq!(format.encoded(single, false), expected, "{format:?} {bits:#x}");
                // No bits are below the last digit, so chance has nothing to do.
                assert_eq!(format.encoded_by_chance(single, u32::MAX, true), expected);
            }
        }
    }

    #[test]
    fn known_numbers_convert() {
        let fp8 = |value: f32| Byte::Fp8.encoded(value.to_bits(), false);
        let bf8 = |value: f32| Byte::Bf8.encoded(value.to_bits(), false);
        assert_eq!([1.0, -2.0, 448.0, 464.0, 465.0, 0.001].map(fp8), [0x38, 0xc0, 0x7e, 0x7e, 0x7f, 0x01]);
        assert_eq!([1.0, 57344.0, 61439.0, 61440.0, -1e9].map(bf8), [0x3c, 0x7b, 0x7b, 0x7c, 0xfc]);
        assert_eq!(Byte::Fp8.encoded(1e9f32.to_bits(), true), 0x7e);
        assert_eq!(f32::from_bits(Byte::Fp8.to_single(0x01)), 1.0 / 512.0);
        assert_eq!(f32::from_bits(Byte::Bf8.to_single(0x01)), 1.0 / 65536.0);
        // Half way between 1 and 1.125.
        assert_eq!(fp8(1.0625), 0x38);
        assert_eq!(fp8(1.1875), 0x3a);
    }

    #[test]
    fn known_numbers_convert_on_cdna3() {
        let fp8 = |value: f32| Byte::Fp8Fnuz.encoded(value.to_bits(), false);
        let bf8 = |value: f32| Byte::Bf8Fnuz.encoded(value.to_bits(), false);
        assert_eq!(
            [1.0, -2.0, 240.0, 247.9, 248.0, 1.0 / 1024.0].map(fp8),
            [0x40, 0xc8, 0x7f, 0x7f, 0x80, 0x01]
        );
        assert_eq!([1.0, 57344.0, 61439.0, 61440.0, -1e9].map(bf8), [0x40, 0x7f, 0x7f, 0x80, 0x80]);
        assert_eq!([-0.0, -1e-9, f32::INFINITY, f32::NAN].map(fp8), [0, 0, 0x80, 0x80]);
        assert_eq!(Byte::Fp8Fnuz.encoded((-1e9f32).to_bits(), true), 0xff);
        assert_eq!(f32::from_bits(Byte::Bf8Fnuz.to_single(0x01)), 1.0 / 131_072.0);
        assert!(f32::from_bits(Byte::Bf8Fnuz.to_single(0x80)).is_nan());
    }

    #[test]
    fn numbers_of_six_and_four_bits_come_back_from_any_power() {
        for format in [Byte::Fp6, Byte::Bf6, Byte::Fp4] {
            for bits in 0..1u8 << format.bits() {
                let number = f32::from_bits(format.to_single(bits));
                for power in [-127, -1, 0, 5, 120] {
                    let value = (number * 2f32.powi(power)).to_bits();
                    assert_eq!(
                        format.divided(value, power, None, false),
                        bits,
                        "{format:?} {bits:#x} {power}"
                    );
                    assert_eq!(format.divided(value, power, Some(u32::MAX), true), bits);
                }
            }
        }
        // Beyond the largest is the largest; a NaN too.
        assert_eq!(
            [1e9, -1e9, f32::INFINITY].map(|value| Byte::Fp4.encoded(value.to_bits(), false)),
            [7, 15, 7]
        );
        assert_eq!(Byte::Fp6.encoded(f32::NAN.to_bits(), false), 0x1f);
        // A denormal single: 2^-149 over 2^-127 is less than half of the smallest E3M2, 2^-4.
        assert_eq!(Byte::Bf6.divided(1, -127, None, false), 0);
        assert_eq!(Byte::Bf6.divided(1 << 19, -127, None, false), 2, "2^-130 over 2^-127");
    }

    #[test]
    fn chance_rounds_up_as_often_as_the_rest_is_large() {
        let value = 1.03125f32.to_bits();
        let up = (0..256u32)
            .filter(|random| Byte::Fp8.encoded_by_chance(value, random << 24, false) == 0x39)
            .count();
        assert_eq!(up, 64, "a quarter of the step");
    }
}
