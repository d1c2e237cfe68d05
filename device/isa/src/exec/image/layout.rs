//! Layouts of images in memory: which bit of an offset inside a block each bit of a coordinate is.
//!
//! The swizzle modes and the patterns are those of AMD's addrlib (MIT licence): `gfx12SwizzlePattern.h`, which a few rules
//! describe, and `gfx11SwizzlePattern.h`, whose rows for 32 pipes and 32 packers are here, as `GB_ADDR_CONFIG` of gfx1100 has
//! them.

use crate::registers::Images;

/// Bits of an offset inside the largest block, 256 KiB.
const MOST_BITS: usize = 18;
/// Bits of an offset inside the smallest block; the patterns of larger blocks begin with its pattern.
const SMALLEST: u32 = 8;

/// The bits of an offset inside a block: each is the parity of these bits of x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    bits: [[u16; 3]; MOST_BITS],
    /// Logarithm of the bytes of a block.
    pub(crate) log2: u32,
    /// Logarithms of the block's width, height and depth in elements.
    pub(crate) extent: [u32; 3],
    /// Logarithms of the same of a part of 256 bytes.
    pub(crate) part: [u32; 3],
}

impl Pattern {
    /// The offset inside its block of the element at a place. Bits of the place beyond the block may count, too.
    pub(crate) fn offset(&self, place: [u32; 3]) -> u32 {
        let parity = |masks: &[u16; 3]| {
            let bits = masks.iter().zip(place).fold(0, |bits, (mask, at)| bits ^ u32::from(*mask) & at);
            bits.count_ones() & 1
        };
        self.bits.iter().enumerate().fold(0, |offset, (bit, masks)| offset | parity(masks) << bit)
    }

    /// A pattern whose bits name one bit of one coordinate each: `axes` has the coordinate of each bit from that of an
    /// element's size on, and each bit takes the lowest of its coordinate that is not taken yet.
    const fn of_axes(element: u32, log2: u32, axes: [u8; MOST_BITS]) -> Self {
        let mut pattern = Self { bits: [[0; 3]; MOST_BITS], log2, extent: [0; 3], part: [0; 3] };
        let mut bit = element as usize;
        while bit < log2 as usize {
            let axis = (axes[bit - element as usize] - b'x') as usize;
            pattern.bits[bit][axis] = 1 << pattern.extent[axis];
            pattern.extent[axis] += 1;
            bit += 1;
            if bit <= SMALLEST as usize {
                pattern.part = pattern.extent;
            }
        }
        pattern
    }

    /// The pattern with other bits behind those of the smallest block: `X1^Y2` is the parity of these two.
    const fn with(mut self, bits: &str) -> Self {
        let (text, mut at, mut bit) = (bits.as_bytes(), 0, SMALLEST as usize);
        self.bits[bit] = [0; 3];
        while at < text.len() {
            match text[at] {
                b' ' => {
                    bit += 1;
                    self.bits[bit] = [0; 3];
                    at += 1;
                }
                b'^' => at += 1,
                axis => {
                    self.bits[bit][(axis - b'X') as usize] |= 1 << (text[at + 1] - b'0');
                    at += 2;
                }
            }
        }
        assert!(bit + 1 == self.log2 as usize, "a bit for each of the offset");
        self
    }
}

/// Coordinates of the bits of a part of 256 bytes, by the logarithm of an element's bytes, and those that follow again and again.
struct Axes {
    parts: [&'static [u8]; 5],
    rest: &'static [u8],
}

const FLAT: Axes = Axes { parts: [b"xxyxyyxy", b"xyxyxyx", b"xyxyxy", b"xyxxy", b"xyxy"], rest: b"yx" };
const THICK: Axes = Axes { parts: [b"xxzyyzxz", b"xzyxzyz", b"xyxzyz", b"xyzxz", b"xzyz"], rest: b"yxz" };

impl Axes {
    const fn pattern(&self, element: usize, log2: u32) -> Pattern {
        let (part, mut all) = (self.parts[element], [b'x'; MOST_BITS]);
        let mut at = 0;
        while at < MOST_BITS {
            let behind = at.wrapping_sub(part.len());
            all[at] = if at < part.len() { part[at] } else { self.rest[behind % self.rest.len()] };
            at += 1;
        }
        Pattern::of_axes(element as u32, log2, all)
    }

