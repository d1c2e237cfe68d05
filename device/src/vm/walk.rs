//! The page-table walk: from a virtual address to a location in physical memory.

use std::sync::atomic::Ordering;

use belfry_abi::gpuvm::{LEVEL_BITS, PAGE_SHIFT, VA_BITS};
use belfry_isa::mem::Access;

use super::{Fault, FaultKind, PAGE, Root, RootKind};
use crate::chip::{Entry, Page};
use crate::memory::{Memory, Physical, Slice};

/// A successful walk: a block of virtual addresses that is contiguous in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// First virtual address of the block.
    pub va: u64,
    /// Bytes in the block: a page, a huge page, or the fragment its entry declares.
    pub len: u64,
    /// Location of the block.
    pub location: Physical,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores and atomics are allowed.
    pub writable: bool,
    /// Instruction fetch is allowed.
    pub executable: bool,
}

/// The accesses that a page allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) executable: bool,
}

impl Rights {
    /// Returns true if this access is allowed.
    pub(super) fn allow(self, access: Access) -> bool {
        match access {
            Access::Read => self.readable,
            Access::Write => self.writable,
            Access::Atomic => self.readable && self.writable,
            Access::Execute => self.executable,
        }
    }
}

impl Translation {
    /// The accesses that the entry allows.
    pub(super) fn rights(&self) -> Rights {
        let Translation { readable, writable, executable, .. } = *self;
        Rights { readable, writable, executable }
    }

    /// Returns true if the entry allows this access.
    fn allows(&self, access: Access) -> bool {
        self.rights().allow(access)
    }

    /// Physical location of `va`, which lies in the block.
    #[must_use]
    pub fn locate(&self, va: u64) -> Option<Physical> {
        self.location.checked_add(va.wrapping_sub(self.va))
    }
}

impl Root {
    /// Virtual address with the sign extension of canonical addresses removed, if it is in this space at all.
    pub(super) fn offset_of(&self, va: u64) -> Option<u64> {
        let folded = va & ((1 << VA_BITS) - 1);
        let canonical = folded | if folded >> (VA_BITS - 1) == 1 { u64::MAX << VA_BITS } else { 0 };
        ((va == folded || va == canonical) && folded >= self.start && folded <= self.end)
            .then(|| folded - self.start)
    }

    /// log2 of the bytes one entry of a level covers; level 0 is the PTB.
    pub(super) fn level_shift(&self, level: u32) -> u32 {
        match level {
            0 => PAGE_SHIFT,
            _ => PAGE_SHIFT + self.block_size + LEVEL_BITS * (level - 1),
        }
    }
}

/// Walks the tables of `root` for `va`; `slice` keeps the tables' memory in place.
pub(super) fn walk(
    memory: &Memory,
    slice: &Slice<'_>,
    root: &Root,
    va: u64,
    access: Access,
) -> Result<Translation, Fault> {
    let fault = |kind, level: u32| Fault { va, access, kind, level: u8::try_from(level).ok() };
    if let RootKind::Vmid0 { fb_start, fb_end, fb_offset } = root.kind
        && (fb_start..=fb_end).contains(&va)
    {
        // In a hive, the frame buffer has the segments of all devices.
        let whole = (fb_end - fb_start).saturating_add(1);
        let segment = memory.hive().map_or(whole, |hive| hive.segment);
        let first = (va - fb_start) / segment * segment;
        let len = segment.min(whole - first);
        let location = memory.placed(Physical::local(fb_offset.saturating_add(first)));
        return Ok(Translation {
            va: fb_start + first,
            len,
            location,
            readable: true,
            writable: true,
            executable: true,
        });
    }
    let offset = root.offset_of(va).ok_or_else(|| fault(FaultKind::NotPresent, root.depth))?;
    let mut table = root.format.root(root.base);
    let mut level = root.depth;
    loop {
        let shift = root.level_shift(level);
        let index = match level {
            _ if level == root.depth => offset >> shift,
            0 => (offset >> shift) & ((1 << root.block_size) - 1),
            _ => (offset >> shift) & ((1 << LEVEL_BITS) - 1),
        };
        let location =
            memory.placed(table.at).checked_add(index << 3).ok_or_else(|| fault(FaultKind::Bus, level))?;
        let block =
            memory.block(slice, location, Access::Read).ok_or_else(|| fault(FaultKind::Bus, level))?;
        let atomic = block.atomic_u64().ok_or_else(|| fault(FaultKind::Bus, level))?;
        table = match root.format.entry(atomic.load(Ordering::Acquire), level) {
            Entry::Absent => return Err(fault(FaultKind::NotPresent, level)),
            Entry::Page(page) => {
                let found = leaf(page, shift, level, va, access)?;
                return Ok(Translation { location: memory.placed(found.location), ..found });
            }
            Entry::NotResident if access == Access::Execute => {
                return Err(fault(FaultKind::NoExecute, level));
            }
            Entry::NotResident => {
                return Ok(Translation {
                    va: va & !(PAGE - 1),
                    len: PAGE,
                    location: Physical::nowhere(),
                    readable: true,
                    writable: true,
                    executable: false,
                });
            }
            Entry::Table(next) if level != 0 => next,
            Entry::Table(_) | Entry::Unmodelled => return Err(fault(FaultKind::Bus, level)),
        };
        level -= 1;
    }
}

fn leaf(entry: Page, shift: u32, level: u32, va: u64, access: Access) -> Result<Translation, Fault> {
    let fault = |kind| Fault { va, access, kind, level: u8::try_from(level).ok() };
    let Page { readable, writable, executable, .. } = entry;
    let page = 1u64 << shift;
    let physical = entry.at.offset & !(page - 1);
    let page_va = va & !(page - 1);
    // A fragment is a promise that 2^n pages around this one are contiguous, too. It only counts where both sides are
    // aligned alike, and never beyond the 2 MiB that one PTB maps.
    let fragment = 1u64 << (PAGE_SHIFT + u32::from(entry.fragment.min(LEVEL_BITS as u8)));
    let len = if fragment > page && (page_va ^ physical) & (fragment - 1) == 0 { fragment } else { page };
    let location = entry.at.masked(!(page - 1)).masked(!(len - 1));
    let translation = Translation { va: va & !(len - 1), len, location, readable, writable, executable };
    if translation.allows(access) { Ok(translation) } else { Err(fault(FaultKind::refusal(access))) }
}
