//! Conversions with a scale (gfx950): `v_cvt_scalef32_*`, between singles or halves and floats of eight, six or four bits.
//!
//! The exponent of a single is the scale, a power of two (E8M0; its NaN makes all results NaNs). Wide numbers are divided by it
//! before they become narrow, narrow ones multiplied with it. Both ways round once, to nearest even or by chance; `MODE` only has
//! `FP16_OVFL`. `docs/isa-choices.md` has the choices.

use super::float::byte::Byte;
use super::float::{FP16_OVFL, brain, half, single};
use super::lane::for_each_active;
use crate::exec::di::{Di, Flow, Kind, Machine, Source, flag};
use crate::wave::Wave;

/// Format of the wide side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wide {
    Single,
    Half,
    Brain,
}

/// Elements of the instructions that convert most.
const MOST: usize = 32;
/// The scale that is a NaN.
const NAN: u32 = 255;

/// A conversion, as its mnemonic names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) wide: Wide,
    pub(crate) narrow: Byte,
    /// The result is narrow.
    pub(crate) narrows: bool,
    /// 1, 2 or 32 elements.
    pub(crate) count: u32,
    /// Rounds by random bits.
    pub(crate) by_chance: bool,
    /// Elements come from two sources in turns.
    pub(crate) in_turns: bool,
}

const WIDE: [Wide; 3] = [Wide::Single, Wide::Half, Wide::Brain];
const NARROW: [Byte; 5] = [Byte::Fp8, Byte::Bf8, Byte::Fp6, Byte::Bf6, Byte::Fp4];

impl Conversion {
    /// The conversion of a mnemonic.
    pub(crate) fn named(mnemonic: &str) -> Option<Conversion> {
        let name = mnemonic.strip_prefix("v_cvt_scalef32_")?;
        let (name, by_chance) = name.strip_prefix("sr_").map_or((name, false), |name| (name, true));
        let (name, in_turns) = name.strip_prefix("2xpk16_").map_or((name, false), |name| (name, true));
        let (name, count) = match (name.strip_prefix("pk32_"), name.strip_prefix("pk_")) {
            (Some(name), _) => (name, 32),
            (_, Some(name)) => (name, 2),
            _ => (name, if in_turns { 32 } else { 1 }),
        };
        let (to, from) = name.split_once('_')?;
        let wide = |name: &str| match name {
            "f32" => Some(Wide::Single),
            "f16" => Some(Wide::Half),
            "bf16" => Some(Wide::Brain),
            _ => None,
        };
        let narrow = |name: &str| match name {
            "fp8" => Some(Byte::Fp8),
            "bf8" => Some(Byte::Bf8),
            "fp6" => Some(Byte::Fp6),
            "bf6" => Some(Byte::Bf6),
            "fp4" => Some(Byte::Fp4),
            _ => None,
        };
        let (narrows, wide, narrow) = match wide(to) {
            Some(wide) => (false, wide, narrow(from)?),
            None => (true, wide(from)?, narrow(to)?),
        };
        Some(Conversion { wide, narrow, narrows, count, by_chance, in_turns })
    }

    /// As a number, for [`Di::imm`].
    pub(crate) fn word(self) -> u32 {
        let at = |place: Option<usize>| place.unwrap_or_default() as u32;
        at(WIDE.iter().position(|wide| *wide == self.wide))
            | at(NARROW.iter().position(|narrow| *narrow == self.narrow)) << 4
            | self.count << 8
            | u32::from(self.narrows) << 16
            | u32::from(self.by_chance) << 17
            | u32::from(self.in_turns) << 18
    }

    fn of(word: u32) -> Conversion {
        let bit = |at: u32| word >> at & 1 != 0;
        Conversion {
            wide: WIDE[(word & 15) as usize % WIDE.len()],
            narrow: NARROW[(word >> 4 & 15) as usize % NARROW.len()],
            count: word >> 8 & 63,
            narrows: bit(16),
            by_chance: bit(17),
            in_turns: bit(18),
        }
    }

    /// Two sources hold the numbers.
    pub(crate) fn takes_two(self) -> bool {
        self.in_turns || self.narrows && self.count == 2 && self.wide == Wide::Single && !self.by_chance
    }

    /// Registers of the wide side: of a source if it is one.
    pub(crate) fn wide_registers(self) -> u32 {
        match (self.wide, self.takes_two()) {
            (Wide::Single, true) => self.count / 2,
            (Wide::Single, false) => self.count,
            _ => self.count.div_ceil(2),
        }
    }

    /// Registers of the narrow side.
    pub(crate) fn narrow_registers(self) -> u32 {
        (self.count * self.narrow.bits()).div_ceil(32)
    }
}

/// Register `n` of a source in a lane. A constant is each of its registers.
fn register(w: &Wave, source: &Source, n: u32, lane: u32) -> u32 {
    match source.kind {
        Kind::Vector => w.v.lane(source.value + n * w.halves + lane / 32, lane & 31),
        Kind::Scalar | Kind::High if n > 0 => (source.scalar64(w) >> 32) as u32,
        _ => source.scalar(w),
    }
}

fn set(w: &mut Wave, d: &Di, n: u32, lane: u32, value: u32) {
    w.v.set_lane(d.dst + n * w.halves + lane / 32, lane & 31, value);
}

