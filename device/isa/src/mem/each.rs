//! Elements of lanes one after the other, of which many are in one page.

use core::marker::PhantomData;

use super::tlb::PAGE_SIZE;
use super::words::read_words;
use super::{Access, Fault, Global, Unaligned, Word, crosses};

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

/// Lanes of a mask, the highest first.
#[inline(always)]
fn lanes(mut mask: u16) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lane = mask.checked_ilog2()? as usize & 15;
        mask &= !(1 << lane);
        Some(lane)
    })
}

/// Places of the elements of a wave's lanes on the host.
pub(crate) struct Found<'a, T> {
    hosts: [[*const u8; 16]; 4],
    /// The sixteen whose elements those of each are.
    of: [u8; 4],
    borrowed: PhantomData<&'a T>,
}

/// Read for lanes that have no element.
static NOTHING: u64 = 0;

impl<T: Word> Found<'_, T> {
    /// The element of a lane of a sixteen; zero for one that has none.
    #[inline(always)]
    pub(crate) fn load(&self, sixteen: usize, lane: usize) -> T {
        let host = self.hosts[usize::from(self.of[sixteen & 3] & 3)][lane & 15];
        // SAFETY: the TLB gave a pointer into a page that the element does not cross, and its owner is borrowed; or it is `NOTHING`.
        unsafe { host.cast::<Unaligned<T>>().read_volatile() }.0
    }
}

/// Says whether addresses are the same, without a jump for each.
#[inline(always)]
fn are_same(a: &[u64; 16], b: &[u64; 16]) -> bool {
    let mut differ = 0;
    for lane in 0..16 {
        differ |= a[lane] ^ b[lane];
    }
    differ == 0
}

impl Global<'_> {
    /// Finds the elements of a wave's lanes, the highest first; the fault, and the lane that has it. `None` where they have to be loaded one
    /// by one: an element is in two pages, or accesses are watched.
    #[inline(always)]
    pub(crate) fn find_each<T: Word>(
        &mut self,
        addresses: &[[u64; 16]; 4],
        masks: [u16; 4],
    ) -> Result<Option<Found<'_, T>>, (Fault, usize)> {
        let mut hosts = [[(&raw const NOTHING).cast(); 16]; 4];
        let mut of = [0, 1, 2, 3];
        if self.tlb.is_watched() {
            return Ok(None);
        }
        let mut page = Page::NONE;
        for sixteen in (0..4).rev() {
            let mask = masks[sixteen];
            // For matrix instructions both sixteens of a half load the same.
            if sixteen % 2 == 0
                && mask == masks[sixteen + 1]
                && are_same(&addresses[sixteen], &addresses[sixteen + 1])
            {
                of[sixteen] = of[sixteen + 1];
                continue;
            }
            if mask == 0 {
                continue;
            }
            for lane in (0..16).rev() {
                let va = addresses[sixteen][lane];
                if mask != u16::MAX && mask >> lane & 1 == 0 {
                    continue;
                }
                if crosses(va, T::SIZE) {
                    return Ok(None);
                }
                hosts[sixteen][lane] = match page.host(self, va) {
                    Ok(host) => host,
                    Err(fault) => return Err((fault, sixteen * 16 + lane)),
                };
            }
        }
        Ok(Some(Found { hosts, of, borrowed: PhantomData }))
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
        for lane in lanes(mask) {
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
        for lane in lanes(mask) {
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
