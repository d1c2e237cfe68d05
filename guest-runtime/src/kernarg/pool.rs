//! Memory for kernel argument segments, handed out in powers of two and taken back.

use std::sync::{Arc, Mutex};

use crate::kfd::Kfd;
use crate::memory::{Allocation, HostAccess, MemoryError, MemoryKind};
use crate::process::lock;

/// Smallest piece in bytes: enough for any alignment a segment may want up to it.
const SMALLEST: usize = 256;
/// Size classes: 256 bytes to 64 KiB.
const CLASSES: usize = 9;
/// Bytes allocated at once.
const CHUNK: usize = 64 << 10;

#[derive(Debug)]
struct Piece {
    chunk: Arc<Allocation>,
    offset: usize,
}

/// Free pieces by size class.
#[derive(Debug)]
pub(crate) struct KernargPool {
    kfd: Arc<Kfd>,
    gpu_id: u32,
    free: [Mutex<Vec<Piece>>; CLASSES],
}

/// A piece in use; goes back to the pool on drop.
#[derive(Debug)]
pub(crate) struct KernargSlot {
    pool: Arc<KernargPool>,
    class: usize,
    piece: Option<Piece>,
    address: u64,
}

/// The class whose pieces hold `size` bytes.
fn class_of(size: usize) -> Option<usize> {
    (0..CLASSES).find(|class| SMALLEST << class >= size)
}

impl KernargPool {
    pub(crate) fn new(kfd: Arc<Kfd>, gpu_id: u32) -> Self {
        Self { kfd, gpu_id, free: Default::default() }
    }

    /// A piece that holds `bytes`, aligned to its size.
    pub(crate) fn place(self: &Arc<Self>, bytes: &[u8]) -> Result<KernargSlot, MemoryError> {
        let class = class_of(bytes.len()).ok_or(MemoryError::Size { count: bytes.len(), size: 1 })?;
        let free = lock(&self.free[class]).pop();
        let piece = match free {
            Some(piece) => piece,
            None => self.refill(class)?,
        };
        piece.chunk.write_bytes(piece.offset, bytes);
        let address = piece.chunk.address() + piece.offset as u64;
        Ok(KernargSlot { pool: Arc::clone(self), class, piece: Some(piece), address })
    }

    fn refill(&self, class: usize) -> Result<Piece, MemoryError> {
        let chunk =
            Allocation::new(&self.kfd, &[self.gpu_id], MemoryKind::Gtt, HostAccess::ReadWrite, CHUNK)?;
        let chunk = Arc::new(chunk);
        let size = SMALLEST << class;
        let mut pieces: Vec<Piece> = (0..CHUNK / size)
            .map(|index| Piece { chunk: Arc::clone(&chunk), offset: index * size })
            .collect();
        // PANIC: the largest class is a whole chunk, so there is at least one piece.
        let first = pieces.pop().expect("a chunk holds a piece");
        lock(&self.free[class]).append(&mut pieces);
        Ok(first)
    }
}

impl KernargSlot {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for KernargSlot {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            lock(&self.pool.free[self.class]).push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_accepted_segment() {
        for (size, class) in [(0, Some(0)), (256, Some(0)), (257, Some(1)), (65536, Some(8)), (65537, None)] {
            assert_eq!(class_of(size), class, "{size}");
        }
    }
}
