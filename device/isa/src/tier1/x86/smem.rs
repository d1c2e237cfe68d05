//! Scalar loads, and the end of a program.

use super::asm::{At, Gpr, Integer, Operand, Zmm};
use super::body::{Body, scalar};
use super::encoding::{VMOVUPS_LOAD, VMOVUPS_STORE};
use crate::exec::di::{Di, Kind};
use crate::lanes::BackendKind;

/// The low two bits of each part of an address count as 0.
const WORDS: u32 = !3;

impl Body<'_> {
    /// So many dwords to scalar registers from `dst` on, all or none of them.
    pub(crate) fn scalar_load(&mut self, dwords: u32, d: &Di) {
        if let Some(place) = self.known_place() {
            let values = self.known_values(place);
            return self.copy_scalars(dwords, d, values);
        }
        let cold = self.leave();
        let a = &mut self.a;
        a.load(Integer::Mov, true, Gpr::Rdx, scalar(d.src[0].value));
        a.immediate(Integer::And, true, Gpr::Rdx, WORDS);
        let mut offset = i64::from((d.imm & WORDS).cast_signed());
        if d.src[1].kind == Kind::Scalar {
            a.load(Integer::Mov, false, Gpr::Rax, scalar(d.src[1].value));
            a.immediate(Integer::And, false, Gpr::Rax, WORDS);
            a.integer(Integer::Add, true, Gpr::Rdx, Gpr::Rax);
        } else {
            offset += i64::from(d.src[1].value & WORDS);
        }
        match i32::try_from(offset) {
            Ok(0) => {}
            Ok(offset) => a.immediate(Integer::Add, true, Gpr::Rdx, offset.cast_unsigned()),
            Err(_) => {
                a.constant64(Gpr::Rax, offset.cast_unsigned());
                a.integer(Integer::Add, true, Gpr::Rdx, Gpr::Rax);
            }
        }
        self.translate(dwords * 4, false, &cold);
        self.copy_scalars(dwords, d, 0);
        self.come_back(cold);
    }

    /// Copies `dwords` dwords from the address in `Rdx` plus `from` to scalar registers from `dst` on; two are one
    /// access, and the last ones are loaded first.
    fn copy_scalars(&mut self, dwords: u32, d: &Di, from: i32) {
        let a = &mut self.a;
        let At(base, to) = scalar(d.dst);
        if dwords >= 8 && self.kind == BackendKind::Avx2 {
            for n in (0..dwords as i32 / 8).rev() {
                a.vex(VMOVUPS_LOAD, Zmm(n as u8), Zmm(0), Operand::Memory(At(Gpr::Rdx, from + n * 32)));
            }
            for n in 0..dwords as i32 / 8 {
                a.vex(VMOVUPS_STORE, Zmm(n as u8), Zmm(0), Operand::Memory(At(base, to + n * 32)));
            }
        } else if dwords == 16 {
            a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), Operand::Memory(At(Gpr::Rdx, from)));
            a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(At(base, to)));
        } else {
            for n in (0..dwords as i32).step_by(2).rev() {
                let (wide, at) = (dwords as i32 - n > 1, n * 4);
                a.load(Integer::Mov, wide, Gpr::Rax, At(Gpr::Rdx, from + at));
                a.store(wide, At(base, to + at), Gpr::Rax);
            }
        }
    }
}
