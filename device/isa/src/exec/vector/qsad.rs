//! Sums of absolute differences of four byte strings at once.

use super::lane::for_each_active;
use super::op::vector_ops;
use crate::exec::di::{Di, Flow, Machine, flag};
use crate::wave::Wave;

/// Sum of the absolute differences of four bytes; with `MASKED` those whose reference is 0 do not count.
pub(crate) fn sad<const MASKED: bool>(a: u32, reference: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(reference.to_le_bytes());
    pairs.filter(|(_, b)| !MASKED || *b != 0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// The four strings of `a` that start one byte after the other, compared with `b`, added to halves of `c`.
pub(crate) fn packed<const MASKED: bool>(a: u64, b: u32, c: u64, add: fn(u16, u16) -> u16) -> u64 {
    (0..4).fold(0, |result, n| {
        let sum = add((c >> (n * 16)) as u16, sad::<MASKED>((a >> (n * 8)) as u32, b) as u16);
        result | u64::from(sum) << (n * 16)
    })
}

vector_ops! {
    V_QSAD_PK_U16_U8: Bits -> Bits, (a: u64, b: u32, c: u64) -> u64 { packed::<false>(a, b, c, u16::wrapping_add) }
    V_MQSAD_PK_U16_U8: Bits -> Bits, (a: u64, b: u32, c: u64) -> u64 { packed::<true>(a, b, c, u16::wrapping_add) }
}

/// `v_mqsad_u32_u8`: four masked sums added to the four registers of `src[2]`.
pub(crate) fn wide(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let (half, at) = (lane / 32, lane & 31);
        let a = match d.src[0].kind {
            crate::exec::di::Kind::Vector => {
                crate::exec::memory::ds::pattern::lane64(w, d.src[0].value, lane)
            }
            _ => d.src[0].scalar64(w),
        };
        let b = d.src[1].lane(w, lane);
        let sums: [u32; 4] = core::array::from_fn(|n| {
            let n = n as u32;
            let old = w.v.lane(d.src[2].value + n * w.halves + half, at);
            let sum = sad::<true>((a >> (n * 8)) as u32, b);
            if d.flags & flag::CLAMP != 0 { old.saturating_add(sum) } else { old.wrapping_add(sum) }
        });
        for (n, sum) in (0_u32..).zip(sums) {
            let row = d.dst + n * w.halves + half;
            w.v.set_lane(row, at, sum);
        }
    });
    Flow::NEXT
}
