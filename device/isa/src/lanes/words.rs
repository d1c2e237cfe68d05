//! Words in memory that others may access meanwhile, eight bytes at a time where they are aligned (`mem/words.rs`).

#![expect(unsafe_code, reason = "reads and writes at addresses that callers vouch for")]

use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one access.
pub(crate) const UNIT: u64 = 8;

/// Any alignment: guest addresses have none that can be trusted.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct Unaligned<T>(pub(crate) T);

/// Eight bytes: one access, where they are aligned.
///
/// # Safety
///
/// They can be read; others may write them meanwhile.
#[inline(always)]
pub(crate) unsafe fn read_pair(at: *const u8) -> u64 {
    if at.addr().is_multiple_of(UNIT as usize) {
        // SAFETY: aligned and readable, and others access it atomically or by volatile accesses.
        return unsafe { AtomicU64::from_ptr(at.cast_mut().cast()) }.load(Ordering::Acquire);
    }
    // SAFETY: the caller's promise; any alignment will do.
    unsafe { at.cast::<Unaligned<u64>>().read_volatile() }.0
}

/// As [`read_pair`].
///
/// # Safety
///
/// They can be written; others may read them meanwhile.
#[inline(always)]
pub(crate) unsafe fn write_pair(at: *mut u8, pair: u64) {
    if at.addr().is_multiple_of(UNIT as usize) {
        // SAFETY: as in `read_pair`, and it is writable.
        return unsafe { AtomicU64::from_ptr(at.cast()) }.store(pair, Ordering::Release);
    }
    // SAFETY: the caller's promise; any alignment will do.
    unsafe { at.cast::<Unaligned<u64>>().write_volatile(Unaligned(pair)) };
}

/// `N` words, the highest first.
///
/// # Safety
///
/// As for [`read_pair`], of all of them.
#[inline(always)]
pub(crate) unsafe fn read_words<const N: usize>(at: *const u8) -> [u32; N] {
    let mut words = [0; N];
    if N % 2 == 1 {
        // SAFETY: the caller's promise.
        words[N - 1] = unsafe { at.wrapping_add(N * 4 - 4).cast::<Unaligned<u32>>().read_volatile() }.0;
    }
    for first in (0..N / 2).rev().map(|pair| pair * 2) {
        // SAFETY: the caller's promise.
        let pair = unsafe { read_pair(at.wrapping_add(first * 4)) };
        [words[first], words[first + 1]] = halves(pair);
    }
    words
}

/// `N` words, the lowest first.
///
/// # Safety
///
/// As for [`write_pair`], of all of them.
#[inline(always)]
pub(crate) unsafe fn write_words<const N: usize>(at: *mut u8, words: &[u32; N]) {
    for first in (0..N / 2).map(|pair| pair * 2) {
        // SAFETY: the caller's promise.
        unsafe { write_pair(at.wrapping_add(first * 4), pair(words[first], words[first + 1])) };
    }
    if N % 2 == 1 {
        let last = at.wrapping_add(N * 4 - 4).cast::<Unaligned<u32>>();
        // SAFETY: the caller's promise.
        unsafe { last.write_volatile(Unaligned(words[N - 1])) };
    }
}

#[inline(always)]
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(crate) fn halves(pair: u64) -> [u32; 2] {
    [pair as u32, (pair >> 32) as u32]
}

/// Lanes in a mask, the highest first.
///
/// The mask is reversed once: the highest bit of what is left is found by an instruction (`bsr`) that waits for the
/// register it writes, so that each lane would wait for the load of the lane before it.
#[inline(always)]
pub(crate) fn highest_first(mask: u64) -> impl Iterator<Item = u32> {
    let mut left = mask.reverse_bits();
    core::iter::from_fn(move || {
        let lane = (left != 0).then(|| 63 - left.trailing_zeros())?;
        left &= left - 1;
        Some(lane)
    })
}
