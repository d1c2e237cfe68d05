//! Accesses of the lanes of one wave instruction to memory: the pattern of their addresses, and their number
//! of cache lines.

use belfry_isa::exec::{Place, Touch};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line by which accesses of global memory are counted, on all chips: those of the vector caches and the L2 of RDNA 3 and
/// RDNA 4 ("RDNA 3 Instruction Set Architecture", 1.2), and of CDNA 3 ("AMD CDNA 3 Architecture" white paper; CDNA 2's L1 has 64).
pub const LINE: u64 = 128;

/// Pattern of the addresses of lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// All lanes have the same address; also a single lane.
    Uniform,
    /// Each lane's element follows that of the lane before it.
    Coalesced,
    /// Each lane's address is this many bytes from that of the lane before it.
    Strided(i64),
    /// None of these patterns.
    Gather,
}

/// Number of accesses of an instruction with each pattern.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Patterns {
    /// See [`Pattern::Uniform`].
    pub uniform: u64,
    /// See [`Pattern::Coalesced`].
    pub coalesced: u64,
    /// See [`Pattern::Strided`].
    pub strided: u64,
    /// See [`Pattern::Gather`].
    pub gather: u64,
    /// Bytes of the stride of the first strided access.
    pub stride: Option<i64>,
    /// Strided accesses with another stride.
    pub other_strides: u64,
}

impl Patterns {
    pub(super) fn count(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Uniform => self.uniform += 1,
            Pattern::Coalesced => self.coalesced += 1,
            Pattern::Gather => self.gather += 1,
            Pattern::Strided(stride) => {
                self.strided += 1;
                self.other_strides += u64::from(*self.stride.get_or_insert(stride) != stride);
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.uniform += other.uniform;
        self.coalesced += other.coalesced;
        self.strided += other.strided;
        self.gather += other.gather;
        self.other_strides += other.other_strides;
        match (self.stride, other.stride) {
            (Some(own), Some(theirs)) if own != theirs => {
                self.other_strides += other.strided - other.other_strides;
            }
            (own, theirs) => self.stride = own.or(theirs),
        }
    }

    /// The most frequent pattern, and of equally frequent ones the simplest; `None` if there was no access.
    #[must_use]
    pub fn usual(&self) -> Option<Pattern> {
        let stride = Pattern::Strided(self.stride.unwrap_or(0));
        let all = [
            (self.uniform, Pattern::Uniform),
            (self.coalesced, Pattern::Coalesced),
            (self.strided, stride),
            (self.gather, Pattern::Gather),
        ];
        let most = all.iter().map(|(count, _)| *count).max().filter(|most| *most > 0)?;
        all.into_iter().find(|(count, _)| *count == most).map(|(_, pattern)| pattern)
    }
}

/// The pattern of the addresses of lanes, in the order of the lanes, each with an element of `bytes` bytes;
/// of a lane with several elements the first counts.
pub(super) fn pattern(addresses: impl Iterator<Item = (u8, u64)>, bytes: u32) -> Option<Pattern> {
    let mut addresses = addresses.peekable();
    let first = addresses.next()?;
    let mut before = first;
    let (mut stride, mut alike) = (None, true);
    for (lane, address) in addresses {
        if lane == before.0 {
            continue;
        }
        let lanes = i64::from(lane) - i64::from(first.0);
        let distance = address.wrapping_sub(first.1).cast_signed();
        let of_first = *stride.get_or_insert_with(|| distance / lanes);
        alike &= of_first.checked_mul(lanes) == Some(distance);
        before = (lane, address);
    }
    Some(match stride {
        None | Some(0) if alike => Pattern::Uniform,
        Some(stride) if alike && stride == i64::from(bytes) => Pattern::Coalesced,
        Some(stride) if alike => Pattern::Strided(stride),
        _ => Pattern::Gather,
    })
}

/// Accesses of global memory by one instruction of the code.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct GlobalAccess {
    /// Executions in which any lane accessed global memory.
    pub accesses: u64,
    /// Bytes that lanes asked for: several lanes with one address each count.
    pub bytes: u64,
    /// Distinct lines of [`LINE`] bytes in each execution, added up.
    pub lines: u64,
    /// Most lines in one execution.
    pub most_lines: u32,
    /// Patterns of the lanes' addresses.
    pub patterns: Patterns,
}

