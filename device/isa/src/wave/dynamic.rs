//! Vector registers that waves allocate while they run (dynamic VGPRs of gfx12).

use super::Wave;
use crate::registers::MAX_VGPR_BLOCKS;

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
    pub(crate) fn allocate_vgprs(&mut self, wanted: u16) -> bool {
        let block = self.vgpr_block;
        let count = wanted.max(1).next_multiple_of(block);
        if count > block * MAX_VGPR_BLOCKS {
            return false;
        }
        for register in count..self.registers {
            *self.v.row_mut(register.into()) = super::ZERO_ROW;
        }
        (self.vgpr_count, self.registers) = (count, count);
        true
    }
}
