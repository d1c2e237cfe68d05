//! The state of a hosted device as plain values: its own snapshot, and where in its addresses the memory of its process is.

use serde::{Deserialize, Serialize};

use super::file::PAGE;
use super::state::StateError;

/// Most ranges: a process has no more mappings by default (`/proc/sys/vm/max_map_count`).
const RANGES: usize = 1 << 16;
/// End of the addresses of a process.
const END: u64 = 1 << 56;

/// A hosted device, but for the contents of memory.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SavedHosted {
    /// Ranges of system memory, lowest first: address and bytes. Their contents are one behind the other.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// The bytes of the GPU's snapshot, which has no VRAM.
    #[serde(with = "serde_bytes")]
    pub(crate) gpu: Vec<u8>,
}

impl SavedHosted {
    /// The state as bytes.
    ///
    /// # Errors
    ///
    /// None for what a device has.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_allocvec(self)?)
    }

    /// A state out of bytes that may come from anywhere; takes memory in proportion to them. `length` is how much memory comes with it.
    ///
    /// # Errors
    ///
    /// Bytes of something else, and ranges that no process has.
    pub(crate) fn from_bytes(bytes: &[u8], length: u64) -> Result<Self, StateError> {
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
