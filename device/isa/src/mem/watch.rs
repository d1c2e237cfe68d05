//! Address watches: accesses of memory that a debugger wants to hear of.

use super::Access;

/// Accesses that a watch is for (`TCP_WATCHn_CNTL.MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WatchMode {
    /// Loads.
    Read,
    /// Stores and atomics.
    NonRead,
    /// Atomics.
    Atomic,
    /// All of them.
    All,
}

/// Addresses that agree in the bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Watch {
    /// Value that the bits of the mask must have.
    pub address: u64,
    /// Bits of an address that are compared: none of the lowest seven.
    pub mask: u64,
    /// Kind of the accesses that count.
    pub mode: WatchMode,
}

impl Watch {
    /// Returns true if the byte at `va` is watched.
    #[must_use]
    pub fn covers(&self, va: u64) -> bool {
        va & self.mask == self.address
    }

    /// Returns true if any byte of the page of `va` may be watched.
    fn touches_page(&self, va: u64) -> bool {
        let mask = self.mask & !(super::PAGE_SIZE - 1);
        va & mask == self.address & mask
    }

    fn wants(&self, access: Access) -> bool {
        match (self.mode, access) {
            (_, Access::Execute) => false,
            (WatchMode::All, _) => true,
            (WatchMode::Read, access) => access == Access::Read,
            (WatchMode::NonRead, access) => access.is_write(),
            (WatchMode::Atomic, access) => access == Access::Atomic,
        }
    }
}

/// Watches of an address space, and which of them were met. A bit of a number is for the watch of that index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watches {
    pub(super) list: [Option<Watch>; 4],
    pub(super) met: u8,
}

impl Watches {
    pub(super) fn touch_page(&self, va: u64) -> bool {
        self.list.iter().flatten().any(|watch| watch.touches_page(va))
    }

    pub(super) fn look(&mut self, va: u64, access: Access) {
        for (index, watch) in self.list.iter().enumerate() {
            if watch.is_some_and(|watch| watch.wants(access) && watch.covers(va)) {
                self.met |= 1 << index;
            }
        }
    }
}
