//! VGPR indexing: vector registers relative to `M0` (`MODE.GPR_IDX_EN`).
//!
//! `M0[7:0]` is added to the register numbers of the operands that `M0[15:12]` names: SRC0, SRC1, SRC2 and DST. Code
//! is lowered for the bit of `MODE`. Only when it runs are the registers of its operands known; their values are
//! brought to and from registers of the engine's own.

use super::lane::for_each_active;
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::scalar::control::set_mode;
use crate::exec::{FaultCause, Stop};
use crate::registers::slot;
use crate::wave::Wave;

/// `MODE.GPR_IDX_EN`.
pub(crate) const GPR_IDX_EN: u32 = 1 << 27;
/// First bit of the field of `M0` that names operands.
const ENABLES: u32 = 12;
/// The operand that is the destination; the sources have lower numbers.
pub(crate) const DST: u8 = 3;
/// First bit in `aux` of how many registers an operand has.
pub(crate) const REGISTERS: u8 = 2;

/// Changes that an instruction makes to the index.
pub(crate) mod change {
    /// `M0[7:0]` by a source.
    pub(crate) const INDEX: u8 = 1;
    /// `M0[15:12]` by the immediate.
    pub(crate) const OPERANDS: u8 = 2;
    /// `MODE.GPR_IDX_EN` is set.
    pub(crate) const ON: u8 = 4;
    /// `MODE.GPR_IDX_EN` is cleared.
    pub(crate) const OFF: u8 = 8;
}

/// `s_set_gpr_idx_on`, `_off`, `_mode` and `_idx`; the next instruction is at `dst2:dst`.
pub(crate) fn set(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let mut m0 = w.s[slot::M0];
    if d.aux & change::INDEX != 0 {
        m0 = m0 & !0xff | d.src[0].scalar(w) & 0xff;
    }
    if d.aux & change::OPERANDS != 0 {
        m0 = m0 & !(15 << ENABLES) | (d.imm & 15) << ENABLES;
    }
    w.s[slot::M0] = m0;
    let mode = match d.aux & (change::ON | change::OFF) {
        change::ON => w.mode | GPR_IDX_EN,
        change::OFF => w.mode & !GPR_IDX_EN,
        _ => return Flow::NEXT,
    };
    let flow = set_mode(w, mode, d);
    // The wave's next instruction is one that it enters its handler after.
    if flow == Flow::LEAVE && w.steps() { m.stop_here(Stop::Budget) } else { flow }
}

/// First row of the operand at `row`, and of how many registers; the fault when the wave has none such.
fn moved(w: &Wave, row: u32, aux: u8) -> Result<(u32, u32), FaultCause> {
    let (operand, registers) = (u32::from(aux & 3), u32::from(aux >> REGISTERS));
    let m0 = w.s[slot::M0];
    let index = if m0 >> (ENABLES + operand) & 1 != 0 { m0 & 0xff } else { 0 };
    let named = row / w.halves;
    let first = named + index;
    // Operands keep their kind: `v0..`, or `a0..`, which come after those.
    let end = if named < u32::from(w.accumulators_from) { w.accumulators_from } else { w.vgpr_count };
    if first + registers > u32::from(end) {
        return Err(FaultCause::RegisterOutOfRange {
            register: u16::try_from(first + registers - 1).unwrap_or(u16::MAX),
            allocated: end,
            text: String::from("relative to M0"),
        });
    }
    Ok((first * w.halves, registers * w.halves))
}

/// Brings an operand, at the row `src[0]` before it is moved, to the row `dst`.
pub(crate) fn fetch(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    match moved(w, d.src[0].value, d.aux) {
        Ok((row, rows)) => {
            for n in 0..rows {
                *w.v.row_mut(d.dst + n) = *w.v.row(row + n);
            }
            Flow::NEXT
        }
        Err(fault) => m.fault(fault),
    }
}

/// Brings the result in the row `src[0]` to the destination, at the row `dst` before it is moved.
pub(crate) fn store(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    match moved(w, d.dst, d.aux) {
        Ok((row, rows)) => {
            for_each_active(w, |w, lane| {
                for n in (0..rows).step_by(w.halves as usize) {
                    let value = w.v.lane(d.src[0].value + n + lane / 32, lane & 31);
                    w.v.set_lane(row + n + lane / 32, lane & 31, value);
                }
            });
            Flow::NEXT
        }
        Err(fault) => m.fault(fault),
    }
}
