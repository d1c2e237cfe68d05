//! Vector registers that both halves of a wave64 share (`COMPUTE_PGM_RSRC3.SHARED_VGPR_COUNT`).
//!
//! Each is kept twice, a row for either half, and both rows are equal between instructions: reading needs nothing. An
//! instruction that writes one has its lanes noted before and its rows joined afterwards. The high half's lanes win.

use crate::exec::di::{Di, Flow, Machine};
use crate::registers::slot;
use crate::wave::Wave;

/// Lanes that an instruction writes, in [`Di::aux`] of [`note`].
pub(crate) mod lanes {
    /// Lanes that are on in EXEC.
    pub(crate) const ACTIVE: u8 = 0;
    /// The lane that `src[1]` names.
    pub(crate) const ONE: u8 = 1;
    /// All lanes.
    pub(crate) const ALL: u8 = 2;
}

/// Notes the lanes that the instruction writes.
pub(crate) fn note(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    w.writing = match d.aux {
        lanes::ONE => 1 << (d.src[1].scalar(w) & 63),
        lanes::ALL => u64::MAX,
        _ => w.pair(slot::EXEC),
    };
    Flow::NEXT
}

/// Makes the rows of the registers `dst` to before `dst2` equal again.
pub(crate) fn join(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let [low, high] = [w.writing as u32, (w.writing >> 32) as u32];
    for register in d.dst..d.dst2.min(u32::from(w.registers)) {
        join_rows(w, register, [low, high]);
    }
    Flow::NEXT
}

/// Copies the lanes of a register that one half has written to the other; those that both have are the high half's.
fn join_rows(w: &mut Wave, register: u32, [low, high]: [u32; 2]) {
    let row = register * 2;
    for lane in 0..32 {
        let from = match 1 << lane {
            bit if high & bit != 0 => row + 1,
            bit if low & bit != 0 => row,
            _ => continue,
        };
        let value = w.v.lane(from, lane);
        w.v.set_lane(from ^ 1, lane, value);
    }
}

/// Makes the rows equal after a fault in the middle of an instruction: the lanes that are done count as written.
pub(crate) fn rejoin(w: &mut Wave) {
    let [low, high] = [w.done as u32, (w.done >> 32) as u32];
    for register in u32::from(w.vgpr_count)..u32::from(w.registers) {
        join_rows(w, register, [low | !high, high]);
    }
}
