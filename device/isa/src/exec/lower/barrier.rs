//! Split barriers.

use super::{Di, Lowered, Lowering, Unsupported};
use crate::disasm::Disassembly;
use crate::exec::FaultCause;
use crate::exec::di::Handler;
use crate::exec::waves::barrier::{self, MAX_NUMBER, flag};
use crate::inst::{Inst, Op, Operand};

impl Lowering {
    /// `s_barrier_signal`, `s_barrier_signal_isfirst`, `s_barrier_wait`, `s_get_barrier_state`.
    pub(super) fn split_barrier(&mut self, inst: &Inst) -> Lowered {
        let (handler, aux): (Handler, u8) = match inst.op {
            Op::S_BARRIER_SIGNAL => (barrier::signal, 0),
            Op::S_BARRIER_SIGNAL_ISFIRST => (barrier::signal, flag::IS_FIRST),
            Op::S_BARRIER_WAIT => (barrier::wait, 0),
            _ => (barrier::state, 0),
        };
        let mut di = Di::new(handler);
        match (inst.op, inst.src[0]) {
            // A number below that of the trap handler's is that one.
            (Op::S_BARRIER_WAIT, _) => {
                let number = i32::from(inst.simm16()).max(barrier::OF_HANDLER);
                if number > MAX_NUMBER {
                    return Err(Unsupported);
                }
                // The next element may belong to an instruction further on, so it knows its own address.
                let here = self.address(self.at);
                di = Di { dst: here as u32, dst2: (here >> 32) as u32, imm: number.cast_unsigned(), ..di };
            }
            (_, Operand::InlineInt(number)) => {
                let number = i32::from(number);
                if !(barrier::OF_HANDLER..=MAX_NUMBER).contains(&number) {
                    return Err(Unsupported);
                }
                di.imm = number.cast_unsigned();
            }
            // Which one it is shows when it is executed: of the numbers that `M0` can have one is no named barrier's.
            (op, source) if self.is_m0(source) => {
                let text = Disassembly::new(*inst, self.arch, self.wave);
                let text = format!("{text} (a named barrier)");
                let number = self.faults.len() as u32;
                self.faults.push(FaultCause::Unimplemented { op, bytes: Vec::new(), text });
                self.emit_extra(Di { imm: number, ..Di::new(barrier::check_m0) });
                di.imm = 0;
            }
            _ => return Err(Unsupported),
        }
        if inst.op == Op::S_GET_BARRIER_STATE {
            di.dst = self.scalar_destination(inst.dst, 1)?;
        }
        self.emit(Di { aux, ..di });
        Ok(())
    }

    fn is_m0(&self, operand: Operand) -> bool {
        matches!(operand, Operand::Sgpr(register) if register == self.file.m0)
    }
}
