//! Accesses to memory that processors change at the same time.
//!
//! Guest memory is shared with the guest's CPUs and with the shader workers, so no Rust reference to its bytes is ever
//! made: every access is a relaxed (or stronger) atomic of one to eight bytes. A wide copy can be torn by a racing
//! writer, as on hardware.

#![expect(
    unsafe_code,
    reason = "guest memory is racy: atomics through raw pointers, never references to bytes"
)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A block of guest memory that is contiguous on the host and stays mapped for `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    host: *mut u8,
    len: u64,
    _mapped: core::marker::PhantomData<&'a ()>,
}

impl<'a> Block<'a> {
    /// A block of `len` bytes at `host`.
    ///
    /// # Safety
    ///
    /// `host..host + len` is mapped readable and writable for `'a`, and no Rust reference to it exists.
    pub(crate) unsafe fn new(host: *mut u8, len: u64) -> Block<'a> {
        Block { host, len, _mapped: core::marker::PhantomData }
    }

    pub(crate) fn host(self) -> *mut u8 {
        self.host
    }

    pub(crate) fn len(self) -> u64 {
        self.len
    }

    /// The block without its first `offset` bytes; an empty block if it is shorter.
    pub(super) fn from(self, offset: u64) -> Block<'a> {
        let offset = offset.min(self.len);
        Block {
            host: self.host.wrapping_add(offset as usize),
            len: self.len - offset,
            _mapped: core::marker::PhantomData,
        }
    }

    /// Copies `out.len()` bytes from the start of the block; the block must be long enough.
    pub(crate) fn read(self, out: &mut [u8]) {
        assert!(out.len() as u64 <= self.len);
        let mut at = self.host;
        let mut rest = out;
        while !rest.is_empty() {
            let step = step(at, rest.len());
            let (now, later) = rest.split_at_mut(step);
            // SAFETY: `at..at + step` lies in the block (asserted), and `step` keeps every access aligned.
            at = unsafe {
                match step {
                    8 => now.copy_from_slice(
                        &AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes(),
                    ),
                    4 => now.copy_from_slice(
                        &AtomicU32::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes(),
                    ),
                    _ => now[0] = AtomicU8::from_ptr(at).load(Ordering::Relaxed),
                }
                at.add(step)
            };
            rest = later;
        }
    }

    /// Copies as [`read`](Self::read) does, in any order: of bytes that are written at the same time, each
    /// may be old or new.
    pub(crate) fn copy_out(self, out: &mut [u8]) {
        assert!(out.len() as u64 <= self.len);
        // SAFETY: the block is mapped for as many bytes as `out` has (asserted). No Rust reference to the
        // block exists, and the compiler does not know of the copy, so that a racing access is no race of
        // Rust's.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") out.len() => _,
                inout("rsi") self.host => _,
                inout("rdi") out.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.read(out);
    }

    /// Copies `data` to the start of the block; the block must be long enough.
    pub(crate) fn write(self, data: &[u8]) {
        assert!(data.len() as u64 <= self.len);
        let mut at = self.host;
        let mut rest = data;
        while !rest.is_empty() {
            let step = step(at, rest.len());
            let (now, later) = rest.split_at(step);
            // SAFETY: `at..at + step` lies in the block (asserted), and `step` keeps every access aligned.
            at = unsafe {
                match *now {
                    [a, b, c, d, e, f, g, h] => {
                        let value = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                        AtomicU64::from_ptr(at.cast()).store(value, Ordering::Relaxed);
                    }
                    [a, b, c, d] => {
                        AtomicU32::from_ptr(at.cast())
                            .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed);
                    }
                    _ => AtomicU8::from_ptr(at).store(now[0], Ordering::Relaxed),
                }
                at.add(step)
            };
            rest = later;
        }
    }

    /// Copies `len` bytes from the start of this block to the start of another, which must not be among the
    /// bytes copied; both blocks must be long enough.
    ///
    /// The processor chooses the order of the bytes: a racing reader may see any byte before any other.
    pub(crate) fn copy_to(self, to: Block<'_>, len: u64) {
        assert!(len <= self.len && len <= to.len);
        // SAFETY: both blocks are mapped for `len` bytes (asserted). No Rust reference to them exists, and
        // the compiler does not know of the copy, so that a racing access is no race of Rust's.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rsi") self.host => _,
                inout("rdi") to.host => _,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let mut part = [0; 4096];
            let mut done = 0;
            while done < len {
                let now = part.len().min((len - done) as usize);
                // SAFETY: both blocks go on for `len - done` bytes, which are mapped like the first ones.
                let (from, to) = unsafe {
                    (
                        Block::new(self.host.add(done as usize), len - done),
                        Block::new(to.host.add(done as usize), len - done),
                    )
                };
                from.read(&mut part[..now]);
                to.write(&part[..now]);
                done += now as u64;
            }
        }
    }

    /// Writes these eight bytes again and again over the first `len` bytes, the last time only as far as
    /// `len` goes; the block must be long enough.
    ///
    /// Racing readers may see any byte before any other, as with [`copy_to`](Self::copy_to).
    pub(crate) fn fill(self, pattern: [u8; 8], len: u64) {
        assert!(len <= self.len);
        #[cfg(target_arch = "x86_64")]
        let whole = {
            // SAFETY: the block is mapped for `len` bytes (asserted), and no more than these are written. No
            // Rust reference to them exists, and the compiler does not know of the writes, so that a racing
            // access is no race of Rust's.
            unsafe {
                core::arch::asm!(
                    "rep stosq",
                    inout("rcx") len / 8 => _,
                    inout("rdi") self.host => _,
                    in("rax") u64::from_le_bytes(pattern),
                    options(nostack, preserves_flags),
                );
            }
            len & !7
        };
        #[cfg(not(target_arch = "x86_64"))]
        let whole = {
            for at in (0..len & !7).step_by(8) {
                // SAFETY: the block goes on for `len - at` bytes, which are mapped like the first ones.
                unsafe { Block::new(self.host.add(at as usize), len - at) }.write(&pattern);
            }
            len & !7
        };
        // SAFETY: the block goes on for `len - whole` bytes, which are mapped like the first ones.
        let rest = unsafe { Block::new(self.host.add(whole as usize), len - whole) };
        rest.write(&pattern[..(len - whole) as usize]);
    }

    /// The first two bytes as one atomic; `None` if the block is too short or misaligned.
    pub(crate) fn atomic_u16(self) -> Option<&'a AtomicU16> {
        // SAFETY: `fits` checked length and alignment; `Block::new` promised that the memory stays mapped for `'a`.
        self.fits(2).then(|| unsafe { AtomicU16::from_ptr(self.host.cast()) })
    }

    /// The first four bytes as one atomic; `None` if the block is too short or misaligned.
    pub(crate) fn atomic_u32(self) -> Option<&'a AtomicU32> {
        // SAFETY: as for `atomic_u16`.
        self.fits(4).then(|| unsafe { AtomicU32::from_ptr(self.host.cast()) })
    }

    /// The first eight bytes as one atomic; `None` if the block is too short or misaligned.
    pub(crate) fn atomic_u64(self) -> Option<&'a AtomicU64> {
        // SAFETY: as for `atomic_u16`.
        self.fits(8).then(|| unsafe { AtomicU64::from_ptr(self.host.cast()) })
    }

    fn fits(self, size: u64) -> bool {
        self.len >= size && (self.host.addr() as u64).is_multiple_of(size)
    }
}

