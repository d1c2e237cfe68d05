//! Places of texels in memory.
//!
//! Levels are laid out as by AMD's addrlib (MIT licence), `Gfx12Lib::GetMipOffset`, `GetMipOrigin` and `CalcMipOffset`: the
//! smallest level first, and the levels that fit a block together in that block.

use super::layout::{Layout, Pattern};

/// Most levels of an image.
pub(crate) const MOST_LEVELS: u32 = 17;

/// Levels of an image in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surface {
    pub(crate) layout: Layout,
    /// Bytes of an element.
    pub(crate) bytes: u64,
    /// Elements of the largest level.
    pub(crate) size: [u32; 2],
    /// Levels in memory, also those that a descriptor does not show.
    pub(crate) levels: u32,
    /// Elements from one row to the next of a linear image of one level, if that is not the least that is aligned.
    pub(crate) pitch: Option<u32>,
}

/// One level of an image in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Bytes before it in its slice.
    pub(crate) before: u64,
    /// Bytes of a slice with all levels, or of as many slices as a block is deep.
    pub(crate) slice: u64,
    /// Bytes of a row of elements, or blocks of a row of blocks.
    row: u64,
    /// Place in the block that it shares with other levels.
    origin: [u32; 2],
}

/// Texels of a level that are shown, in one dimension.
pub(crate) fn minified(size: u32, level: u32) -> u32 {
    size.checked_shr(level).unwrap_or(0).max(1)
}

/// Elements of a level in memory, in one dimension (`ShiftCeil` in addrlib).
fn in_memory(size: u32, level: u32) -> u32 {
    u32::try_from(u64::from(size).div_ceil(1 << level.min(32))).unwrap_or(size)
}

impl Surface {
    /// Returns one of its levels.
    pub(crate) fn level(&self, level: u32) -> Level {
        match self.layout {
            Layout::Linear { row, slice } => self.linear(level, row, slice),
            Layout::Blocks(pattern) => self.blocks(level, pattern),
        }
    }

    fn linear(&self, level: u32, row: u64, slice: u64) -> Level {
        let size = |of: u32| self.size.map(|size| u64::from(in_memory(size, of)));
        let rows = |of: u32| match self.pitch {
            Some(pitch) => u64::from(pitch) * self.bytes,
            None => (size(of)[0] * self.bytes).next_multiple_of(row),
        };
        let bytes = |of: u32| rows(of).next_multiple_of(slice) * size(of)[1];
        Level {
            before: (level + 1..self.levels).map(bytes).sum(),
            slice: (0..self.levels).map(bytes).sum(),
            row: rows(level),
            origin: [0; 2],
        }
    }

    fn blocks(&self, level: u32, pattern: &Pattern) -> Level {
        let [width, height, _] = pattern.extent;
        let across = |of: u32| u64::from(in_memory(self.size[0], of).div_ceil(1 << width));
        let bytes = |of: u32| {
            (across(of) * u64::from(in_memory(self.size[1], of).div_ceil(1 << height))) << pattern.log2
        };
        let first = self.first_together(pattern);
        let together = if first < self.levels { 1u64 << pattern.log2 } else { 0 };
        let slice = together + (0..first).map(bytes).sum::<u64>();
        if level >= first {
            let origin = origin(pattern, level - first);
            return Level { before: 0, slice, row: 0, origin };
        }
        let before = together + (level + 1..first).map(bytes).sum::<u64>();
        Level { before, slice, row: across(level), origin: [0; 2] }
    }

    /// Returns the first level that shares a block with the smaller ones, or the number of levels.
    fn first_together(&self, pattern: &Pattern) -> u32 {
        let most = most_together(pattern);
        if self.levels == 1 || most == 1 {
            return self.levels;
        }
        // Half a block: of the even numbers of bits the width is halved.
        let [mut width, mut height, _] = pattern.extent.map(|log2| 1u32 << log2);
        match (pattern.extent[2], pattern.log2 % 3) {
            (0, _) if pattern.log2.is_multiple_of(2) => width /= 2,
            (0, _) | (_, 0) => height /= 2,
            (_, 1) => width /= 2,
            _ => {}
        }
        let fits = |level: &u32| {
            in_memory(self.size[0], *level) <= width
                && in_memory(self.size[1], *level) <= height
                && self.levels - level <= most
        };
        (0..self.levels).find(fits).unwrap_or(self.levels)
    }

    /// Returns the bytes before an element; the last coordinate counts slices.
    pub(crate) fn offset(&self, level: &Level, [x, y, z]: [u32; 3]) -> u64 {
        match self.layout {
            Layout::Linear { .. } => {
                u64::from(z) * level.slice
                    + level.before
                    + u64::from(y) * level.row
                    + u64::from(x) * self.bytes
            }
            Layout::Blocks(pattern) => {
                let (x, y) = (x + level.origin[0], y + level.origin[1]);
                let [column, row, slice] =
                    [(x, 0), (y, 1), (z, 2)].map(|(at, axis)| u64::from(at >> pattern.extent[axis]));
                let block = (row * level.row + column) << pattern.log2;
                slice * level.slice + level.before + block + u64::from(pattern.offset([x, y, z]))
            }
        }
    }
}

