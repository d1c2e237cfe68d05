//! Changes to structures that are valid before: a dword of them becomes something that may matter.

use arbitrary::Arbitrary;

use crate::driver::{BASE, Driver, GART, QUEUES, USER};

/// A dword.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Word {
    /// All zeros, or all ones.
    All(bool),
    /// A small number.
    Small(u8),
    /// The low half of an address the kernel has.
    Kernel(u16),
    /// The low half of an address the process has.
    User(u16),
    /// The high half of either.
    High(bool),
    /// A queue's doorbell.
    Doorbell(u8),
    /// A guest-physical address.
    Physical(u16),
    /// The value before, with a bit changed.
    Flip(u8),
    /// Anything.
    Any(u32),
}

impl Word {
    /// Its value, where there was another one before.
    #[must_use]
    pub fn value(self, before: u32) -> u32 {
        let places = |at: u16| u32::from(at) * 16;
        match self {
            Self::All(set) => {
                if set {
                    u32::MAX
                } else {
                    0
                }
            }
            Self::Small(value) => value.into(),
            Self::Kernel(at) => (GART as u32).wrapping_add(places(at)),
            Self::User(at) => (USER as u32).wrapping_add(places(at)),
            Self::High(kernel) => ((if kernel { GART } else { USER }) >> 32) as u32,
            Self::Doorbell(nth) => Driver::doorbell(usize::from(nth) % QUEUES).dwords(),
            Self::Physical(at) => (BASE as u32).wrapping_add(places(at)),
            Self::Flip(bit) => before ^ 1 << (bit & 31),
            Self::Any(value) => value,
        }
    }
}

/// A dword somewhere becomes something else.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Change {
    /// Index of the dword, modulo their number.
    pub at: u16,
    /// New value.
    pub to: Word,
}

impl Change {
    /// Changes one of the dwords: which.
    pub fn apply(self, bytes: &mut [u8]) -> usize {
        let dwords = bytes.as_chunks_mut().0;
        let nth = usize::from(self.at) % dwords.len();
        dwords[nth] = self.to.value(u32::from_le_bytes(dwords[nth])).to_le_bytes();
        nth
    }
}
