//! The MSI-X table and pending bits (PCI Local Bus 3.0 section 6.8.2).

use crate::interrupt::Message;

/// Bytes of an entry: address, data, control.
pub const ENTRY: u64 = 16;
/// Vectors a table may have: bits of one quadword of pending bits.
pub const VECTORS: u16 = 64;

const DATA: usize = 8;
const CONTROL: usize = 12;
const MASKED: u8 = 1;

/// Table and pending bits of a function.
#[derive(Clone)]
pub struct Msix {
    table: Vec<u8>,
    pending: u64,
}

/// The vectors that are not masked: number, address and data of the message.
impl std::fmt::Debug for Msix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = (0..self.vectors()).filter(|&vector| !self.is_masked(vector));
        let open = open.map(|vector| (vector, self.message(vector)));
        f.debug_struct("Msix")
            .field("unmasked", &open.collect::<Vec<_>>())
            .field("pending", &self.pending)
            .finish()
    }
}

impl Msix {
    /// A table of `vectors` entries (at most [`VECTORS`]), all of them masked.
    #[must_use]
    pub fn new(vectors: u16) -> Self {
        let mut table = vec![0; usize::from(vectors.min(VECTORS)) * ENTRY as usize];
        for entry in table.chunks_exact_mut(ENTRY as usize) {
            entry[CONTROL] = MASKED;
        }
        Self { table, pending: 0 }
    }

    /// Number of vectors.
    #[must_use]
    pub fn vectors(&self) -> u16 {
        (self.table.len() / ENTRY as usize) as u16
    }

    /// Reads the table; bytes after its end read 0.
    pub fn read_table(&self, offset: u64, data: &mut [u8]) {
        read(&self.table, offset, data);
    }

    /// Reads the pending bits; bytes after their end read 0.
    pub fn read_pending(&self, offset: u64, data: &mut [u8]) {
        read(&self.pending.to_le_bytes(), offset, data);
    }

    /// Writes the table; bytes after its end take no writes. Reserved bits, and the address's lowest two,
    /// stay 0.
    pub fn write_table(&mut self, offset: u64, data: &[u8]) {
        for (at, &byte) in (0..).zip(data) {
            let Some(target) =
                offset.checked_add(at).and_then(|at| self.table.get_mut(usize::try_from(at).ok()?))
            else {
                break;
            };
            *target = match (offset + at) % ENTRY {
                0 => byte & !3,
                at if at == CONTROL as u64 => byte & MASKED,
                at if at > CONTROL as u64 => 0,
                _ => byte,
            };
        }
    }

    /// The entry of this vector is masked, or there is none.
    #[must_use]
    pub fn is_masked(&self, vector: u16) -> bool {
        self.entry(vector).is_none_or(|entry| entry[CONTROL] & MASKED != 0)
    }

    /// The message in the entry of a vector, masked or not.
    #[must_use]
    pub fn message(&self, vector: u16) -> Option<Message> {
        let entry = self.entry(vector)?;
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        Some(Message { address: u64::from(word(4)) << 32 | u64::from(word(0)), data: word(DATA) })
    }

    fn entry(&self, vector: u16) -> Option<&[u8]> {
        self.table.chunks_exact(ENTRY as usize).nth(vector.into())
    }

    /// Marks a vector as pending; one that there is not stays out of the pending bits.
    pub fn set_pending(&mut self, vector: u16) {
        if vector < self.vectors() {
            self.pending |= 1 << vector;
        }
    }

    /// Takes the pending vectors that are not masked, in their order.
    pub fn take_pending(&mut self) -> impl Iterator<Item = u16> + use<> {
        let ready = (0..self.vectors())
            .filter(|&vector| self.pending >> vector & 1 == 1 && !self.is_masked(vector))
            .fold(0u64, |ready, vector| ready | 1 << vector);
        self.pending &= !ready;
        (0..VECTORS).filter(move |&vector| ready >> vector & 1 == 1)
    }

    /// Forgets all pending messages.
    pub fn clear_pending(&mut self) {
        self.pending = 0;
    }
}

fn read(bytes: &[u8], offset: u64, data: &mut [u8]) {
    for (at, byte) in (0..).zip(data) {
        let at = offset.checked_add(at).and_then(|at| usize::try_from(at).ok());
        *byte = at.and_then(|at| bytes.get(at)).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_vector_is_pending_until_unmasked() {
        let mut msix = Msix::new(4);
        assert!(msix.is_masked(0));
        msix.set_pending(0);
        msix.set_pending(3);
        let mut pending = [0xee; 16];
        msix.read_pending(0, &mut pending);
        assert_eq!(pending, [9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(msix.take_pending().count(), 0);
        msix.write_table(12, &[0, 0, 0, 0]);
        assert_eq!(msix.take_pending().collect::<Vec<_>>(), [0]);
        assert_eq!(msix.take_pending().count(), 0);
        msix.clear_pending();
        msix.write_table(3 * ENTRY + 12, &[0]);
        assert_eq!(msix.take_pending().count(), 0);
    }

    #[test]
    fn an_entry_holds_its_message() {
        let mut msix = Msix::new(3);
        msix.write_table(ENTRY, &0x12_fee0_1000u64.to_le_bytes());
        msix.write_table(ENTRY + 8, &0x4041u32.to_le_bytes());
        assert_eq!(msix.message(1), Some(Message { address: 0x12_fee0_1000, data: 0x4041 }));
        assert_eq!(msix.message(2), Some(Message::default()));
        assert_eq!(msix.message(3), None);
    }

    #[test]
    fn vectors_beyond_the_table_are_masked_and_never_pending() {
        let mut msix = Msix::new(2);
        assert!(msix.is_masked(2) && msix.is_masked(u16::MAX));
        for vector in [2, 63, 64, u16::MAX] {
            msix.set_pending(vector);
        }
        let mut pending = [0xee; 8];
        msix.read_pending(0, &mut pending);
        assert_eq!(pending, [0; 8]);
        assert_eq!(Msix::new(u16::MAX).vectors(), VECTORS);
    }

    #[test]
    fn tables_take_every_width_and_keep_their_constant_bits() {
        let mut msix = Msix::new(2);
        for width in [1, 2, 4, 8] {
            for offset in (0..48).chain([1 << 40, u64::MAX - 2]) {
                msix.write_table(offset, &vec![0xff; width]);
                let mut data = vec![0xee; width];
                msix.read_table(offset, &mut data);
                let end = offset.saturating_add(width as u64);
                assert!(end <= 32 || data.last() == Some(&0), "{width} bytes at {offset:#x}: {data:x?}");
            }
        }
        let mut table = [0; 32];
        msix.read_table(0, &mut table);
        for entry in table.chunks_exact(16) {
            assert_eq!(u32::from_le_bytes(entry[..4].try_into().unwrap()), !3);
            assert_eq!(entry[4..12], [0xff; 8]);
            assert_eq!(entry[12..], [1, 0, 0, 0]);
        }
    }
}