/// Returns the most levels that share a block.
fn most_together(pattern: &Pattern) -> u32 {
    let thick = pattern.extent[2] > 0;
    let log2 = pattern.log2 - if thick { (pattern.log2 - 8) / 3 } else { 0 };
    match log2 {
        0..=8 => 1,
        9..=11 => 1 + (1 << (log2 - 9)),
        _ => log2 - 4,
    }
}

/// Returns the place of a level in a block that it shares, by its number among those that do.
fn origin(pattern: &Pattern, level: u32) -> [u32; 2] {
    let behind = (most_together(pattern) - 1).saturating_sub(level);
    let offset = if behind > 6 { 16 << behind } else { behind << 8 };
    // In parts of 256 bytes: every second bit counts along y and along x, in turn.
    let every_second = |first: u32| (0..6).fold(0, |at, bit| at | (offset >> (first + 2 * bit) & 1) << bit);
    [every_second(9) << pattern.part[0], every_second(8) << pattern.part[1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::Images;

    fn surface(images: Images, mode: u32, element: u32, size: [u32; 2], levels: u32) -> Surface {
        let layout = Layout::of(images, mode, element, mode > 4).expect("a mode");
        Surface { layout, bytes: 1 << element, size, levels, pitch: None }
    }

    #[test]
    fn rows_of_linear_images_are_padded_as_their_generation_does() {
        let small = surface(Images::Gfx11, 0, 2, [17, 5], 1);
        let level = small.level(0);
        assert_eq!(level, Level { before: 0, slice: 5 * 256, row: 256, origin: [0; 2] });
        assert_eq!(small.offset(&level, [3, 2, 1]), 5 * 256 + 2 * 256 + 12);
        let small = surface(Images::Gfx12, 0, 2, [17, 5], 1);
        let level = small.level(0);
        assert_eq!(level, Level { before: 0, slice: 5 * 256, row: 128, origin: [0; 2] });
        let custom = Surface { pitch: Some(100), ..small };
        assert_eq!(custom.offset(&custom.level(0), [1, 3, 0]), 3 * 400 + 4);
        // Texels of twelve bytes.
        let odd = Surface { bytes: 12, size: [30, 2], ..small };
        assert_eq!(odd.offset(&odd.level(0), [29, 1, 0]), 384 + 348);
    }

    #[test]
    fn smaller_levels_of_linear_images_come_first() {
        let image = surface(Images::Gfx12, 0, 0, [256, 8], 4);
        let before = [0, 1, 2, 3].map(|level| image.level(level).before);
        // Rows of 256, 128, 128 and 128 bytes; slices count 256.
        assert_eq!(before, [256 * 4 + 256 * 2 + 256, 256 * 2 + 256, 256, 0]);
        assert_eq!([1, 3].map(|level| image.level(level).row), [128, 128]);
        assert_eq!(image.level(2).slice, 256 * 15);
    }

    #[test]
    fn levels_of_odd_sizes_have_room_for_the_rest() {
        // 20 by 9: 10 by 5, 5 by 3, 3 by 2.
        let image = surface(Images::Gfx12, 1, 0, [20, 9], 4);
        let blocks = |level| image.level(level).row;
        assert_eq!([0, 1, 2, 3].map(blocks), [2, 1, 1, 1]);
        let image = surface(Images::Gfx11, 0, 4, [33, 3], 2);
        assert_eq!(image.level(1).row, 512, "17 elements, not 16");
    }

    #[test]
    fn blocks_follow_each_other_in_rows_and_slices() {
        // 4 KiB of four bytes: 32 by 32.
        let image = surface(Images::Gfx12, 2, 2, [100, 40], 1);
        let level = image.level(0);
        assert_eq!(level, Level { before: 0, slice: 8 << 12, row: 4, origin: [0; 2] });
        assert_eq!(image.offset(&level, [0, 0, 0]), 0);
        assert_eq!(image.offset(&level, [99, 39, 2]), (16 << 12) + (7 << 12) + 0b1011_1100);
        // Thick: eight slices of eight bytes in a block of 4 KiB are 8 by 8 by 8.
        let image = surface(Images::Gfx12, 5, 3, [16, 8], 1);
        let level = image.level(0);
        assert_eq!((level.slice, level.row), (2 << 12, 2));
        assert_eq!(image.offset(&level, [8, 0, 8]), (2 << 12) + (1 << 12));
    }

    #[test]
    fn levels_that_fit_a_block_share_it_and_come_first() {
        let image = surface(Images::Gfx12, 2, 2, [128, 128], 8);
        // 128, 64 and 32 are more than half a block of 32 by 32; the others share one.
        let levels: Vec<_> = (0..8).map(|level| image.level(level)).collect();
        assert_eq!([2, 1, 0].map(|level: usize| levels[level].before), [1 << 12, 2 << 12, 6 << 12]);
        assert_eq!(levels[0].slice, (1 + 1 + 4 + 16) << 12);
        assert!(levels[3..].iter().all(|level| level.before == 0 && level.row == 0));
        let mut seen = std::collections::BTreeSet::new();
        for (number, level) in (3..).zip(&levels[3..]) {
            let size = minified(128, number);
            for (y, x) in (0..size).flat_map(|y| (0..size).map(move |x| (y, x))) {
                let offset = image.offset(level, [x, y, 0]);
                assert!(offset < 1 << 12 && seen.insert(offset), "level {number} at {x}, {y}");
            }
        }
    }
}
