//! The position of an SDMA queue, beside its read pointer.

use crate::save::{Broken, check};

/// An indirect buffer that a queue is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DmaBuffer {
    /// Address of the next packet.
    pub at: u64,
    /// Dwords left; a buffer without any has been left.
    pub left: u32,
}

/// Position of an SDMA queue, beside its read pointer. Its MQD keeps it while the queue is on no slot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DmaContext {
    /// Buffer that it is in; the read pointer is after the packet that led there.
    pub buffer: Option<DmaBuffer>,
    /// Bytes that the next packet has moved already.
    pub done: u64,
    /// Difference of the engine's own counter to the counter of the whole GPU, modulo 2^64.
    pub clock: u64,
}

impl DmaContext {
    /// Most dwords of an indirect buffer.
    pub(crate) const MOST: u32 = 0xf_ffff;

    /// Returns true if a packet or a buffer has been begun and not ended.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.buffer.is_some() || self.done != 0
    }

    /// Checks that packets could have led to it.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let left = self.buffer.map_or(1, |buffer| buffer.left);
        check("dwords left of an indirect buffer", left, (1..=Self::MOST).contains(&left))
    }
}
