//! Conflicts of LDS accesses in its banks.
//!
//! The model, for all chips: a compute unit's LDS has [`BANKS`] banks of a dword, and bank `n` has the dwords
//! whose index is `n` modulo [`BANKS`]. Lanes are served in order, in groups that ask for [`BANKS`] dwords:
//! 32 lanes with a dword or less each, 16 with two, 8 with three or four. A group takes one pass if no bank
//! has to give two different dwords; otherwise as many passes as the busiest bank has different dwords. Lanes
//! that ask for one dword get it in one pass, atomics too. So a wave of 64 lanes that each load a dword takes
//! two passes without any conflict. Public sources (RDNA 3 and CDNA 3 ISA guides, "LDS") have the banks and
//! the broadcast; the groups of wider elements are this model's.

use belfry_isa::exec::{Place, Touch};
use serde::{Deserialize, Serialize};

use super::access::{Patterns, pattern};

/// Banks of the LDS of a compute unit, each of a dword.
pub const BANKS: usize = 32;

/// Accesses of LDS by one instruction of the code.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LdsAccess {
    /// Executions in which any lane accessed LDS.
    pub accesses: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Passes over the banks.
    pub passes: u64,
    /// Passes that conflicts have added.
    pub conflicts: u64,
    /// Most passes of one execution.
    pub most_passes: u32,
    /// Patterns of the lanes' addresses.
    pub patterns: Patterns,
}

/// Passes over the banks, and the passes that conflicts have added, for elements of `bytes` bytes in the
/// order of their lanes; `dwords` is a buffer.
fn passes(addresses: &[u32], bytes: u32, dwords: &mut Vec<u32>) -> (u32, u32) {
    let group = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let (mut passes, mut groups) = (0, 0);
    for lanes in addresses.chunks(group) {
        dwords.clear();
        for &address in lanes {
            let last = address.saturating_add(bytes.clamp(1, 16) - 1) / 4;
            dwords.extend(address / 4..=last);
        }
        dwords.sort_unstable();
        dwords.dedup();
        let mut banks = [0u32; BANKS];
        for dword in dwords.iter() {
            banks[*dword as usize % BANKS] += 1;
        }
        passes += banks.into_iter().max().unwrap_or(0);
        groups += 1;
    }
    (passes, passes - groups)
}

/// Buffers for counting an access.
#[derive(Debug, Default)]
pub(super) struct Room {
    addresses: Vec<u32>,
    dwords: Vec<u32>,
}

impl LdsAccess {
    /// Counts one execution. An instruction with two elements for each lane goes over the banks for the first
    /// elements, then for the second ones.
    pub(super) fn count(&mut self, touches: &[Touch], room: &mut Room) {
        let lds = |touch: &Touch| match touch.place {
            Place::Lds(address) => Some((touch.lane, address)),
            Place::Global(_) => None,
        };
        let Some(first) = touches.iter().find(|touch| lds(touch).is_some()) else { return };
        let (bytes, mut total) = (first.bytes, 0);
        for number in 0..2 {
            room.addresses.clear();
            let mut before = None;
            for (lane, address) in touches.iter().filter_map(lds) {
                let at = before.filter(|(of, _)| *of == lane).map_or(0, |(_, at)| at + 1);
                before = Some((lane, at));
                if at == number {
                    room.addresses.push(address);
                }
            }
            let (passes, conflicts) = passes(&room.addresses, bytes, &mut room.dwords);
            self.bytes += room.addresses.len() as u64 * u64::from(bytes);
            self.passes += u64::from(passes);
            self.conflicts += u64::from(conflicts);
            total += passes;
        }
        self.accesses += 1;
        self.most_passes = self.most_passes.max(total);
        let addresses = touches.iter().filter_map(lds).map(|(lane, address)| (lane, u64::from(address)));
        if let Some(pattern) = pattern(addresses, bytes) {
            self.patterns.count(pattern);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
        self.passes += other.passes;
        self.conflicts += other.conflicts;
        self.most_passes = self.most_passes.max(other.most_passes);
        self.patterns.add(&other.patterns);
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::mem::Access;

    use super::*;

    fn of(count: u32, bytes: u32, address: impl Fn(u32) -> u32) -> (u32, u32) {
        let addresses: Vec<u32> = (0..count).map(address).collect();
        passes(&addresses, bytes, &mut Vec::new())
    }

    #[test]
    fn passes_of_known_accesses() {
        assert_eq!(of(32, 4, |lane| lane * 4), (1, 0));
        assert_eq!(of(64, 4, |lane| lane * 4), (2, 0));
        // All lanes ask for one dword, or for bytes of one.
        assert_eq!(of(32, 4, |_| 64), (1, 0));
        assert_eq!(of(32, 1, |lane| lane), (1, 0));
        // Every second dword: two of them in each of 16 banks.
        assert_eq!(of(32, 4, |lane| lane * 8), (2, 1));
        // A column of a matrix of 32 columns: one bank. Of 33 columns: all of them.
        assert_eq!(of(32, 4, |lane| lane * 128), (32, 31));
        assert_eq!(of(32, 4, |lane| lane * 132), (1, 0));
        assert_eq!(of(32, 8, |lane| lane * 8), (2, 0));
        assert_eq!(of(32, 16, |lane| lane * 16), (4, 0));
        assert_eq!(of(32, 12, |lane| lane * 12), (4, 0));
        assert_eq!(of(8, 16, |lane| lane * 128), (8, 7));
        assert_eq!(of(0, 4, |lane| lane), (0, 0));
        assert_eq!(of(2, 16, |_| u32::MAX), (1, 0));
    }

    #[test]
    fn two_elements_for_each_lane_go_over_the_banks_twice() {
        let touch = |lane: u8, address| Touch {
            lane,
            place: Place::Lds(address),
            bytes: 4,
            access: Access::Read,
            replaces: false,
        };
        let touches: Vec<Touch> =
            (0..32u8).flat_map(|lane| [touch(lane, u32::from(lane) * 4), touch(lane, 4096)]).collect();
        let mut access = LdsAccess::default();
        access.count(&touches, &mut Room::default());
        assert_eq!((access.accesses, access.bytes, access.passes, access.conflicts), (1, 256, 2, 0));
        assert_eq!((access.most_passes, access.patterns.coalesced), (2, 1));
    }
}
