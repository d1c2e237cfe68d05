//! Instructions outside the big tables: relative moves, exchanges, loops over halves of a wave.

use super::operand::Width;
use super::vector::Operation;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Handler, Kind, Source, flag};
use crate::exec::form::Form;
use crate::exec::vector::movrel::{self, shifts};
use crate::exec::{memory::ds_exchange, scalar::control, vector::qsad};
use crate::inst::{Inst, Op, Operand};
use crate::wave::TEMP_ROW;

impl Lowering {
    /// Vector moves relative to `M0`.
    pub(super) fn relative(&mut self, o: &Operation<'_>) -> Lowered {
        let relative = |aux: u8| (aux, movrel::mov as Handler);
        let (aux, handler) = match o.op {
            Op::V_MOVRELS_B32 => relative(shifts::SOURCE),
            Op::V_MOVRELD_B32 => relative(shifts::DESTINATION),
            Op::V_MOVRELSD_B32 => relative(shifts::SOURCE | shifts::DESTINATION),
            Op::V_MOVRELSD_2_B32 => relative(shifts::TWO),
            Op::V_SWAPREL_B32 => (shifts::TWO, movrel::swap as Handler),
            _ => return Err(Unsupported),
        };
        let mut src = [self.operand(o, 0, Width::B32)?, Source::ZERO, Source::ZERO];
        (src[0].neg, src[0].abs) = (false, false);
        // With DPP the source has been fetched already.
        let aux = match (o.permuted, aux) {
            (None, aux) => aux,
            (Some(_), shifts::TWO) => shifts::DESTINATION_OF_TWO,
            (Some(_), aux) => aux & !shifts::SOURCE,
        };
        let dst = self.row(o.dst, 1)?;
        self.emit(Di { dst, src, aux, ..Di::new(handler) });
        Ok(())
    }

    /// Emits the step that DPP needs when the register that it permutes is known only at run time. Returns the row
    /// that its value is in then.
    pub(super) fn fetch_relative(&mut self, inst: &Inst) -> Result<Option<u32>, Unsupported> {
        let aux = match inst.op {
            Op::V_MOVRELS_B32 | Op::V_MOVRELSD_B32 => shifts::SOURCE,
            Op::V_MOVRELSD_2_B32 => shifts::TWO,
            _ => return Ok(None),
        };
        let value = self.row(inst.src[0], 1)?;
        let src = [Source { value, kind: Kind::Vector, ..Source::ZERO }, Source::ZERO, Source::ZERO];
        let dst = TEMP_ROW as u32 + 2;
        self.emit_extra(Di { dst, src, aux, ..Di::new(movrel::fetch) });
        Ok(Some(dst))
    }

    /// `v_mqsad_u32_u8`.
    pub(super) fn wide_sad(&mut self, o: &Operation<'_>) -> Lowered {
        let third = Source { value: self.row(o.src[2], 4)?, kind: Kind::Vector, ..Source::ZERO };
        let src = [self.source(o.src[0], Width::B64)?, self.source(o.src[1], Width::B32)?, third];
        let dst = self.row(o.dst, 4)?;
        let flags = if o.mods.clamp { flag::CLAMP } else { 0 };
        self.emit(Di { dst, src, flags, ..Di::new(qsad::wide) });
        Ok(())
    }

    /// Dot products of halves of registers.
    pub(super) fn dot2(&mut self, o: &Operation<'_>, handler: Handler, aux: u8) -> Lowered {
        let mut src = [Source::ZERO; 3];
        for (n, source) in src.iter_mut().enumerate() {
            let bit = |mask: u8| mask >> n & 1 != 0;
            *source = self.operand(o, n, Width::B32)?;
            (source.high, source.neg, source.abs) = (n < 2 && bit(o.mods.op_sel), bit(o.mods.neg), false);
        }
        let imm = u32::from(o.mods.op_sel_hi & 7) | u32::from(o.mods.neg_hi & 7) << 3;
        let flags = if o.mods.clamp { flag::CLAMP } else { 0 };
        let dst = self.row(o.dst, 1)?;
        self.emit_as(Form::Vector(o.op), Di { dst, src, imm, flags, aux, ..Di::new(handler) });
        Ok(())
    }

