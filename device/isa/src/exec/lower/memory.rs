//! LDS, FLAT, GLOBAL and SCRATCH instructions.

use super::operand::Width;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Source, flag};
use crate::exec::form::Form as TierForm;
use crate::exec::memory::atomic::Function;
use crate::exec::memory::ds;
use crate::exec::memory::ds::narrow::{Half, Narrow};
use crate::exec::memory::ds_exchange;
use crate::exec::memory::flat::{self, FlatEntry, Form};
use crate::exec::properties::{Effect, Moves, Space, properties};
use crate::exec::waves::gws::{self, GwsOp};
use crate::inst::{Inst, Op, Operand};

impl Lowering {
    pub(super) fn lds(&mut self, inst: &Inst, operation: ds::Operation) -> Lowered {
        if inst.mem.gds {
            return Err(Unsupported);
        }
        let effect = properties(inst.op).memory.map(|(_, effect)| effect);
        let entry = ds::entry(operation, effect, self.backend).ok_or(Unsupported)?;
        let mut src = [Source::ZERO; 3];
        if inst.src[0].is_some() {
            src[0] = self.source(inst.src[0], Width::B32)?;
        }
        let data =
            if has_compared_first(inst.op) { [inst.src[2], inst.src[1]] } else { [inst.src[1], inst.src[2]] };
        for (operand, slot) in data.iter().zip(&mut src[1..]) {
            if operand.is_some() {
                let row = self.row(*operand, entry.data.max(1))?;
                *slot = Source { value: row, kind: crate::exec::di::Kind::Vector, ..Source::ZERO };
            }
        }
        let mut di = Di { src, aux: entry.aux, ..Di::new(entry.handler) };
        if entry.dst > 0 {
            di.dst = self.row(inst.dst, entry.dst)?;
            di.flags |= flag::RETURN;
        }
        if matches!(operation, ds::Operation::Permute | ds::Operation::BackwardPermute) {
            di.aux = self.file.exchange_mask & (self.halves * 32 - 1) as u8;
        }
        let offset = inst.mem.offset.cast_unsigned();
        if entry.dst == 2
            && entry.unit == 4
            && offset & 0xff < 255
            && u32::from(inst.mem.offset1) == (offset & 0xff) + 1
        {
            // Two dwords side by side are one element of two.
            di.f = ds::load_b64(self.backend);
            di.imm = (offset & 0xff) * 4;
            self.form = TierForm::LdsLoad(Moves::Dwords(2));
        } else if entry.unit > 0 {
            di.imm = (offset & 0xff) * entry.unit;
            di.dst2 = u32::from(inst.mem.offset1) * entry.unit;
            self.form = match (operation, effect) {
                (ds::Operation::Two { dwords, .. }, Some(Effect::Load)) => TierForm::LdsLoadTwo(dwords),
                (ds::Operation::Two { dwords, .. }, Some(Effect::Store)) => TierForm::LdsStoreTwo(dwords),
                _ => TierForm::Call,
            };
        } else {
            di.imm = offset & 0xffff;
            self.form = match (operation, effect) {
                // Compiled code keeps denormals.
                (ds::Operation::Moves(Moves::Atomic(Function::AddFloat, 32)), _)
                | (ds::Operation::Returning(Function::AddFloat, 32), _)
                    if self.mode >> 4 & 3 != 3 =>
                {
                    TierForm::Call
                }
                (ds::Operation::Moves(Moves::Atomic(function, bits)), _)
                | (ds::Operation::Returning(function, bits), _) => TierForm::LdsAtomic(function, bits),
                (ds::Operation::Moves(moves), Some(Effect::Load)) => TierForm::LdsLoad(moves),
                (ds::Operation::Moves(moves), Some(Effect::Store)) => TierForm::LdsStore(moves),
                (ds::Operation::BackwardPermute, _) => TierForm::BackwardPermute,
                (ds::Operation::Swizzle, _) => TierForm::Swizzle,
                _ => TierForm::Call,
            };
        }
        self.emit(di);
        if let ds::Operation::Moves(Moves::Part(part)) = operation
            && effect == Some(Effect::Load)
        {
            self.keep_loaded_half(di.dst, part);
        }
        Ok(())
    }

    /// Zeroes the other half of a register after a load of one half, on chips whose memory has ECC.
    pub(super) fn keep_loaded_half(&mut self, row: u32, part: Narrow) {
        if let Some(half) = part.half.filter(|_| self.file.zeroes_halves) {
            self.keep_half(row, half == Half::High);
        }
    }

    /// GLOBAL and SCRATCH loads to LDS: first to a register of the engine's own.
    pub(super) fn flat_to_lds(&mut self, inst: &Inst, moves: Moves) -> Lowered {
        let loaded = Operand::Prepared(0);
        self.flat(&Inst { dst: loaded, ..*inst }, moves)?;
        let src = [self.source(loaded, Width::B32)?, Source::ZERO, Source::ZERO];
        let imm = inst.mem.offset.cast_unsigned();
        let aux = match moves {
            Moves::Dwords(count) => count as u8,
            _ => 1,
        };
        self.emit_extra(Di { src, imm, aux, ..Di::new(ds_exchange::put_lanes) });
        Ok(())
    }

    pub(super) fn global_wave_sync(&mut self, inst: &Inst) -> Lowered {
        let op = GwsOp::of(inst.op).ok_or(Unsupported)?;
        let mut di = Di { aux: op as u8, imm: inst.mem.offset.cast_unsigned(), ..Di::new(gws::request) };
        if inst.src[1].is_some() {
            di.src[0] = self.source(inst.src[1], Width::B32)?;
        }
        self.emit(di);
        Ok(())
    }

