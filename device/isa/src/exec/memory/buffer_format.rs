//! Formats of typed buffer elements: what memory holds and what a register gets.

use crate::exec::vector::float::half;

/// Meaning of the bits of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

/// A format: number and widths of its components, X in the lowest bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferFormat {
    number: Number,
    bits: &'static [u32],
}

/// The six kinds every 8-bit format has, in their order.
const INTEGER: [Number; 6] =
    [Number::Unorm, Number::Snorm, Number::Uscaled, Number::Sscaled, Number::Uint, Number::Sint];
/// The seven kinds every 16-bit format has.
const HALF: [Number; 7] = [
    Number::Unorm,
    Number::Snorm,
    Number::Uscaled,
    Number::Sscaled,
    Number::Uint,
    Number::Sint,
    Number::Float,
];
/// The three kinds every 32-bit format has.
const WORD: [Number; 3] = [Number::Uint, Number::Sint, Number::Float];

/// The `BUF_FMT` number of gfx11 for a data format and a number format of older descriptors, 0 where there is none.
pub(crate) fn unified(data: u32, number: u32) -> u32 {
    const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, NONE, 6];
    const INTEGER: [u32; 8] = [0, 1, 2, 3, 4, 5, NONE, NONE];
    const WORD: [u32; 8] = [NONE, NONE, NONE, NONE, 0, 1, NONE, 2];
    const FLOAT: [u32; 8] = [NONE, NONE, NONE, NONE, NONE, NONE, NONE, 0];
    const PACKED: [u32; 8] = [0, 1, NONE, NONE, 2, 3, NONE, NONE];
    const NONE: u32 = u32::MAX;
    let (first, kinds) = match data {
        1 => (1, INTEGER),
        2 => (7, ALL),
        3 => (14, INTEGER),
        4 => (20, WORD),
        5 => (23, ALL),
        6 => (30, FLOAT),
        7 => (31, FLOAT),
        8 => (32, PACKED),
        9 => (36, INTEGER),
        10 => (42, INTEGER),
        11 => (48, WORD),
        12 => (51, ALL),
        13 => (58, WORD),
        14 => (61, WORD),
        _ => return 0,
    };
    match kinds[number as usize & 7] {
        NONE => 0,
        kind => first + kind,
    }
}

