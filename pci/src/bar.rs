//! Base address registers (PCI Local Bus 3.0 section 6.2.5.1).

/// Offset of the first BAR in configuration space.
pub const BARS: usize = 0x10;

/// Number of the expansion ROM's register, counted as the BARs are: it lies after others, at 0x30 (section 6.2.5.2).
pub const ROM: u8 = 8;
/// Least and most bytes of an expansion ROM.
pub const ROM_SIZES: std::ops::RangeInclusive<u64> = 2 << 10..=16 << 20;
/// Bit of the ROM's register by which it decodes, if the function answers accesses to memory at all.
pub(crate) const ROM_ENABLE: u32 = 1;
/// Bits of the ROM's register that are no address.
const ROM_FLAGS: u64 = 0x7ff;
/// Bits of a BAR that are no address.
const FLAGS: u64 = 0xf;

/// A memory BAR of a function, or its expansion ROM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BarLayout {
    /// Number of its first register, 0 to 5, or [`ROM`].
    pub number: u8,
    /// Bytes: a power of two from 16.
    pub size: u64,
    /// The BAR takes two registers, and is prefetchable.
    pub wide: bool,
}

impl BarLayout {
    /// The expansion ROM of a function, of a size in [`ROM_SIZES`].
    #[must_use]
    pub const fn rom(size: u64) -> Self {
        Self { number: ROM, size, wide: false }
    }

    /// Returns true for an expansion ROM.
    #[must_use]
    pub const fn is_rom(&self) -> bool {
        self.number == ROM
    }

    /// Address in the first 64 bytes of configuration space, or in more of them; `None` if the function does not
    /// answer there because its ROM is off.
    #[must_use]
    pub fn base(&self, header: &[u8]) -> Option<u64> {
        let word = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let low = word(self.offset());
        if self.is_rom() {
            return (low & ROM_ENABLE != 0).then_some(u64::from(low) & !ROM_FLAGS);
        }
        let high = if self.wide { word(self.offset() + 4) } else { 0 };
        Some(u64::from(low) & !FLAGS | u64::from(high) << 32)
    }

    /// Offset of its first register in configuration space.
    #[must_use]
    pub fn offset(&self) -> usize {
        BARS + usize::from(self.number) * 4
    }
}
