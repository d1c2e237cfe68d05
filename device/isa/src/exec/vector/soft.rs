//! Floating-point arithmetic in integers, for rounding modes the host is not in.
//!
//! Every operation is exact until one rounding at its end. Operands are finite: the results of infinities and NaNs do
//! not depend on the rounding.

/// A rounding mode, numbered as in `MODE.FP_ROUND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Up,
    Down,
    Zero,
}

impl Round {
    /// The mode two bits of `MODE` ask for.
    pub(crate) const fn from_bits(bits: u32) -> Round {
        match bits & 3 {
            0 => Round::Nearest,
            1 => Round::Up,
            2 => Round::Down,
            _ => Round::Zero,
        }
    }
}

/// Widths of a binary floating-point format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    fraction: u32,
    exponent: u32,
}

pub(crate) const HALF: Layout = Layout { fraction: 10, exponent: 5 };
pub(crate) const SINGLE: Layout = Layout { fraction: 23, exponent: 8 };
pub(crate) const DOUBLE: Layout = Layout { fraction: 52, exponent: 11 };

impl Layout {
    /// The sign bit.
    pub(crate) const fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Returns true if the bits are neither an infinity nor a NaN.
    pub(crate) const fn is_finite(self, bits: u64) -> bool {
        bits & self.infinity() != self.infinity()
    }

    /// The bits without the sign.
    pub(crate) const fn magnitude(self, bits: u64) -> u64 {
        bits & (self.sign() - 1)
    }

    /// Returns true if the bits are a NaN.
    pub(crate) const fn is_nan(self, bits: u64) -> bool {
        self.magnitude(bits) > self.infinity()
    }

    /// Returns true if the bits are a signalling NaN.
    pub(crate) const fn is_signalling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits >> (self.fraction - 1) & 1 == 0
    }

    /// A NaN made quiet.
    pub(crate) const fn quiet(self, bits: u64) -> u64 {
        bits | 1 << (self.fraction - 1)
    }

    /// Returns true if the bits are a number other than zero that is too small for a full fraction.
    pub(crate) const fn is_denormal(self, bits: u64) -> bool {
        bits & self.infinity() == 0 && self.magnitude(bits) != 0
    }

    /// The value of a finite number or an infinity in double precision, which holds all of them.
    pub(crate) fn value(self, bits: u64) -> f64 {
        let negative = bits & self.sign() != 0;
        if !self.is_finite(bits) {
            return if negative { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        f64::from_bits(self.number(bits).rounded(DOUBLE, Round::Nearest))
    }

    /// Applies the output multiplier to a rounded result: `omod` 1 multiplies by two, 2 by four, and 3 halves. There
    /// are no denormal numbers: a denormal operand becomes +0, a denormal result becomes a zero of its sign.
    /// Infinities and NaNs stay.
    pub(crate) fn multiplied(self, bits: u64, omod: u8, round: Round) -> u64 {
        let (field, last) = ((bits & self.infinity()) >> self.fraction, self.infinity() >> self.fraction);
        let (sign, step) = (bits & self.sign(), 1 << self.fraction);
        match omod {
            1..=3 if field == 0 => 0,
            1..=3 if field == last => bits,
            3 if field == 1 => sign,
            3 => bits - step,
            1 | 2 if field + u64::from(omod) >= last => sign | overflow(self, round, sign != 0),
            1 | 2 => bits + u64::from(omod) * step,
            _ => bits,
        }
    }

    /// The finite number behind the bits.
    pub(crate) const fn number(self, bits: u64) -> Number {
        let fraction = bits & ((1 << self.fraction) - 1);
        let field = (bits & self.infinity()) >> self.fraction;
        let (digits, field) = if field == 0 { (fraction, 1) } else { (fraction | 1 << self.fraction, field) };
        Number {
            negative: bits & self.sign() != 0,
            digits: digits as u128,
            exponent: field as i32 - self.bias() - self.fraction.cast_signed(),
        }
    }
}

/// `digits * 2^exponent` with a sign, which zero has too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    negative: bool,
    digits: u128,
    exponent: i32,
}

