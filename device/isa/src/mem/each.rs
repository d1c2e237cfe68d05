//! Elements of lanes one after the other, of which many are in one page.

use super::tlb::PAGE_SIZE;
use super::{Access, Fault, Global, Unaligned, Word, crosses};

impl Global<'_> {
    /// Loads `N` words for each lane of `mask` and hands them over; the fault, and the lane that has it. Lanes below it are done.
    #[inline(always)]
    pub(crate) fn load_each<T: Word, const N: usize>(
        &mut self,
        addresses: &[u64; 16],
        mask: u16,
        mut give: impl FnMut(usize, [T; N]),
    ) -> Result<(), (Fault, usize)> {
        let bytes = T::SIZE * N as u64;
        // Each access of a watched page has to be seen.
        let watched = self.tlb.is_watched();
        // A page that was looked up, and what takes an address in it to the host's.
        let mut known = (u64::MAX, 0);
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize & 15;
            left &= left - 1;
            let va = addresses[lane];
            let mut words = [T::default(); N];
            if watched || crosses(va, bytes) {
                for (word, n) in words.iter_mut().zip(0..) {
                    *word = self.load(va.wrapping_add(n * T::SIZE)).map_err(|fault| (fault, lane))?;
                }
                give(lane, words);
                continue;
            }
            if va / PAGE_SIZE != known.0 {
                let host = self.tlb.lookup(self.mmu, va, Access::Read).map_err(|fault| (fault, lane))?;
                known = (va / PAGE_SIZE, (host as u64).wrapping_sub(va));
            }
            let host: *const Unaligned<T> =
                core::ptr::with_exposed_provenance(va.wrapping_add(known.1) as usize);
            for (n, word) in words.iter_mut().enumerate() {
                // SAFETY: the TLB gave a pointer into this page, good to its end, and none of the words crosses it.
                *word = unsafe { host.wrapping_add(n).read_volatile() }.0;
            }
            give(lane, words);
        }
        Ok(())
    }
}
