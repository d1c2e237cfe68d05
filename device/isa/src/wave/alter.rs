//! Registers that a debugger changes in a stopped wave.

use super::{Wave, slot};

/// A register of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterName {
    /// The program counter.
    Pc,
    /// `EXEC`.
    Exec,
    /// `VCC`.
    Vcc,
    /// `M0`.
    M0,
    /// `SCC`.
    Scc,
    /// A general scalar register.
    Scalar(u8),
    /// A lane of a vector register of the wave's own.
    Vector(u8, u32),
    /// A lane of an accumulation register.
    Accumulation(u8, u32),
}

impl Wave {
    /// Sets a register. Returns false, and changes nothing, if the wave does not have the register, or if it cannot
    /// have the value.
    pub fn set_register(&mut self, register: RegisterName, value: u64) -> bool {
        let narrow = u32::try_from(value);
        let has_lane = |lane| lane < self.lanes();
        match (register, narrow) {
            (RegisterName::Pc, _) if value.is_multiple_of(4) => self.set_pc(value),
            (RegisterName::Exec, _) if self.halves == 2 => self.set_pair(slot::EXEC, value),
            (RegisterName::Exec, Ok(low)) => self.set_pair(slot::EXEC, low.into()),
            (RegisterName::Vcc, _) => self.set_pair(slot::VCC, value),
            (RegisterName::M0, Ok(value)) => self.s[slot::M0] = value,
            (RegisterName::Scc, Ok(value @ 0..=1)) => self.set_scc(value == 1),
            (RegisterName::Scalar(number), Ok(value)) if number < self.sgprs() => {
                self.set_sgpr(number, value);
            }
            (RegisterName::Vector(number, lane), Ok(value))
                if u16::from(number) < self.vgprs() && has_lane(lane) =>
            {
                self.set_vgpr(number, lane, value);
            }
            (RegisterName::Accumulation(number, lane), Ok(value))
                if u16::from(number) < self.agprs() && has_lane(lane) =>
            {
                self.set_agpr(number, lane, value);
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::WaveSize;
    use crate::wave::WaveInit;

    #[test]
    fn registers_that_there_are_take_values_that_fit() {
        let init = WaveInit { wave_size: WaveSize::Wave32, vgpr_count: 8, ..WaveInit::default() };
        let mut wave = Wave::new(&init);
        for (register, value) in [
            (RegisterName::Pc, 0x1_0000_0004),
            (RegisterName::Exec, 0xf0f0_f0f0),
            (RegisterName::Vcc, 5),
            (RegisterName::M0, 7),
            (RegisterName::Scc, 1),
            (RegisterName::Scalar(3), 9),
            (RegisterName::Vector(7, 31), 11),
        ] {
            assert!(wave.set_register(register, value), "{register:?}");
        }
        assert_eq!((wave.pc(), wave.exec(), wave.vcc()), (0x1_0000_0004, 0xf0f0_f0f0, 5));
        assert_eq!((wave.m0(), wave.scc(), wave.sgpr(3), wave.vgpr(7, 31)), (7, true, 9, 11));
        for (register, value) in [
            (RegisterName::Pc, 2),
            (RegisterName::Exec, 1 << 32),
            (RegisterName::Scc, 2),
            (RegisterName::Scalar(3), 1 << 32),
            (RegisterName::Scalar(200), 1),
            (RegisterName::Vector(8, 0), 1),
            (RegisterName::Vector(0, 32), 1),
            (RegisterName::Accumulation(0, 0), 1),
        ] {
            assert!(!wave.set_register(register, value), "{register:?} {value:#x}");
        }
    }
}