impl GlobalAccess {
    /// Counts one execution; `lines` is a buffer for it.
    pub(super) fn count(&mut self, touches: &[Touch], lines: &mut Vec<u64>) {
        let global = |touch: &Touch| match touch.place {
            Place::Global(va) => Some((touch.lane, va)),
            Place::Lds(_) => None,
        };
        let of_global = || touches.iter().filter(|touch| global(touch).is_some());
        let Some(first) = of_global().next() else { return };
        lines.clear();
        for touch in of_global() {
            let Some((_, va)) = global(touch) else { continue };
            self.bytes += u64::from(touch.bytes);
            let last = va.saturating_add(u64::from(touch.bytes.max(1)) - 1) / LINE;
            lines.extend(va / LINE..=last);
        }
        lines.sort_unstable();
        lines.dedup();
        self.accesses += 1;
        self.lines += lines.len() as u64;
        self.most_lines = self.most_lines.max(lines.len() as u32);
        if let Some(pattern) = pattern(of_global().filter_map(global), first.bytes) {
            self.patterns.count(pattern);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.bytes += other.bytes;
        self.lines += other.lines;
        self.most_lines = self.most_lines.max(other.most_lines);
        self.patterns.add(&other.patterns);
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::mem::Access;

    use super::*;

    fn counted(addresses: &[(u8, u64)], bytes: u32) -> GlobalAccess {
        let touch = |&(lane, va): &(u8, u64)| Touch {
            lane,
            place: Place::Global(va),
            bytes,
            access: Access::Read,
            replaces: false,
        };
        let touches: Vec<Touch> = addresses.iter().map(touch).collect();
        let mut access = GlobalAccess::default();
        access.count(&touches, &mut Vec::new());
        access
    }

    fn lanes(count: u8, address: impl Fn(u64) -> u64) -> Vec<(u8, u64)> {
        (0..count).map(|lane| (lane, address(lane.into()))).collect()
    }

    #[test]
    fn lines_and_patterns_of_known_accesses() {
        for (addresses, bytes, lines, pattern) in [
            (lanes(32, |lane| 0x1000 + 4 * lane), 4, 1, Pattern::Coalesced),
            (lanes(64, |lane| 0x1000 + 4 * lane), 4, 2, Pattern::Coalesced),
            // Not aligned: one line more.
            (lanes(32, |lane| 0x1040 + 4 * lane), 4, 2, Pattern::Coalesced),
            (lanes(32, |lane| 0x1000 + 16 * lane), 16, 4, Pattern::Coalesced),
            (lanes(32, |_| 0x1000), 4, 1, Pattern::Uniform),
            (lanes(1, |_| 0x1000), 4, 1, Pattern::Uniform),
            (lanes(32, |lane| 0x1000 + 128 * lane), 4, 32, Pattern::Strided(128)),
            (lanes(32, |lane| 0x1000 + 8 * lane), 4, 2, Pattern::Strided(8)),
            (lanes(32, |lane| 0x2000 - 4 * lane), 4, 2, Pattern::Strided(-4)),
            (lanes(4, |lane| 0x1000 + lane * lane * 128), 4, 4, Pattern::Gather),
            // One element across two lines.
            (lanes(1, |_| 0x107e), 4, 2, Pattern::Uniform),
            // Lanes in between that are off change nothing.
            (vec![(0, 0x1000), (2, 0x1008), (31, 0x107c)], 4, 1, Pattern::Coalesced),
        ] {
            let access = counted(&addresses, bytes);
            assert_eq!(access.lines, lines, "{addresses:x?}");
            assert_eq!(access.patterns.usual(), Some(pattern), "{addresses:x?}");
            assert_eq!(access.bytes, u64::from(bytes) * addresses.len() as u64);
        }
        assert_eq!(counted(&[], 4), GlobalAccess::default());
    }

    #[test]
    fn addresses_at_the_ends_are_counted() {
        let access = counted(&[(0, u64::MAX), (1, 0), (2, 1 << 63)], 16);
        assert_eq!((access.lines, access.patterns.gather), (3, 1));
    }

    #[test]
    fn patterns_of_two_waves_are_added() {
        let mut sum = Patterns::default();
        for stride in [8, 8, 12] {
            let mut one = Patterns::default();
            one.count(Pattern::Strided(stride));
            sum.add(&one);
        }
        assert_eq!((sum.strided, sum.stride, sum.other_strides), (3, Some(8), 1));
        assert_eq!(sum.usual(), Some(Pattern::Strided(8)));
        assert_eq!(Patterns::default().usual(), None);
    }
}
