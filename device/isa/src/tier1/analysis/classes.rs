//! Classes of singles and doubles that a comparison asks for.

use super::permuted::constant;
use crate::exec::di::Di;

/// Classes as x86 names them (`vfpclassps`, `vfpclasspd`, Intel SDM volume 2), and whether all others are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes {
    pub(crate) bits: u8,
    pub(crate) inverted: bool,
}

/// Bits of `v_cmp_class_f32` and `v_cmp_class_f64`: normal numbers of both signs, and all.
const NORMAL: u32 = 1 << 3 | 1 << 8;
const ALL: u32 = 0x3ff;

/// Classes of GPUs, and those of x86: both NaNs, infinities, zeros, and denormals of either sign.
const PAIRS: [(u32, u8); 7] = [
    (1 << 0, 0x80),
    (1 << 1, 0x01),
    (1 << 2, 0x10),
    (1 << 9, 0x08),
    (1 << 5, 0x04),
    (1 << 6, 0x02),
    (1 << 4 | 1 << 7, 0x20),
];

/// The classes that a comparison with a constant mask asks for.
pub(crate) fn asked(d: &Di) -> Option<u32> {
    let mask = constant(d, 1)?;
    // The upper half of an inline constant has no class.
    Some(if d.src[1].high { mask >> 16 } else { mask } & ALL)
}

/// Bits of floats from one number to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The bits of floats of some classes, as few ranges: `mantissa` of `bits` bits are after the exponent.
pub(crate) fn ranges(asked: u32, mantissa: u32, bits: u32) -> Vec<Range> {
    let (normal, infinity) = (1_u32 << mantissa, (1_u32 << (bits - 1)) - (1 << mantissa));
    let quiet = infinity | normal >> 1;
    let limits = [0, 1, normal, infinity, infinity + 1, quiet, 1 << (bits - 1)];
    let signs = [(0, [6, 7, 8, 9, 0, 1]), (1 << (bits - 1), [5, 4, 3, 2, 0, 1])];
    let mut ranges: Vec<Range> = Vec::new();
    for (sign, classes) in signs {
        for (class, limits) in classes.into_iter().zip(limits.windows(2)) {
            let (first, last) = (sign + limits[0], sign + (limits[1] - 1));
            if asked >> class & 1 == 0 {
                continue;
            }
            match ranges.last_mut() {
                Some(before) if before.last.wrapping_add(1) == first => before.last = last,
                _ => ranges.push(Range { first, last }),
            }
        }
    }
    ranges
}

/// The classes that a comparison with a constant mask asks for, if x86 can tell them from the others.
pub(crate) fn classes(d: &Di) -> Option<Classes> {
    let asked = asked(d)?;
    let inverted = asked & NORMAL == NORMAL;
    let mut left = if inverted { !asked & ALL } else { asked };
    let mut bits = 0;
    for (of_gpu, of_host) in PAIRS {
        if left & of_gpu == of_gpu {
            left &= !of_gpu;
            bits |= of_host;
        }
    }
    (left == 0).then_some(Classes { bits, inverted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::vector::float::{half, single};

    #[test]
    fn ranges_have_the_floats_of_their_classes_and_no_others() {
        let within = |ranges: &[Range], bits: u32| ranges.iter().any(|r| (r.first..=r.last).contains(&bits));
        for asked in 0..=ALL {
            let halves = ranges(asked, 10, 16);
            for bits in (0..=u16::MAX).step_by(if asked.is_power_of_two() { 1 } else { 251 }) {
                assert_eq!(within(&halves, bits.into()), half::class(bits, asked), "{bits:#x} of {asked:#x}");
            }
            let singles = ranges(asked, 23, 32);
            let edges = [
                0_u32,
                1,
                0x7f_ffff,
                0x80_0000,
                0x7f7f_ffff,
                0x7f80_0000,
                0x7f80_0001,
                0x7fbf_ffff,
                0x7fc0_0000,
            ];
            for bits in edges.into_iter().chain([0x7fff_ffff]).flat_map(|bits| [bits, bits | 1 << 31]) {
                assert_eq!(within(&singles, bits), single::class(bits, asked), "{bits:#x} of {asked:#x}");
            }
            assert!(halves.len() <= 6 && singles.len() <= 6);
        }
    }
}
