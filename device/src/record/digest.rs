//! Digests of bytes: they find accidental differences, and do not withstand an attacker who wants them equal.

use crate::split_mix::mix;

/// A digest of some bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain(std::iter::once(&last));
    let fold = |sum: u64, word: &[u8; 8]| mix(sum.rotate_left(17) ^ u64::from_le_bytes(*word));
    words.fold(mix(bytes.len() as u64), fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..40).collect();
        let whole = digest(&bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(digest(&other), whole, "byte {at}");
            assert_ne!(digest(&bytes[..at]), whole, "length {at}");
        }
        assert_ne!(digest(&[0; 8]), digest(&[0; 9]));
    }
}
