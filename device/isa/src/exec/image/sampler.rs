//! Sampler descriptors (`SQ_IMG_SAMP_WORD0..3`), and the texels that a coordinate falls on.
//!
//! Fields: Mesa `gfx11-rsrc.json` and `gfx12-rsrc.json`. Places of single texels are those that a gfx1200 was seen to take
//! (`device/isa/verify/data/cards`); what no source says is in `docs/isa-choices.md`.

use super::descriptor::NotModelled;
use crate::registers::Images;

/// Steps from one texel to the next.
const STEPS: i64 = 256;
/// Texels from the origin beyond which places do not differ any more.
const FAR: f64 = 1e9;

/// The texel that is taken for a coordinate outside of the image, `CLAMP_X`, `CLAMP_Y` and `CLAMP_Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    Wrap,
    Mirror,
    Edge,
    MirrorOnceEdge,
    HalfBorder,
    MirrorOnceHalfBorder,
    Border,
    MirrorOnceBorder,
}

const OUTSIDE: [Outside; 8] = {
    use Outside::*;
    [Wrap, Mirror, Edge, MirrorOnceEdge, HalfBorder, MirrorOnceHalfBorder, Border, MirrorOnceBorder]
};

/// Texels of a sample that count, `FILTER_MODE`: shares of all, or the least or the largest of those that have a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Blend,
    Least,
    Most,
}

/// A sampler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    outside: [Outside; 3],
    /// Coordinates are texels, also where the instruction does not say so.
    pub(crate) counts_texels: bool,
    /// Least and most level.
    levels: [f64; 2],
    /// Number that is added to a level, unless the instruction asks for level 0.
    pub(crate) bias: f64,
    /// Texels are blended where an image is enlarged, and where it is made smaller.
    blends: [bool; 2],
    /// Most places of a footprint that is longer than it is wide.
    pub(crate) places: u32,
    /// `Z_FILTER` and `MIP_FILTER`: 0 none, 1 the nearest one, 2 both.
    depth: u32,
    between_levels: u32,
    /// `BORDER_COLOR_TYPE`.
    pub(crate) border: u32,
    /// Bytes of the entry in the table of border colours.
    pub(crate) border_entry: u32,
    /// `DEPTH_COMPARE_FUNC`.
    compares: u32,
    pub(crate) reduction: Reduction,
    /// Faces of cubes end at their edges.
    pub(crate) has_edges: bool,
}

/// Levels that a fetch takes: the first one, the part of 256 that the second one has, and whether texels are blended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) first: u32,
    pub(crate) part: u32,
    pub(crate) blends: bool,
}

/// Texels along one axis: the index, `None` for the border, and the part of 256 that each has.
pub(crate) type Pair = [(Option<u32>, u32); 2];

/// Place along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Along {
    /// Coordinate, and the texels that are added to it.
    pub(crate) at: f64,
    pub(crate) offset: i32,
    /// Texels of the axis.
    pub(crate) size: u32,
    /// A coordinate of 1 is the end.
    pub(crate) normal: bool,
}

impl Along {
    fn texel(self) -> f64 {
        let place = self.at * if self.normal { f64::from(self.size) } else { 1.0 } + f64::from(self.offset);
        if place.is_nan() { 0.0 } else { place.clamp(-FAR, FAR) }
    }

    /// The nearest texel, which may be outside. ROCm's functions for textures without a filter name the edge of a texel, by a
    /// product with an approximate reciprocal: a place that is a little before an edge counts as behind it.
    pub(crate) fn nearest(self) -> i64 {
        ((self.texel() * STEPS as f64 + 0.5).floor() as i64).div_euclid(STEPS)
    }

    /// The first of the two texels around the place, which may be outside, and the part of 256 of the second one.
    pub(crate) fn first(self) -> (i64, u32) {
        between(self.texel())
    }
}

fn between(place: f64) -> (i64, u32) {
    let steps = (place * STEPS as f64 + 0.5).floor() as i64 - STEPS / 2;
    (steps.div_euclid(STEPS), steps.rem_euclid(STEPS) as u32)
}

impl Sampler {
    /// Reads a descriptor.
    ///
    /// # Errors
    ///
    /// A field with a value that is not modelled.
    pub(crate) fn new(images: Images, words: [u32; 4]) -> Result<Self, NotModelled> {
        let field = |word: usize, high: u32, low: u32| words[word] >> low & (u32::MAX >> (31 - (high - low)));
        let reduction = match field(0, 30, 29) {
            0 => Reduction::Blend,
            1 => Reduction::Least,
            2 => Reduction::Most,
            other => return Err(NotModelled("filter mode", other)),
        };
        let [least, most] = if images == Images::Gfx12 {
            [field(1, 12, 0), field(1, 25, 13)]
        } else {
            [field(1, 11, 0), field(1, 23, 12)]
        };
        let signed = |bits: u32, width: u32| (bits << (32 - width)).cast_signed() >> (32 - width);
        let filters = [field(2, 21, 20), field(2, 23, 22)];
        let has_places = filters.iter().any(|filter| filter & 2 != 0);
        Ok(Self {
            outside: [0, 3, 6].map(|low| OUTSIDE[field(0, low + 2, low) as usize & 7]),
            counts_texels: field(0, 15, 15) != 0,
            levels: [least, most].map(|level| f64::from(level) / 256.0),
            bias: f64::from(signed(field(2, 13, 0), 14)) / 256.0,
            blends: filters.map(|filter| filter & 1 != 0),
            places: if has_places { 1 << field(0, 11, 9).min(4) } else { 1 },
            depth: field(2, 25, 24),
            between_levels: field(2, 27, 26),
            border: field(3, 31, 30),
            border_entry: field(3, 29, 18) * 16,
            compares: field(0, 14, 12),
            reduction,
            has_edges: field(0, 28, 28) != 0,
        })
    }

