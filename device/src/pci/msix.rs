//! The MSI-X table and pending bits, for hosts that let the device answer them (PCI 3.0 section 6.8.2).

use belfry_abi::pci::{MSIX_PBA_OFFSET, MSIX_TABLE_OFFSET, MSIX_VECTORS};

const ENTRY: usize = 16;
const TABLE: usize = MSIX_VECTORS as usize * ENTRY;
const MASKED: u8 = 1;

/// Table and pending bits.
#[derive(Debug)]
pub(crate) struct Msix {
    table: [u8; TABLE],
    pending: u64,
}

impl Msix {
    /// After reset every vector is masked.
    pub(crate) fn new() -> Self {
        let mut table = [0; TABLE];
        for vector in 0..MSIX_VECTORS.into() {
            let control: &mut u8 = &mut table[vector * ENTRY + 12];
            *control = MASKED;
        }
        Self { table, pending: 0 }
    }

    /// Whether a byte offset in BAR5 belongs to the table or the pending bits.
    pub(crate) fn contains(offset: u64) -> bool {
        (MSIX_TABLE_OFFSET..MSIX_TABLE_OFFSET + TABLE as u64).contains(&offset)
            || (MSIX_PBA_OFFSET..MSIX_PBA_OFFSET + 8).contains(&offset)
    }

    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        let pending = self.pending.to_le_bytes();
        let (bytes, base): (&[u8], u64) = if offset >= MSIX_PBA_OFFSET {
            (&pending, MSIX_PBA_OFFSET)
        } else {
            (&self.table, MSIX_TABLE_OFFSET)
        };
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = bytes.get((offset - base) as usize + i).copied().unwrap_or(0);
        }
    }

    /// Writes the table; the pending bits are read only.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if offset >= MSIX_PBA_OFFSET {
            return;
        }
        for (i, &byte) in data.iter().enumerate() {
            if let Some(target) = self.table.get_mut((offset - MSIX_TABLE_OFFSET) as usize + i) {
                *target = byte;
            }
        }
    }

    pub(crate) fn is_masked(&self, vector: u16) -> bool {
        self.table.get(usize::from(vector) * ENTRY + 12).is_none_or(|control| control & MASKED != 0)
    }

    pub(crate) fn set_pending(&mut self, vector: u16) {
        if vector < MSIX_VECTORS {
            self.pending |= 1 << vector;
        }
    }

    /// Takes the pending vectors that are not masked any more.
    pub(crate) fn take_pending(&mut self) -> impl Iterator<Item = u16> + use<> {
        let ready = (0..MSIX_VECTORS)
            .filter(|&vector| self.pending >> vector & 1 == 1 && !self.is_masked(vector))
            .fold(0u64, |ready, vector| ready | 1 << vector);
        self.pending &= !ready;
        (0..MSIX_VECTORS).filter(move |&vector| ready >> vector & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_vector_is_pending_until_unmasked() {
        let mut msix = Msix::new();
        assert!(msix.is_masked(0));
        msix.set_pending(0);
        let mut pba = [0; 8];
        msix.read(MSIX_PBA_OFFSET, &mut pba);
        assert_eq!(pba[0], 1);
        assert_eq!(msix.take_pending().count(), 0);
        msix.write(MSIX_TABLE_OFFSET + 12, &[0, 0, 0, 0]);
        assert_eq!(msix.take_pending().collect::<Vec<_>>(), [0]);
        assert_eq!(msix.take_pending().count(), 0);
    }

    #[test]
    fn table_reads_back_and_pending_bits_do_not_take_writes() {
        let mut msix = Msix::new();
        msix.write(MSIX_TABLE_OFFSET + 16, &[0xee; 8]);
        let mut data = [0; 8];
        msix.read(MSIX_TABLE_OFFSET + 16, &mut data);
        assert_eq!(data, [0xee; 8]);
        msix.write(MSIX_PBA_OFFSET, &[0xff; 8]);
        msix.read(MSIX_PBA_OFFSET, &mut data);
        assert_eq!(data, [0; 8]);
    }

    #[test]
    fn vectors_beyond_the_table_are_masked() {
        assert!(Msix::new().is_masked(u16::MAX));
    }
}
