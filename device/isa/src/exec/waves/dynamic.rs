//! Vector registers that waves allocate while they run (dynamic VGPRs of gfx12).
//!
//! Such a wave begins with one block of registers. `s_alloc_vgpr` says how many it wants from then on; they are added
//! or given up at the end of the others. Code is lowered for the number that a wave has
//! ([`Key::allocated`](crate::exec::code_cache::Key)): an instruction that names another register stops the wave, and one
//! that changes the number leaves its region.
//!
//! Source: AMD "RDNA4 Instruction Set Architecture", 3.3.3 and `S_ALLOC_VGPR`.

use crate::exec::di::{Di, Flow, Machine};
use crate::wave::Wave;

/// Bits of the operand that count.
const COUNT: u32 = 0x1ff;

/// `s_alloc_vgpr`, before the instruction at `dst2:dst`. Nothing happens to a wave that keeps the registers that it began with.
pub(crate) fn allocate(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.vgpr_block == 0 {
        return Flow::NEXT;
    }
    let wanted = (d.src[0].scalar(w) & COUNT) as u16;
    let before = w.registers;
    let done = w.allocate_vgprs(wanted);
    w.set_scc(done);
    if w.registers == before {
        return Flow::NEXT;
    }
    // Its code is lowered for another number of registers.
    w.pc = u64::from(d.dst) | u64::from(d.dst2) << 32;
    Flow::LEAVE
}
