//! Patterns of the addresses of a wave's lanes, and pairs of registers by lane.

use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Pattern of the addresses of sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) enum Pattern {
    /// One element after the other from here.
    Contiguous(u32),
    /// All the same.
    Uniform(u32),
    Scattered,
}

/// Byte offsets of sixteen elements of `N` dwords that lie one after the other.
pub(crate) struct Steps<const N: usize>;

impl<const N: usize> Steps<N> {
    pub(crate) const CHUNK: Chunk = {
        let mut steps = [0; 16];
        let mut i = 0;
        while i < 16 {
            steps[i] = (i * N * 4) as u32;
            i += 1;
        }
        Chunk(steps)
    };
}

/// The pattern of addresses for elements of `N` dwords.
#[inline(always)]
pub(crate) fn pattern<L: Lanes, const N: usize>(address: L::V, first: u32) -> Pattern {
    let relative = L::sub(address, L::splat(first));
    if L::eq(relative, L::load(&Steps::<N>::CHUNK)) == u16::MAX {
        Pattern::Contiguous(first)
    } else if L::eq(relative, L::splat(0)) == u16::MAX {
        Pattern::Uniform(first)
    } else {
        Pattern::Scattered
    }
}

/// One lane of a register pair.
pub(crate) fn lane64(w: &Wave, row: u32, lane: u32) -> u64 {
    let row = row + lane / 32;
    u64::from(w.v.lane(row, lane & 31)) | u64::from(w.v.lane(row + w.halves, lane & 31)) << 32
}

/// Sets one lane of a register pair.
pub(crate) fn set_lane64(w: &mut Wave, row: u32, lane: u32, value: u64) {
    let row = row + lane / 32;
    w.v.set_lane(row, lane & 31, value as u32);
    w.v.set_lane(row + w.halves, lane & 31, (value >> 32) as u32);
}
