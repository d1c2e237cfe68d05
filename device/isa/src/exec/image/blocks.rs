//! Formats whose elements are blocks of four by four texels, BC1 to BC7 (Khronos Data Format Specification 1.3, chapters on
//! S3TC, RGTC and BPTC). Shares of two colours are exact, with one rounding to single precision.

mod bptc;

use super::format::linear;

/// The constant 1 as a float.
const ONE: u32 = 0x3f80_0000;

/// Format of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// BC1 to BC3, and BC7: red, green, blue and alpha, the first three of sRGB or not.
    Colors { kind: Colors, srgb: bool },
    /// BC4 and BC5.
    Channels { count: usize, signed: bool },
    /// BC6.
    Halves { signed: bool },
}

/// Colors of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colors {
    One,
    Two,
    Three,
    Seven,
}

impl Block {
    /// The format with a number of `IMG_FMT`; `None` for another one.
    pub(crate) fn of(number: u32) -> Option<Self> {
        let even = number.is_multiple_of(2);
        Some(match number {
            109 | 110 => Self::Colors { kind: Colors::One, srgb: even },
            111 | 112 => Self::Colors { kind: Colors::Two, srgb: even },
            113 | 114 => Self::Colors { kind: Colors::Three, srgb: even },
            115 | 116 => Self::Channels { count: 1, signed: even },
            117 | 118 => Self::Channels { count: 2, signed: even },
            119 | 120 => Self::Halves { signed: even },
            121 | 122 => Self::Colors { kind: Colors::Seven, srgb: even },
            _ => return None,
        })
    }

    /// Bytes of a block.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Colors { kind: Colors::One, .. } | Self::Channels { count: 1, .. } => 8,
            _ => 16,
        }
    }

    /// Components that texels have.
    pub(crate) fn components(self) -> usize {
        match self {
            Self::Colors { .. } => 4,
            Self::Channels { count, .. } => count,
            Self::Halves { .. } => 3,
        }
    }

    /// The components of a texel, counted in rows of four.
    pub(crate) fn texel(self, block: u128, texel: u32) -> [u32; 4] {
        let texel = texel & 15;
        let floats = |values: [f64; 4]| values.map(|value| (value as f32).to_bits());
        match self {
            Self::Colors { kind, srgb } => {
                let high = block >> 64;
                let color = match kind {
                    Colors::One => color(block, texel, true),
                    Colors::Two => {
                        let [x, y, z, _] = color(high, texel, false);
                        [x, y, z, f64::from((block >> (4 * texel)) as u32 & 15) / 15.0]
                    }
                    Colors::Three => {
                        let [x, y, z, _] = color(high, texel, false);
                        [x, y, z, channel(block as u64, texel, false)]
                    }
                    Colors::Seven => bptc::color(block, texel).map(|byte| f64::from(byte) / 255.0),
                };
                let [x, y, z, w] = color;
                floats(if srgb { [linear(x).into(), linear(y).into(), linear(z).into(), w] } else { color })
            }
            Self::Channels { count: 1, signed } => {
                floats([channel(block as u64, texel, signed), 0.0, 0.0, 1.0])
            }
            Self::Channels { signed, .. } => {
                let both = [block as u64, (block >> 64) as u64].map(|block| channel(block, texel, signed));
                floats([both[0], both[1], 0.0, 1.0])
            }
            Self::Halves { signed } => {
                let [x, y, z] =
                    bptc::halves(block, texel, signed).map(crate::exec::vector::float::half::to_single);
                [x, y, z, ONE]
            }
        }
    }
}

/// A colour of two in 5_6_5 and shares of two bits; where the first is not the larger one, the fourth is nothing (BC1).
fn color(block: u128, texel: u32, has_nothing: bool) -> [f64; 4] {
    let colors = [block as u32 & 0xffff, (block >> 16) as u32 & 0xffff];
    let parts = |color: u32| {
        [(11, 31), (5, 63), (0, 31)].map(|(first, most)| f64::from(color >> first & most) / f64::from(most))
    };
    let [first, second] = colors.map(parts);
    let mix = |share: f64, of: f64| {
        core::array::from_fn(|n: usize| match n {
            3 => 1.0,
            n => (first[n] * (of - share) + second[n] * share) / of,
        })
    };
    let thirds = !has_nothing || colors[0] > colors[1];
    match ((block >> (32 + 2 * texel)) as u32 & 3, thirds) {
        (0, _) => mix(0.0, 1.0),
        (1, _) => mix(1.0, 1.0),
        (2, true) => mix(1.0, 3.0),
        (2, false) => mix(1.0, 2.0),
        (_, true) => mix(2.0, 3.0),
        (_, false) => [0.0; 4],
    }
}

/// A number of two bytes and shares of three bits.
fn channel(block: u64, texel: u32, signed: bool) -> f64 {
    let bytes = block.to_le_bytes();
    let number = |byte: u8| match signed {
        true => f64::from(byte.cast_signed().max(-127)),
        false => f64::from(byte),
    };
    let [first, second] = [number(bytes[0]), number(bytes[1])];
    let (least, most) = if signed { (-127.0, 127.0) } else { (0.0, 255.0) };
    let share = (block >> (16 + 3 * texel)) as u32 & 7;
    let mix =
        |share: u32, of: u32| (first * f64::from(of - share) + second * f64::from(share)) / f64::from(of);
    let value = match (share, first > second) {
        (0, _) => first,
        (1, _) => second,
        (share, true) => mix(share - 1, 7),
        (6, false) => least,
        (7, false) => most,
        (share, false) => mix(share - 1, 5),
    };
    value / most
}

#[cfg(test)]
mod tests;
