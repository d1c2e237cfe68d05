//! Code as it is fetched, and as it is compared with what was fetched before.

use super::{Access, Fault, Global, PAGE_SIZE};

/// Bytes that are compared at once.
const STEP: usize = 256;

impl Global<'_> {
    /// Copies the code at `va` to `bytes`; how many could be read before translation failed, and why it did.
    pub(crate) fn fetch(&mut self, va: u64, bytes: &mut [u8]) -> (usize, Option<Fault>) {
        let mut done = 0;
        while done < bytes.len() {
            let (host, in_page) = match self.code_page(va.wrapping_add(done as u64)) {
                Ok(page) => page,
                Err(fault) => return (done, Some(fault)),
            };
            let count = in_page.min(bytes.len() - done);
            // SAFETY: the pointer is good to the end of its page, and `bytes` is ours.
            unsafe { core::ptr::copy_nonoverlapping(host, bytes[done..].as_mut_ptr(), count) };
            done += count;
        }
        (done, None)
    }

    /// Returns true if the code at `va` is `code`, to the last byte.
    pub(crate) fn holds(&mut self, va: u64, code: &[u8]) -> bool {
        let mut done = 0;
        while done < code.len() {
            let Ok((host, in_page)) = self.code_page(va.wrapping_add(done as u64)) else { return false };
            let count = in_page.min(code.len() - done);
            for (at, known) in (0..).step_by(STEP).zip(code[done..done + count].chunks(STEP)) {
                // Others may write there meanwhile: what is compared is a copy.
                let mut now = [0; STEP];
                let now = &mut now[..known.len()];
                // SAFETY: the pointer is good to the end of its page, which the bytes are in, and `now` is ours.
                unsafe { core::ptr::copy_nonoverlapping(host.add(at), now.as_mut_ptr(), now.len()) };
                if *now != *known {
                    return false;
                }
            }
            done += count;
        }
        true
    }

    /// Host address of the code at `va`, and how many bytes its page has from there on.
    #[inline(always)]
    fn code_page(&mut self, va: u64) -> Result<(*mut u8, usize), Fault> {
        let host = self.tlb.lookup(self.mmu, va, Access::Execute)?;
        Ok((host, usize::try_from(PAGE_SIZE - va % PAGE_SIZE).unwrap_or(0)))
    }
}
