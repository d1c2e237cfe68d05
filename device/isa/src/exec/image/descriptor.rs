//! Image descriptors: `SQ_IMG_RSRC_WORD0..7` of gfx11 and gfx12, as Mesa's tables of registers have them (`gfx11-rsrc.json`,
//! `gfx12-rsrc.json`).

use super::address::{Level, MOST_LEVELS, Surface, minified};
use super::format::ImageFormat;
use super::layout::Layout;
use crate::registers::Images;

/// The kind of an image, `TYPE`; those below [`Kind::ONE`] are no images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(u32);

impl Kind {
    const ONE: Self = Self(8);
    const TWO: Self = Self(9);
    const THREE: Self = Self(10);
    const CUBE: Self = Self(11);
    const ONE_ARRAY: Self = Self(12);
    const TWO_ARRAY: Self = Self(13);

    fn is_array(self) -> bool {
        matches!(self, Self::CUBE | Self::ONE_ARRAY | Self::TWO_ARRAY)
    }

    fn has_height(self) -> bool {
        !matches!(self, Self::ONE | Self::ONE_ARRAY)
    }
}

/// Orders of border colours, `BC_SWIZZLE`: XYZW, XWYZ, WZYX, WXYZ, ZYXW, YXWZ.
const BORDER_ORDERS: [[usize; 4]; 8] = [
    [0, 1, 2, 3],
    [0, 3, 1, 2],
    [3, 2, 1, 0],
    [3, 0, 1, 2],
    [2, 1, 0, 3],
    [1, 0, 3, 2],
    [0, 1, 2, 3],
    [0, 1, 2, 3],
];

/// Part of a descriptor that is not modelled: its name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotModelled(pub(crate) &'static str, pub(crate) u32);

/// Image that a descriptor shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    base: u64,
    /// Bits of each offset in a block that are turned over: drivers spread their images over the banks so.
    turned: u64,
    surface: Surface,
    /// Texels of the largest level.
    size: [u32; 2],
    /// Number of the format, and what it means.
    pub(crate) number: u32,
    pub(crate) format: ImageFormat,
    /// `DST_SEL_X..W`.
    pub(crate) select: [u32; 4],
    /// `BC_SWIZZLE`: the order in which memory would have the components of border colours.
    border_order: [usize; 4],
    is_volume: bool,
    /// First and last level that it shows.
    levels: [u32; 2],
    /// The least level of samples, counted from the first that it shows.
    pub(crate) least: f64,
    /// First slice that it shows, and how many there are.
    slices: [u32; 2],
    /// The number of slices is that of the largest level, and the others have fewer.
    is_deep: bool,
}

/// Place of a texel: the address of its element, and its number in it if that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texel {
    pub(crate) va: u64,
    pub(crate) inside: u32,
}

/// Level of an image as instructions see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    level: Level,
    /// Texels, and slices.
    pub(crate) size: [u32; 3],
}

