//! Addresses that a process has unmapped and that stay reserved for a while, so that late accesses of the GPU to them
//! are told from accesses to the next map at these addresses. Used only if a sanitizer checks memory.
#![expect(unsafe_code, reason = "maps and unmaps addresses")]

use std::collections::VecDeque;

use crate::mapping;

/// Ranges that are kept.
const MAX_RANGES: usize = 256;
/// Bytes of addresses that are kept; there is no memory at them.
const MAX_BYTES: usize = 1 << 30;

/// The ranges, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    ranges: VecDeque<(usize, usize)>,
    bytes: usize,
}

impl Quarantine {
    /// Keeps a range that was [emptied](empty).
    pub(super) fn keep(&mut self, address: usize, len: usize) {
        self.ranges.push_back((address, len));
        self.bytes += len;
        while self.ranges.len() > MAX_RANGES || self.bytes > MAX_BYTES {
            let Some((address, len)) = self.ranges.pop_front() else { break };
            self.bytes -= len;
            // SAFETY: only this value has the range: a map that is made there first has this value forget it.
            let _ = unsafe { mapping::unmap(address, len) };
        }
    }

    /// Forgets a range in which a new map is made; the kept addresses beside it stay kept.
    pub(super) fn forget(&mut self, address: usize, len: usize) {
        let end = address.saturating_add(len);
        let left = self.ranges.iter().flat_map(|&(old, size)| {
            // Of a range on one side of the new map, one of these is all of it.
            let behind = end.clamp(old, old + size);
            let parts = [(old, address.clamp(old, old + size) - old), (behind, old + size - behind)];
            parts.into_iter().filter(|(_, size)| *size != 0)
        });
        self.ranges = left.collect();
        self.bytes = self.ranges.iter().map(|(_, len)| len).sum();
    }
}

/// Unmaps a range and leaves its addresses taken. Returns true if that could be done.
///
/// # Safety
///
/// Nothing may use the range afterwards.
pub(super) unsafe fn empty(address: usize, len: usize) -> bool {
    if len > MAX_BYTES / 4 {
        return false;
    }
    // SAFETY: the caller gives the range up.
    unsafe { mapping::zeroed(Some(address), len, libc::PROT_NONE) }.is_ok()
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        for (address, len) in self.ranges.drain(..) {
            // SAFETY: as in `keep`.
            let _ = unsafe { mapping::unmap(address, len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(len: usize) -> usize {
        // SAFETY: a new mapping at a place the kernel chooses.
        unsafe { mapping::zeroed(None, len, libc::PROT_READ) }.unwrap()
    }

    #[test]
    fn ranges_are_kept_bounded_and_forgotten() {
        let mut quarantine = Quarantine::default();
        let first = map(4096);
        for range in std::iter::once(first).chain((0..MAX_RANGES).map(|_| map(4096))) {
            // SAFETY: no code uses this map.
            assert!(unsafe { empty(range, 4096) });
            quarantine.keep(range, 4096);
        }
        assert_eq!((quarantine.ranges.len(), quarantine.bytes), (MAX_RANGES, MAX_RANGES * 4096));
        assert!(quarantine.ranges.iter().all(|&(address, _)| address != first));
        let last = quarantine.ranges.back().map(|range| range.0).unwrap();
        quarantine.forget(last, 4096);
        assert_eq!(quarantine.bytes, (MAX_RANGES - 1) * 4096);
        // SAFETY: as above.
        unsafe { mapping::unmap(last, 4096) }.unwrap();
    }

    #[test]
    fn what_is_beside_a_new_map_stays_kept() {
        let mut quarantine = Quarantine::default();
        let place = map(4 * 4096);
        // SAFETY: no code uses this map.
        assert!(unsafe { empty(place, 4 * 4096) });
        quarantine.keep(place, 4 * 4096);
        quarantine.forget(place + 4096, 4096);
        assert_eq!(quarantine.ranges, [(place, 4096), (place + 2 * 4096, 2 * 4096)]);
        quarantine.forget(place + 3 * 4096, 1 << 20);
        quarantine.forget(place - 4096, 4096);
        assert_eq!(quarantine.ranges, [(place, 4096), (place + 2 * 4096, 4096)]);
        assert_eq!(quarantine.bytes, 2 * 4096);
        for page in [1, 3] {
            // SAFETY: as above.
            unsafe { mapping::unmap(place + page * 4096, 4096) }.unwrap();
        }
    }
}
