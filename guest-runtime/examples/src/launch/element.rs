//! Element types of buffers and types of scalars.

use std::fmt;

use anyhow::{Context, bail};
use belfry_runtime::Scalar;
use half::f16;

use crate::numbers::{Random, to_f16};

/// A number type, `i8` to `f64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

use Element::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

const NAMES: [(&str, Element); 11] = [
    ("i8", I8),
    ("u8", U8),
    ("i16", I16),
    ("u16", U16),
    ("i32", I32),
    ("u32", U32),
    ("i64", I64),
    ("u64", U64),
    ("f16", F16),
    ("f32", F32),
    ("f64", F64),
];

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, element)| element == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

impl Element {
    pub(super) fn parse(name: &str) -> anyhow::Result<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let Some((_, element)) = found else {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            bail!("unknown type `{name}`; there are {}", known.join(", "));
        };
        Ok(*element)
    }

    /// Bytes of one element.
    pub(super) fn size(self) -> usize {
        match self {
            I8 | U8 => 1,
            I16 | U16 | F16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    /// The number of a decimal text (integers also as `0x...`).
    pub(super) fn scalar(self, text: &str) -> anyhow::Result<Scalar> {
        let error = || format!("`{text}` is not a number of type {self}");
        if matches!(self, F16 | F32 | F64) {
            let value: f64 = text.parse().with_context(error)?;
            return Ok(match self {
                F16 => Scalar::F16(to_f16(value)),
                // Parsed as its own type: through f64 it would round twice.
                F32 => Scalar::F32(text.parse().with_context(error)?),
                _ => Scalar::F64(value),
            });
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let magnitude = match digits.strip_prefix("0x") {
            Some(hex) => i128::from(u64::from_str_radix(hex, 16).with_context(error)?),
            None => i128::from(digits.parse::<u64>().with_context(error)?),
        };
        let value = if negative { -magnitude } else { magnitude };
        let range = || format!("{value} does not fit type {self}");
        Ok(match self {
            I8 => Scalar::I8(value.try_into().with_context(range)?),
            U8 => Scalar::U8(value.try_into().with_context(range)?),
            I16 => Scalar::I16(value.try_into().with_context(range)?),
            U16 => Scalar::U16(value.try_into().with_context(range)?),
            I32 => Scalar::I32(value.try_into().with_context(range)?),
            U32 => Scalar::U32(value.try_into().with_context(range)?),
            I64 => Scalar::I64(value.try_into().with_context(range)?),
            _ => Scalar::U64(value.try_into().with_context(range)?),
        })
    }

    /// The element that counts to `index`: its low bits as an integer, its value as a float.
    pub(super) fn at_index(self, index: u64) -> Vec<u8> {
        match self {
            F16 => to_f16(index as f64).to_le_bytes().to_vec(),
            F32 => (index as f32).to_le_bytes().to_vec(),
            F64 => (index as f64).to_le_bytes().to_vec(),
            _ => index.to_le_bytes()[..self.size()].to_vec(),
        }
    }

    /// A random element: any integer, or a float from 0 to (and without) 1.
    pub(super) fn random(self, random: &mut Random) -> Vec<u8> {
        match self {
            // As many bits as the type has below 1, so that rounding cannot reach 1.
            F16 => f16::from_f32(random.below(1 << 11) as f32 / 2048.0).to_le_bytes().to_vec(),
            F32 => (random.below(1 << 24) as f32 / 16_777_216.0).to_le_bytes().to_vec(),
            F64 => random.unit().to_le_bytes().to_vec(),
            _ => random.next().to_le_bytes()[..self.size()].to_vec(),
        }
    }

    /// The text of one element; `bytes` are [`size`](Self::size) long.
    pub(super) fn show(self, bytes: &[u8]) -> String {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut array = [0; N];
            let n = N.min(bytes.len());
            array[..n].copy_from_slice(&bytes[..n]);
            array
        }
        match self {
            I8 => i8::from_le_bytes(array(bytes)).to_string(),
            U8 => u8::from_le_bytes(array(bytes)).to_string(),
            I16 => i16::from_le_bytes(array(bytes)).to_string(),
            U16 => u16::from_le_bytes(array(bytes)).to_string(),
            I32 => i32::from_le_bytes(array(bytes)).to_string(),
            U32 => u32::from_le_bytes(array(bytes)).to_string(),
            I64 => i64::from_le_bytes(array(bytes)).to_string(),
            U64 => u64::from_le_bytes(array(bytes)).to_string(),
            F16 => f16::from_le_bytes(array(bytes)).to_string(),
            F32 => f32::from_le_bytes(array(bytes)).to_string(),
            F64 => f64::from_le_bytes(array(bytes)).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_read_in_their_type() {
        for (element, text, scalar) in [
            (I32, "5", Scalar::I32(5)),
            (I32, "-5", Scalar::I32(-5)),
            (U64, "7", Scalar::U64(7)),
            (U64, "0xffffffffffffffff", Scalar::U64(u64::MAX)),
            (I64, "-9223372036854775808", Scalar::I64(i64::MIN)),
            (I8, "-0x80", Scalar::I8(-128)),
            (F32, "1.5", Scalar::F32(1.5)),
            (F32, "-inf", Scalar::F32(f32::NEG_INFINITY)),
            (F16, "0.5", Scalar::F16(f16::from_f32(0.5))),
            (F64, "1e300", Scalar::F64(1e300)),
        ] {
            assert_eq!(element.scalar(text).unwrap(), scalar, "{text}");
        }
        for (element, text) in [
            (U8, "256"),
            (U8, "-1"),
            (I8, "128"),
            (I32, "1.5"),
            (I32, ""),
            (F32, "one"),
            (U32, "--1"),
            (U32, "0x"),
        ] {
            assert!(element.scalar(text).is_err(), "{element} {text}");
        }
    }

    #[test]
    fn indices_wrap_as_integers_and_round_as_floats() {
        assert_eq!(U8.at_index(257), [1]);
        assert_eq!(F32.at_index(3), 3f32.to_le_bytes());
        assert_eq!(F16.at_index(2), f16::from_f32(2.0).to_le_bytes());
        for (_, element) in NAMES {
            assert_eq!(element.at_index(1).len(), element.size());
            assert_eq!(element.random(&mut Random::new(1)).len(), element.size());
            assert_eq!(element.show(&element.at_index(1)), "1");
        }
    }
}
