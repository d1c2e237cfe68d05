//! Code as it is fetched, and as it is compared with what was fetched before.

use super::{Access, Fault, Global, PAGE_SIZE};

/// Bytes that are compared at once.
const STEP: usize = 256;

impl Global<'_> {
    /// Copies the code at `va` to `bytes`; how many could be read before translation failed, and why it did.
    pub(crate) fn fetch(&mut self, va: u64, bytes: &mut [u8]) -> (usize, Option<Fault>) {
        let mut done = 0;
        while done < bytes.len() {
            let address = va.wrapping_add(done as u64);
            let host = match self.tlb.lookup(self.mmu, address, Access::Execute) {
                Ok(host) => host,
                Err(fault) => return (done, Some(fault)),
            };
            let in_page = usize::try_from(PAGE_SIZE - address % PAGE_SIZE).unwrap_or(0);
            let count = in_page.min(bytes.len() - done);
            // SAFETY: the pointer is good to the end of its page, and `bytes` is ours.
            unsafe { core::ptr::copy_nonoverlapping(host, bytes[done..].as_mut_ptr(), count) };
            done += count;
        }
        (done, None)
    }

    /// Whether the code at `va` is this, to the last byte.
    pub(crate) fn holds(&mut self, va: u64, code: &[u8]) -> bool {
        let mut done = 0;
        while done < code.len() {
            let address = va.wrapping_add(done as u64);
            let Ok(host) = self.tlb.lookup(self.mmu, address, Access::Execute) else { return false };
            let in_page = usize::try_from(PAGE_SIZE - address % PAGE_SIZE).unwrap_or(0);
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
}