    const fn patterns_with(&self, log2: u32, bits: [&str; 5]) -> [Pattern; 5] {
        let mut patterns = self.patterns(log2);
        let mut element = 0;
        while element < 5 {
            patterns[element] = patterns[element].with(bits[element]);
            element += 1;
        }
        patterns
    }

    const fn patterns(&self, log2: u32) -> [Pattern; 5] {
        let mut element = 0;
        let mut patterns = [self.pattern(0, log2); 5];
        while element < 5 {
            patterns[element] = self.pattern(element, log2);
            element += 1;
        }
        patterns
    }
}

/// The modes of gfx12 from `ADDR3_256B_2D` on: 4 KiB, 64 KiB and 256 KiB in two dimensions, then in three.
static GFX12: [[Pattern; 5]; 7] = [
    FLAT.patterns(8),
    FLAT.patterns(12),
    FLAT.patterns(16),
    FLAT.patterns(18),
    THICK.patterns(12),
    THICK.patterns(16),
    THICK.patterns(18),
];

/// Modes of gfx11 that spread blocks over pipes, from bit 8 of the offset on: `SW_4K_D_X`, `SW_64K_D_X`, `SW_64K_{Z,R}_X 1xaa`,
/// `SW_4K_S3_X` and `SW_64K_S3_X`, and those of 256 KiB.
static FLAT_4K_X: [Pattern; 5] = FLAT.patterns_with(
    12,
    [
        "Z3^Y4^X7 Z2^X4^Y7 Z1^Y5^X6 Z0^X5^Y6",
        "Y3^Z3^X7 Z2^X4^Y6 Z1^Y4^X6 Z0^X5^Y5",
        "Y3^Z3^X6 Z2^X3^Y6 Z1^Y4^X5 Z0^X4^Y5",
        "Y2^Z3^X6 Z2^X3^Y5 Z1^Y3^X5 Z0^X4^Y4",
        "Y2^Z3^X5 X2^Z2^Y5 Z1^Y3^X4 Z0^X3^Y4",
    ],
);
static FLAT_64K_X: [Pattern; 5] = FLAT.patterns_with(
    16,
    [
        "Y4^Z4^X8 Z3^X4^Y8 Z2^Y5^X7 Z1^X5^Y7 Z0^X6^Y6 X6 Y7 X7",
        "Y3^Z4^X8 Z3^X4^Y7 Z2^Y4^X7 Z1^X5^Y6 Z0^Y5^X6 X6 Y6 X7",
        "Y3^Z4^X7 X3^Z3^Y7 Z2^Y4^X6 Z1^X4^Y6 Z0^X5^Y5 X5 Y6 X6",
        "Y2^Z4^X7 X3^Z3^Y6 Z2^Y3^X6 Z1^X4^Y5 Z0^Y4^X5 X5 Y5 X6",
        "Y2^Z4^X6 X2^Z3^Y6 Z2^Y3^X5 Z1^X3^Y5 Z0^X4^Y4 X4 Y5 X5",
    ],
);
static RENDERED_64K_X: [Pattern; 5] = FLAT.patterns_with(
    16,
    [
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 X7 Y7 X6^Y7",
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 Y3 X7 X6^Y7",
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 X3 Y3 X6^Y7",
        "Y4^X9^Y9 Z3^X4^Y4 Z2^Y5^X8 Z1^X5^Y8 Y2^Y6^X7 X3 Y3 Z0^X6^Y7",
        "Y4^X9^Y9 Z2^X4^Y4 Z1^Y5^X8 Z0^X5^Y8 Y2^Y6^X7 X3 Y3 X2^X6^Y7",
    ],
);
static FLAT_256K_X: [Pattern; 5] = FLAT.patterns_with(
    18,
    [
        "Y4^Z4^X8 Z3^X4^Y8 Z2^Y5^X7 Z1^X5^Y7 Z0^X6^Y6 X6 Y7 X7 Y8 X8",
        "Y3^Z4^X8 Z3^X4^Y7 Z2^Y4^X7 Z1^X5^Y6 Z0^Y5^X6 X6 Y6 X7 Y7 X8",
        "Y3^Z4^X7 X3^Z3^Y7 Z2^Y4^X6 Z1^X4^Y6 Z0^X5^Y5 X5 Y6 X6 Y7 X7",
        "Y2^Z4^X7 X3^Z3^Y6 Z2^Y3^X6 Z1^X4^Y5 Z0^Y4^X5 X5 Y5 X6 Y6 X7",
        "Y2^Z4^X6 X2^Z3^Y6 Z2^Y3^X5 Z1^X3^Y5 Z0^X4^Y4 X4 Y5 X5 Y6 X6",
    ],
);
static RENDERED_256K_X: [Pattern; 5] = FLAT.patterns_with(
    18,
    [
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 X7 Y7 X8^Y9 Y8^X9 X6^Y7",
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 Y3 X7 X8^Y8 Y7^X9 X6^Y7",
        "Y4^X9^Y9 Z1^X4^Y4 Z0^Y5^X8 X5^Y8 Y6^X7 X3 Y3 X7^Y8 Y7^X8 X6^Y7",
        "Y4^X9^Y9 X4^Y4^Z4 Z3^Y5^X8 Z2^X5^Y8 Z1^Y6^X7 Y2 X3 Y3^X8 X7^Y7 Z0^X6^Y7",
        "Y4^X9^Y9 X4^Y4^Z4 Z3^Y5^X8 Z2^X5^Y8 Z1^Y6^X7 X2 Y2 Y3^X7 X3^Y7 Z0^X6^Y7",
    ],
);
static THICK_4K_X: [Pattern; 5] = THICK.patterns_with(
    12,
    [
        "Y2^X6^Z6 X3^Y5^Z5 Z3^Y4^X5 Y3^X4^Z4",
        "Y2^X5^Z6 X2^Y5^Z5 Z3^X4^Y4 X3^Y3^Z4",
        "Y2^X5^Z5 X2^Z4^Y5 Z2^X4^Y4 X3^Y3^Z3",
        "Y1^X5^Z5 X2^Y4^Z4 Z2^Y3^X4 Y2^X3^Z3",
        "Y1^X4^Z5 X1^Y4^Z4 Z2^X3^Y3 X2^Y2^Z3",
    ],
);
static THICK_64K_X: [Pattern; 5] = THICK.patterns_with(
    16,
    [
        "Y2^X7^Z7 X3^Y6^Z6 Z3^Y5^X6 Y3^X5^Z5 X4^Y4^Z4 Z4 Y4 X5",
        "Y2^X6^Z7 X2^Y6^Z6 Z3^X5^Y5 Y3^X4^Z5 X3^Y4^Z4 Z4 Y4 X4",
        "Y2^X6^Z6 X2^Z5^Y6 Z2^X5^Y5 Y3^X4^Z4 X3^Z3^Y4 Z3 Y4 X4",
        "Y1^X6^Z6 X2^Y5^Z5 Z2^Y4^X5 Y2^X4^Z4 X3^Y3^Z3 Z3 Y3 X4",
        "Y1^X5^Z6 X1^Y5^Z5 Z2^X4^Y4 Y2^X3^Z4 X2^Y3^Z3 Z3 Y3 X3",
    ],
);
static THICK_256K_X: [Pattern; 5] = THICK.patterns_with(
    18,
    [
        "Y2^X7^Z7 X3^Y6^Z6 Z3^Y5^X6 Y3^X5^Z5 X4^Y4^Z4 Z4 Y4 X5 Z5 Y5",
        "Y2^X6^Z7 X2^Y6^Z6 Z3^X5^Y5 Y3^X4^Z5 X3^Y4^Z4 Z4 Y4 X4 Z5 Y5",
        "Y2^X6^Z6 X2^Z5^Y6 Z2^X5^Y5 Y3^X4^Z4 X3^Z3^Y4 Z3 Y4 X4 Z4 Y5",
        "Y1^X6^Z6 X2^Y5^Z5 Z2^Y4^X5 Y2^X4^Z4 X3^Y3^Z3 Z3 Y3 X4 Z4 Y4",
        "Y1^X5^Z6 X1^Y5^Z5 Z2^X4^Y4 Y2^X3^Z4 X2^Y3^Z3 Z3 Y3 X3 Z4 Y4",
    ],
);

/// The patterns of a mode of gfx11, by its number, for images in two dimensions and for volumes.
fn gfx11(mode: u32, is_volume: bool) -> Option<&'static [Pattern; 5]> {
    let [flat_256, flat_4k, flat_64k, _, thick_4k, thick_64k, _] = &GFX12;
    Some(match (mode, is_volume) {
        (2, false) => flat_256,
        (5, true) => thick_4k,
        (6, false) => flat_4k,
        (9, true) => thick_64k,
        (10, false) => flat_64k,
        (21, true) => &THICK_4K_X,
        (22, false) => &FLAT_4K_X,
        (24 | 27, _) => &RENDERED_64K_X,
        (25, true) => &THICK_64K_X,
        (26, false) => &FLAT_64K_X,
        (28 | 31, _) => &RENDERED_256K_X,
        (29, true) => &THICK_256K_X,
        (30, false) => &FLAT_256K_X,
        _ => return None,
    })
}

