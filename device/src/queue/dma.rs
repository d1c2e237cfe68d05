//! Where an SDMA queue is, beside its read pointer.

use crate::save::{Broken, check};

/// An indirect buffer that a queue is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DmaBuffer {
    /// Address of the next packet.
    pub at: u64,
    /// Dwords left; a buffer without any has been left.
    pub left: u32,
}

/// Where an SDMA queue is, beside its read pointer: what its MQD keeps while it is on no slot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DmaContext {
    /// The buffer it is in; the read pointer is behind the packet that led there.
    pub buffer: Option<DmaBuffer>,
    /// Bytes that the next packet has moved already.
    pub done: u64,
    /// What the engine's own counter is ahead of the counter of the whole GPU, modulo 2^64.
    pub clock: u64,
}

impl DmaContext {
    /// The most dwords of an indirect buffer.
    pub(crate) const MOST: u32 = 0xf_ffff;

    /// Whether a packet or a buffer has been begun and not ended.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.buffer.is_some() || self.done != 0
    }

    /// Whether packets could have led to it.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let left = self.buffer.map_or(1, |buffer| buffer.left);
        check("dwords left of an indirect buffer", left, (1..=Self::MOST).contains(&left))
    }
}
