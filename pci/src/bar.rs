//! Base address registers (PCI Local Bus 3.0 section 6.2.5.1).

/// Offset of the first BAR in configuration space.
pub const BARS: usize = 0x10;

/// A memory BAR of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BarLayout {
    /// Number of its first register, 0 to 5.
    pub number: u8,
    /// Bytes: a power of two from 16.
    pub size: u64,
    /// The BAR takes two registers, and is prefetchable.
    pub wide: bool,
}

impl BarLayout {
    /// Offset of its first register in configuration space.
    #[must_use]
    pub fn offset(&self) -> usize {
        BARS + usize::from(self.number) * 4
    }
}
