//! Context save and restore: how a wave gets into the part of its trap handler that saves or restores it.
//!
//! On a context save the hardware sets `TRAPSTS.SAVECTX` and takes the wave into its trap handler between two
//! instructions. The handler asks with `MSG_RTN_SAVE_WAVE` where to save to, and ends with `s_endpgm_saved`. To be
//! restored, a wave is launched four bytes after the handler's first instruction, with that answer in EXEC, and goes
//! on where its `s_rfe_b64` leads.
//!
//! Source: linux `amdkfd/cwsr_trap_handler_gfx10.asm`, the protocol between the handler and the hardware.

use super::Wave;
use super::lds::Lds;
use crate::registers::slot;
use crate::wave::trap::{status, trapsts};

/// Bytes between the handler's first instruction and the one that restored waves begin at.
const RESTORE_ENTRY: u64 = 4;
/// Bit of EXEC that says that the wave saves and restores the LDS of its workgroup.
const FIRST_WAVE: u64 = 1 << 58;
/// Bits of EXEC that are the address.
const ADDRESS: u64 = 0xffff_ffff_ffff;

/// Bytes of a wave's scalar registers in its context: 128 words. On gfx9, 16 of them are after everything else, and
/// nothing is in them.
pub const SGPR_BYTES: u32 = 128 * 4;
/// Bytes of its hardware registers and trap temporaries: 16 words each.
pub const HWREG_BYTES: u32 = 32 * 4;

/// Place of a wave's saved context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSlot {
    /// GPU virtual address, of which bits 47:0 count.
    pub address: u64,
    /// The LDS of the workgroup is part of it.
    pub first_wave: bool,
}

impl ContextSlot {
    /// Returns the slot as the handler finds it in EXEC.
    fn exec(self) -> u64 {
        self.address & ADDRESS | if self.first_wave { FIRST_WAVE } else { 0 }
    }
}

impl Wave {
    /// Bytes of its context: vector registers, those the halves of a wave64 share, scalar registers, hardware registers,
    /// and the LDS of the workgroup if it is the first wave.
    pub fn context_bytes(&self, lds: Option<&Lds>) -> u32 {
        let shared = u32::from(self.registers - self.vgpr_count) / 8 * 8;
        let lds = lds.map_or(0, |lds| lds.size().next_multiple_of(256));
        self.vgpr_blocks() * 4 * self.lanes() * 4 + shared * 32 * 4 + SGPR_BYTES + HWREG_BYTES + lds
    }

    /// Vector registers in blocks of four.
    pub(crate) fn vgpr_blocks(&self) -> u32 {
        u32::from(self.vgpr_count).div_ceil(4).max(1)
    }

    /// Returns true if the wave can be taken into its trap handler now: it is not in the handler already, and no
    /// instruction is partly done.
    pub fn is_at_boundary(&self) -> bool {
        !self.is_privileged() && !self.is_partly_done()
    }

    /// Returns true if the context can be saved while the process waits for pages. The rest of an instruction that is
    /// partly done then becomes part of the context.
    pub fn can_keep_rest(&self) -> bool {
        self.is_at_boundary() || self.has_rest()
    }

    /// Writes the rest of an instruction that is partly done into the context, which is about to be saved.
    pub fn keep_rest(&mut self) {
        self.rest_to_mask();
    }

    /// Makes the wave continue in the middle of an instruction, if its restored context says so.
    pub fn take_rest(&mut self) {
        self.rest_from_mask();
    }

    /// Makes runs end with [`Stop::TrapReturn`](crate::exec::Stop::TrapReturn) when the wave comes out of its trap handler.
    pub fn stop_at_trap_return(&mut self, stops: bool) {
        self.stops_at_return = stops;
    }

    /// Asks the wave, which is at a boundary, to save itself: it goes on in its trap handler and ends with
    /// [`Stop::Saved`](crate::exec::Stop::Saved). Returns `false`, and changes nothing, if there is no handler.
    ///
    /// The wave saves itself even if traps are not enabled.
    pub fn begin_context_save(&mut self, slot: ContextSlot) -> bool {
        if self.handler.tba == 0 || self.is_privileged() {
            return false;
        }
        self.trapsts |= trapsts::SAVECTX;
        self.context_slot = Some(slot.exec());
        self.set_pair(slot::TTMP0, self.pc & ADDRESS);
        self.status |= status::PRIV;
        self.pc = self.handler.tba;
        true
    }

    /// Makes a wave that has just been launched restore itself: it begins in its trap handler, and runs end with
    /// [`Stop::TrapReturn`](crate::exec::Stop::TrapReturn) when it is done. `false` when there is no handler.
    pub fn begin_context_restore(&mut self, slot: ContextSlot) -> bool {
        if self.handler.tba == 0 {
            return false;
        }
        self.set_pair(slot::EXEC, slot.exec());
        self.status |= status::PRIV;
        self.stops_at_return = true;
        self.pc = self.handler.tba + RESTORE_ENTRY;
        true
    }

    /// Goes back to the `s_barrier` or `s_barrier_wait` that it waits at: it comes to the barrier again.
    pub fn back_to_barrier(&mut self) {
        self.pc = self.stopped_at;
        self.takes_back_wait();
    }
}
