//! Sub-dword addressing: parts of registers as operands (SDWA), and results that leave the rest of a register empty.
//!
//! A part of a source is brought to a register of the engine's own before the operation, the result from one to its part of the
//! destination afterwards. `aux` holds the number of the part in bits 2:0, see [`Sdwa`](crate::inst::Sdwa).

use super::lane::for_each_active;
use crate::exec::di::{Di, Flow, Machine};
use crate::wave::Wave;

/// Bit of `aux`: a source's part is sign-extended.
pub(crate) const SIGNED: u8 = 1 << 3;
/// First bit of the number in `aux` that says what becomes of the rest of the destination.
pub(crate) const UNUSED: u8 = 3;

/// First bit and bits of a part.
pub(crate) fn place(part: u8) -> (u32, u32) {
    match part & 7 {
        part @ 0..=3 => (u32::from(part) * 8, 8),
        part @ 4..=5 => (u32::from(part - 4) * 16, 16),
        _ => (0, 32),
    }
}

fn extended(value: u32, bits: u32, signed: bool) -> u32 {
    let unused = 32 - bits;
    if signed {
        ((value << unused).cast_signed() >> unused).cast_unsigned()
    } else {
        value << unused >> unused
    }
}

/// The part of `src[0]` in every lane, to the row `dst`.
pub(crate) fn extract(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (shift, bits) = place(d.aux);
    for lane in 0..w.halves * 32 {
        let value = extended(d.src[0].lane(w, lane) >> shift, bits, d.aux & SIGNED != 0);
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    }
    Flow::NEXT
}

/// Zeros in the row `dst`, where an operation may write less than a register.
pub(crate) fn clear(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for lane in 0..w.halves * 32 {
        w.v.set_lane(d.dst + lane / 32, lane & 31, 0);
    }
    Flow::NEXT
}

/// The result in the row `src[0]` to its part of the row `dst`.
pub(crate) fn merge(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (shift, bits) = place(d.aux);
    let mask = u32::MAX >> (32 - bits);
    for_each_active(w, |w, lane| {
        let (row, at) = (d.dst + lane / 32, lane & 31);
        let value = d.src[0].lane(w, lane);
        let merged = match d.aux >> UNUSED {
            0 => (value & mask) << shift,
            1 => extended(value, bits, true) << shift,
            _ => w.v.lane(row, at) & !(mask << shift) | (value & mask) << shift,
        };
        w.v.set_lane(row, at, merged);
    });
    Flow::NEXT
}

/// Zeros in all bits of the row `dst` but those of the mask `imm`.
pub(crate) fn keep(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let (row, at) = (d.dst + lane / 32, lane & 31);
        let value = w.v.lane(row, at) & d.imm;
        w.v.set_lane(row, at, value);
    });
    Flow::NEXT
}