/// Bits `shift` to `shift + bits` of the destination; the others stay.
fn put(w: &mut Wave, d: &Di, lane: u32, shift: u32, bits: u32, value: u32) {
    let mask = ((1u64 << bits) - 1) as u32;
    let old = w.v.lane(d.dst + lane / 32, lane & 31);
    set(w, d, 0, lane, old & !(mask << shift) | (value & mask) << shift);
}

fn exponent(w: &Wave, d: &Di, lane: u32) -> Option<i32> {
    let scale = d.src[2].lane(w, lane) >> 23 & 255;
    (scale != NAN).then(|| scale.cast_signed() - 127)
}

/// Element `at` of the wide sources as a single, with its modifiers.
fn element(w: &Wave, d: &Di, conversion: Conversion, at: u32, lane: u32) -> u32 {
    let (source, at) =
        if conversion.takes_two() { (&d.src[at as usize % 2], at / 2) } else { (&d.src[0], at) };
    let bits = match conversion.wide {
        Wide::Single => register(w, source, at, lane),
        // A half alone is the one that `op_sel` says.
        wide => {
            let at = if conversion.count == 1 { u32::from(source.high) } else { at };
            let bits = (register(w, source, at / 2, lane) >> (16 * (at % 2))) as u16;
            if wide == Wide::Half { half::to_single(bits) } else { brain::to_single(bits) }
        }
    };
    let magnitude = if source.abs { bits & !single::SIGN } else { bits };
    if source.neg { magnitude ^ single::SIGN } else { magnitude }
}

/// To narrow numbers. `imm` is a [`Conversion`]; random bits are in `src[1]`, the scale in `src[2]`; `aux` is the byte (formats of
/// eight bits, two elements: the half) of the destination.
pub(crate) fn narrow(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let conversion = Conversion::of(d.imm);
    let (format, limited) = (conversion.narrow, w.mode & FP16_OVFL != 0);
    let bits = format.bits();
    for_each_active(w, |w, lane| {
        let scale = exponent(w, d, lane);
        let random = conversion.by_chance.then(|| d.src[1].lane(w, lane));
        let mut words = [0u32; 6];
        for at in 0..conversion.count.min(MOST as u32) {
            let value = match scale {
                Some(_) => element(w, d, conversion, at, lane),
                None => single::INFINITY | single::QUIET,
            };
            let code = u64::from(format.divided(value, scale.unwrap_or(0), random, limited));
            let place = at * bits;
            let wide = code << (place % 32);
            words[place as usize / 32 % 6] |= wide as u32;
            words[(place as usize / 32 + 1) % 6] |= (wide >> 32) as u32;
        }
        if conversion.count == MOST as u32 {
            (0..).zip(words).for_each(|(n, word)| set(w, d, n, lane, word));
        } else {
            let size = bits * conversion.count;
            put(w, d, lane, u32::from(d.aux) * size, size, words[0]);
        }
    });
    Flow::NEXT
}

/// To wide numbers. `imm` is a [`Conversion`]; the scale is in `src[2]`; `aux` is the byte (formats of eight bits, two elements: the
/// half) of the source.
pub(crate) fn widen(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let conversion = Conversion::of(d.imm);
    let (format, limited) = (conversion.narrow, w.mode & FP16_OVFL != 0);
    let bits = format.bits();
    let count = conversion.count.min(MOST as u32);
    for_each_active(w, |w, lane| {
        let scale = exponent(w, d, lane);
        let start = if count == MOST as u32 { 0 } else { u32::from(d.aux) * bits * count };
        let mut results = [0u32; MOST];
        for (at, result) in (0..count).zip(&mut results) {
            let place = start + at * bits;
            let low = u64::from(register(w, &d.src[0], place / 32, lane));
            let high = if place % 32 + bits > 32 { register(w, &d.src[0], place / 32 + 1, lane) } else { 0 };
            let code = (low | u64::from(high) << 32) >> (place % 32) & ((1 << bits) - 1);
            let number = format.to_single(code as u8);
            let value = match scale {
                Some(scale) => single::ldexp(number, scale),
                None => single::INFINITY | single::QUIET,
            };
            *result = match conversion.wide {
                Wide::Single => value,
                Wide::Half => {
                    let half = half::from_single(value);
                    let overflows =
                        half & !half::SIGN == half::INFINITY && number & !single::SIGN != single::INFINITY;
                    u32::from(if limited && overflows { half - 1 } else { half })
                }
                Wide::Brain => u32::from(brain::from_single(value)),
            };
        }
        match (conversion.wide, count) {
            (Wide::Single, _) => {
                (0..).zip(&results[..count as usize]).for_each(|(n, single)| set(w, d, n, lane, *single));
            }
            (_, 1) => put(w, d, lane, if d.flags & flag::DST_HIGH != 0 { 16 } else { 0 }, 16, results[0]),
            _ => {
                let pairs = results[..count as usize].chunks_exact(2);
                (0..).zip(pairs).for_each(|(n, pair)| set(w, d, n, lane, pair[0] | pair[1] << 16));
            }
        }
    });
    Flow::NEXT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::Op;

    /// Operations of the family.
    const NAMES: usize = 49;

    #[test]
    fn each_mnemonic_is_a_conversion_that_its_number_gives_back() {
        let names: Vec<&str> = Op::ALL
            .iter()
            .map(|op| op.mnemonic())
            .filter(|name| name.starts_with("v_cvt_scalef32_"))
            .collect();
        assert_eq!(names.len(), NAMES);
        for name in names {
            let conversion = Conversion::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(Conversion::of(conversion.word()), conversion, "{name}");
        }
    }
}
