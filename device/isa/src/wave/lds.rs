//! Local data share of one workgroup.

use super::barriers::Barriers;
use crate::lanes::{LDS_STORAGE, LDS_WRAP, MAX_LDS_SIZE};
use zerocopy::FromZeros;

// Bytes after the end that wide accesses at the last address may touch; never visible.
const STORAGE: usize = LDS_STORAGE;
const SLACK: usize = STORAGE - LDS_WRAP as usize;

/// Bytes that begin where a line of the cache does: sixteen dwords in a row, as most waves access them, are then in one line.
#[derive(Clone, FromZeros)]
#[repr(C, align(64))]
struct Storage([u8; STORAGE]);

/// A workgroup's local data share. One worker runs all waves of a workgroup, so it needs no locks.
#[derive(Clone)]
pub struct Lds {
    storage: Box<Storage>,
    size: u32,
    /// Split barriers of the workgroup, which its waves share as well.
    pub barriers: Barriers,
}

impl core::fmt::Debug for Lds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lds").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Default for Lds {
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lds {
    /// Offset at which compiled code finds the pointer to the bytes.
    pub(crate) const STORAGE: usize = core::mem::offset_of!(Lds, storage);
    /// Offset at which compiled code finds the number of bytes.
    pub(crate) const SIZE: usize = core::mem::offset_of!(Lds, size);
}

/// Memory that the host has not yet touched.
fn zeros() -> Box<Storage> {
    match Storage::new_box_zeroed() {
        Ok(storage) => storage,
        Err(error) => panic!("no memory for an LDS: {error:?}"),
    }
}

impl Lds {
    /// `size` bytes of zeros, at most [`MAX_LDS_SIZE`].
    pub fn new(size: u32) -> Self {
        Lds { storage: zeros(), size: size.min(MAX_LDS_SIZE), barriers: Barriers::new(1) }
    }

    /// Makes it `size` bytes of zeros for the next workgroup. Its barriers stay.
    pub fn reset(&mut self, size: u32) {
        let old = self.size as usize;
        self.storage.0[..old].fill(0);
        self.size = size.min(MAX_LDS_SIZE);
    }

    /// Bytes allocated.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Its contents.
    pub fn bytes(&self) -> &[u8] {
        &self.storage.0[..self.size as usize]
    }

    /// Its contents, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage.0[..self.size as usize]
    }

    /// The whole storage, for accesses that have been checked.
    #[inline(always)]
    pub(crate) fn storage(&self) -> &[u8; STORAGE] {
        &self.storage.0
    }

    /// As [`Lds::storage`], to change.
    #[inline(always)]
    pub(crate) fn storage_mut(&mut self) -> &mut [u8; STORAGE] {
        &mut self.storage.0
    }

    /// `N` bytes from `address` on; bytes beyond the end mean nothing.
    #[inline(always)]
    pub(crate) fn window<const N: usize>(&self, address: u32) -> Option<&[u8; N]> {
        self.storage.0.get(address as usize..)?.first_chunk()
    }

    /// Returns true if `count` bytes at `address` are inside.
    #[inline(always)]
    pub(crate) fn contains(&self, address: u32, count: u32) -> bool {
        u64::from(address) + u64::from(count) <= u64::from(self.size)
    }

    /// Reads `N` bytes at an address that [`Lds::contains`] them. Other addresses wrap, and give useless bytes.
    #[inline(always)]
    pub(crate) fn get<const N: usize>(&self, address: u32) -> [u8; N] {
        const { assert!(N <= SLACK, "wide accesses stay within the slack") };
        let start = (address % LDS_WRAP) as usize;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.storage.0[start..start + N]);
        bytes
    }

    /// Writes `bytes` at an address that [`Lds::contains`] them.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, address: u32, bytes: [u8; N]) {
        const { assert!(N <= SLACK, "wide accesses stay within the slack") };
        let start = (address % LDS_WRAP) as usize;
        self.storage.0[start..start + N].copy_from_slice(&bytes);
    }

    /// The words from `address` on, as many as fit `N`; see [`Lds::get`].
    #[inline(always)]
    pub(crate) fn words<const N: usize>(&self, address: u32) -> Option<[u32; N]> {
        let start = address as usize;
        let bytes = self.bytes().get(start..start.checked_add(N * 4)?)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Some(words)
    }

    /// Writes words from `address` on, `None` when they are not all inside.
    #[inline(always)]
    pub(crate) fn set_words<const N: usize>(&mut self, address: u32, words: &[u32; N]) -> Option<()> {
        let start = address as usize;
        let bytes = self.bytes_mut().get_mut(start..start.checked_add(N * 4)?)?;
        for (word, bytes) in words.iter().zip(bytes.as_chunks_mut::<4>().0) {
            *bytes = word.to_le_bytes();
        }
        Some(())
    }
}