    /// A level within the sampler's limits, and no less than `least`.
    pub(crate) fn limited(&self, level: f64, least: f64) -> f64 {
        let [lowest, most] = self.levels;
        let least = lowest.max(least);
        if level.is_nan() { 0.0 } else { level.max(least).min(most.max(least)) }
    }

    /// The levels for a level within its limits, of `count` levels.
    pub(crate) fn levels(&self, level: f64, count: u32) -> Levels {
        let blends = self.blends[usize::from(level > 0.0)];
        let last = count.saturating_sub(1);
        let (first, part) = match self.between_levels {
            0 => (0, 0),
            1 => ((level + 0.5).floor() as u32, 0),
            _ => (level.max(0.0).floor() as u32, ((level.max(0.0).fract() * STEPS as f64) as u32)),
        };
        if first >= last {
            Levels { first: last.min(first), part: 0, blends }
        } else {
            Levels { first, part, blends }
        }
    }

    /// The level that is fetched, with its part towards the next one, as a number.
    pub(crate) fn fetched(&self, level: f64, count: u32) -> f64 {
        let last = f64::from(count.saturating_sub(1));
        match self.between_levels {
            0 => 0.0,
            1 => (level + 0.5).floor().clamp(0.0, last),
            _ => level.clamp(0.0, last),
        }
    }

    /// Compares a number with that of a texel.
    pub(crate) fn compare(&self, number: f64, texel: f64) -> bool {
        match self.compares {
            0 => false,
            1 => number < texel,
            2 => number == texel,
            3 => number <= texel,
            4 => number > texel,
            5 => number != texel,
            6 => number >= texel,
            _ => true,
        }
    }

    fn outside(&self, axis: usize, normal: bool) -> Outside {
        match self.outside[axis] {
            // Places in texels have no period.
            Outside::Wrap if !normal => Outside::Edge,
            Outside::Mirror if !normal => Outside::MirrorOnceEdge,
            outside => outside,
        }
    }

    /// The texels of one axis: 0, 1 and 2 for x, y and depth.
    pub(crate) fn texels(&self, axis: usize, along: Along, blends: bool) -> Pair {
        let blends = if axis == 2 && self.depth != 0 { self.depth == 2 } else { blends };
        let (size, outside) = (along.size, self.outside(axis, along.normal));
        if !blends {
            let nearest = match outside {
                Outside::HalfBorder => Outside::Edge,
                Outside::MirrorOnceHalfBorder => Outside::MirrorOnceEdge,
                outside => outside,
            };
            return [(index(nearest, along.nearest(), size), 256), (None, 0)];
        }
        let place = along.texel();
        let (place, outside) = match outside {
            // No more than half of a border's texel is seen.
            Outside::HalfBorder => (place.clamp(0.0, size.into()), Outside::Border),
            Outside::MirrorOnceHalfBorder => (place.abs().min(size.into()), Outside::Border),
            outside => (place, outside),
        };
        let (first, part) = between(place);
        [(index(outside, first, size), 256 - part), (index(outside, first + 1, size), part)]
    }

    /// Four texels of a row: the one to the left of the place, and those that follow.
    pub(crate) fn row(&self, along: Along) -> [Option<u32>; 4] {
        let (first, outside) = (along.first().0, self.outside(0, along.normal));
        [0, 1, 2, 3].map(|n| index(outside, first + n, along.size))
    }
}

