//! Scalar ALU, control and scalar memory instructions.

use super::numbers::{as_sum, of_numbers};
use super::operand::Width;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Handler, Kind, Source, flag};
use crate::exec::form::{Form, When};
use crate::exec::memory::atomic::Function;
use crate::exec::memory::ds::narrow::Narrow;
use crate::exec::properties::{Definitions, Space, meaning, properties};
use crate::exec::scalar::control::{self, exec_message};
use crate::exec::vector::index::{self, change};
use crate::exec::vector::op;
use crate::exec::{
    memory::{smem, smem_write},
    scalar::{exec_mask, hwreg, sop},
    vector::{cmp, exceptions, rounded},
    waves::dynamic,
};
use crate::inst::{Format, Inst, Op, Operand};
use crate::registers::message;

/// `s_sendmsg` ids (`AMDGPU::SendMsg::Id`).
const MSG_INTERRUPT: u32 = 1;
const MSG_DEALLOC_VGPRS: u32 = 3;

impl Lowering {
    pub(super) fn exec_mask(
        &mut self,
        inst: &Inst,
        function: exec_mask::Function,
        result: exec_mask::Result,
        bits: u32,
    ) -> Lowered {
        let handler = exec_mask::handler(result, bits);
        let src = self.source(inst.src[0], if bits == 64 { Width::B64 } else { Width::B32 })?;
        let dst = self.scalar_destination(inst.dst, bits / 32)?;
        let form = Form::ExecMask { saves: result == exec_mask::Result::Old, wide: bits == 64 };
        let src = [src, Source::ZERO, Source::ZERO];
        self.emit_as(form, Di { dst, aux: function as u8, src, ..Di::new(handler) });
        Ok(())
    }

    pub(super) fn scalar_alu(&mut self, inst: &Inst) -> Lowered {
        let entry = sop::entry(meaning(inst.op)).ok_or(Unsupported)?;
        let properties = properties(inst.op);
        let width = |bits: u32| Width { bits, format: op::Format::Bits, signed: properties.signed };
        let mut src = [Source::ZERO; 3];
        src[0] = self.source(inst.src[0], width(entry.bits[0]))?;
        src[1] = if inst.format == Format::Sopk {
            let extended = i32::from(inst.simm16()).cast_unsigned();
            let value = if properties.zero_extends { inst.imm & 0xffff } else { extended };
            Source { value, kind: Kind::Constant, ..Source::ZERO }
        } else {
            self.source(inst.src[1], width(entry.bits[1]))?
        };
        if entry.reads_dst {
            src[2] = self.source(inst.dst, width(entry.dst_bits))?;
        }
        let dst =
            if entry.dst_bits == 0 { 0 } else { self.scalar_destination(inst.dst, entry.dst_bits / 32)? };
        self.emit_as(Form::Scalar(meaning(inst.op)), Di { dst, src, ..Di::new(entry.handler) });
        Ok(())
    }