impl BufferFormat {
    /// The format with a `BUF_FMT` number of gfx11 (LLVM's `UfmtGFX11`), `None` for 0 and numbers without one.
    pub(crate) fn of(number: u32) -> Option<BufferFormat> {
        let pick = |kinds: &[Number], first: u32, bits: &'static [u32]| {
            let number = *kinds.get((number - first) as usize)?;
            Some(BufferFormat { number, bits })
        };
        const PACKED: [Number; 4] = [Number::Unorm, Number::Snorm, Number::Uint, Number::Sint];
        match number {
            1..=6 => pick(&INTEGER, 1, &[8]),
            7..=13 => pick(&HALF, 7, &[16]),
            14..=19 => pick(&INTEGER, 14, &[8, 8]),
            20..=22 => pick(&WORD, 20, &[32]),
            23..=29 => pick(&HALF, 23, &[16, 16]),
            30 => pick(&[Number::Float], 30, &[11, 11, 10]),
            31 => pick(&[Number::Float], 31, &[10, 11, 11]),
            32..=35 => pick(&PACKED, 32, &[2, 10, 10, 10]),
            36..=41 => pick(&INTEGER, 36, &[10, 10, 10, 2]),
            42..=47 => pick(&INTEGER, 42, &[8, 8, 8, 8]),
            48..=50 => pick(&WORD, 48, &[32, 32]),
            51..=57 => pick(&HALF, 51, &[16, 16, 16, 16]),
            58..=60 => pick(&WORD, 58, &[32, 32, 32]),
            61..=63 => pick(&WORD, 61, &[32, 32, 32, 32]),
            _ => None,
        }
    }

    /// The format of numbers from 0 to 1 of these widths, which together are whole bytes.
    pub(crate) fn normal(bits: &'static [u32]) -> BufferFormat {
        BufferFormat { number: Number::Unorm, bits }
    }

    /// Components of an element.
    pub(crate) fn components(self) -> usize {
        self.bits.len()
    }

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bits.iter().sum::<u32>() / 8)
    }

    /// Returns true if registers hold floats.
    fn is_float(self) -> bool {
        !matches!(self.number, Number::Uint | Number::Sint)
    }

    /// Returns true if the numbers are from 0 to 1.
    pub(crate) fn is_normal(self) -> bool {
        self.number == Number::Unorm
    }

    /// Returns the bits of the constant 1.
    pub(crate) fn one(self) -> u32 {
        if self.is_float() { 0x3f80_0000 } else { 1 }
    }

    /// A register's 32 bits as the 16 that D16 loads give, and back for stores.
    pub(crate) fn narrow(self, value: u32) -> u16 {
        if self.is_float() { half::from_single(value) } else { value as u16 }
    }

    /// The inverse of [`BufferFormat::narrow`].
    pub(crate) fn widen(self, value: u16) -> u32 {
        match self.number {
            Number::Uint => u32::from(value),
            Number::Sint => i32::from(value.cast_signed()).cast_unsigned(),
            _ => half::to_single(value),
        }
    }

    /// The four components of an element; those it does not have are 0, the fourth 1.
    pub(crate) fn unpack(self, element: u128) -> [u32; 4] {
        let mut components = [0, 0, 0, self.one()];
        let mut shift = 0;
        for (component, &bits) in components.iter_mut().zip(self.bits) {
            let raw = (element >> shift) as u32 & u32::MAX >> (32 - bits);
            *component = self.read(raw, bits);
            shift += bits;
        }
        components
    }

    /// The element made of components.
    pub(crate) fn pack(self, components: [u32; 4]) -> u128 {
        let mut element = 0;
        let mut shift = 0;
        for (component, &bits) in components.iter().zip(self.bits) {
            let raw = self.write(*component, bits) & u32::MAX >> (32 - bits);
            element |= u128::from(raw) << shift;
            shift += bits;
        }
        element
    }

    fn read(self, raw: u32, bits: u32) -> u32 {
        let signed = (raw << (32 - bits)).cast_signed() >> (32 - bits);
        let most = f64::from(u32::MAX >> (32 - bits));
        let half = f64::from((u32::MAX >> (32 - bits)) >> 1);
        match self.number {
            Number::Unorm => ((f64::from(raw) / most) as f32).to_bits(),
            Number::Snorm => ((f64::from(signed) / half).max(-1.0) as f32).to_bits(),
            Number::Uscaled => (raw as f32).to_bits(),
            Number::Sscaled => (signed as f32).to_bits(),
            Number::Uint => raw,
            Number::Sint => signed.cast_unsigned(),
            Number::Float => match bits {
                32 => raw,
                16 => half::to_single(raw as u16),
                // Five exponent bits as in half precision, no sign.
                bits => half::to_single((raw << (15 - bits)) as u16),
            },
        }
    }

    fn write(self, value: u32, bits: u32) -> u32 {
        let number = f64::from(f32::from_bits(value));
        let most = f64::from(u32::MAX >> (32 - bits));
        let half = f64::from((u32::MAX >> (32 - bits)) >> 1);
        let number_or_zero = if number.is_nan() { 0.0 } else { number };
        match self.number {
            Number::Unorm => (number_or_zero.clamp(0.0, 1.0) * most).round_ties_even() as u32,
            Number::Snorm => {
                ((number_or_zero.clamp(-1.0, 1.0) * half).round_ties_even() as i32).cast_unsigned()
            }
            Number::Uscaled => number_or_zero.clamp(0.0, most) as u32,
            Number::Sscaled => (number_or_zero.clamp(-half - 1.0, half) as i32).cast_unsigned(),
            Number::Uint => value.min(u32::MAX >> (32 - bits)),
            Number::Sint => {
                let limit = i32::MAX >> (32 - bits);
                value.cast_signed().clamp(!limit, limit).cast_unsigned()
            }
            Number::Float => match bits {
                32 => value,
                16 => u32::from(half::from_single(value)),
                bits => small_float(half::from_single(value), bits),
            },
        }
    }
}

/// A half as an unsigned float of `bits`: negative numbers become 0, the digits are cut off.
fn small_float(value: u16, bits: u32) -> u32 {
    let cut = u32::from(value & 0x7fff) >> (15 - bits);
    if half::is_nan(value) {
        u32::MAX >> (32 - bits)
    } else if value & 0x8000 != 0 {
        0
    } else {
        cut
    }
}
