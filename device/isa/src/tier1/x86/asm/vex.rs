//! Vector instructions of 256 bits in VEX encoding: AVX2 has the opcodes of AVX-512, and sixteen registers.

use super::{Assembler, At, Gpr, Operand, Zmm};
use crate::tier1::x86::encoding::Evex;

impl Assembler {
    /// A vector instruction of 256 bits, or of 128 if it is short: `reg` and `second` are the operands in `ModRM.reg` and `vvvv`.
    pub(crate) fn vex(&mut self, op: Evex, reg: Zmm, second: Zmm, last: impl Into<Operand>) {
        self.in_vex(op, reg.0, second.0, last.into());
    }

    /// A shift by a constant: `to` is in `vvvv`, and `ModRM.reg` extends the opcode.
    pub(crate) fn vex_shift(&mut self, op: Evex, to: Zmm, from: Zmm) {
        self.in_vex(op, op.extension, to.0, Operand::Register(from));
    }

    /// `vmovmskps` or `vmovd`: a vector register to a general one, whose numbers are in `ModRM.reg` and `ModRM.rm`.
    pub(crate) fn vex_number(&mut self, op: Evex, reg: u8, rm: u8) {
        self.in_vex(op, reg, 0, Operand::Register(Zmm(rm)));
    }

    fn in_vex(&mut self, op: Evex, reg: u8, second: u8, last: Operand) {
        let (x, b) = match last {
            Operand::Register(Zmm(number)) => (0, number >> 3),
            Operand::Memory(At(base, _)) | Operand::Splat(At(base, _)) => (0, base as u8 >> 3),
            Operand::Indexed(base, Zmm(index)) => (index >> 3, base as u8 >> 3),
            _ => (0, 0),
        };
        debug_assert!(reg < 16 && second < 16 && x < 2 && b < 2, "AVX2 has sixteen registers");
        let third = (!second & 15) << 3 | u8::from(!op.short) << 2 | op.prefix;
        if op.map == 1 && !op.wide && x | b == 0 {
            self.code.extend([0xc5, (!reg >> 3 & 1) << 7 | third, op.opcode]);
        } else {
            let first = (!reg >> 3 & 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | op.map;
            self.code.extend([0xc4, first, u8::from(op.wide) << 7 | third, op.opcode]);
        }
        self.last(reg, op.immediate, last, 1);
    }

    /// `mov [at], al`.
    pub(crate) fn store_al(&mut self, at: At) {
        self.rex(false, 0, at.0 as u8);
        self.byte(0x88);
        self.memory(Gpr::Rax as u8, at, 1);
    }

    /// `mov [base + index], from` of 32 bits.
    pub(crate) fn store_indexed(&mut self, base: Gpr, index: Gpr, from: Gpr) {
        let rex = 0x40 | (from as u8 >> 3) << 2 | (index as u8 >> 3) << 1 | base as u8 >> 3;
        self.code.extend([rex, 0x89]);
        self.last(from as u8, None, Operand::Indexed(base, Zmm(index as u8)), 1);
    }

    /// `movsxd to, [at]`.
    pub(crate) fn load_signed(&mut self, to: Gpr, at: At) {
        self.rex(true, to as u8, at.0 as u8);
        self.byte(0x63);
        self.memory(to as u8, at, 1);
    }
}
