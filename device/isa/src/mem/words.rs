//! Words that follow each other, and the order in which memory sees their accesses.
//!
//! Eight bytes at a multiple of eight are one access. Loads go from high addresses to low ones, stores from low to
//! high: a reader that finds a flag that was stored after its data finds the data as well, as far as the host's
//! processor keeps loads and stores in their order. `docs/isa-choices.md` has the whole rule.

use core::sync::atomic::{Ordering, compiler_fence};

use super::{Access, Fault, Global, crosses};
use crate::lanes::Lanes;
use crate::lanes::words::{UNIT, halves, pair, read_pair, read_words, write_pair, write_words};

/// Words of a row, the sixteen dwords that one access of a vector takes.
const ROW: usize = 16;

/// Loads sixteen words, before all later loads.
///
/// # Safety
///
/// 64 bytes can be read; others may write them meanwhile.
#[inline(always)]
unsafe fn read_row<L: Lanes>(at: *const u8) -> L::V {
    // SAFETY: the caller's promise.
    let row = unsafe { L::load_from(at) };
    compiler_fence(Ordering::Acquire);
    row
}

/// Stores sixteen words, after all earlier stores.
///
/// # Safety
///
/// 64 bytes can be written; others may read them meanwhile.
#[inline(always)]
unsafe fn write_row<L: Lanes>(at: *mut u8, row: L::V) {
    compiler_fence(Ordering::Release);
    // SAFETY: the caller's promise.
    unsafe { L::store_to(at, row) };
}

