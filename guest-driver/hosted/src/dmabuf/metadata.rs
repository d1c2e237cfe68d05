//! Data that programs attach to shared memory, in its record: all processes that have the memory see it.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use belfry_abi::kfd::drm::AMDGPU_GEM_METADATA_BYTES;
use belfry_kfd_core::os::{Metadata, SharedMetadata};
use belfry_kfd_core::{Errno, Result};

use super::record::METADATA;
use crate::keeper::Kept;

/// Bytes in a record: tiling, flags, the number of bytes of data, and room for them.
pub(super) const BYTES: usize = DATA + AMDGPU_GEM_METADATA_BYTES;
const DATA: usize = 24;
/// Number of looks at metadata that another process may be writing.
const LOOKS: usize = 64;

/// The place in a record.
pub(super) struct Attached {
    file: Arc<Kept>,
    at: u64,
}

impl Attached {
    /// In the record at this place of a file.
    pub(super) fn of_record(file: Arc<Kept>, at: u64) -> Arc<dyn SharedMetadata> {
        Arc::new(Self { file, at: at + METADATA as u64 })
    }

    fn read(&self) -> io::Result<[u8; BYTES]> {
        let file = self.file.open()?;
        let mut bytes = [0; BYTES];
        file.read_exact_at(&mut bytes, self.at)?;
        for _ in 0..LOOKS {
            let mut again = [0; BYTES];
            file.read_exact_at(&mut again, self.at)?;
            if again == bytes {
                break;
            }
            bytes = again;
        }
        Ok(bytes)
    }
}

impl SharedMetadata for Attached {
    fn load(&self) -> Result<Metadata> {
        let bytes = self.read().map_err(|_| Errno::EIO)?;
        decode(&bytes).ok_or(Errno::EINVAL)
    }

    fn store(&self, metadata: &Metadata) -> Result<()> {
        let bytes = encode(metadata).ok_or(Errno::EINVAL)?;
        let stored = self.file.open().and_then(|file| file.write_all_at(&bytes, self.at));
        stored.map_err(|_| Errno::EIO)
    }
}

/// `None` for more data than there is room for.
fn encode(metadata: &Metadata) -> Option<[u8; BYTES]> {
    let Metadata { tiling, flags, data } = metadata;
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&tiling.to_le_bytes());
    bytes[8..16].copy_from_slice(&flags.to_le_bytes());
    bytes[16..DATA].copy_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.get_mut(DATA..DATA + data.len())?.copy_from_slice(data);
    Some(bytes)
}

/// Reads metadata that another process has written; `None` if it cannot be true.
fn decode(bytes: &[u8; BYTES]) -> Option<Metadata> {
    let quad =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let len = usize::try_from(quad(16)).ok().filter(|&len| len <= AMDGPU_GEM_METADATA_BYTES)?;
    Some(Metadata { tiling: quad(0), flags: quad(8), data: bytes[DATA..DATA + len].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_attached_is_read_as_it_was_written() {
        for len in [0, 1, 12, AMDGPU_GEM_METADATA_BYTES] {
            let data: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
            let metadata = Metadata { tiling: u64::MAX - 1, flags: 1 << 40, data };
            assert_eq!(decode(&encode(&metadata).unwrap()), Some(metadata));
        }
        let long = Metadata { data: vec![1; AMDGPU_GEM_METADATA_BYTES + 1], ..Metadata::default() };
        assert_eq!(encode(&long), None);
    }

    #[test]
    fn more_bytes_than_there_is_room_for_are_refused() {
        let mut bytes = [0; BYTES];
        for len in [AMDGPU_GEM_METADATA_BYTES as u64 + 1, u64::MAX] {
            bytes[16..DATA].copy_from_slice(&len.to_le_bytes());
            assert_eq!(decode(&bytes), None, "{len}");
        }
    }
}
