//! Exact sums of products of singles: integers of 768 bits.

/// Bits of a word.
const WORD: u32 = 64;
const WORDS: usize = 12;
/// The last bit is worth 2^-`LAST`.
const LAST: i32 = 340;

/// A multiple of 2^-340, in two's complement, lowest word first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed([u64; WORDS]);

impl Fixed {
    pub(super) const ZERO: Fixed = Fixed([0; WORDS]);

    /// `digits` * 2^`power`.
    pub(super) fn new(digits: u64, power: i32) -> Fixed {
        let at = (power + LAST).cast_unsigned();
        let mut words = [0; WORDS];
        let wide = u128::from(digits) << (at % WORD);
        words[(at / WORD) as usize] = wide as u64;
        words[(at / WORD) as usize + 1] = (wide >> WORD) as u64;
        Fixed(words)
    }

    pub(super) fn is_negative(self) -> bool {
        self.0[WORDS - 1] >> (WORD - 1) != 0
    }

    pub(super) fn negated(self) -> Fixed {
        Fixed(self.0.map(|word| !word)).plus(Fixed::new(1, -LAST))
    }

    pub(super) fn plus(self, other: Fixed) -> Fixed {
        let mut carry = false;
        let mut words = [0; WORDS];
        for (n, word) in words.iter_mut().enumerate() {
            let (sum, over) = self.0[n].overflowing_add(other.0[n]);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over | again);
        }
        Fixed(words)
    }

    /// The multiple of 2^`power` that is not larger.
    pub(super) fn floor(self, power: i32) -> Fixed {
        let mut left = (power + LAST).max(0).cast_unsigned();
        Fixed(self.0.map(|word| {
            let here = left.min(WORD);
            left -= here;
            if here == WORD { 0 } else { word >> here << here }
        }))
    }

    /// The multiple of 2^`power` that is next towards zero.
    pub(super) fn towards_zero(self, power: i32) -> Fixed {
        if self.is_negative() { self.negated().floor(power).negated() } else { self.floor(power) }
    }

    fn bit(self, at: u32) -> bool {
        self.0[(at / WORD) as usize] >> (at % WORD) & 1 != 0
    }

    /// As a single, rounded to nearest even.
    pub(super) fn single(self) -> u32 {
        let sign = u32::from(self.is_negative()) << 31;
        let magnitude = if self.is_negative() { self.negated() } else { self };
        let Some(top) = (0..WORD * WORDS as u32).rev().find(|at| magnitude.bit(*at)) else { return 0 };
        // The last digit that a single has of such a number.
        let last = (top as i32 - 23).max(LAST - 149);
        let digits = (0..24).fold(0u32, |digits, n| {
            let at = last + n;
            let is_set = at <= top as i32 && magnitude.bit(at.cast_unsigned());
            digits | u32::from(is_set) << n
        });
        let half = last > 0 && magnitude.bit((last - 1).cast_unsigned());
        let rest = magnitude.floor(last - 1 - LAST) != magnitude;
        let up = half && (rest || digits & 1 != 0);
        // The leading digit counts as one of the exponent; a carry becomes one, too.
        let field = (last - (LAST - 149)).cast_unsigned();
        let bits = (field << 23) + digits + u32::from(up);
        let bits = if field == 0 { digits + u32::from(up) } else { bits };
        sign | bits.min(0x7f80_0000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singles_come_back() {
        for value in [0x0000_0001u32, 0x007f_ffff, 0x0080_0000, 0x3f80_0001, 0x7f7f_ffff, 0x3fff_ffff] {
            let (field, fraction) = (value >> 23, value & 0x7f_ffff);
            let digits = if field == 0 { fraction } else { fraction | 0x80_0000 };
            let fixed = Fixed::new(u64::from(digits), field.max(1) as i32 - 150);
            assert_eq!(fixed.single(), value);
            assert_eq!(fixed.negated().single(), value | 0x8000_0000);
        }
    }

    #[test]
    fn what_is_between_is_rounded() {
        let value = |digits: u64, power: i32| Fixed::new(digits, power).single();
        assert_eq!(value(0x100_0001, -24), 0x3f80_0000, "a tie, to even");
        assert_eq!(value(0x100_0003, -24), 0x3f80_0002);
        assert_eq!(value(0x200_0003, -25), 0x3f80_0001);
        assert_eq!(value(0x1ff_ffff, -24), 0x4000_0000, "a carry");
        assert_eq!(value(1, -150), 0);
        assert_eq!(value(3, -150), 2);
        assert_eq!(value(0x1ff_ffff, 103), 0x7f80_0000, "too large");
        assert_eq!(Fixed::new(3, -1).floor(0), Fixed::new(1, 0));
        assert_eq!(Fixed::new(3, -1).negated().floor(0), Fixed::new(2, 0).negated());
        assert_eq!(Fixed::new(3, -1).negated().towards_zero(0), Fixed::new(1, 0).negated());
    }
}
