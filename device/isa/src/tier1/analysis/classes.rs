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

/// The classes that a comparison with a constant mask asks for, if x86 can tell them from the others.
pub(crate) fn classes(d: &Di) -> Option<Classes> {
    let asked = constant(d, 1)? & ALL;
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
