//! Reproducible test data.

use half::f16;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number in 0..1 with 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from `-bound` to `bound`, as a float: sums and products of them are exact while they are small.
    pub(crate) fn whole(&mut self, bound: u32) -> f32 {
        self.below(2 * bound + 1) as f32 - bound as f32
    }
}

/// The f16 nearest to a number, ties to even.
///
/// `f16::from_f64` without the processor's help drops the lower half of the number first, and so takes a number just
/// above a tie for the tie. Rounded to odd on the way through f32, nothing that matters is lost.
pub(crate) fn to_f16(value: f64) -> f16 {
    let nearest = value as f32;
    if f64::from(nearest) == value || !nearest.is_finite() {
        return f16::from_f32(nearest);
    }
    let truncated =
        if f64::from(nearest).abs() > value.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f16::from_f32(f32::from_bits(truncated | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_once() {
        // 2.2509765625 lies halfway between 2.25 and 2.251953125.
        for (value, half) in [
            (2.250_976_562_5, 2.25),
            (2.250_977_516_174_316_4, 2.251_953_125),
            (2.250_976_562_500_001, 2.251_953_125),
            (-2.250_976_562_500_001, -2.251_953_125),
            (2.250_976_562_499_999, 2.25),
            (0.5, 0.5),
            (1e9, f64::INFINITY),
            (2f64.powi(-25), 0.0),
            (2f64.powi(-25) * 1.000_000_001, 2f64.powi(-24)),
        ] {
            assert_eq!(to_f16(value).to_f64(), half, "{value}");
        }
        assert!(to_f16(f64::NAN).is_nan());
    }

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ranges_hold() {
        let mut random = Random::new(7);
        for _ in 0..1000 {
            assert!(random.below(10) < 10);
            assert!((0.0..1.0).contains(&random.unit()));
            assert!(random.whole(8).abs() <= 8.0);
        }
    }
}