    pub(super) fn control(&mut self, inst: &Inst) -> Lowered {
        let simple = |handler: Handler| Di { imm: inst.imm, ..Di::new(handler) };
        let next = self.address(self.next);
        let after = |di: Di| Di { dst: next as u32, dst2: (next >> 32) as u32, ..di };
        let link = |di: Di| {
            let part = |value: u32| Source { value, kind: Kind::Constant, ..Source::ZERO };
            Di { src: [di.src[0], part(next as u32), part((next >> 32) as u32)], ..di }
        };
        let (branch, when): (Handler, When) = match inst.op {
            Op::S_BRANCH => (control::branch, When::Always),
            Op::S_CBRANCH_SCC0 => (control::branch_scc0, When::Scc(false)),
            Op::S_CBRANCH_SCC1 => (control::branch_scc1, When::Scc(true)),
            Op::S_CBRANCH_VCCZ => (control::branch_vccz, When::Vccz(true)),
            Op::S_CBRANCH_VCCNZ => (control::branch_vccnz, When::Vccz(false)),
            Op::S_CBRANCH_EXECZ => (control::branch_execz, When::Execz(true)),
            Op::S_CBRANCH_EXECNZ => (control::branch_execnz, When::Execz(false)),
            Op::S_CALL_B64 => {
                let dst = self.scalar_destination(inst.dst, 2)?;
                self.emit_extra(Di { dst, ..link(Di::new(control::getpc)) });
                (control::branch, When::Always)
            }
            Op::S_SETKILL if inst.imm & 1 == 0 => return Ok(()),
            Op::S_ENDPGM_SAVED => {
                self.emit(simple(control::endpgm_saved));
                return Ok(());
            }
            Op::S_ENDPGM | Op::S_SETKILL => {
                self.emit_as(Form::End, simple(control::endpgm));
                return Ok(());
            }
            // The next element may belong to an instruction further on, so these know their own address.
            Op::S_BARRIER | Op::S_TRAP => {
                let here = self.address(self.at);
                let (dst, dst2) = (here as u32, (here >> 32) as u32);
                let (form, handler): (_, Handler) = match inst.op {
                    Op::S_TRAP => (Form::Call, control::trap),
                    _ => (Form::Barrier, control::barrier),
                };
                self.emit_as(form, Di { dst, dst2, ..simple(handler) });
                return Ok(());
            }
            Op::S_BARRIER_SIGNAL
            | Op::S_BARRIER_SIGNAL_ISFIRST
            | Op::S_BARRIER_WAIT
            | Op::S_GET_BARRIER_STATE => return self.split_barrier(inst),
            // Waves of 64 lanes have all of their registers from the start.
            Op::S_ALLOC_VGPR if self.halves == 1 => {
                let src = [self.source(inst.src[0], Width::B32)?, Source::ZERO, Source::ZERO];
                self.emit(after(Di { src, ..Di::new(dynamic::allocate) }));
                return Ok(());
            }
            Op::S_SLEEP_VAR => {
                self.source(inst.src[0], Width::B32)?;
                self.emit_uncounted(simple(control::sleep));
                return Ok(());
            }
            Op::S_SLEEP => {
                self.emit_uncounted(simple(control::sleep));
                return Ok(());
            }
            Op::S_SETHALT => {
                self.emit(simple(control::halt));
                return Ok(());
            }
            Op::S_SENDMSG
                if self.file.answers_in_exec
                    && matches!(inst.imm & 15, exec_message::SAVEWAVE | exec_message::GET_DOORBELL) =>
            {
                self.emit(simple(control::answer_in_exec));
                return Ok(());
            }
            // Nothing is waiting for the registers.
            Op::S_SENDMSG if !self.file.answers_in_exec && inst.imm & 0xff == MSG_DEALLOC_VGPRS => {
                return Ok(());
            }
            // The other messages are for graphics stages, or for handlers that save and restore waves.
            Op::S_SENDMSG | Op::S_SENDMSGHALT if inst.imm & 0xff != MSG_INTERRUPT => return Err(Unsupported),
            Op::S_SENDMSG => {
                self.emit(simple(control::sendmsg));
                return Ok(());
            }
            Op::S_ICACHE_INV => {
                self.emit_uncounted(after(simple(control::icache_inv)));
                return Ok(());
            }
            Op::S_SENDMSGHALT => {
                self.emit(Di { aux: 1, ..simple(control::sendmsg) });
                return Ok(());
            }
            Op::S_MEMTIME => {
                let dst = self.scalar_destination(inst.dst, 2)?;
                self.emit(Di { dst, ..Di::new(control::memtime) });
                return Ok(());
            }
            Op::S_MEMREALTIME => {
                let dst = self.scalar_destination(inst.dst, 2)?;
                let (imm, aux) = (message::GET_REALTIME, 64);
                self.emit(Di { dst, imm, aux, ..Di::new(control::sendmsg_rtn) });
                return Ok(());
            }
            Op::S_SET_GPR_IDX_ON | Op::S_SET_GPR_IDX_OFF | Op::S_SET_GPR_IDX_MODE | Op::S_SET_GPR_IDX_IDX => {
                let aux = match inst.op {
                    Op::S_SET_GPR_IDX_ON => change::INDEX | change::OPERANDS | change::ON,
                    Op::S_SET_GPR_IDX_OFF => change::OFF,
                    Op::S_SET_GPR_IDX_MODE => change::OPERANDS,
                    _ => change::INDEX,
                };
                let src = [self.source(inst.src[0], Width::B32)?, Source::ZERO, Source::ZERO];
                self.emit(after(Di { src, aux, ..simple(index::set) }));
                return Ok(());
            }
            Op::S_SENDMSG_RTN_B32 | Op::S_SENDMSG_RTN_B64 => return self.message_result(inst),
            Op::S_GETPC_B64 => {
                let dst = self.scalar_destination(inst.dst, 2)?;
                self.emit(Di { dst, ..link(Di::new(control::getpc)) });
                return Ok(());
            }
            Op::S_SETPC_B64 | Op::S_RFE_B64 => {
                let src = [self.source(inst.src[0], Width::B64)?, Source::ZERO, Source::ZERO];
                let handler = match inst.op {
                    Op::S_RFE_B64 => control::rfe,
                    _ if self.file.jumps_end_restores => control::setpc_or_return,
                    _ => control::setpc,
                };
                self.emit(Di { src, ..Di::new(handler) });
                return Ok(());
            }
            Op::S_SWAPPC_B64 => {
                let dst = self.scalar_destination(inst.dst, 2)?;
                let src = [self.source(inst.src[0], Width::B64)?, Source::ZERO, Source::ZERO];
                self.emit(Di { dst, ..link(Di { src, ..Di::new(control::swappc) }) });
                return Ok(());
            }
            Op::S_GETREG_B32 => {
                let register = self.file.hardware(hwreg::number(inst.imm)).ok_or(Unsupported)?;
                let dst = self.scalar_destination(inst.dst, 1)?;
                self.names_trapsts |= register.shows_exceptions();
                self.emit(Di { dst, aux: register as u8, ..simple(hwreg::getreg) });
                return Ok(());
            }
            Op::S_SETREG_B32 | Op::S_SETREG_IMM32_B32 => {
                let register = self.file.hardware(hwreg::number(inst.imm)).ok_or(Unsupported)?;
                if !register.is_writable() {
                    return Err(Unsupported);
                }
                let value = inst.src.iter().copied().find(|operand| operand.is_some()).unwrap_or(inst.dst);
                let src = [self.source(value, Width::B32)?, Source::ZERO, Source::ZERO];
                self.emit(after(Di { src, aux: register as u8, ..simple(hwreg::setreg) }));
                return Ok(());
            }
            Op::S_ROUND_MODE => {
                self.emit(after(simple(control::round_mode)));
                return Ok(());
            }
            Op::S_DENORM_MODE => {
                self.emit(after(simple(control::denorm_mode)));
                return Ok(());
            }
            _ => return Err(Unsupported),
        };
        let target = inst.branch_target(self.address(self.at)).ok_or(Unsupported)?;
        self.jump(branch, Form::Branch(when), target);
        Ok(())
    }