/// Bytes of the widest aligned access at `at` that `left` still needs.
fn step(at: *mut u8, left: usize) -> usize {
    if left >= 8 && at.addr().is_multiple_of(8) {
        8
    } else if left >= 4 && at.addr().is_multiple_of(4) {
        4
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_offset_and_length_are_exact() {
        let mut backing = vec![0u64; 8];
        let host = backing.as_mut_ptr().cast::<u8>();
        for offset in 0..8usize {
            for len in 0..40usize {
                // SAFETY: the vector owns 64 bytes and is only used through this block here.
                let whole = unsafe { Block::new(host, 64) };
                whole.write(&[0xee; 64]);
                // SAFETY: offset + 48 <= 64.
                let part = unsafe { Block::new(host.add(offset), 48) };
                let data: Vec<u8> = (1..=40).take(len).collect();
                part.write(&data);
                let mut all = [0u8; 64];
                whole.read(&mut all);
                assert_eq!(&all[offset..offset + len], &data[..]);
                assert!(all[..offset].iter().chain(&all[offset + len..]).all(|&byte| byte == 0xee));
                let mut back = vec![0u8; len];
                part.read(&mut back);
                assert_eq!(back, data);
            }
        }
    }

    #[test]
    fn copies_between_blocks_are_exact() {
        let mut backing = vec![0u64; 2048];
        let host = backing.as_mut_ptr().cast::<u8>();
        let data: Vec<u8> = (0..4096u32).map(|at| (at * 7 + at / 256) as u8).collect();
        for (from, to, len) in [(0, 8192, 4096), (3, 9001, 4090), (8192, 0, 4096), (5, 8000, 0), (1, 6000, 1)]
        {
            // SAFETY: the vector owns 16384 bytes and is only used through these blocks here.
            let (from, to) = unsafe { (Block::new(host.add(from), 4096), Block::new(host.add(to), 4096)) };
            from.write(&data);
            to.write(&[0xee; 4096]);
            from.copy_to(to, len);
            let mut all = [0; 4096];
            to.read(&mut all);
            assert_eq!(all[..len as usize], data[..len as usize]);
            assert!(all[len as usize..].iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn fills_of_blocks_are_exact() {
        let mut backing = vec![0u64; 1024];
        let host = backing.as_mut_ptr().cast::<u8>();
        let pattern = [1, 2, 3, 4, 5, 6, 7, 8];
        for (at, len) in [(0usize, 4096usize), (3, 4090), (8, 0), (1, 1), (5, 7), (4, 8), (0, 15)] {
            // SAFETY: the vector owns 8192 bytes and is only used through this block here.
            let block = unsafe { Block::new(host.add(at), 4096) };
            block.write(&[0xee; 4096]);
            block.fill(pattern, len as u64);
            let mut all = [0; 4096];
            block.read(&mut all);
            assert!(
                all[..len].iter().zip(pattern.iter().cycle()).all(|(got, want)| got == want),
                "{at} {len}"
            );
            assert!(all[len..].iter().all(|&byte| byte == 0xee), "{at} {len}");
        }
    }

    #[test]
    fn atomics_refuse_short_and_misaligned_blocks() {
        let mut backing = vec![0u64; 2];
        let host = backing.as_mut_ptr().cast::<u8>();
        for (offset, len, expected) in [
            (0, 8, (true, true, true)),
            (4, 8, (true, true, false)),
            (2, 8, (true, false, false)),
            (0, 3, (true, false, false)),
            (1, 8, (false, false, false)),
        ] {
            // SAFETY: offset + len <= 16.
            let block = unsafe { Block::new(host.add(offset), len) };
            let got =
                (block.atomic_u16().is_some(), block.atomic_u32().is_some(), block.atomic_u64().is_some());
            assert_eq!(got, expected, "offset {offset} length {len}");
        }
    }
}