impl Image {
    /// Reads a descriptor; `None` for one that names no image, of which loads are zeros and stores are dropped.
    ///
    /// # Errors
    ///
    /// A field with a value that is not modelled.
    pub(crate) fn new(images: Images, words: [u32; 8]) -> Result<Option<Self>, NotModelled> {
        let field = |word: usize, high: u32, low: u32| words[word] >> low & (u32::MAX >> (31 - (high - low)));
        let new = images == Images::Gfx12;
        let kind = Kind(field(3, 31, 28));
        if kind < Kind::ONE {
            return Ok(None);
        }
        if kind > Kind::TWO_ARRAY {
            return Err(NotModelled("type", kind.0));
        }
        let number = if new { field(1, 24, 17) } else { field(1, 27, 20) };
        let format = ImageFormat::of(number).ok_or(NotModelled("format", number))?;
        let mode = field(3, 24, 20);
        let bytes = format.bytes();
        let layout = Layout::of(images, mode, bytes.trailing_zeros(), kind == Kind::THREE);
        let layout =
            layout.filter(|layout| bytes.is_power_of_two() || matches!(layout, Layout::Linear { .. }));
        let layout = layout.ok_or(NotModelled("swizzle mode", mode))?;
        let width = (if new { field(2, 13, 0) } else { field(2, 11, 0) }) << 2 | field(1, 31, 30);
        let height = if new { field(2, 29, 14) } else { field(2, 27, 14) };
        let height = if kind.has_height() { height } else { 0 };
        let [first, last, most] = if new {
            [field(1, 29, 25), field(3, 19, 15), field(1, 16, 12)]
        } else {
            [field(3, 15, 12), field(3, 19, 16), field(1, 19, 16)]
        };
        let levels = most + 1;
        if levels > MOST_LEVELS {
            return Err(NotModelled("last level in memory", most));
        }
        // The last slice, counted as the first one is; of images with one slice and one level in rows, the pitch.
        let (depth, more) = if new {
            (field(4, 13, 0), field(4, 15, 14) << 14)
        } else {
            (field(4, 12, 0), field(4, 13, 13) << 13)
        };
        let begin = if new { field(4, 29, 16) } else { field(4, 28, 16) };
        let is_part = if new { field(5, 4, 4) == 1 } else { field(5, 3, 0) == 1 };
        let is_deep = kind == Kind::THREE && !is_part;
        let slices = match kind {
            Kind::THREE if is_deep => [0, depth + 1],
            kind if kind.is_array() || kind == Kind::THREE => [begin, (depth + 1).saturating_sub(begin)],
            _ => [begin, 1],
        };
        let size = [width + 1, height + 1];
        let least =
            if new { field(5, 31, 26) | field(6, 6, 0) << 6 } else { field(5, 31, 27) | field(6, 6, 0) << 5 };
        let is_flat = matches!(kind, Kind::ONE | Kind::TWO) && levels == 1;
        let pitch = Some((depth | more) + 1).filter(|pitch| is_flat && *pitch > width / format.across());
        let whole = (u64::from(words[0]) | u64::from(field(1, 7, 0)) << 32) << 8;
        let turned = match layout {
            Layout::Linear { .. } => 0,
            Layout::Blocks(pattern) => whole & ((1 << pattern.log2) - 1),
        };
        Ok(Some(Self {
            base: whole - turned,
            turned,
            surface: Surface {
                layout,
                bytes,
                size: size.map(|size| size.div_ceil(format.across())),
                levels,
                pitch,
            },
            size,
            number,
            format,
            select: [0, 3, 6, 9].map(|low| field(3, low + 2, low)),
            border_order: BORDER_ORDERS[field(3, 27, 25) as usize & 7],
            is_volume: kind == Kind::THREE,
            levels: [first, last],
            least: f64::from(least) / 256.0 - f64::from(first),
            slices,
            is_deep,
        }))
    }

    /// Returns a level, counted from the first that the descriptor shows; `None` behind the last one.
    pub(crate) fn level(&self, number: u32) -> Option<Shown> {
        let [first, last] = self.levels;
        let level =
            first.checked_add(number).filter(|level| *level <= last && *level < self.surface.levels)?;
        let [width, height] = self.size.map(|size| minified(size, level));
        let slices = if self.is_deep { minified(self.slices[1], level) } else { self.slices[1] };
        Some(Shown { level: self.surface.level(level), size: [width, height, slices] })
    }

    /// Returns how many levels the descriptor shows.
    pub(crate) fn level_count(&self) -> u32 {
        let [first, last] = self.levels;
        (last + 1).saturating_sub(first)
    }

    /// Returns true if slices are a third dimension, and not layers.
    pub(crate) fn is_volume(&self) -> bool {
        self.is_volume
    }

    /// Returns the components that registers get of those in memory.
    pub(crate) fn selected(&self, memory: [u32; 4]) -> [u32; 4] {
        self.select.map(|select| match select {
            1 => self.format.one(),
            4..=7 => memory[select as usize & 3],
            _ => 0,
        })
    }

    /// Returns the components that registers get of a texel. Of a format with one component all names mean it, as a gfx1200 was
    /// seen to do (`device/isa/verify/data/cards`).
    pub(crate) fn components(&self, texel: [u32; 4]) -> [u32; 4] {
        self.selected(if self.format.components() == 1 { [texel[0]; 4] } else { texel })
    }

    /// Returns the border's components as memory has them, by `BORDER_COLOR_TYPE`: nothing, black or white.
    pub(crate) fn border(&self, kind: u32) -> [u32; 4] {
        let one = self.format.one();
        self.ordered(match kind {
            1 => [0, 0, 0, one],
            2 => [one; 4],
            _ => [0; 4],
        })
    }

