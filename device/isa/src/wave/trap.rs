//! Traps: how a wave gets into its process's trap handler, and the status registers the handler looks at.
//!
//! Bit positions: `SQ_WAVE_STATUS`, `SQ_WAVE_TRAPSTS` and `SQ_WAVE_MODE` of gfx11 as linux
//! `amdkfd/cwsr_trap_handler_gfx10.asm` and ROCr's `trap_handler.s` use them; how a trap enters, RDNA3 ISA, `S_TRAP`.

use super::Wave;
use super::fault::FaultCause;
use crate::mem::FaultKind;
use crate::registers::slot;

/// A process's trap handler, `SQ_SHADER_TBA` and `SQ_SHADER_TMA`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TrapHandler {
    /// Trap base address: the handler's first instruction.
    pub tba: u64,
    /// Trap memory address, which `MSG_RTN_GET_TMA` returns.
    pub tma: u64,
    /// Traps and exceptions enter it (`STATUS.TRAP_EN`); a context save always does.
    pub takes_traps: bool,
}

/// `STATUS` bits.
pub(crate) mod status {
    /// The wave runs its trap handler.
    pub(crate) const PRIV: u32 = 1 << 5;
    pub(crate) const TRAP_EN: u32 = 1 << 6;
    pub(crate) const EXECZ: u32 = 9;
    pub(crate) const VCCZ: u32 = 10;
    pub(crate) const IN_TG: u32 = 1 << 11;
    /// The wave executes nothing outside its trap handler.
    pub(crate) const HALT: u32 = 1 << 13;
    pub(crate) const VALID: u32 = 1 << 16;
    pub(crate) const SCRATCH_EN: u32 = 1 << 29;
    /// Bits `s_setreg` may change in the trap handler: SCC, priorities, HALT and SKIP_EXPORT.
    pub(crate) const WRITABLE: u32 = 0b1_1111 | HALT | 1 << 18;
}

/// `TRAPSTS` bits, and the float exceptions `MODE.EXCP_EN` enables in the same order.
pub(crate) mod trapsts {
    pub(crate) const INVALID: u32 = 1;
    pub(crate) const INPUT_DENORM: u32 = 1 << 1;
    pub(crate) const DIV0: u32 = 1 << 2;
    pub(crate) const OVERFLOW: u32 = 1 << 3;
    pub(crate) const UNDERFLOW: u32 = 1 << 4;
    pub(crate) const INEXACT: u32 = 1 << 5;
    pub(crate) const INT_DIV0: u32 = 1 << 6;
    /// The seven above.
    pub(crate) const MATH: u32 = 0x7f;
    /// Address watch 0; those of the others begin at [`ADDR_WATCH1`].
    pub(crate) const ADDR_WATCH: u32 = 1 << 7;
    pub(crate) const ADDR_WATCH1: u32 = 1 << 12;
    pub(crate) const MEM_VIOL: u32 = 1 << 8;
    /// The wave is asked to save its context.
    pub(crate) const SAVECTX: u32 = 1 << 10;
    pub(crate) const ILLEGAL_INST: u32 = 1 << 11;
    pub(crate) const HOST_TRAP: u32 = 1 << 16;
    /// The memory violation was a translation that failed (`XNACK_ERROR` of gfx9).
    pub(crate) const UTC_ERROR: u32 = 1 << 28;
    /// `MODE.TRAP_AFTER_INST_EN` took the wave into its handler.
    pub(crate) const TRAP_AFTER_INST: u32 = 1 << 20;
    /// Bits that exist.
    pub(crate) const ALL: u32 = 0x101f_fdff;
}

/// `MODE` bits that debuggers set.
pub(crate) mod mode {
    /// A wave with a trap handler enters it after each instruction (`TRAP_AFTER_INST_EN`; `DEBUG_EN` before gfx11).
    pub(crate) const TRAP_AFTER_INST_EN: u32 = 1 << 11;
}

/// First bit of `EXCP_EN` in `MODE`.
pub(crate) const EXCP_EN_SHIFT: u32 = 12;
/// The math exceptions of `MODE.EXCP_EN`.
pub(crate) const EXCP_EN: u32 = trapsts::MATH << EXCP_EN_SHIFT;
/// All of `MODE.EXCP_EN`: the address watch and memory violations follow the math exceptions.
const ALL_EXCP_EN: u32 = 0x1ff << EXCP_EN_SHIFT;

/// Event that takes a wave into its trap handler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrapCause<'a> {
    /// `s_trap` with this identifier; the wave has gone past it.
    Instruction(u8),
    /// An enabled float exception, after the instruction that raised it.
    Exception,
    /// A fault at the instruction the wave is at.
    Fault(&'a FaultCause),
    /// The host asks for it.
    Host(u8),
    /// `MODE.TRAP_AFTER_INST_EN`, after an instruction.
    SingleStep,
    /// An instruction has met address watches, a bit for each, which `MODE.EXCP_EN` enables traps for.
    Watch(u8),
}

impl Wave {
    /// `STATUS` with the bits that other registers imply: `SCC`, `EXECZ`, `VCCZ`.
    pub(crate) fn status_bits(&self) -> u32 {
        let is_zero = |register| u32::from(self.mask(register) == 0);
        self.status
            | self.s[slot::SCC]
            | is_zero(slot::EXEC) << status::EXECZ
            | is_zero(slot::VCC) << status::VCCZ
    }

    /// A lane mask, as wide as the wave.
    #[inline(always)]
    pub(crate) fn mask(&self, register: usize) -> u64 {
        if self.halves == 1 { u64::from(self.s[register]) } else { self.pair(register) }
    }