impl Number {
    /// An integer.
    pub(crate) fn integer(value: i64) -> Number {
        Number { negative: value < 0, digits: u128::from(value.unsigned_abs()), exponent: 0 }
    }

    /// Times a power of two.
    pub(crate) fn scaled(self, power: i32) -> Number {
        Number { exponent: self.exponent.saturating_add(power.clamp(-0x4000, 0x4000)), ..self }
    }

    /// The product of two numbers of at most 64 digits.
    pub(crate) fn times(self, other: Number) -> Number {
        Number {
            negative: self.negative ^ other.negative,
            digits: self.digits * other.digits,
            exponent: self.exponent + other.exponent,
        }
    }

    /// Highest digit moved to bit 125, so that sums fit and twenty digits below a product are free.
    fn normalised(self) -> Number {
        let shift = self.digits.leading_zeros().cast_signed() - 2;
        Number { digits: self.digits << shift, exponent: self.exponent - shift, ..self }
    }

    /// The sum, digits that do not fit collected in the lowest one.
    pub(crate) fn plus(self, other: Number, round: Round) -> Number {
        if self.digits == 0 || other.digits == 0 {
            let zero = self.digits == 0 && other.digits == 0;
            if zero && self.negative != other.negative {
                return Number { negative: round == Round::Down, ..self };
            }
            return if self.digits == 0 { other } else { self };
        }
        let (mut big, mut small) = (self.normalised(), other.normalised());
        if (big.exponent, big.digits) < (small.exponent, small.digits) {
            (big, small) = (small, big);
        }
        let distance = (big.exponent - small.exponent).unsigned_abs();
        let aligned = if distance > 126 {
            1
        } else {
            let lost = small.digits & ((1 << distance) - 1) != 0;
            small.digits >> distance | u128::from(lost)
        };
        let digits = if big.negative == small.negative { big.digits + aligned } else { big.digits - aligned };
        let negative = if digits == 0 { round == Round::Down } else { big.negative };
        Number { negative, digits, exponent: big.exponent }
    }

    /// Returns true if the number, rounded as if exponents had no limit, is larger than the largest number of a
    /// format.
    pub(crate) fn overflows(self, layout: Layout, round: Round) -> bool {
        // A quarter of it has room for the digits, and is compared with a quarter of the power after the largest.
        let quarter = layout.magnitude(self.scaled(-2).rounded(layout, round));
        quarter >= ((2 * layout.bias() - 1) as u64) << layout.fraction
    }

    /// The bits of the number in a format.
    pub(crate) fn rounded(self, layout: Layout, round: Round) -> u64 {
        let sign = if self.negative { layout.sign() } else { 0 };
        if self.digits == 0 {
            return sign;
        }
        let top = 127 - self.digits.leading_zeros().cast_signed() + self.exponent;
        let exponent = top.max(1 - layout.bias());
        if exponent > layout.bias() {
            return sign | overflow(layout, round, self.negative);
        }
        let shift = exponent - layout.fraction.cast_signed() - self.exponent;
        let (kept, rest, half) = if shift <= 0 {
            (self.digits << -shift, 0, 1)
        } else if shift > 127 {
            (0, 1, 2)
        } else {
            (self.digits >> shift, self.digits & ((1 << shift) - 1), 1 << (shift - 1))
        };
        let up = match round {
            Round::Nearest => rest > half || (rest == half && kept & 1 != 0),
            Round::Up => rest != 0 && !self.negative,
            Round::Down => rest != 0 && self.negative,
            Round::Zero => false,
        };
        // The leading digit adds one to the exponent, and a carry out of the fraction another.
        let field = (exponent + layout.bias() - 1) as u64;
        let bits = (field << layout.fraction) + kept as u64 + u64::from(up);
        if bits >= layout.infinity() { sign | overflow(layout, round, self.negative) } else { sign | bits }
    }
}