    /// Returns a border's colour as memory would have it.
    pub(crate) fn ordered(&self, color: [u32; 4]) -> [u32; 4] {
        self.border_order.map(|component| color[component & 3])
    }

    /// Returns the place of a texel in memory; `None` for one outside of the level.
    pub(crate) fn texel(&self, shown: &Shown, place: [u32; 3]) -> Option<Texel> {
        if place.iter().zip(shown.size).any(|(at, size)| *at >= size) {
            return None;
        }
        let [x, y, slice] = place;
        let across = self.format.across();
        let inside = y % across * across + x % across;
        let element = [x / across, y / across, self.slices[0] + slice];
        let offset = self.surface.offset(&shown.level, element);
        Some(Texel { va: self.base.wrapping_add(offset ^ self.turned), inside })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Descriptor of 8_8_8_8 UINT in two dimensions, of one level.
    pub(crate) fn two_dimensions(
        images: Images,
        base: u64,
        [width, height]: [u32; 2],
        mode: u32,
    ) -> [u32; 8] {
        let (width, height) = (width - 1, height - 1);
        let format = if images == Images::Gfx12 { 46 << 17 } else { 46 << 20 };
        let (low, high) = ((base >> 8) as u32, (base >> 40) as u32);
        let selects = 4 | 5 << 3 | 6 << 6 | 7 << 9;
        [
            low,
            high | format | (width & 3) << 30,
            width >> 2 | height << 14,
            selects | mode << 20 | 9 << 28,
            0,
            0,
            0,
            0,
        ]
    }

    #[test]
    fn descriptors_of_no_image_and_of_what_is_not_modelled_are_told_apart() {
        for images in [Images::Gfx11, Images::Gfx12] {
            assert!(Image::new(images, [0; 8]).unwrap().is_none());
            let good = two_dimensions(images, 0x1234_5600, [100, 30], 0);
            let image = Image::new(images, good).unwrap().unwrap();
            let shown = image.level(0).unwrap();
            assert_eq!((shown.size, image.level_count()), ([100, 30, 1], 1));
            assert!(image.level(1).is_none());
            assert_eq!(
                image.texel(&shown, [99, 29, 0]).map(|texel| texel.va),
                Some(0x1234_5600 + 29 * 512 + 99 * 4)
            );
            for outside in [[100, 0, 0], [0, 30, 0], [0, 0, 1], [u32::MAX; 3]] {
                assert_eq!(image.texel(&shown, outside), None, "{outside:?}");
            }
            let with = |word: usize, bits: u32| {
                let mut words = good;
                words[word] |= bits;
                Image::new(images, words).err()
            };
            assert_eq!(with(3, 19 << 20), Some(NotModelled("swizzle mode", 19)));
            assert_eq!(with(3, 15 << 28), Some(NotModelled("type", 15)));
            let all = if images == Images::Gfx12 { 255 << 17 } else { 255 << 20 };
            assert_eq!(with(1, all), Some(NotModelled("format", 255)));
        }
    }

    #[test]
    fn arrays_volumes_and_parts_of_volumes_have_their_slices() {
        let mut words = two_dimensions(Images::Gfx12, 0, [8, 8], 0);
        words[4] = 9 | 4 << 16;
        words[3] = words[3] & 0x0fff_ffff | 13 << 28;
        let slices = |words: [u32; 8], level: u32| {
            let image = Image::new(Images::Gfx12, words).unwrap().unwrap();
            image
                .level(level)
                .map(|shown| (shown.size[2], image.texel(&shown, [0, 0, 1]).map(|texel| texel.va)))
        };
        // Rows of 128 bytes, slices as if of 256.
        assert_eq!(slices(words, 0), Some((6, Some(5 * 8 * 256))));
        words[3] = words[3] & 0x0fff_ffff | 10 << 28;
        assert_eq!(slices(words, 0), Some((10, Some(8 * 256))), "all of it");
        words[5] = 1 << 4;
        assert_eq!(slices(words, 0), Some((6, Some(5 * 8 * 256))), "a part");
        words[5] = 0;
        (words[1], words[3]) = (words[1] | 1 << 12, words[3] | 1 << 15);
        assert_eq!(slices(words, 1).map(|found| found.0), Some(5), "half as deep");
        // The last slice is before the first one.
        words[3] = words[3] & 0x0fff_ffff | 13 << 28;
        words[4] = 3 | 4 << 16;
        assert_eq!(slices(words, 0), Some((0, None)));
    }
}
