//! The layout of guest memory, and the part of it that the guest is told.

use belfry_bus::{ECAM, ECAM_SIZE};
use vm_memory::{GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use crate::memory::{HIGH_RAM, LOW_RAM_END};

/// End of the RAM below the video memory, less what a BIOS would keep there.
const BASE_END: u64 = 0x9_fc00;
/// Address of ACPI's tables, in the area that is searched as on a PC with a BIOS.
pub(crate) const ACPI: u64 = 0xe_0000;
/// Bytes of that area.
pub(crate) const ACPI_SIZE: u64 = 0x2_0000;
/// Lowest address of kernels.
pub(super) const KERNEL_START: u64 = 1 << 20;

/// Kind of a range of addresses, with the numbers of E820 (ACPI 6.5, table 15.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum Kind {
    Ram = 1,
    Reserved = 2,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Range {
    pub(super) at: u64,
    pub(super) size: u64,
    pub(super) kind: Kind,
}

/// Returns the first address after the RAM below the devices.
pub(super) fn low_end(memory: &GuestMemoryMmap) -> u64 {
    memory.find_region(GuestAddress(0)).map_or(0, |region| region.len()).min(LOW_RAM_END)
}

/// Returns the map that the guest gets; addresses outside of it are free for devices.
pub(super) fn ranges(memory: &GuestMemoryMmap) -> Vec<Range> {
    let range = |kind, at, end: u64| Range { at, size: end - at, kind };
    let mut ranges = vec![
        range(Kind::Ram, 0, BASE_END),
        range(Kind::Reserved, BASE_END, 0xa_0000),
        range(Kind::Reserved, ACPI, ACPI + ACPI_SIZE),
        range(Kind::Ram, KERNEL_START, low_end(memory)),
        range(Kind::Reserved, ECAM, ECAM + ECAM_SIZE),
    ];
    if let Some(high) = memory.find_region(GuestAddress(HIGH_RAM)) {
        ranges.push(range(Kind::Ram, HIGH_RAM, HIGH_RAM + high.len()));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(ranges: &[(u64, usize)]) -> GuestMemoryMmap {
        let ranges: Vec<_> = ranges.iter().map(|&(at, size)| (GuestAddress(at), size)).collect();
        GuestMemoryMmap::from_ranges(&ranges).unwrap()
    }

    #[test]
    fn ranges_are_in_order_and_apart() {
        for memory in [memory(&[(0, 4 << 20)]), memory(&[(0, LOW_RAM_END as usize), (HIGH_RAM, 1 << 30)])] {
            let ranges = ranges(&memory);
            for pair in ranges.windows(2) {
                assert!(pair[0].size > 0 && pair[0].at + pair[0].size <= pair[1].at, "{ranges:x?}");
            }
            let ram: u64 =
                ranges.iter().filter(|range| range.kind == Kind::Ram).map(|range| range.size).sum();
            let all: u64 = memory.iter().map(|region| region.len()).sum();
            assert_eq!(ram, all - (KERNEL_START - BASE_END));
        }
    }

    #[test]
    fn ram_leaves_the_devices_addresses_alone() {
        let memory = memory(&[(0, LOW_RAM_END as usize), (HIGH_RAM, 5 << 30)]);
        assert_eq!(low_end(&memory), LOW_RAM_END);
        let last = *ranges(&memory).last().unwrap();
        assert_eq!(last, Range { at: HIGH_RAM, size: 5 << 30, kind: Kind::Ram });
    }
}
