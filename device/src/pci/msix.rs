//! Place of the MSI-X table and its pending bits in BAR5, for hosts that let the device answer them.

use belfry_abi::pci::{MSIX_PBA_OFFSET, MSIX_TABLE_OFFSET, MSIX_VECTORS};
use belfry_pci::MSIX_ENTRY;

const TABLE: u64 = MSIX_VECTORS as u64 * MSIX_ENTRY;

/// Table and pending bits, at their offsets in BAR5.
#[derive(Debug)]
pub(crate) struct Msix(pub(super) belfry_pci::Msix);

impl Msix {
    /// The state after reset, in which every vector is masked.
    pub(crate) fn new() -> Self {
        Self(belfry_pci::Msix::new(MSIX_VECTORS))
    }

    /// Returns true if a byte offset in BAR5 belongs to the table or the pending bits.
    pub(crate) fn contains(offset: u64) -> bool {
        (MSIX_TABLE_OFFSET..MSIX_TABLE_OFFSET + TABLE).contains(&offset)
            || (MSIX_PBA_OFFSET..MSIX_PBA_OFFSET + 8).contains(&offset)
    }

    /// Reads at an offset that [`Msix::contains`].
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        match offset.checked_sub(MSIX_PBA_OFFSET) {
            Some(offset) => self.0.read_pending(offset, data),
            None => self.0.read_table(offset - MSIX_TABLE_OFFSET, data),
        }
    }

    /// Writes at an offset that [`Msix::contains`]; the pending bits are read only.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if offset < MSIX_PBA_OFFSET {
            self.0.write_table(offset - MSIX_TABLE_OFFSET, data);
        }
    }

    pub(crate) fn is_masked(&self, vector: u16) -> bool {
        self.0.is_masked(vector)
    }

    pub(crate) fn set_pending(&mut self, vector: u16) {
        self.0.set_pending(vector);
    }

    /// Takes the pending vectors that are no longer masked.
    pub(crate) fn take_pending(&mut self) -> impl Iterator<Item = u16> + use<> {
        self.0.take_pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_pending_bits_are_where_the_capability_says() {
        let mut msix = Msix::new();
        for offset in [MSIX_TABLE_OFFSET, MSIX_TABLE_OFFSET + TABLE - 1, MSIX_PBA_OFFSET, MSIX_PBA_OFFSET + 7]
        {
            assert!(Msix::contains(offset), "{offset:#x}");
        }
        for offset in [MSIX_TABLE_OFFSET - 1, MSIX_TABLE_OFFSET + TABLE, MSIX_PBA_OFFSET + 8] {
            assert!(!Msix::contains(offset), "{offset:#x}");
        }
        msix.write(MSIX_TABLE_OFFSET + 20, &[0xee; 8]);
        let mut data = [0; 8];
        msix.read(MSIX_TABLE_OFFSET + 20, &mut data);
        assert_eq!(data, [0xee; 8]);
        msix.set_pending(2);
        msix.write(MSIX_PBA_OFFSET, &[0xff; 8]);
        msix.read(MSIX_PBA_OFFSET, &mut data);
        assert_eq!(data, [4, 0, 0, 0, 0, 0, 0, 0], "the pending bits do not take writes");
    }
}