    pub(super) fn flat(&mut self, inst: &Inst, moves: Moves) -> Lowered {
        let (_, effect) = properties(inst.op).memory.ok_or(Unsupported)?;
        let entry = flat::entry(moves, effect, self.backend).ok_or(Unsupported)?;
        let (di, form) = self.flat_element(inst, &entry)?;
        self.form = match (moves, effect, form) {
            (moves, Effect::Load, Form::Global | Form::GlobalScalar) => TierForm::GlobalLoad(moves),
            (moves, Effect::Store, Form::Global | Form::GlobalScalar) => TierForm::GlobalStore(moves),
            (moves, Effect::Load, Form::Flat) => TierForm::FlatLoad(moves),
            (moves, Effect::Store, Form::Flat) => TierForm::FlatStore(moves),
            (Moves::Atomic(function, bits), _, Form::Global | Form::GlobalScalar) => {
                TierForm::GlobalAtomic(function, bits)
            }
            _ => TierForm::Call,
        };
        self.emit(di);
        if let (Moves::Part(part), Effect::Load) = (moves, effect) {
            self.keep_loaded_half(di.dst, part);
        }
        Ok(())
    }

    /// Loads that transpose a matrix.
    pub(super) fn transposed(&mut self, inst: &Inst, dwords: u32) -> Lowered {
        // What a wave of 64 lanes loads is not documented.
        if self.halves != 1 {
            return Err(Unsupported);
        }
        self.flat(inst, Moves::Dwords(dwords))?;
        let dst = self.row(inst.dst, dwords)?;
        self.emit_extra(Di { dst, imm: dwords, ..Di::new(flat::transpose) });
        Ok(())
    }

    /// Loads from LDS that transpose a matrix.
    pub(super) fn lds_transposed(&mut self, inst: &Inst, bits: u32) -> Lowered {
        let dwords = ds::transposed_dwords(bits);
        self.lds(inst, ds::Operation::Moves(Moves::Dwords(dwords)))?;
        let dst = self.row(inst.dst, dwords)?;
        self.emit_extra(Di { dst, imm: bits, ..Di::new(ds::transpose) });
        Ok(())
    }

    /// Loads and stores of the registers that `M0` names; the others of the 32 need not be there.
    pub(super) fn register_block(&mut self, inst: &Inst) -> Lowered {
        let entry = match properties(inst.op).memory {
            Some((_, Effect::Load)) => FlatEntry { dst: 1, data: 0, ..FlatEntry::new(flat::load_block) },
            _ => FlatEntry { dst: 0, data: 1, ..FlatEntry::new(flat::store_block) },
        };
        let (di, _) = self.flat_element(inst, &entry)?;
        self.emit(di);
        Ok(())
    }

    /// The element of a FLAT, GLOBAL or SCRATCH operation.
    fn flat_element(&mut self, inst: &Inst, entry: &FlatEntry) -> Result<(Di, Form), Unsupported> {
        let (space, _) = properties(inst.op).memory.ok_or(Unsupported)?;
        let scalar = inst.src[2].is_some() && !self.is_null(inst.src[2]);
        let form = match space {
            Space::Scratch => Form::Scratch,
            Space::Global if scalar => Form::GlobalScalar,
            Space::Global => Form::Global,
            Space::Flat => Form::Flat,
            _ => return Err(Unsupported),
        };
        let mut src = [Source::ZERO; 3];
        src[0] = match form {
            Form::Scratch => self.source(inst.src[0], Width::B32)?,
            Form::GlobalScalar => {
                let row = self.row(inst.src[0], 1)?;
                Source { value: row, kind: crate::exec::di::Kind::Vector, ..Source::ZERO }
            }
            Form::Global | Form::Flat => {
                let row = self.row(inst.src[0], 2)?;
                Source { value: row, kind: crate::exec::di::Kind::Vector, ..Source::ZERO }
            }
        };
        if entry.data > 0 {
            let row = self.row(inst.src[1], entry.data)?;
            src[1] = Source { value: row, kind: crate::exec::di::Kind::Vector, ..Source::ZERO };
        }
        if scalar {
            let width = if form == Form::Scratch { Width::B32 } else { Width::B64 };
            src[2] = self.source(inst.src[2], width)?;
        }
        let mut di = Di {
            src,
            aux: entry.aux,
            imm: inst.mem.offset.cast_unsigned(),
            dst2: form as u32,
            ..Di::new(entry.handler)
        };
        // An atomic has a destination when it returns the old value (GLC).
        if entry.dst > 0 && (!entry.atomic || inst.mem.glc) {
            di.dst = self.row(inst.dst, entry.dst)?;
            di.flags |= flag::RETURN;
        }
        Ok((di, form))
    }
}

/// Returns true if the first data operand is compared with memory, and the second is stored.
fn has_compared_first(op: Op) -> bool {
    matches!(
        op,
        Op::DS_CMPST_B32
            | Op::DS_CMPST_B64
            | Op::DS_CMPST_F32
            | Op::DS_CMPST_F64
            | Op::DS_CMPST_RTN_B32
            | Op::DS_CMPST_RTN_B64
            | Op::DS_CMPST_RTN_F32
            | Op::DS_CMPST_RTN_F64
    )
}
