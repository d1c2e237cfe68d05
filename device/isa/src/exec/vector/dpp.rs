//! DPP: a vector operation whose first source comes from other lanes.
//!
//! An instruction is lowered to three parts. The preparation puts the permuted source in a row of the engine's own,
//! and takes lanes that are not to be written from EXEC. Then come the operation itself and a step that gives EXEC
//! back.
//!
//! Sources: RDNA3 ISA reference, section 7.7 "Data Parallel Processing"; CDNA3 ISA reference, section 6.5.

use super::lane::active;
use crate::exec::di::{Di, Flow, Machine, Source};
use crate::registers::slot;
use crate::wave::Wave;

/// Bits of `Di::imm` of the preparation, behind the control.
pub(crate) mod bit {
    pub(crate) const ROW_MASK: u32 = 9;
    pub(crate) const BANK_MASK: u32 = 13;
    pub(crate) const BOUND_CTRL: u32 = 17;
    pub(crate) const FETCH_INACTIVE: u32 = 18;
}

/// Way in which each lane finds the lane that it reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    /// DPP16.
    Rows,
    /// DPP16 of gfx9, which permutes across the rows of a wave of 64, and has no exclusive or.
    Wave,
    /// DPP8: a selector for each of eight lanes, in `Di::dst2`.
    Eight,
}

impl Control {
    /// The lane that `lane` reads from, `None` where there is none.
    pub(crate) fn source(self, d: &Di, lane: u32) -> Option<u32> {
        let control = d.imm & 0x1ff;
        match self {
            Control::Rows => in_row(control, lane),
            Control::Wave => in_wave(control, lane),
            Control::Eight => Some(lane & !7 | d.dst2 >> ((lane & 7) * 3) & 7),
        }
    }

    /// Returns true if `lane` is among those that are written.
    pub(crate) fn writes(self, d: &Di, lane: u32) -> bool {
        let (row_mask, bank_mask) = (d.imm >> bit::ROW_MASK & 15, d.imm >> bit::BANK_MASK & 15);
        self == Control::Eight || row_mask >> (lane >> 4) & 1 != 0 && bank_mask >> (lane >> 2 & 3) & 1 != 0
    }

    /// Returns true if no lane is ever taken from EXEC.
    pub(crate) fn keeps_exec(self, d: &Di) -> bool {
        has_bound_ctrl(d) && (0..64).all(|lane| self.writes(d, lane))
    }
}

/// Returns true if lanes may read from lanes that are off.
pub(crate) fn fetches_inactive(d: &Di) -> bool {
    d.imm >> bit::FETCH_INACTIVE & 1 != 0
}

/// Returns true if lanes without a source read 0; otherwise they are not written.
pub(crate) fn has_bound_ctrl(d: &Di) -> bool {
    d.imm >> bit::BOUND_CTRL & 1 != 0
}

/// Lane a DPP16 control reads from, `None` outside the row.
fn in_row(ctrl: u32, lane: u32) -> Option<u32> {
    let (row, at) = (lane & !15, lane & 15);
    let amount = ctrl & 15;
    Some(match ctrl {
        0x000..=0x0ff => lane & !3 | ctrl >> ((lane & 3) * 2) & 3,
        0x101..=0x10f => row | if at + amount < 16 { at + amount } else { return None },
        0x111..=0x11f => row | at.checked_sub(amount)?,
        0x121..=0x12f => row | at.wrapping_sub(amount) & 15,
        0x140 => row | (15 - at),
        0x141 => lane & !7 | (7 - (lane & 7)),
        0x150..=0x15f => row | amount,
        0x160..=0x16f => row | at ^ amount,
        _ => return None,
    })
}

/// As [`in_row`], with the controls of gfx9, which permute across rows.
fn in_wave(ctrl: u32, lane: u32) -> Option<u32> {
    Some(match ctrl {
        0x130 => (lane < 63).then_some(lane + 1)?,
        0x134 => (lane + 1) & 63,
        0x138 => lane.checked_sub(1)?,
        0x13c => lane.wrapping_sub(1) & 63,
        0x142 => (lane & !15).checked_sub(1)?,
        0x143 => (lane >= 32).then_some(31)?,
        0x160..=0x16f => return None,
        _ => return in_row(ctrl, lane),
    })
}

/// Preparation of a DPP16 instruction: the permuted source goes to the row `dst`, EXEC loses the lanes that are not to be
/// written until [`restore_exec`].
pub(crate) fn dpp16(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    prepare(w, d, Control::Rows)
}

/// As [`dpp16`], with the controls of gfx9.
pub(crate) fn dpp16_gfx9(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    if d.aux != 0 {
        // The second register of a source of 64 bits.
        let exec = active(w);
        for lane in 0..w.halves * 32 {
            let source = in_wave(d.imm & 0x1ff, lane);
            let source = source.filter(|&source| fetches_inactive(d) || exec >> source & 1 != 0);
            let second = Source { value: d.src[0].value + w.halves, ..d.src[0] };
            let value = source.map_or(0, |source| second.lane(w, source));
            w.v.set_lane(d.dst + w.halves + lane / 32, lane & 31, value);
        }
    }
    prepare(w, d, Control::Wave)
}

/// Preparation of a DPP8 instruction, as [`dpp16`].
pub(crate) fn dpp8(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    prepare(w, d, Control::Eight)
}

#[inline(always)]
fn prepare(w: &mut Wave, d: &Di, control: Control) -> Flow {
    let exec = active(w);
    let mut keep = 0_u64;
    for lane in 0..w.halves * 32 {
        let source = control.source(d, lane).filter(|&source| fetches_inactive(d) || exec >> source & 1 != 0);
        let value = source.map_or(0, |source| d.src[0].lane(w, source));
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
        if control.writes(d, lane) && (source.is_some() || has_bound_ctrl(d)) {
            keep |= 1 << lane;
        }
    }
    w.saved_exec = [w.s[slot::EXEC], w.s[slot::EXEC + 1]];
    w.s[slot::EXEC] &= keep as u32;
    if w.halves == 2 {
        w.s[slot::EXEC + 1] &= (keep >> 32) as u32;
    }
    Flow::NEXT
}

/// Gives EXEC back the lanes that the preparation took.
pub(crate) fn restore_exec(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    let [low, high] = w.saved_exec;
    w.s[slot::EXEC] = low;
    if w.halves == 2 {
        w.s[slot::EXEC + 1] = high;
    }
    Flow::NEXT
}
