//! Reproducible random numbers.

/// xorshift64*: good enough to pick operands, the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds must not give neighbouring streams, and the state must not be 0.
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((mixed ^ mixed >> 31) | 1)
    }

    /// The next 64 bits.
    pub fn long(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.long() >> 32) as u32
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.long()) * limit as u128) >> 64) as usize
    }

    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