/// Infinity, or the largest number when the rounding is not away from zero.
fn overflow(layout: Layout, round: Round, negative: bool) -> u64 {
    let away = match round {
        Round::Nearest => true,
        Round::Up => !negative,
        Round::Down => negative,
        Round::Zero => false,
    };
    if away { layout.infinity() } else { layout.infinity() - 1 }
}

/// `a * b + c` rounded once.
pub(crate) fn fma(layout: Layout, a: u64, b: u64, c: u64, round: Round) -> u64 {
    let product = layout.number(a).times(layout.number(b));
    product.plus(layout.number(c), round).rounded(layout, round)
}

/// `(a * b + c) * 2^power` rounded once.
pub(crate) fn fma_scaled(layout: Layout, [a, b, c]: [u64; 3], power: i32, round: Round) -> u64 {
    let product = layout.number(a).times(layout.number(b));
    product.plus(layout.number(c), round).scaled(power).rounded(layout, round)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u32; 20] = [
        0,
        1,
        0x8000_0000,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x0080_0001,
        0x3f80_0000,
        0xbf80_0001,
        0x3f7f_ffff,
        0x4b00_0001,
        0xcb7f_ffff,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x1f80_1234,
        0x9f80_4321,
        0x3eaa_aaab,
        0x6000_0001,
        0x2000_0003,
        0xc049_0fdb,
    ];

    #[test]
    fn to_nearest_equals_the_host() {
        for a in EDGES {
            for b in EDGES {
                for c in EDGES {
                    let [x, y, z] = [a, b, c].map(f32::from_bits);
                    let single = fma(SINGLE, a.into(), b.into(), c.into(), Round::Nearest);
                    assert_eq!(single, u64::from(x.mul_add(y, z).to_bits()), "{x} {y} {z}");
                    let [x, y, z] = [x, y, z].map(|x| f64::from(x) * 1.000_000_000_1);
                    let bits = [x, y, z].map(f64::to_bits);
                    let double = fma(DOUBLE, bits[0], bits[1], bits[2], Round::Nearest);
                    assert_eq!(double, x.mul_add(y, z).to_bits(), "{x} {y} {z}");
                }
            }
        }
    }

    #[test]
    fn directed_roundings_enclose_the_nearest() {
        for a in EDGES {
            for b in EDGES {
                for c in EDGES {
                    let in_mode =
                        |round| f32::from_bits(fma(SINGLE, a.into(), b.into(), c.into(), round) as u32);
                    let (up, down) = (in_mode(Round::Up), in_mode(Round::Down));
                    let (nearest, zero) = (in_mode(Round::Nearest), in_mode(Round::Zero));
                    assert!(down <= nearest && nearest <= up, "{down} {nearest} {up}");
                    assert!(up == down || down.next_up() == up, "{down} {up}");
                    assert_eq!(zero, if up <= 0.0 { up } else { down });
                }
            }
        }
    }

    #[test]
    fn products_of_singles_are_exact_in_double_precision() {
        for a in EDGES {
            for b in EDGES {
                let exact = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
                let rounded = f64::from(f32::from_bits(
                    SINGLE.number(a.into()).times(SINGLE.number(b.into())).rounded(SINGLE, Round::Zero)
                        as u32,
                ));
                assert!(
                    rounded.abs() <= exact.abs() && rounded.is_sign_negative() == exact.is_sign_negative()
                );
            }
        }
    }

    #[test]
    fn halves_overflow_by_their_rounding() {
        let number = Number::integer(-70_000);
        assert_eq!(number.rounded(HALF, Round::Nearest), 0xfc00);
        assert_eq!(number.rounded(HALF, Round::Zero), 0xfbff);
        assert_eq!(number.rounded(HALF, Round::Down), 0xfc00);
        assert_eq!(number.rounded(HALF, Round::Up), 0xfbff);
    }
}