/// The texel for an index that may be outside; `None` for the border.
fn index(outside: Outside, index: i64, size: u32) -> Option<u32> {
    let size = i64::from(size);
    let once = if index < 0 { -1 - index } else { index };
    let found = match outside {
        Outside::Wrap => index.rem_euclid(size),
        Outside::Mirror => {
            let index = index.rem_euclid(2 * size);
            if index < size { index } else { 2 * size - 1 - index }
        }
        Outside::Edge => index.clamp(0, size - 1),
        Outside::MirrorOnceEdge => once.min(size - 1),
        Outside::Border | Outside::HalfBorder => index,
        Outside::MirrorOnceBorder | Outside::MirrorOnceHalfBorder => once,
    };
    u32::try_from(found).ok().filter(|found| i64::from(*found) < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(words: [u32; 4]) -> Sampler {
        Sampler::new(Images::Gfx12, words).expect("a sampler")
    }

    #[test]
    fn filters_of_fields_that_are_not_modelled_are_refused() {
        let refused = |words| Sampler::new(Images::Gfx11, words).err();
        assert_eq!(refused([3 << 29, 0, 0, 0]), Some(NotModelled("filter mode", 3)));
        assert_eq!(refused([0; 4]), None);
    }

    #[test]
    fn neighbours_share_by_the_distance_of_their_middles() {
        let along = |at: f32, normal| Along { at: at.into(), offset: 0, size: 8, normal };
        let linear = |clamp: u32, at: f32| sampler([clamp, 0, 1 << 20, 0]).texels(0, along(at, false), true);
        assert_eq!(linear(2, 3.5), [(Some(3), 256), (Some(4), 0)]);
        assert_eq!(linear(2, 3.75), [(Some(3), 192), (Some(4), 64)]);
        assert_eq!(linear(2, 0.25), [(Some(0), 64), (Some(0), 192)]);
        assert_eq!(linear(6, 0.25), [(None, 64), (Some(0), 192)]);
        assert_eq!(linear(4, -9.0), [(None, 128), (Some(0), 128)]);
        assert_eq!(linear(6, -9.0), [(None, 128), (None, 128)]);
        let wraps = sampler([0, 0, 1 << 20, 0]).texels(0, along(1.0, true), true);
        assert_eq!(wraps, [(Some(7), 128), (Some(0), 128)]);
        for at in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            assert!(linear(2, at).iter().all(|texel| texel.0.is_some()), "{at}");
        }
    }

    #[test]
    fn levels_are_clamped_and_shared() {
        let words = |between: u32| [0, 1 << 7 | 3 << 8 << 13, 1 << 20 | between << 26 | 64, 0];
        let levels = |between, asked: Option<f64>, count| {
            let sampler = sampler(words(between));
            let level = asked.map_or(0.0, |level| level + sampler.bias);
            let Levels { first, part, blends } = sampler.levels(sampler.limited(level, 0.0), count);
            (first, part, blends)
        };
        // The least level is a half, the most three; a quarter is added.
        assert_eq!(levels(0, Some(2.0), 8), (0, 0, false));
        assert_eq!(levels(1, Some(1.0), 8), (1, 0, false));
        assert_eq!(levels(1, Some(1.25), 8), (2, 0, false));
        assert_eq!(levels(2, Some(1.0), 8), (1, 64, false));
        assert_eq!(levels(2, Some(9.0), 8), (3, 0, false));
        assert_eq!(levels(2, Some(9.0), 2), (1, 0, false));
        assert_eq!(levels(2, None, 8), (0, 128, false));
        assert_eq!(sampler([0, 0, 1 << 20, 0]).levels(0.0, 1), Levels { first: 0, part: 0, blends: true });
        assert_eq!(sampler(words(2)).limited(0.0, 2.5), 2.5, "the larger of two least levels");
        assert_eq!(sampler(words(2)).limited(0.0, 9.0), 9.0, "the least level is more than the most");
    }

    #[test]
    fn places_a_little_before_an_edge_are_behind_it() {
        for size in 1..300_u32 {
            for texel in 0..size {
                // As ROCm's device library has it.
                let at = (texel as f32 * (1.0 / size as f32)).next_down();
                let along = Along { at: at.into(), offset: 0, size, normal: true };
                assert_eq!(along.nearest(), i64::from(texel), "of {size}");
            }
        }
        let at = |at: f64| Along { at, offset: 0, size: 8, normal: false }.nearest();
        assert_eq!([2.99, 2.999, -0.01, -0.001].map(at), [2, 3, -1, 0]);
    }

    #[test]
    fn rows_offsets_and_functions_of_comparisons() {
        let along = |at: f64, offset| Along { at, offset, size: 4, normal: false };
        let clamps = sampler([2, 0, 0, 0]);
        assert_eq!(clamps.row(along(1.5, 0)), [Some(1), Some(2), Some(3), Some(3)]);
        assert_eq!(sampler([6, 0, 0, 0]).row(along(0.4, 0)), [None, Some(0), Some(1), Some(2)]);
        assert_eq!(clamps.texels(0, along(1.5, 2), false)[0], (Some(3), 256));
        assert_eq!(clamps.texels(0, along(1.5, -2), true), [(Some(0), 256), (Some(0), 0)]);
        let compared = |function: u32| {
            let sampler = sampler([function << 12, 0, 0, 0]);
            [1.0, 2.0, 3.0].map(|number| sampler.compare(number, 2.0))
        };
        let expected = [
            [false, false, false],
            [true, false, false],
            [false, true, false],
            [true, true, false],
            [false, false, true],
            [true, false, true],
            [false, true, true],
            [true, true, true],
        ];
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(compared), expected);
    }
}
