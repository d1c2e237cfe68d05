//! A BAR that decodes.

/// A BAR that decodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bar {
    /// Its number.
    pub number: u8,
    /// Its first address.
    pub base: u64,
    /// Bytes of it.
    pub size: u64,
}

impl Bar {
    /// Returns the offset of an address in the BAR.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.base).filter(|&offset| offset < self.size)
    }

    /// Returns true if both have an address in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.base < other.base + other.size && other.base < self.base + self.size
    }
}
