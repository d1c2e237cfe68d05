//! Scratch memory: the part of a queue's backing memory that each wave has.

mod save;

use std::fmt;
use std::sync::PoisonError;

use belfry_lock::{Mutex, rank};

use super::ShaderEngine;

pub(crate) use save::SavedScratch;

/// Scratch memory of a queue, divided into slots of one wave each.
pub struct ScratchPool {
    base: u64,
    wave_bytes: u64,
    slots: u32,
    used: Mutex<Slots, rank::ScratchPool>,
}

#[derive(Default)]
struct Slots {
    /// Slots that were given back.
    free: Vec<u32>,
    /// First slot that was never used.
    next: u32,
}

impl fmt::Debug for ScratchPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ScratchPool")
            .field("base", &format_args!("{:#x}", self.base))
            .field("wave_bytes", &format_args!("{}", self.wave_bytes))
            .field("slots", &format_args!("{}", self.slots))
            .field("slots_in_use", &format_args!("{}", used.next as usize - used.free.len()))
            .finish()
    }
}

impl ScratchPool {
    /// Makes `slots` slots of `wave_bytes` each, from GPU virtual address `base` on.
    #[must_use]
    pub fn new(base: u64, wave_bytes: u64, slots: u32) -> ScratchPool {
        ScratchPool { base, wave_bytes, slots, used: Mutex::default() }
    }

    /// Returns true if the pool describes this memory.
    #[must_use]
    pub fn is(&self, base: u64, wave_bytes: u64, slots: u32) -> bool {
        (self.base, self.wave_bytes, self.slots) == (base, wave_bytes, slots)
    }

    /// Returns the GPU virtual address of the first slot.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the bytes of one slot.
    #[must_use]
    pub fn wave_bytes(&self) -> u64 {
        self.wave_bytes
    }

    /// Returns the number of waves that can have scratch memory at once.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the GPU virtual address of a slot.
    #[must_use]
    pub fn address(&self, slot: u32) -> u64 {
        self.base.wrapping_add(u64::from(slot) * self.wave_bytes)
    }

    /// Takes `count` slots, or none.
    pub(super) fn take(&self, count: u32) -> Option<Vec<u32>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = self.slots - used.next;
        if (used.free.len() as u64) + u64::from(fresh) < u64::from(count) {
            return None;
        }
        let taken = (0..count)
            .map(|_| {
                used.free.pop().unwrap_or_else(|| {
                    used.next += 1;
                    used.next - 1
                })
            })
            .collect();
        Some(taken)
    }

    /// Takes this slot. Returns false if a wave has it.
    pub(super) fn claim(&self, slot: u32) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if slot >= self.slots {
            return false;
        }
        if slot >= used.next {
            let skipped = used.next..slot;
            used.free.extend(skipped);
            used.next = slot + 1;
            return true;
        }
        let at = used.free.iter().position(|&free| free == slot);
        at.map(|at| used.free.swap_remove(at)).is_some()
    }

    /// Gives slots back.
    pub(super) fn give(&self, slots: impl IntoIterator<Item = u32>) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).free.extend(slots);
    }
}

impl ShaderEngine {
    /// Returns the number of parts of the chip that each have scratch memory for as many waves as
    /// `COMPUTE_TMPRING_SIZE` says.
    #[must_use]
    pub(crate) fn scratch_parts(&self) -> u32 {
        self.shared.scratch_parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_exclusive_and_come_back() {
        let pool = ScratchPool::new(0x1000, 0x100, 5);
        let first = pool.take(3).expect("five are free");
        assert_eq!(pool.take(3), None);
        let second = pool.take(2).expect("two are left");
        let mut all: Vec<u32> = first.iter().chain(&second).copied().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        assert_eq!(pool.address(4), 0x1400);
        pool.give(first);
        assert_eq!(pool.take(3).map(|slots| slots.len()), Some(3));
        assert_eq!(pool.take(1), None);
    }

    #[test]
    fn one_slot_is_claimed_once() {
        let pool = ScratchPool::new(0x1000, 0x100, 5);
        assert!(pool.claim(3) && !pool.claim(3) && !pool.claim(5));
        assert_eq!(
            pool.take(4).map(|mut slots| {
                slots.sort_unstable();
                slots
            }),
            Some(vec![0, 1, 2, 4])
        );
        pool.give([1]);
        assert!(pool.claim(1) && !pool.claim(1));
    }
}
