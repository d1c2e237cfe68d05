//! The moments of an SDMA queue that tools look at, or change.

use belfry_abi::sdma::{Header, Op};

use super::SdmaQueue;
use super::transfer::Transfer;
use crate::moments::{Met, Moment, Packet, Stream, Verdict};
use crate::trace::{Engine, JobScope, Owner};

/// State that a queue keeps for tools; it is not part of a saved state.
#[derive(Debug, Default)]
pub(super) struct Watched {
    met: Met,
    /// Bytes of the transfer whose beginning was told.
    began: Option<u64>,
    /// Numbers of the other GPUs whose VRAM it reads and writes.
    ends: (Option<u8>, Option<u8>),
    /// Bytes of all transfers whose end was told.
    moved: u64,
    /// The last transfer that was told: its place in the ring, and in the buffer.
    decided: Option<(u64, Option<u64>)>,
    /// True if the transfer writes wrong bytes.
    corrupts: bool,
}

impl SdmaQueue {
    /// Tells the tools of the next packet; later moments belong to the packet of the ring.
    ///
    /// # Errors
    ///
    /// The packet has to stay where it is.
    #[inline(always)]
    pub(super) fn meet(&mut self, header: Header) -> Result<JobScope, Verdict> {
        if self.env.cp.tools.hear() { self.meet_packet(header) } else { Ok(JobScope::nothing()) }
    }

    #[cold]
    fn meet_packet(&mut self, header: Header) -> Result<JobScope, Verdict> {
        let packet = Packet {
            stream: Stream::Sdma,
            owner: self.owner(),
            kind: Op(header.op()).name().unwrap_or("unknown"),
            index: self.read_index,
            inner: self.context.buffer.map(|buffer| buffer.at),
            kernel: None,
        };
        self.env.cp.tools.packet(&mut self.watched.met, &packet)
    }

    fn owner(&self) -> Owner {
        self.config.identity.owner(Engine::Sdma(self.config.identity.me.into()))
    }

    /// Tells the tools of a transfer that begins or goes on. Returns true if the queue hangs at it. That is decided
    /// once for each transfer.
    #[inline(always)]
    pub(super) fn meet_transfer(&mut self, transfer: &Transfer) -> bool {
        self.env.cp.tools.hear() && self.decide_transfer(transfer)
    }

    #[cold]
    fn decide_transfer(&mut self, transfer: &Transfer) -> bool {
        let (tools, owner) = (&self.env.cp.tools, self.owner());
        let bytes = transfer.bytes();
        if self.watched.began.replace(bytes).is_none() {
            let (from, to) = self.ends(transfer);
            self.watched.ends = (from, to);
            tools.tell(|| Moment::TransferBegins { bytes, from, to }.of(owner));
        }
        let place = (self.read_index, self.context.buffer.map(|buffer| buffer.at));
        if self.context.done != 0 || self.watched.decided.replace(place) == Some(place) {
            return self.hangs;
        }
        let verdict = tools.at(|| Moment::Transfer { to: transfer.to() }.of(owner));
        self.watched.corrupts = verdict == Verdict::Corrupt;
        self.hangs = verdict == Verdict::Hang;
        self.hangs
    }

    /// Numbers of the other GPUs whose VRAM a transfer begins to read and to write.
    fn ends(&self, transfer: &Transfer) -> (Option<u8>, Option<u8>) {
        let memory = self.space.memory();
        if !memory.has_peers() {
            return (None, None);
        }
        let peer = |va: u64| memory.peer_at(self.space.peek(va)?.locate(va)?);
        (transfer.source().and_then(peer), peer(transfer.to()))
    }

    /// Returns true, once, if the transfer that has moved its bytes writes wrong ones.
    pub(super) fn take_corruption(&mut self) -> bool {
        std::mem::take(&mut self.watched.corrupts)
    }

    /// Tells the tools that the packet at the read pointer, and with it its transfer, is over.
    pub(super) fn end_transfer(&mut self) {
        let Some(bytes) = self.watched.began.take() else { return };
        self.watched.moved = self.watched.moved.wrapping_add(bytes);
        let (owner, total) = (self.owner(), self.watched.moved);
        let (from, to) = std::mem::take(&mut self.watched.ends);
        self.env.cp.tools.tell(|| Moment::TransferEnds { bytes, total, from, to }.of(owner));
    }
}
