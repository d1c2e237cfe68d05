//! The bytes that an instruction is read from.

use crate::inst::DecodeError;
use crate::tables::notation::Notation;

/// The bytes of one instruction: up to 16 of them as a number, the first in the low bits.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) bits: u128,
    pub(super) available: usize,
}

impl Code {
    pub(super) fn new(bytes: &[u8]) -> Result<Code, DecodeError> {
        let available = bytes.len().min(16);
        let mut buffer = [0; 16];
        buffer[..available].copy_from_slice(&bytes[..available]);
        if available < 4 {
            return Err(truncated(4, available));
        }
        Ok(Code { bits: u128::from_le_bytes(buffer), available })
    }

    /// Dword number `index`, 0 beyond the end.
    pub(super) fn word(self, index: usize) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "one dword is taken")]
        let word = (self.bits >> (index * 32)) as u32;
        word
    }

    /// The error for bytes that match no form.
    pub(super) fn unknown(self, notation: &Notation) -> DecodeError {
        let word = self.word(0);
        let (encoding, bytes) = notation.encoding(word);
        if bytes > self.available {
            return truncated(bytes, self.available);
        }
        DecodeError::UnknownOpcode { encoding, word, next: self.word(1) }
    }
}

pub(super) fn truncated(needed: usize, available: usize) -> DecodeError {
    let small = |bytes: usize| u8::try_from(bytes).unwrap_or(u8::MAX);
    DecodeError::Truncated { needed: small(needed), available: small(available) }
}
