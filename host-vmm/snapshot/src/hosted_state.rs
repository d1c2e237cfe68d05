//! The state of a hosted device as plain values: its own snapshot, and the addresses of its process's memory.

use belfry_virtio::saved::StateError;
use serde::{Deserialize, Serialize};

use crate::file::PAGE;

/// Largest number of ranges: a process has no more mappings by default (`/proc/sys/vm/max_map_count`).
const RANGES: usize = 1 << 16;
/// End of a process's addresses.
const END: u64 = 1 << 56;

/// A hosted device without the contents of memory.
#[derive(Debug, Deserialize, Serialize)]
pub struct SavedHosted {
    /// Ranges of system memory, lowest first: address and bytes. Their contents follow each other in the file.
    pub ranges: Vec<(u64, u64)>,
    /// The bytes of the GPU's snapshot, which has no VRAM.
    #[serde(with = "serde_bytes")]
    pub gpu: Vec<u8>,
}

impl SavedHosted {
    /// Returns the state as bytes.
    ///
    /// # Errors
    ///
    /// None for the state of a real device.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_allocvec(self)?)
    }

    /// Makes a state of bytes that are not trusted; takes memory in proportion to them. `length` is the bytes of
    /// memory that come with it.
    ///
    /// # Errors
    ///
    /// Bytes that are no state, and ranges that no process has.
    pub fn from_bytes(bytes: &[u8], length: u64) -> Result<Self, StateError> {
        let (saved, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        if !rest.is_empty() {
            return Err(StateError::Trailing(rest.len()));
        }
        let refused = |what, value| Err(StateError::Value { what, value });
        if saved.ranges.len() > RANGES {
            return refused("number of ranges of memory", saved.ranges.len() as u64);
        }
        let (mut end, mut sum, page) = (0, 0, PAGE as u64);
        for &(start, bytes) in &saved.ranges {
            let whole = start.is_multiple_of(page) && bytes.is_multiple_of(page) && bytes > 0;
            if !whole || start < end || start >= END || bytes > END - start {
                return refused("range of memory", start);
            }
            (end, sum) = (start + bytes, sum + bytes);
        }
        if sum != length {
            return refused("length of memory", sum);
        }
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_no_process_has_are_refused() {
        let page = PAGE as u64;
        let read = |ranges: &[(u64, u64)], length| {
            let saved = SavedHosted { ranges: ranges.to_vec(), gpu: vec![1, 2] };
            SavedHosted::from_bytes(&saved.to_bytes().unwrap(), length).map(|saved| saved.ranges)
        };
        let good = [(page, page), (2 * page, 3 * page), (1 << 46, page)];
        assert_eq!(read(&good, 5 * page).unwrap(), good);
        assert!(read(&good, 4 * page).is_err(), "less memory than there is");
        for bad in [
            &[(1, page)][..],
            &[(page, 1)],
            &[(page, 0)],
            &[(page, 2 * page), (2 * page, page)],
            &[(2 * page, page), (page, page)],
            &[(u64::MAX - page + 1, page)],
            &[(page, u64::MAX - page + 1)],
        ] {
            let length = bad.iter().fold(0u64, |sum, range| sum.wrapping_add(range.1));
            assert!(read(bad, length).is_err(), "{bad:x?}");
        }
        let bytes = SavedHosted { ranges: Vec::new(), gpu: Vec::new() }.to_bytes().unwrap();
        assert!(SavedHosted::from_bytes(&bytes, 0).is_ok());
        assert!(SavedHosted::from_bytes(&[&bytes[..], &[0]].concat(), 0).is_err());
        assert!(SavedHosted::from_bytes(&bytes[..1], 0).is_err());
    }
}