    /// Global memory addressed by lane.
    pub(super) fn by_lane(&mut self, inst: &Inst) -> Lowered {
        let is_load = inst.op == Op::GLOBAL_LOAD_ADDTID_B32;
        let handler: Handler =
            if is_load { ds_exchange::global_addtid::<false> } else { ds_exchange::global_addtid::<true> };
        let mut src = [Source::ZERO; 3];
        if inst.src[2].is_some() {
            src[2] = self.source(inst.src[2], Width::B64)?;
        }
        let data = if inst.dst.is_some() { inst.dst } else { inst.src[1] };
        let dst = self.row(data, 1)?;
        self.emit(Di { dst, src, imm: inst.mem.offset.cast_unsigned(), ..Di::new(handler) });
        Ok(())
    }

    /// LDS addressed by lane, and exchanges beyond the ordinary atomics.
    pub(super) fn exchange(&mut self, inst: &Inst, operation: ds_exchange::Operation) -> Lowered {
        let entry = ds_exchange::entry(operation).ok_or(Unsupported)?;
        if inst.mem.gds {
            return Err(Unsupported);
        }
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().filter(|(n, _)| inst.src[*n].is_some()) {
            let value = self.row(inst.src[n], if n == 0 { 1 } else { entry.data })?;
            *slot = Source { value, kind: Kind::Vector, ..Source::ZERO };
        }
        let mut di = Di { src, ..Di::new(entry.handler) };
        if entry.dst > 0 {
            di.dst = self.row(inst.dst, entry.dst)?;
        }
        let offset = inst.mem.offset.cast_unsigned();
        if entry.unit > 0 {
            di.imm = (offset & 0xff) * entry.unit;
            di.dst2 = u32::from(inst.mem.offset1) * entry.unit;
        } else {
            di.imm = offset & 0xffff;
        }
        self.emit(di);
        Ok(())
    }

    /// Scalar moves relative to `M0`.
    pub(super) fn scalar_relative(&mut self, inst: &Inst) -> Lowered {
        let (aux, count): (u8, u32) = match inst.op {
            Op::S_MOVRELS_B32 => (shifts::SOURCE, 1),
            Op::S_MOVRELS_B64 => (shifts::SOURCE, 2),
            Op::S_MOVRELD_B32 => (shifts::DESTINATION, 1),
            Op::S_MOVRELD_B64 => (shifts::DESTINATION, 2),
            Op::S_MOVRELSD_2_B32 => (shifts::TWO, 1),
            _ => return Err(Unsupported),
        };
        let width = if count == 2 { Width::B64 } else { Width::B32 };
        let src = [self.source(inst.src[0], width)?, Source::ZERO, Source::ZERO];
        let dst = self.scalar_destination(inst.dst, count)?;
        let handler: Handler = if count == 2 { movrel::scalar_mov::<2> } else { movrel::scalar_mov::<1> };
        self.emit(Di { dst, src, aux, ..Di::new(handler) });
        Ok(())
    }

    /// The loop over a wave's halves.
    pub(super) fn half_loop(&mut self, inst: &Inst) -> Lowered {
        let register = if inst.dst.is_some() { inst.dst } else { inst.src[0] };
        let dst = self.scalar_destination(register, 1)?;
        let begins = inst.op == Op::S_SUBVECTOR_LOOP_BEGIN;
        let prepare: Handler = if begins { control::half_loop_begin } else { control::half_loop_end };
        self.emit_extra(Di { dst, ..Di::new(prepare) });
        let target = inst.branch_target(self.address(self.at)).ok_or(Unsupported)?;
        self.jump(control::branch_half_loop, Form::Call, target);
        Ok(())
    }

    /// An aperture's last address: both halves of it count, so it is read from registers set beforehand.
    pub(super) fn aperture_limit(&mut self, operand: Operand) -> Source {
        self.emit_extra(Di::new(control::refresh_limits));
        let pair =
            if operand == Operand::SharedLimit { control::SHARED_LIMIT } else { control::PRIVATE_LIMIT };
        Source { value: pair as u32, kind: Kind::Scalar, ..Source::ZERO }
    }
}