    fn message_result(&mut self, inst: &Inst) -> Lowered {
        let bits = if inst.op == Op::S_SENDMSG_RTN_B64 { 64 } else { 32 };
        let id = match inst.src[0] {
            Operand::Literal(value) => value,
            _ => inst.imm,
        };
        let dst = self.scalar_destination(inst.dst, bits / 32)?;
        let id = id & 0xff;
        if !self.file.messages.contains(&id) {
            return Err(Unsupported);
        }
        self.emit(Di { dst, imm: id, aux: bits as u8, ..Di::new(control::sendmsg_rtn) });
        Ok(())
    }

    /// An operation on floats in scalar registers, which is the vector operation `op`.
    pub(super) fn scalar_float(&mut self, inst: &Inst, op: Op, definitions: Definitions) -> Lowered {
        let mut mods = inst.mods;
        // As of vector operations, `MODE.IEEE` decides about signalling NaNs.
        let op = if self.signals() { as_sum(op, &mut mods) } else { op };
        let of_numbers = if self.signals() { of_numbers(op) } else { None };
        let entry = rounded::entry(op, self.mode)
            .or_else(|| definitions(of_numbers.unwrap_or(op), self.backend))
            .ok_or(Unsupported)?;
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().take(entry.arity) {
            let width = Width { bits: entry.bits[n], format: entry.input, signed: false };
            *slot = self.modified(inst.src[n], n, width, &mods)?;
            slot.high |= inst.op == Op::S_CVT_HI_F32_F16;
        }
        if self.records_exceptions()
            && let Some(rule) = properties(inst.op).raises
        {
            self.watch(exceptions::once(exceptions::element(rule, &entry, src)));
        }
        let mut flags = self.float_flags(&[entry.input, entry.output])?;
        if inst.mods.clamp && entry.output != op::Format::Bits {
            flags |= flag::CLAMP;
        }
        let omod = self.omod(&inst.mods, entry.output);
        let dst = self.scalar_destination(inst.dst, 1)?;
        self.emit(Di { dst, src, flags, omod, ..Di::new(entry.on_scalars) });
        Ok(())
    }

