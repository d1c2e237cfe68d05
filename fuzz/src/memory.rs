//! A small address space to run waves in: code and data, everything else faults.

#![expect(unsafe_code, reason = "the address space gives out pointers into its own memory")]

use std::cell::UnsafeCell;

use belfry_isa::inst::Arch;
use belfry_isa::mem::{Access, Fault, FaultKind, Mapping, Mmu};

/// Address of the code.
pub const CODE: u64 = 0x7_0000_0000;
/// Bytes of code.
pub const CODE_SIZE: usize = 2 * PAGE;
/// Address of the data: close enough for a signed offset to reach from one to the other.
pub const DATA: u64 = CODE + 0x4000;
/// Bytes of data.
pub const DATA_SIZE: usize = 4 * PAGE;
const PAGE: usize = 4096;

/// `s_endpgm` of an instruction set.
#[must_use]
pub fn s_endpgm(arch: Arch) -> u32 {
    if arch.is_gfx9() { 0xbf81_0000 } else { 0xbfb0_0000 }
}

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; PAGE]);

/// The memory.
pub struct Memory {
    code: Box<[UnsafeCell<Page>]>,
    data: Box<[UnsafeCell<Page>]>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

// SAFETY: one thread runs waves in it; it is accessed through pointers only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

fn pages(content: impl IntoIterator<Item = u32>, bytes: usize) -> Box<[UnsafeCell<Page>]> {
    let mut content = content.into_iter();
    let mut page = || {
        let mut page = Page([0; PAGE]);
        for (target, word) in page.0.as_chunks_mut().0.iter_mut().zip(&mut content) {
            *target = word.to_le_bytes();
        }
        UnsafeCell::new(page)
    };
    (0..bytes / PAGE).map(|_| page()).collect()
}

impl Memory {
    /// Memory with code that ends, and with data that differs from place to place.
    #[must_use]
    pub fn new(arch: Arch, code: &[u8]) -> Self {
        let words = code.chunks(4).map(|part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            u32::from_le_bytes(word)
        });
        let code = words.chain(std::iter::repeat(s_endpgm(arch)));
        let data = (0..).map(|word: u32| word.wrapping_mul(0x9e37_79b9));
        Self { code: pages(code, CODE_SIZE), data: pages(data, DATA_SIZE) }
    }

    /// The data as the wave has left it.
    #[must_use]
    pub fn data(&mut self) -> Vec<u8> {
        self.data.iter_mut().flat_map(|page| page.get_mut().0).collect()
    }
}

// SAFETY: the mappings last as long as `self`, whose memory is borrowed only through `&mut`.
unsafe impl Mmu for Memory {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        let fault = |kind| Err(Fault::new(va, access, kind));
        let is_write = matches!(access, Access::Write | Access::Atomic);
        for (at, pages, is_code) in [(CODE, &self.code, true), (DATA, &self.data, false)] {
            let len = (pages.len() * PAGE) as u64;
            if va.wrapping_sub(at) >= len {
                continue;
            }
            if is_write && is_code || access == Access::Execute && !is_code {
                return fault(FaultKind::refusal(access));
            }
            let host = UnsafeCell::raw_get(pages.as_ptr()).cast::<u8>();
            return Ok(Mapping {
                va: at,
                len,
                host,
                writable: !is_code,
                executable: is_code,
                mirrored: false,
                alone: false,
            });
        }
        fault(FaultKind::NotPresent)
    }

    fn generation(&self) -> u64 {
        1
    }

    fn context(&self) -> u64 {
        1
    }
}
