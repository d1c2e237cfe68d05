//! Doorbells by their place in the doorbell BAR, in the two units that they are counted in.
//!
//! | unit | used by | type |
//! | --- | --- | --- |
//! | dwords | registers, MQDs, PM4 packets, MES frames | [`DoorbellIndex`] |
//! | bytes | accesses, mappings, `mmap` offsets | [`DoorbellOffset`] |
//!
//! Doorbells of queues have 64 bits: their index is even, and their offset a multiple of 8. Either may come from a guest and
//! name a place where there is no doorbell; [`DoorbellIndex::number`] and [`DoorbellOffset::number`] say whether there is one.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the doorbells' BAR.
pub const DOORBELL_BAR_SIZE: u64 = 2 << 20;
/// Bytes of one 64-bit doorbell.
pub const DOORBELL_SIZE: u64 = 8;

/// Place of a doorbell in dwords, as `CP_HQD_PQ_DOORBELL_CONTROL.DOORBELL_OFFSET` has it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(transparent)]
pub struct DoorbellIndex(u32);

impl DoorbellIndex {
    /// From dwords.
    #[must_use]
    pub const fn from_dwords(dwords: u32) -> Self {
        Self(dwords)
    }

    /// The 64-bit doorbell with a number; there are [`DOORBELL_BAR_SIZE`] / 8 of them.
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self(number * 2)
    }

    /// The offset in dwords.
    #[must_use]
    pub const fn dwords(self) -> u32 {
        self.0
    }

    /// The offset in bytes.
    #[must_use]
    pub const fn offset(self) -> DoorbellOffset {
        DoorbellOffset(self.0 as u64 * 4)
    }

    /// Returns true if a 64-bit doorbell begins at this offset, which is even in dwords.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Number of the 64-bit doorbell that it is in; `None` outside of the BAR.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        self.offset().number()
    }
}

/// Place of a doorbell in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DoorbellOffset(u64);

impl DoorbellOffset {
    /// From bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Number of the 64-bit doorbell that it is in; `None` outside of the BAR.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        if self.0 < DOORBELL_BAR_SIZE { Some((self.0 / DOORBELL_SIZE) as u32) } else { None }
    }

    /// Byte inside the 64-bit doorbell.
    #[must_use]
    pub const fn inside(self) -> u64 {
        self.0 % DOORBELL_SIZE
    }

    /// The 64-bit doorbell that it is in.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self(self.0 - self.inside())
    }

    /// Index of the 64-bit doorbell that it is in; `None` outside of the BAR.
    #[must_use]
    pub const fn index(self) -> Option<DoorbellIndex> {
        match self.number() {
            Some(number) => Some(DoorbellIndex::of_number(number)),
            None => None,
        }
    }
}

impl fmt::LowerHex for DoorbellIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::LowerHex for DoorbellOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_to_each_other() {
        let index = DoorbellIndex::of_number(0xb);
        assert_eq!((index.dwords(), index.offset().bytes(), index.number()), (0x16, 0x58, Some(0xb)));
        assert_eq!(DoorbellOffset::from_bytes(0x58).index(), Some(index));
        let half = DoorbellIndex::from_dwords(0x17);
        assert!(index.is_whole() && !half.is_whole());
        assert_eq!((half.offset().bytes(), half.offset().inside()), (0x5c, 4));
        assert_eq!((half.offset().whole(), half.offset().index()), (index.offset(), Some(index)));
    }

    #[test]
    fn doorbells_end_with_the_bar() {
        let last = DoorbellOffset::from_bytes(DOORBELL_BAR_SIZE - 8);
        assert_eq!(last.number(), Some(0x3_ffff));
        assert_eq!(DoorbellOffset::from_bytes(DOORBELL_BAR_SIZE).index(), None);
        assert_eq!(DoorbellOffset::from_bytes(u64::MAX).number(), None);
        assert_eq!(DoorbellIndex::from_dwords(u32::MAX).number(), None);
        assert_eq!(DoorbellIndex::from_dwords(0x8_0000).number(), None);
    }
}
