//! The driver's own system memory: pages out of one memfd.
#![expect(unsafe_code, reason = "hands out addresses inside the mapping")]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use belfry_kfd_core::os::{PAGE_SIZE, SystemPages};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};

use crate::shared::Shared;
use crate::sync::lock;

/// Bytes of a page.
const PAGE: usize = PAGE_SIZE as usize;

/// All pages; free ranges by offset, with lengths in bytes.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Shared,
    free: Mutex<BTreeMap<usize, usize>, rank::ArenaFree>,
}

impl Arena {
    pub(crate) fn new(memory: Shared) -> Arc<Self> {
        let free = Mutex::new(BTreeMap::from([(0, memory.size())]));
        Arc::new(Self { memory, free })
    }

    pub(crate) fn memory(&self) -> &Shared {
        &self.memory
    }

    /// Takes the first range that is long enough.
    pub(crate) fn allocate(self: &Arc<Self>, count: usize) -> Result<Pages> {
        let len = count.checked_mul(PAGE).filter(|&len| len > 0).ok_or(Errno::ENOMEM)?;
        let mut free = lock(&self.free);
        let (offset, size) = free
            .iter()
            .find(|(_, size)| **size >= len)
            .map(|(offset, size)| (*offset, *size))
            .ok_or(Errno::ENOMEM)?;
        free.remove(&offset);
        if size > len {
            free.insert(offset + len, size - len);
        }
        Ok(Pages { arena: self.clone(), offset, count })
    }

    fn release(&self, mut offset: usize, mut len: usize) {
        // Zero before others can have it.
        self.memory.punch(offset, len);
        let mut free = lock(&self.free);
        if let Some(next) = free.remove(&(offset + len)) {
            len += next;
        }
        if let Some((&before, &size)) = free.range(..offset).next_back()
            && before + size == offset
        {
            offset = before;
            len += size;
        }
        free.insert(offset, len);
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.memory.size() - lock(&self.free).values().sum::<usize>()
    }
}

/// Pages of the arena, given back when dropped.
#[derive(Debug)]
pub struct Pages {
    arena: Arc<Arena>,
    offset: usize,
    count: usize,
}

impl Pages {
    /// Writes to the pages from `offset` on, as much as there is room for.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let room = (self.count * PAGE).saturating_sub(offset);
        let len = bytes.len().min(room);
        // SAFETY: inside the pages, which this process reaches by this value alone.
        unsafe { self.cpu().as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

impl SystemPages for Pages {
    fn count(&self) -> usize {
        self.count
    }

    fn cpu(&self) -> NonNull<u8> {
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.arena.memory.base().add(self.offset) }
    }

    fn bus(&self, index: usize) -> u64 {
        // Physical addresses are the process's own.
        self.cpu().as_ptr() as u64 + (index * PAGE) as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.arena.release(self.offset, self.count * PAGE);
    }
}