    /// A comparison of floats in scalar registers.
    pub(super) fn scalar_comparison(
        &mut self,
        inst: &Inst,
        operands: cmp::Operands,
        outcomes: u8,
    ) -> Lowered {
        let (handler, bits, format): (Handler, u32, op::Format) = match operands {
            cmp::Operands::F16 => (cmp::on_scalars::<cmp::F16>, 16, op::Format::F16),
            cmp::Operands::F32 => (cmp::on_scalars::<cmp::F32>, 32, op::Format::F32),
            _ => return Err(Unsupported),
        };
        let width = Width { bits, format, signed: false };
        let src = [self.source(inst.src[0], width)?, self.source(inst.src[1], width)?, Source::ZERO];
        if self.records_exceptions()
            && let Some(rule) = properties(inst.op).raises
        {
            self.watch(exceptions::once(exceptions::uniform_element(rule, format, 2, src)));
        }
        let flags = self.float_flags(&[format])?;
        self.emit(Di { src, flags, aux: outcomes, ..Di::new(handler) });
        Ok(())
    }

    pub(super) fn narrow_scalar_memory(&mut self, inst: &Inst, part: Narrow) -> Lowered {
        let is_buffer = matches!(properties(inst.op).memory, Some((Space::ScalarBuffer, _)));
        let handler: Handler = if is_buffer { smem::buffer_load_narrow } else { smem::load_narrow };
        let dst = self.scalar_destination(inst.dst, 1)?;
        let src =
            [self.source(inst.src[0], Width::B64)?, self.source(inst.src[1], Width::B32)?, Source::ZERO];
        if is_buffer {
            self.descriptor(inst.src[0])?;
        }
        let imm = inst.mem.offset.cast_unsigned();
        self.emit(Di { dst, src, imm, aux: part.pack(), ..Di::new(handler) });
        Ok(())
    }

    pub(super) fn scalar_memory(&mut self, inst: &Inst, dwords: u32) -> Lowered {
        let space = space_of(inst)?;
        let handler = smem::handler(space, dwords).ok_or(Unsupported)?;
        let dst = self.scalar_destination(inst.dst, dwords)?;
        let base = self.source(inst.src[0], Width::B64)?;
        let offset = self.source(inst.src[1], Width::B32)?;
        if space == Space::ScalarBuffer {
            self.descriptor(inst.src[0])?;
        }
        let src = [base, offset, Source::ZERO];
        let form = if space == Space::Scalar { Form::ScalarLoad(dwords) } else { Form::Call };
        self.emit_as(form, Di { dst, src, imm: inst.mem.offset.cast_unsigned(), ..Di::new(handler) });
        Ok(())
    }

    pub(super) fn scalar_store(&mut self, inst: &Inst, dwords: u32) -> Lowered {
        let space = space_of(inst)?;
        let handler = smem_write::store_handler(space, dwords).ok_or(Unsupported)?;
        let di = self.scalar_write(inst, (space == Space::ScalarBuffer, dwords), handler)?;
        self.emit(di);
        Ok(())
    }

    pub(super) fn scalar_atomic(&mut self, inst: &Inst, function: Function, bits: u32) -> Lowered {
        let is_buffer = matches!(properties(inst.op).memory, Some((Space::ScalarBuffer, _)));
        let dwords = function.operands() * bits / 32;
        let handler = smem_write::atomic_handler(is_buffer, bits);
        let mut di = self.scalar_write(inst, (is_buffer, dwords), handler)?;
        di.aux = function as u8;
        // The old value is wanted (GLC).
        if inst.dst.is_some() {
            di.dst = self.scalar_destination(inst.dst, bits / 32)?;
            di.flags |= flag::RETURN;
        }
        self.emit(di);
        Ok(())
    }

    /// The element of an instruction that writes memory from `dwords` registers.
    fn scalar_write(
        &mut self,
        inst: &Inst,
        (is_buffer, dwords): (bool, u32),
        handler: Handler,
    ) -> Result<Di, Unsupported> {
        let Operand::Sgpr(data) = inst.src[2] else { return Err(Unsupported) };
        let base = self.source(inst.src[0], Width::B64)?;
        let offset = self.source(inst.src[1], Width::B32)?;
        if is_buffer {
            self.descriptor(inst.src[0])?;
        }
        let (dst2, imm) = (self.scalar_slot(data, dwords)?, inst.mem.offset.cast_unsigned());
        Ok(Di { dst2, src: [base, offset, Source::ZERO], imm, ..Di::new(handler) })
    }
}

/// The space that an instruction of scalar memory accesses.
fn space_of(inst: &Inst) -> Result<Space, Unsupported> {
    properties(inst.op).memory.map(|(space, _)| space).ok_or(Unsupported)
}