    /// Enters the trap handler; `false`, and nothing changed, when there is none, when the wave is in it already, or when
    /// the fault is the engine's own lack of an operation or poison.
    ///
    /// `ttmp0` and `ttmp1` then hold `PC[47:0]`, the trap identifier in bits 55:48 (gfx12: its low bits in 63:60) and the
    /// host's trap in bit 56 (not on gfx12). `PC` is
    /// that of the `s_trap` or of the instruction that faulted, and that of the next one after a float exception.
    pub fn enter_trap(&mut self, cause: TrapCause<'_>) -> bool {
        if self.status & status::TRAP_EN == 0 || self.status & status::PRIV != 0 {
            return false;
        }
        let mut pc = self.pc;
        let mut id = 0;
        match cause {
            TrapCause::Instruction(number) => {
                id = u64::from(number);
                pc = self.stopped_at;
            }
            TrapCause::Exception => {}
            TrapCause::Watch(met) => self.record_watches(met),
            TrapCause::SingleStep => self.trapsts |= trapsts::TRAP_AFTER_INST,
            TrapCause::Host(number) => {
                id = u64::from(number) | 1 << 8;
                self.trapsts |= trapsts::HOST_TRAP;
            }
            TrapCause::Fault(fault) => match recorded(fault) {
                Some(bits) => self.trapsts |= bits,
                None => return false,
            },
        }
        self.set_pair(slot::TTMP0, pc & 0xffff_ffff_ffff | id << self.file.trap_id);
        self.status |= status::PRIV;
        self.pc = self.handler.tba;
        self.stepped = false;
        true
    }

    /// Records that address watches were met, as `EXCP.ADDR_WATCH` and `EXCP_HI.ADDR_WATCH1` to `3` of `TRAPSTS`.
    pub fn record_watches(&mut self, met: u8) {
        let met = u32::from(met);
        self.trapsts |= ((met & 1) * trapsts::ADDR_WATCH) | ((met >> 1 & 7) * trapsts::ADDR_WATCH1);
    }

    /// Returns true if the wave traps when an access hits an address watch.
    pub fn traps_watches(&self) -> bool {
        self.mode & trapsts::ADDR_WATCH << EXCP_EN_SHIFT != 0
            && self.status & (status::TRAP_EN | status::PRIV) == status::TRAP_EN
    }

    /// Returns true if the wave enters its trap handler after the next instruction.
    #[inline(always)]
    pub fn steps(&self) -> bool {
        self.mode & mode::TRAP_AFTER_INST_EN != 0
            && self.status & (status::TRAP_EN | status::PRIV) == status::TRAP_EN
    }

    /// Remembers that the wave, which [steps](Wave::steps), has done its instruction and waits for others before it enters
    /// its trap handler.
    pub fn set_stepped(&mut self) {
        self.stepped = true;
    }

    /// Returns true if the instruction that the wave is to trap after is done.
    pub fn has_stepped(&self) -> bool {
        self.stepped
    }

    /// Halts it before its first instruction, as `SPI_GDBG_PER_VMID_CNTL.LAUNCH_MODE` asks for.
    pub fn halt(&mut self) {
        self.status |= status::HALT;
    }

    /// Sets bits of `MODE.EXCP_EN` of a wave that has not begun: those given, or with those it has.
    pub fn enable_exceptions(&mut self, exceptions: u32, replace: bool) {
        let bits = exceptions << EXCP_EN_SHIFT & ALL_EXCP_EN;
        self.mode = if replace { self.mode & !ALL_EXCP_EN } else { self.mode } | bits;
        self.watched |= self.mode & EXCP_EN != 0;
    }

    /// Makes it enter its trap handler after each instruction.
    pub fn single_step(&mut self) {
        self.mode |= mode::TRAP_AFTER_INST_EN;
    }

    /// Returns true if the wave runs its trap handler.
    pub fn is_privileged(&self) -> bool {
        self.status & status::PRIV != 0
    }

    /// Returns true if there is a handler that traps are taken to.
    pub fn has_trap_handler(&self) -> bool {
        self.status & status::TRAP_EN != 0
    }

    /// Returns true if `STATUS.HALT` keeps the wave from going on.
    pub fn is_halted(&self) -> bool {
        self.status & (status::HALT | status::PRIV) == status::HALT
    }

    /// `TRAPSTS`.
    pub fn trapsts(&self) -> u32 {
        self.trapsts
    }

    /// `MODE`.
    pub fn mode(&self) -> u32 {
        self.mode
    }
}

/// Returns the bits that a fault sets in `TRAPSTS`. `None` for faults that no hardware stops at, and for poison: a
/// wave that has read it halts for good, because its handler could go on with the bad data.
fn recorded(fault: &FaultCause) -> Option<u32> {
    Some(match fault {
        FaultCause::Memory { fault, .. } if fault.kind == FaultKind::Aperture => trapsts::MEM_VIOL,
        FaultCause::Memory { fault, .. } if fault.kind == FaultKind::Poison => return None,
        FaultCause::Memory { .. } => trapsts::MEM_VIOL | trapsts::UTC_ERROR,
        FaultCause::LdsOutOfRange { .. } | FaultCause::LdsMisaligned { .. } => trapsts::MEM_VIOL,
        FaultCause::IllegalInstruction { .. } => trapsts::ILLEGAL_INST,
        FaultCause::Unimplemented { .. }
        | FaultCause::Image { .. }
        | FaultCause::RegisterOutOfRange { .. } => return None,
    })
}
