//! A wave in words: where it is, and its status registers by the names of their fields.

use core::fmt;

use super::Wave;
use crate::registers::slot;

/// A field of a register: name, first bit, bits.
type Field = (&'static str, u32, u32);

/// `SQ_WAVE_MODE` of gfx11.
const MODE: &[Field] = &[
    ("FP_ROUND", 0, 4),
    ("FP_DENORM", 4, 4),
    ("DX10_CLAMP", 8, 1),
    ("IEEE", 9, 1),
    ("LOD_CLAMPED", 10, 1),
    ("TRAP_AFTER_INST_EN", 11, 1),
    ("EXCP_EN", 12, 9),
    ("FP16_OVFL", 23, 1),
    ("DISABLE_PERF", 27, 1),
];

/// `SQ_WAVE_STATUS` of gfx11, as far as a wave here can have it.
const STATUS: &[Field] = &[
    ("SCC", 0, 1),
    ("SPI_PRIO", 1, 2),
    ("USER_PRIO", 3, 2),
    ("PRIV", 5, 1),
    ("TRAP_EN", 6, 1),
    ("EXECZ", 9, 1),
    ("VCCZ", 10, 1),
    ("IN_TG", 11, 1),
    ("HALT", 13, 1),
    ("VALID", 16, 1),
    ("SKIP_EXPORT", 18, 1),
    ("SCRATCH_EN", 29, 1),
];

/// `SQ_WAVE_TRAPSTS` of gfx11, as far as a wave here can have it.
const TRAPSTS: &[Field] = &[
    ("INVALID", 0, 1),
    ("INPUT_DENORM", 1, 1),
    ("DIV0", 2, 1),
    ("OVERFLOW", 3, 1),
    ("UNDERFLOW", 4, 1),
    ("INEXACT", 5, 1),
    ("INT_DIV0", 6, 1),
    ("MEM_VIOL", 8, 1),
    ("SAVECTX", 10, 1),
    ("ILLEGAL_INST", 11, 1),
    ("HOST_TRAP", 16, 1),
    ("UTC_ERROR", 28, 1),
];

/// The fields of a register that are not 0; a field of one bit is its name.
struct Fields(&'static [Field], u32);

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for &(name, first, bits) in self.0 {
            match (self.1 >> first & u32::MAX >> (32 - bits), bits) {
                (0, _) => {}
                (_, 1) => {
                    set.entry(&format_args!("{name}"));
                }
                (value, _) => {
                    set.entry(&format_args!("{name}={value:#x}"));
                }
            }
        }
        set.finish()
    }
}

impl fmt::Debug for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wave")
            .field("pc", &format_args!("{:#x}", self.pc))
            .field("exec", &format_args!("{:#x}", self.exec()))
            .field("vcc", &format_args!("{:#x}", self.pair(slot::VCC)))
            .field("m0", &format_args!("{:#x}", self.m0()))
            .field("mode", &Fields(MODE, self.mode))
            .field("status", &Fields(STATUS, self.status_bits()))
            .field("trapsts", &Fields(TRAPSTS, self.trapsts))
            .field("lanes", &format_args!("{}", self.lanes()))
            .field("vgprs", &format_args!("{}", self.vgpr_count))
            .field("shared_vgprs", &format_args!("{}", self.registers - self.vgpr_count))
            .field("sgprs", &format_args!("{}", self.file.sgprs))
            .field("instructions", &format_args!("{}", self.instructions))
            .finish_non_exhaustive()
    }
}

/// For people who look at a wave.
impl Wave {
    /// `MODE`, `STATUS` and `TRAPSTS`: name, bits, and the fields that are not 0 in words.
    #[must_use]
    pub fn status_in_words(&self) -> [(&'static str, u32, String); 3] {
        let status = self.status_bits();
        let words = |fields, bits| format!("{:?}", Fields(fields, bits));
        [
            ("MODE", self.mode, words(MODE, self.mode)),
            ("STATUS", status, words(STATUS, status)),
            ("TRAPSTS", self.trapsts, words(TRAPSTS, self.trapsts)),
        ]
    }

    /// General scalar registers.
    #[must_use]
    pub fn sgprs(&self) -> u8 {
        self.file.sgprs
    }

    /// Vector registers of its own, from `v0` on.
    #[must_use]
    pub fn vgprs(&self) -> u16 {
        if self.accumulators_from == 0 {
            self.vgpr_count
        } else {
            self.accumulators_from.min(self.vgpr_count)
        }
    }

    /// Accumulation registers.
    #[must_use]
    pub fn agprs(&self) -> u16 {
        self.vgpr_count - self.vgprs()
    }

    /// `VCC`.
    #[must_use]
    pub fn vcc(&self) -> u64 {
        self.pair(slot::VCC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::WaveSize;
    use crate::wave::WaveInit;
    use crate::wave::trap::{TrapHandler, trapsts};

    #[test]
    fn wave_is_shown_with_its_place_and_the_fields_of_its_registers() {
        let mut wave = Wave::new(&WaveInit {
            pc: 0x1234_5600,
            exec: 0xff,
            wave_size: WaveSize::Wave64,
            vgpr_count: 24,
            mode: 0x1_03f0,
            trap: Some(TrapHandler { takes_traps: true, ..TrapHandler::default() }),
            ..WaveInit::default()
        });
        wave.trapsts = trapsts::MEM_VIOL | trapsts::DIV0;
        let text = format!("{wave:?}");
        for part in [
            "pc: 0x12345600",
            "exec: 0xff",
            "mode: {FP_DENORM=0xf, DX10_CLAMP, IEEE, EXCP_EN=0x10}",
            "status: {TRAP_EN, VCCZ, VALID}",
            "trapsts: {DIV0, MEM_VIOL}",
            "lanes: 64, vgprs: 24, shared_vgprs: 0, sgprs: 106",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
