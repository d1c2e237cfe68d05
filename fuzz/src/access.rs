//! Accesses to a function, as records of 14 bytes: kind, length, offset, data.

/// Bytes of a record.
pub const RECORD: usize = 14;
/// Longest access: more than any processor makes, as much as another host might.
pub const LONGEST: usize = 31;
/// Of the length's byte: the offset counts back from the end of all addresses.
const FROM_END: u8 = 0x80;

/// One access.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Kind of access; each target uses the bits it needs.
    pub kind: u8,
    /// Offset of the access.
    pub offset: u64,
    bytes: [u8; 32],
    length: usize,
}

impl Access {
    /// Bytes to write, or as many bytes as are read.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Bytes accessed, at most [`LONGEST`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if no byte is accessed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn new(record: &[u8; RECORD]) -> Self {
        let [kind, length, a, b, c, d, data @ ..] = *record;
        let distance = u64::from(u32::from_le_bytes([a, b, c, d]));
        let offset = if length & FROM_END == 0 { distance } else { u64::MAX - distance };
        let mut bytes = [0; 32];
        bytes.as_chunks_mut::<8>().0.fill(data);
        Self { kind, offset, bytes, length: usize::from(length) & LONGEST }
    }
}

/// The accesses of an input; a rest at its end is ignored.
pub fn accesses(input: &[u8]) -> impl Iterator<Item = Access> {
    input.as_chunks::<RECORD>().0.iter().map(Access::new)
}