impl Global<'_> {
    /// Loads `N` words that follow each other, wherever they are.
    #[inline(always)]
    pub(crate) fn load_words<const N: usize>(&mut self, va: u64) -> Result<[u32; N], Fault> {
        if crosses(va, N as u64 * 4) || self.tlb.is_watched() {
            return self.load_apart(va);
        }
        let host = self.tlb.lookup(self.mmu, va, Access::Read)?;
        // SAFETY: the TLB gave a pointer good to the end of the page, and none of the words crosses it.
        Ok(unsafe { read_words(host) })
    }

    /// Loads words that are in several pages, or watched: each access is looked up.
    #[cold]
    #[inline(never)]
    pub(super) fn load_apart<const N: usize>(&mut self, va: u64) -> Result<[u32; N], Fault> {
        // If two pages are missing, the fault is of the first one.
        self.tlb.lookup(self.mmu, va, Access::Read)?;
        let mut words = [0; N];
        let of = |n: usize| va.wrapping_add(n as u64 * 4);
        let pairs = if va.is_multiple_of(UNIT) { N / 2 } else { 0 };
        for n in (pairs * 2..N).rev() {
            words[n] = self.load(of(n))?;
        }
        for first in (0..pairs).rev().map(|pair| pair * 2) {
            let host = self.tlb.lookup(self.mmu, of(first), Access::Read)?;
            // SAFETY: the TLB gave a pointer good to the end of the page, which eight aligned bytes do not cross.
            [words[first], words[first + 1]] = halves(unsafe { read_pair(host) });
        }
        Ok(words)
    }

    /// Stores `N` words that follow each other; all of them or none.
    #[inline(always)]
    pub(crate) fn store_words<const N: usize>(&mut self, va: u64, words: [u32; N]) -> Result<(), Fault> {
        if crosses(va, N as u64 * 4) || self.tlb.is_watched() {
            return self.store_apart(va, &words);
        }
        let host = self.tlb.lookup(self.mmu, va, Access::Write)?;
        // SAFETY: the TLB gave a pointer good to the end of a writable page, and none of the words crosses it.
        unsafe { write_words(host, &words) };
        Ok(())
    }

    /// As [`Self::load_apart`].
    #[cold]
    #[inline(never)]
    fn store_apart(&mut self, va: u64, words: &[u32]) -> Result<(), Fault> {
        self.reaches(va, words.len() as u64 * 4)?;
        let of = |n: usize| va.wrapping_add(n as u64 * 4);
        let pairs = if va.is_multiple_of(UNIT) { words.len() / 2 } else { 0 };
        for first in (0..pairs).map(|pair| pair * 2) {
            let host = self.tlb.lookup(self.mmu, of(first), Access::Write)?;
            // SAFETY: as in `load_apart`, and the page is writable.
            unsafe { write_pair(host, pair(words[first], words[first + 1])) };
        }
        for (n, &word) in words.iter().enumerate().skip(pairs * 2) {
            self.store(of(n), word)?;
        }
        Ok(())
    }

    /// Loads `bytes` bytes, at most 16, to the low end of the result; those that are aligned are one access up to eight of them.
    pub(crate) fn load_bits(&mut self, va: u64, bytes: u64) -> Result<u128, Fault> {
        self.tlb.lookup(self.mmu, va, Access::Read)?;
        let mut bits = 0;
        for (at, size) in pieces(va, bytes).into_iter().flatten().rev() {
            let from = va.wrapping_add(at);
            let piece = match size {
                8 => self.load::<u64>(from)?,
                4 => self.load::<u32>(from)?.into(),
                2 => self.load::<u16>(from)?.into(),
                _ => self.load::<u8>(from)?.into(),
            };
            bits |= u128::from(piece) << (at * 8);
        }
        Ok(bits)
    }

    /// Stores the low `bytes` bytes, at most 16, all of them or none.
    #[expect(clippy::cast_possible_truncation, reason = "as many bits as a piece has")]
    pub(crate) fn store_bits(&mut self, va: u64, bytes: u64, bits: u128) -> Result<(), Fault> {
        self.reaches(va, bytes)?;
        for (at, size) in pieces(va, bytes).into_iter().flatten() {
            let (to, piece) = (va.wrapping_add(at), bits >> (at * 8));
            match size {
                8 => self.store(to, piece as u64)?,
                4 => self.store(to, piece as u32)?,
                2 => self.store(to, piece as u16)?,
                _ => self.store(to, piece as u8)?,
            }
        }
        Ok(())
    }

    /// Host address of `bytes` bytes that are in one page, and `None` where they are not, or watched.
    #[inline(always)]
    fn block(&mut self, va: u64, bytes: u64, access: Access) -> Result<Option<*mut u8>, Fault> {
        if crosses(va, bytes) {
            return Ok(None);
        }
        match self.tlb.lookup_block(self.mmu, va, access) {
            Ok(host) => Ok(Some(host)),
            // One access after the other where each is watched.
            Err(_) if self.tlb.watches_page(va) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Loads `N` consecutive words, `None` when they are not all in one page.
    #[inline(always)]
    pub(crate) fn load_block<const N: usize>(&mut self, va: u64) -> Result<Option<[u32; N]>, Fault> {
        let host = self.block(va, N as u64 * 4, Access::Read)?;
        // SAFETY: the block is within a page that the TLB has.
        Ok(host.map(|host| unsafe { read_words(host) }))
    }

    /// Loads `N` consecutive rows, as [`Self::load_block`].
    #[inline(always)]
    pub(crate) fn load_rows<L: Lanes, const N: usize>(
        &mut self,
        va: u64,
    ) -> Result<Option<[L::V; N]>, Fault> {
        let Some(host) = self.block(va, N as u64 * 64, Access::Read)? else { return Ok(None) };
        let mut rows = [L::splat(0); N];
        let mut n = N;
        // No closures: these are compiled without the backend's instructions.
        while n > 0 {
            n -= 1;
            // SAFETY: as in `load_block`.
            rows[n] = unsafe { read_row::<L>(host.wrapping_add(n * 64)) };
        }
        Ok(Some(rows))
    }

    /// Stores consecutive words of whole rows, `false` when they are not all in one page (and nothing was stored).
    #[inline(always)]
    pub(crate) fn store_rows<L: Lanes, const WORDS: usize>(
        &mut self,
        va: u64,
        words: &[u32; WORDS],
    ) -> Result<bool, Fault> {
        const { assert!(WORDS.is_multiple_of(ROW), "rows are whole") };
        let Some(host) = self.block(va, WORDS as u64 * 4, Access::Write)? else { return Ok(false) };
        for (n, row) in words.as_chunks::<ROW>().0.iter().enumerate() {
            // SAFETY: the block is within a writable page that the TLB has.
            unsafe { write_row::<L>(host.wrapping_add(n * 64), L::from_array(*row)) };
        }
        Ok(true)
    }

    /// Loads 32 consecutive words, `None` when they are not all in one page or cannot be loaded.
    #[inline(always)]
    pub(crate) fn load_vectors<L: Lanes>(&mut self, va: u64) -> Option<[L::V; 2]> {
        if crosses(va, 128) {
            return None;
        }
        let host = self.tlb.lookup_block(self.mmu, va, Access::Read).ok()?;
        // What the next wave loads with this instruction: the waves of a workgroup run one after the other, each with steps
        // through memory that are too long for the processor to see them coming.
        prefetch(host.wrapping_add(128));
        // SAFETY: as in `load_block`: 128 bytes from `host` on are in the page.
        let high = unsafe { read_row::<L>(host.wrapping_add(64)) };
        // SAFETY: as above.
        Some([unsafe { read_row::<L>(host) }, high])
    }

    /// Returns true if [`Self::store_vectors`] would store at `va`.
    #[inline(always)]
    pub(crate) fn stores_vectors(&mut self, va: u64) -> bool {
        !crosses(va, 128) && self.tlb.lookup_block(self.mmu, va, Access::Write).is_ok()
    }

    /// Stores 32 consecutive words, `false` when they are not all in one page or cannot be stored (and nothing was).
    #[inline(always)]
    pub(crate) fn store_vectors<L: Lanes>(&mut self, va: u64, words: [L::V; 2]) -> bool {
        if crosses(va, 128) {
            return false;
        }
        let Ok(host) = self.tlb.lookup_block(self.mmu, va, Access::Write) else { return false };
        // SAFETY: as in `load_vectors`, and the entry is for a writable page.
        unsafe {
            write_row::<L>(host, words[0]);
            write_row::<L>(host.wrapping_add(64), words[1]);
        }
        true
    }
}

/// Aligned pieces of `bytes` bytes at `va`, each as its distance from `va` and its size, the lowest first. If `va` is
/// no multiple of the bytes that are left, the pieces are as large as its alignment allows.
fn pieces(va: u64, bytes: u64) -> [Option<(u64, u64)>; 16] {
    let mut pieces = [None; 16];
    let mut at = 0;
    for piece in &mut pieces {
        if at >= bytes {
            break;
        }
        let most = (bytes - at).min(UNIT);
        let size = [8, 4, 2]
            .into_iter()
            .find(|&size| size <= most && va.wrapping_add(at).is_multiple_of(size))
            .unwrap_or(1);
        *piece = Some((at, size));
        at += size;
    }
    pieces
}

/// Asks the processor to fetch 128 bytes that will be loaded soon. It is a hint only, and may point anywhere.
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it accesses nothing that can be seen.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(64).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_such_hint = at;
}
