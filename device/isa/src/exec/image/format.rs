//! Formats of texels: those of buffers, and others that only images have.
//!
//! Numbers: `IMG_FMT` of gfx11 and gfx12 (Mesa `gfx11-rsrc.json`, `gfx12-rsrc.json`), which are the same up to 72.

use super::blocks::Block;
use crate::exec::memory::buffer_format::BufferFormat;

/// A format.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ImageFormat {
    /// As in buffers.
    Plain(BufferFormat),
    /// Bytes, the first three of which are not linear (`_SRGB`).
    Srgb(BufferFormat),
    /// Three numbers of nine bits with an exponent (`5_9_9_9_FLOAT`).
    SharedExponent,
    /// Blocks of texels (BC1 to BC7).
    Block(Block),
}

/// The constant 1 as a float.
const ONE: u32 = 0x3f80_0000;

impl ImageFormat {
    /// The format with a number; `None` for those that are not modelled.
    pub(crate) fn of(number: u32) -> Option<Self> {
        let normal = |bits: &'static [u32]| BufferFormat::normal(bits);
        Some(match number {
            64 => Self::Srgb(normal(&[8])),
            65 => Self::Srgb(normal(&[8, 8])),
            66 => Self::Srgb(normal(&[8, 8, 8, 8])),
            67 => Self::SharedExponent,
            68 => Self::Plain(normal(&[5, 6, 5])),
            69 => Self::Plain(normal(&[5, 5, 5, 1])),
            70 => Self::Plain(normal(&[1, 5, 5, 5])),
            71 => Self::Plain(normal(&[4, 4, 4, 4])),
            72 => Self::Plain(normal(&[4, 4])),
            109..=122 => Self::Block(Block::of(number)?),
            number => Self::Plain(BufferFormat::of(number)?),
        })
    }

    /// Bytes of a texel, or of an element of several.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Plain(format) | Self::Srgb(format) => format.bytes(),
            Self::SharedExponent => 4,
            Self::Block(block) => block.bytes(),
        }
    }

    /// Components that texels have.
    pub(crate) fn components(self) -> usize {
        match self {
            Self::Plain(format) | Self::Srgb(format) => format.components(),
            Self::SharedExponent => 3,
            Self::Block(block) => block.components(),
        }
    }

    /// The number that a register holds.
    pub(crate) fn number(self, bits: u32) -> f64 {
        if self.one() == ONE { f32::from_bits(bits).into() } else { bits.into() }
    }

    /// The inverse of [`ImageFormat::number`].
    pub(crate) fn bits(self, number: f64) -> u32 {
        if self.one() == ONE { (number as f32).to_bits() } else { number as u32 }
    }

    /// Returns true if numbers are from 0 to 1.
    pub(crate) fn is_normal(self) -> bool {
        matches!(self, Self::Plain(format) if format.is_normal())
    }

    /// Returns the bits of the constant 1.
    pub(crate) fn one(self) -> u32 {
        match self {
            Self::Plain(format) => format.one(),
            Self::Srgb(_) | Self::SharedExponent | Self::Block(_) => ONE,
        }
    }

    /// Texels of an element along x and y.
    pub(crate) fn across(self) -> u32 {
        match self {
            Self::Block(_) => 4,
            _ => 1,
        }
    }

    /// The four components of a texel, the one with this number of an element that has several; those it does not have are 0,
    /// the fourth 1.
    pub(crate) fn unpack(self, texel: u128, inside: u32) -> [u32; 4] {
        match self {
            Self::Block(block) => block.texel(texel, inside),
            Self::Plain(format) => format.unpack(texel),
            Self::Srgb(format) => {
                let [x, y, z, w] = format.unpack(texel);
                let linear = |bits: u32| linear(f32::from_bits(bits).into()).to_bits();
                [linear(x), linear(y), linear(z), w]
            }
            Self::SharedExponent => {
                let exponent = (texel >> 27) as u32 & 31;
                // Numbers are below 1: an exponent of 15 is that of 1.
                let scale = f64::from(exponent) - 15.0 - 9.0;
                let number = |shift: u32| {
                    let digits = (texel >> shift) as u32 & 511;
                    ((f64::from(digits) * scale.exp2()) as f32).to_bits()
                };
                [number(0), number(9), number(18), ONE]
            }
        }
    }

    /// The texel of components; `None` for a format that nothing stores in.
    pub(crate) fn pack(self, components: [u32; 4]) -> Option<u128> {
        match self {
            Self::Plain(format) => Some(format.pack(components)),
            Self::Srgb(_) | Self::SharedExponent | Self::Block(_) => None,
        }
    }

    /// A register's 32 bits as the 16 that D16 gives, and back.
    pub(crate) fn narrow(self, value: u32) -> u16 {
        self.in_registers().narrow(value)
    }

    /// The inverse of [`ImageFormat::narrow`].
    pub(crate) fn widen(self, value: u16) -> u32 {
        self.in_registers().widen(value)
    }

    fn in_registers(self) -> BufferFormat {
        match self {
            Self::Plain(format) | Self::Srgb(format) => format,
            Self::SharedExponent | Self::Block(_) => BufferFormat::normal(&[8]),
        }
    }
}

/// The light of a number of sRGB (IEC 61966-2-1).
pub(super) fn linear(value: f64) -> f32 {
    (if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(number: u32, texel: u128) -> [f32; 4] {
        ImageFormat::of(number).expect("a format").unpack(texel, 0).map(f32::from_bits)
    }

    #[test]
    fn formats_of_images_are_read() {
        assert_eq!(floats(68, 1 << 11 | 2 << 5 | 31), [1.0, 2.0 / 63.0, 1.0 / 31.0, 1.0]);
        assert_eq!(floats(69, 1 << 15 | 31 << 5 | 1), [1.0 / 31.0, 1.0, 0.0, 1.0]);
        assert_eq!(floats(70, 31 << 11 | 1 << 1 | 1), [1.0, 1.0 / 31.0, 0.0, 1.0]);
        assert_eq!(floats(71, 0x1f02), [2.0 / 15.0, 0.0, 1.0, 1.0 / 15.0]);
        assert_eq!(floats(72, 0x3f), [1.0, 3.0 / 15.0, 0.0, 1.0]);
        // 256 digits at the exponent of 1 are a half; the largest number.
        assert_eq!(floats(67, 15 << 27 | 256 | 511 << 9), [0.5, 511.0 / 512.0, 0.0, 1.0]);
        assert_eq!(floats(67, 31 << 27 | 511 << 18)[2], 65408.0);
        let [x, y, z, w] = floats(66, 0x80ff_0a00);
        assert_eq!((x, z, w), (0.0, 1.0, 128.0 / 255.0));
        assert!((y - 10.0 / 255.0 / 12.92).abs() < 1e-8, "{y}");
        assert!(ImageFormat::of(0).is_none() && ImageFormat::of(108).is_none());
    }

    #[test]
    fn what_nothing_stores_in_is_not_packed() {
        assert_eq!(ImageFormat::of(67).unwrap().pack([0; 4]), None);
        assert_eq!(ImageFormat::of(64).unwrap().pack([0; 4]), None);
        assert_eq!(ImageFormat::of(109).unwrap().pack([0; 4]), None);
        assert_eq!(ImageFormat::of(68).unwrap().pack([ONE; 4]), Some(0xffff));
    }
}
