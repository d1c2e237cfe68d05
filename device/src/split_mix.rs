//! Numbers that follow from a seed.

/// Distance of one state of a stream from the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers: `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        value
    }

    /// The next number, below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        let end = if end == 0 { 1 } else { end };
        self.next() % end
    }
}

/// The first number of the stream that begins at a value.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(STEP);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_that_of_the_reference() {
        // The first numbers of `splitmix64.c` (Vigna) with the seed 1234567.
        let mut stream = SplitMix(1_234_567);
        let numbers = [(); 3].map(|()| stream.next());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_eq!((stream.below(0), mix(1_234_567)), (0, numbers[0]));
    }
}