/// Layout of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// Rows one after the other, each padded to a multiple of `row` bytes; slices are as if it were of `slice` bytes.
    Linear { row: u64, slice: u64 },
    /// Blocks, rows of them one after the other.
    Blocks(&'static Pattern),
}

impl Layout {
    /// The layout of a swizzle mode for elements of `1 << element` bytes, in a volume or not; `None` for a mode that is not
    /// modelled.
    pub(crate) fn of(images: Images, mode: u32, element: u32, is_volume: bool) -> Option<Self> {
        let patterns = match (images, mode) {
            (Images::Gfx11, 0) => return Some(Self::Linear { row: 256, slice: 256 }),
            (Images::Gfx12, 0) => return Some(Self::Linear { row: 128, slice: 256 }),
            (Images::Gfx11, mode) => gfx11(mode, is_volume)?,
            (Images::Gfx12, mode) => GFX12.get((mode as usize).checked_sub(1)?)?,
        };
        patterns.get(element as usize).map(Self::Blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern as addrlib's table has it.
    fn text(pattern: &Pattern) -> String {
        let name = |masks: &[u16; 3]| {
            let bits = |(axis, mask): (char, &u16)| {
                let mask = *mask;
                (0..16).filter(move |bit| mask >> bit & 1 != 0).map(move |bit| format!("{axis}{bit}"))
            };
            let all: Vec<_> = ['X', 'Y', 'Z'].into_iter().zip(masks).flat_map(bits).collect();
            if all.is_empty() { "0".into() } else { all.join("^") }
        };
        pattern.bits[..pattern.log2 as usize].iter().map(name).collect::<Vec<_>>().join(" ")
    }

    fn pattern(images: Images, mode: u32, element: u32, is_volume: bool) -> &'static Pattern {
        match Layout::of(images, mode, element, is_volume) {
            Some(Layout::Blocks(pattern)) => pattern,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn patterns_of_gfx12_are_those_of_addrlib() {
        let gfx12 = |mode, element| text(pattern(Images::Gfx12, mode, element, mode > 4));
        assert_eq!(gfx12(1, 0), "X0 X1 Y0 X2 Y1 Y2 X3 Y3");
        assert_eq!(gfx12(1, 3), "0 0 0 X0 Y0 X1 X2 Y1");
        assert_eq!(gfx12(2, 1), "0 X0 Y0 X1 Y1 X2 Y2 X3 Y3 X4 Y4 X5");
        assert_eq!(gfx12(3, 2), "0 0 X0 Y0 X1 Y1 X2 Y2 Y3 X3 Y4 X4 Y5 X5 Y6 X6");
        assert_eq!(gfx12(4, 4), "0 0 0 0 X0 Y0 X1 Y1 Y2 X2 Y3 X3 Y4 X4 Y5 X5 Y6 X6");
        assert_eq!(gfx12(5, 3), "0 0 0 X0 Y0 Z0 X1 Z1 Y1 X2 Z2 Y2");
        assert_eq!(gfx12(6, 1), "0 X0 Z0 Y0 X1 Z1 Y1 Z2 Y2 X2 Z3 Y3 X3 Z4 Y4 X4");
        assert_eq!(gfx12(7, 4), "0 0 0 0 X0 Z0 Y0 Z1 Y1 X1 Z2 Y2 X2 Z3 Y3 X3 Z4 Y4");
        let absent = |mode| Layout::of(Images::Gfx12, mode, 0, false).is_none();
        assert!(absent(8) && absent(31));
    }

    #[test]
    fn patterns_of_gfx11_have_the_bits_of_other_blocks() {
        let gfx11 = |mode, element, is_volume| text(pattern(Images::Gfx11, mode, element, is_volume));
        assert_eq!(gfx11(2, 4, false), "0 0 0 0 X0 Y0 X1 Y1");
        assert_eq!(gfx11(22, 2, false), "0 0 X0 Y0 X1 Y1 X2 Y2 X6^Y3^Z3 X3^Y6^Z2 X5^Y4^Z1 X4^Y5^Z0");
        assert_eq!(
            gfx11(25, 4, true),
            "0 0 0 0 X0 Z0 Y0 Z1 X5^Y1^Z6 X1^Y5^Z5 X4^Y4^Z2 X3^Y2^Z4 X2^Y3^Z3 Z3 Y3 X3"
        );
        assert_eq!(
            gfx11(27, 0, false),
            "X0 X1 Y0 X2 Y1 Y2 X3 Y3 X9^Y4^Y9 X4^Y4^Z1 X8^Y5^Z0 X5^Y8 X7^Y6 X7 Y7 X6^Y7"
        );
        assert_eq!(
            gfx11(31, 2, false),
            "0 0 X0 Y0 X1 Y1 X2 Y2 X9^Y4^Y9 X4^Y4^Z1 X8^Y5^Z0 X5^Y8 X7^Y6 X3 Y3 X7^Y8 X8^Y7 X6^Y7"
        );
        for (mode, is_volume) in
            [(21, false), (22, true), (5, false), (29, false), (30, true), (18, false), (1, false)]
        {
            assert!(Layout::of(Images::Gfx11, mode, 0, is_volume).is_none(), "{mode} {is_volume}");
        }
    }

    #[test]
    fn every_offset_of_a_block_belongs_to_one_element() {
        let gfx11 =
            [(2, false), (5, true), (6, false), (9, true), (10, false), (21, true), (22, false), (24, false)];
        let gfx11 = gfx11
            .into_iter()
            .chain([(25, true), (26, false), (27, true), (28, false), (29, true), (30, false), (31, true)])
            .map(|mode| (Images::Gfx11, mode));
        let gfx12 = (1..8).map(|mode| (Images::Gfx12, (mode, mode > 4)));
        for ((images, (mode, is_volume)), element) in
            gfx11.chain(gfx12).flat_map(|mode| (0..5).map(move |element| (mode, element)))
        {
            let pattern = pattern(images, mode, element, is_volume);
            let [width, height, depth] = pattern.extent.map(|log2| 1 << log2);
            let mut seen = vec![false; 1 << (pattern.log2 - element)];
            // A block behind others has all offsets, too.
            let places = (0..depth).flat_map(|z| (0..height).map(move |y| (y, z)));
            for (x, (y, z)) in places.flat_map(|place| (0..width).map(move |x| (x, place))) {
                let offset = pattern.offset([x + 3 * width, y + 2 * height, z + 5 * depth]);
                assert_eq!(offset % (1 << element), 0);
                let seen = &mut seen[(offset >> element) as usize];
                assert!(!core::mem::replace(seen, true), "{images:?} {mode} {element} {x} {y} {z}");
            }
            assert!(seen.into_iter().all(|seen| seen), "{images:?} {mode} {element}");
        }
    }
}
