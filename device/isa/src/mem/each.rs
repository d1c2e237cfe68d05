//! Elements of lanes one after the other, of which many are in one page.

use super::tlb::PAGE_SIZE;
use super::{Access, Fault, Global, Unaligned, Word, crosses};
use crate::lanes::words::{highest_first, read_words};

/// A page that was looked up, and the distance from an address in it to the host's.
struct Page {
    number: u64,
    delta: u64,
}

impl Page {
    const NONE: Page = Page { number: u64::MAX, delta: 0 };

    /// Host address of `va`.
    #[inline(always)]
    fn host(&mut self, global: &mut Global<'_>, va: u64) -> Result<*const u8, Fault> {
        if va / PAGE_SIZE != self.number {
            let host = global.tlb.lookup(global.mmu, va, Access::Read)?;
            *self = Page { number: va / PAGE_SIZE, delta: (host as u64).wrapping_sub(va) };
        }
        Ok(core::ptr::with_exposed_provenance(va.wrapping_add(self.delta) as usize))
    }
}

impl Global<'_> {
    /// Loads an element for each lane of `mask`, the highest first. Returns false where one is in two pages or in a page that cannot be read.
    /// No address may be watched.
    #[inline(always)]
    pub(crate) fn load_found<T: Word + Into<u16>>(
        &mut self,
        addresses: &[u64; 16],
        mask: u16,
        values: &mut [u32; 16],
    ) -> bool {
        let mut page = Page::NONE;
        for lane in (0..16).rev() {
            if mask != u16::MAX && mask >> lane & 1 == 0 {
                continue;
            }
            let va = addresses[lane];
            if crosses(va, T::SIZE) {
                return false;
            }
            let Ok(host) = page.host(self, va) else { return false };
            // SAFETY: the TLB gave a pointer into this page, good to its end, and the element does not cross it.
            let value = unsafe { host.cast::<Unaligned<T>>().read_volatile() }.0;
            values[lane] = u32::from(value.into());
        }
        true
    }

    /// Loads `N` words for each lane of `mask`, the highest lane first, and hands them over; the fault, and the lane that has it. Lanes
    /// above it are done.
    #[inline(always)]
    pub(crate) fn load_each_words<const N: usize>(
        &mut self,
        addresses: &[u64; 16],
        mask: u16,
        mut give: impl FnMut(usize, [u32; N]),
    ) -> Result<(), (Fault, usize)> {
        // Each access of a watched page has to be seen.
        let watched = self.tlb.is_watched();
        let mut page = Page::NONE;
        for lane in highest_first(mask.into()) {
            let lane = lane as usize & 15;
            let va = addresses[lane];
            let words = if watched || crosses(va, N as u64 * 4) {
                self.load_apart(va)
            } else {
                // SAFETY: the TLB gave a pointer into this page, good to its end, and none of the words crosses it.
                page.host(self, va).map(|host| unsafe { read_words(host) })
            };
            give(lane, words.map_err(|fault| (fault, lane))?);
        }
        Ok(())
    }

    /// As the function above, for values of at most 32 bits.
    #[inline(always)]
    pub(crate) fn load_each<T: Word>(
        &mut self,
        addresses: &[u64; 16],
        mask: u16,
        mut give: impl FnMut(usize, T),
    ) -> Result<(), (Fault, usize)> {
        let watched = self.tlb.is_watched();
        let mut page = Page::NONE;
        for lane in highest_first(mask.into()) {
            let lane = lane as usize & 15;
            let va = addresses[lane];
            let value = if watched || crosses(va, T::SIZE) {
                self.load(va)
            } else {
                let host = page.host(self, va);
                // SAFETY: as in `load_each_words`.
                host.map(|host| unsafe { host.cast::<Unaligned<T>>().read_volatile() }.0)
            };
            give(lane, value.map_err(|fault| (fault, lane))?);
        }
        Ok(())
    }
}
