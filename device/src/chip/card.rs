//! Speed of a card, for estimates of a kernel's time.

/// Rates of a card.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Card {
    /// Engine clock in MHz: the highest.
    pub clock_mhz: u32,
    /// Bandwidth of the whole card's memory in 10^9 bytes per second, for any number of configured compute
    /// units.
    pub gigabytes_per_second: u32,
    /// Cycles that an instruction of a wave of 32 lanes (64 lanes on gfx942) keeps a SIMD busy: vector,
    /// transcendental, double, matrix, scalar.
    pub cycles: [u32; 5],
    /// Bytes that the vector cache of a compute unit delivers per cycle.
    pub cache_bytes: u32,
}
