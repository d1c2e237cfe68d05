//! Record that the exporter writes of shared memory, and the checks that importers make of it.

use belfry_kfd_core::os::{AllocFlags, PAGE_SIZE};

use super::metadata;

/// First bytes of a record; the last one is its version.
const MAGIC: [u8; 16] = *b"belfry DMA-buf\0\x03";
/// Bytes before the parts: the magic, the size, the flags, the number of parts, the key, the flags of IPC handles, the number of the GPU,
/// and the metadata that programs have attached.
pub(super) const HEAD: usize = METADATA + metadata::BYTES;
/// Offset in a record of the data that programs have attached.
pub(super) const METADATA: usize = 48;
/// Bytes at the beginning that make a record one.
pub(super) const NAME: usize = MAGIC.len();
/// Offset in a record of the flags of IPC handles, which are written later than the rest.
pub(super) const IPC_FLAGS: usize = 36;
/// Offset in a record of the GPU's number.
const GPU: usize = 40;
/// Bytes of a part: where it begins in the file, and its length.
pub(super) const PART: usize = 16;
/// Most parts that memory may have: each of them is a mapping of its own, and Linux limits a process's mappings.
const MOST: usize = 1 << 15;
/// Largest size: more than the VRAM of any GPU here, as system memory is shared, too. An importer's work grows with the size, and a
/// forged file can be made of holes, so that its own length says nothing.
const LARGEST: u64 = 1 << 38;

/// Shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Bytes.
    pub(super) size: u64,
    /// Allocation flags that importers see.
    pub(super) flags: AllocFlags,
    /// A number that no other record is likely to have: it tells handles of memory that is gone.
    pub(super) key: u32,
    /// Flags that importers of an IPC handle see.
    pub(super) ipc_flags: u32,
    /// Number of the GPU in its machine.
    pub(super) gpu: u8,
    /// Places in the file and lengths, in the order of the memory.
    pub(super) parts: Vec<(u64, u64)>,
}

fn quad(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
}

/// The bytes of parts that follow a head; `None` when that is none.
pub(super) fn parts_len(head: &[u8]) -> Option<usize> {
    let count = word(head, 28)? as usize;
    (head.get(..16)? == MAGIC && (1..=MOST).contains(&count)).then_some(count * PART)
}

impl Record {
    /// The record as bytes; `None` for memory in more parts than others would map.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        if self.parts.len() > MOST {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEAD + self.parts.len() * PART);
        bytes.extend(MAGIC);
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.flags.bits().to_le_bytes());
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(self.ipc_flags.to_le_bytes());
        bytes.extend(u64::from(self.gpu).to_le_bytes());
        bytes.resize(HEAD, 0);
        for (at, len) in &self.parts {
            bytes.extend(at.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
        Some(bytes)
    }

    /// Decodes a record; `None` unless all of it can be true of a file of `file_len` bytes.
    pub(super) fn decode(bytes: &[u8], file_len: u64) -> Option<Self> {
        let len = parts_len(bytes)?;
        let size = quad(bytes, 16)?;
        let flags = AllocFlags::from_bits(word(bytes, 24)?)?;
        let kind = flags.difference(AllocFlags::PUBLIC);
        if kind != AllocFlags::VRAM && kind != AllocFlags::GTT {
            return None;
        }
        let (key, ipc_flags) = (word(bytes, 32)?, word(bytes, IPC_FLAGS)?);
        let gpu = u8::try_from(quad(bytes, GPU)?).ok()?;
        let mut parts = Vec::with_capacity(len / PART);
        let mut sum = 0u64;
        for part in bytes.get(HEAD..HEAD + len)?.chunks_exact(PART) {
            let (at, len) = (quad(part, 0)?, quad(part, 8)?);
            let whole = at.is_multiple_of(PAGE_SIZE) && len.is_multiple_of(PAGE_SIZE) && len > 0;
            if !whole || at.checked_add(len)? > file_len {
                return None;
            }
            sum = sum.checked_add(len).filter(|&sum| sum <= LARGEST)?;
            parts.push((at, len));
        }
        // Pages that are there several times would make any size of a small file.
        if sum > file_len {
            return None;
        }
        (sum == size).then_some(Self { size, flags, key, ipc_flags, gpu, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 1 << 20;

    fn record() -> Record {
        let parts = vec![(0x4000, 0x2000), (0x1000, 0x1000)];
        let flags = AllocFlags::VRAM | AllocFlags::PUBLIC;
        Record { size: 0x3000, flags, key: 77, ipc_flags: 5, gpu: 3, parts }
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        let bytes = record().encode().unwrap();
        assert_eq!(parts_len(&bytes[..HEAD]), Some(bytes.len() - HEAD));
        assert_eq!(Record::decode(&bytes, FILE), Some(record()));
        assert_eq!(Record::decode(&bytes, 0x6000), Some(record()));
    }

    #[test]
    fn what_cannot_be_true_is_no_record() {
        let parts = |parts: &[(u64, u64)]| {
            let size = parts.iter().fold(0u64, |sum, (_, len)| sum.wrapping_add(*len));
            Record { size, parts: parts.to_vec(), ..record() }
        };
        for (what, wrong) in [
            ("outside the file", parts(&[(0, 0x1000), (FILE, 0x1000)])),
            ("around the end", parts(&[(!0xfff, 0x2000)])),
            ("not aligned", parts(&[(0x1001, 0x1000)])),
            ("no whole pages", parts(&[(0x1000, 0x1800)])),
            ("empty part", parts(&[(0x1000, 0)])),
            ("more than the file", parts(&[(0, FILE), (0x1000, 0x1000)])),
            ("no parts", parts(&[])),
            ("another size", Record { size: 0x4000, ..record() }),
            ("two kinds", Record { flags: AllocFlags::VRAM | AllocFlags::GTT, ..record() }),
            ("no kind", Record { flags: AllocFlags::PUBLIC, ..record() }),
            ("another kind", Record { flags: AllocFlags::USERPTR, ..record() }),
        ] {
            assert_eq!(Record::decode(&wrong.encode().unwrap(), FILE), None, "{what}");
        }
        let good = record().encode().unwrap();
        for cut in [0, 15, HEAD - 1, HEAD, good.len() - 1] {
            assert_eq!(Record::decode(&good[..cut], FILE), None, "{cut} bytes");
        }
        let mut other = good.clone();
        other[15] += 1;
        assert_eq!(Record::decode(&other, FILE), None, "another version");
        let mut many = good;
        many[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parts_len(&many[..HEAD]), None);
        // A file of holes has any length.
        for (size, is_record) in [(LARGEST, true), (LARGEST + PAGE_SIZE, false), (1 << 45, false)] {
            let halves = parts(&[(0, size / 2), (size / 2, size - size / 2)]).encode().unwrap();
            assert_eq!(Record::decode(&halves, 1 << 46).is_some(), is_record, "{size:#x} bytes");
        }
        let fragmented = Record { parts: vec![(0, PAGE_SIZE); MOST + 1], ..record() };
        assert_eq!(fragmented.encode(), None);
    }
}
