//! How fast a card is, as far as estimates of a kernel's time go by it.

/// Rates of a card.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Card {
    /// Engine clock in MHz: the highest.
    pub clock_mhz: u32,
    /// Bandwidth of the whole card's memory in 10^9 bytes per second, however few compute units are configured.
    pub gigabytes_per_second: u32,
    /// Cycles that a SIMD is busy with an instruction of a wave of 32 lanes (64 lanes on gfx942): vector, transcendental, double, matrix, scalar.
    pub cycles: [u32; 5],
    /// Bytes that the vector cache of a compute unit gives in a cycle.
    pub cache_bytes: u32,
}
