//! Vector registers that waves allocate while they run (dynamic VGPRs of gfx12).
//!
//! Such a wave begins with one block of registers. `s_alloc_vgpr` says how many it wants from then on; they are added
//! or given up at the end of the others. Code is lowered for the number that a wave has
//! ([`Key::allocated`](crate::code_cache::Key)): an instruction that names another register stops the wave, and one
//! that changes the number leaves its region.
//!
//! Source: AMD "RDNA4 Instruction Set Architecture", 3.3.3 and `S_ALLOC_VGPR`.

use crate::exec::di::{Di, Flow, Machine};
use crate::registers::MAX_VGPR_BLOCKS;
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

impl Wave {
    /// Returns true if the wave allocates vector registers while it runs.
    #[must_use]
    pub fn allocates_vgprs(&self) -> bool {
        self.vgpr_block != 0
    }

    /// Sets the number of vector registers, for the code that saves or restores the wave. Returns false, and changes
    /// nothing, if the wave does not allocate registers or cannot have that many.
    #[must_use]
    pub fn set_vgprs(&mut self, count: u16) -> bool {
        self.vgpr_block != 0 && self.allocate_vgprs(count)
    }

    /// Sets the number of vector registers to `wanted`, rounded up to whole blocks, at least one. Returns false if a
    /// wave cannot have that many. Registers that the wave gives up are cleared: they are 0 when it gets them again,
    /// and when the next wave does.
    fn allocate_vgprs(&mut self, wanted: u16) -> bool {
        let block = self.vgpr_block;
        let count = wanted.max(1).next_multiple_of(block);
        if count > block * MAX_VGPR_BLOCKS {
            return false;
        }
        for register in count..self.registers {
            *self.v.row_mut(register.into()) = crate::wave::ZERO_ROW;
        }
        (self.vgpr_count, self.registers) = (count, count);
        true
    }
}
