//! The boundaries of the guest channel's frames in a stream of bytes, so that a stream can be cut between two frames.

use belfry_channel::MAX_FRAME;

/// Bytes before the payload: the kind, and the payload's length.
const HEAD: usize = 5;

/// One direction of the channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// Bytes of the unfinished frame that have passed.
    begun: Vec<u8>,
    /// True if the bytes are no stream of frames, so that the beginning of the next frame is unknown.
    lost: bool,
}

impl Frames {
    /// Notes bytes that pass.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.lost {
            let wanted = match self.length() {
                None => HEAD,
                Some(length) => length,
            };
            // `wanted` bytes of the frame are needed; those in `begun` have passed already.
            let (now, rest) = bytes.split_at(bytes.len().min(wanted - self.begun.len()));
            self.begun.extend_from_slice(now);
            bytes = rest;
            match self.length() {
                Some(length) if length > HEAD + MAX_FRAME => {
                    self.lost = true;
                    self.begun = Vec::new();
                }
                Some(length) if length == self.begun.len() => self.begun.clear(),
                _ => {}
            }
        }
    }

    /// Returns the bytes of the frame that has begun, once its head is there.
    fn length(&self) -> Option<usize> {
        let head = self.begun.get(1..HEAD)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        Some(HEAD + length as usize)
    }

    /// Returns the bytes of an unfinished frame that have passed; `None` if this is no stream of frames.
    pub(super) fn begun(&self) -> Option<&[u8]> {
        (!self.lost).then_some(&*self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let mut frame = vec![7];
        frame.extend((length as u32).to_le_bytes());
        frame.extend((0..length).map(|at| at as u8));
        frame
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let stream = [frame(3), frame(0), frame(300), frame(1)].concat();
        let ends = [8, 13, 13 + 305, 13 + 305 + 6];
        for step in [1, 2, 5, 7, 64, stream.len()] {
            let mut frames = Frames::default();
            let mut at = 0;
            for piece in stream.chunks(step) {
                frames.pass(piece);
                at += piece.len();
                let begin = ends.iter().rev().find(|&&end| end <= at).copied().unwrap_or(0);
                assert_eq!(frames.begun(), Some(&stream[begin..at]), "{at} bytes, {step} at a time");
            }
        }
    }

    #[test]
    fn stream_of_something_else_is_lost_and_keeps_nothing() {
        let mut frames = Frames::default();
        frames.pass(&[0xff; 100]);
        assert_eq!(frames.begun(), None);
        frames.pass(&frame(1));
        assert_eq!(frames.begun(), None);
        let mut largest = Frames::default();
        largest.pass(&frame(MAX_FRAME));
        assert_eq!(largest.begun(), Some(&[][..]));
    }
}
