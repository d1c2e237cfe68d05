//! Vector ALU instructions.

use super::numbers::{as_sum, bits_of, half_constant, of_numbers};
use super::operand::Width;
use super::permutation::permutation_bits;
use super::prepare::vector;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Kind, Role, Source, flag};
use crate::exec::form::Form;
use crate::exec::properties::{Family, Properties, meaning, properties};
use crate::exec::scalar::control;
use crate::exec::vector::carry::{self, CarryIn};
use crate::exec::vector::float::{DX10_CLAMP, FP16_OVFL, IEEE};
use crate::exec::vector::op::{self, Entry, Format};
use crate::exec::vector::{
    carry_clamp, cmp, dot, dpp, exceptions, lane, rounded, vop_clamp, vop_f32, vop_half_count, vop_int, vop3p,
};
use crate::inst::{Dpp, Inst, Mods, Op, Operand};
use crate::registers::slot;
use crate::tables::{OperandType, Place, operand_types};
use crate::wave::TEMP_ROW;
use crate::wave::trap::EXCP_EN;

/// The prepared register that the first result of a pair waits in.
const LOW_RESULT: u8 = 16;

/// One operation and its operands: an instruction, or half of a VOPD.
pub(super) struct Operation<'a> {
    pub(super) op: Op,
    pub(super) dst: Operand,
    dst2: Operand,
    pub(super) src: [Operand; 3],
    pub(super) mods: &'a Mods,
    /// [`Inst::imm`].
    pub(super) imm: u32,
    /// Row that replaces `src[0]`.
    pub(super) permuted: Option<u32>,
    /// A result of 16 bits leaves zeros in the upper half.
    zeroes: bool,
}

impl Lowering {
    pub(super) fn vector(&mut self, inst: &Inst) -> Lowered {
        if inst.op.chooses_formats() {
            return self.with_shared_writes(inst, |lowering| lowering.scaled(inst));
        }
        let mut prepared = self.prepare(inst)?;
        let [a, b, c] = prepared.src;
        // EXEC as a source has its value from before the permutation, which takes lanes away.
        let reads_exec = [b, c].into_iter().any(|source| source == Operand::Execz || self.is_exec(source));
        self.copies_exec = inst.dpp.is_some() && reads_exec;
        if self.copies_exec {
            self.emit_extra(Di::new(control::copy_exec));
        }
        let pair = |operand: &OperandType| operand.place == Place::Src(0) && operand.words == 2;
        let (permuted, keeps_exec) = match inst.dpp {
            Some(Dpp::Dpp16(fields)) if operand_types(self.arch, inst).iter().any(pair) => {
                prepared.src[0] = self.permuted_pair(a, permutation_bits(&fields))?;
                (None, false)
            }
            Some(permutation) => {
                let row = match self.fetch_relative(inst)? {
                    Some(row) => row,
                    None => self.row(a, 1)?,
                };
                let (row, keeps_exec) = self.permutation(permutation, row);
                (Some(row), keeps_exec)
            }
            None => (None, true),
        };
        let (op, mods) = (inst.op, &inst.mods);
        let (dst, dst2, imm) = (prepared.dst, inst.dst2, inst.imm);
        let zeroes = self.zeroes_half(inst);
        let operation = Operation { op, dst, dst2, src: prepared.src, mods, imm, permuted, zeroes };
        self.with_shared_writes(inst, |lowering| lowering.operation(&operation))?;
        self.finish(&prepared);
        // A mask the instruction writes to EXEC itself stays.
        let to_exec = [inst.dst, inst.dst2].contains(&Operand::Sgpr(self.file.exec));
        if !keeps_exec && !to_exec {
            self.emit_extra_as(Form::RestoreExec, Di::new(dpp::restore_exec));
        }
        Ok(())
    }

    /// Both halves of a VOPD read their sources before either writes.
    pub(super) fn dual(&mut self, inst: &Inst) -> Lowered {
        let dual = inst.dual.ok_or(Unsupported)?;
        let mods = Mods::default();
        let [a, b, c, _] = inst.src;
        let operation = |op: Op, dst: Operand, src: [Operand; 3]| Operation {
            op,
            dst,
            dst2: Operand::None,
            src,
            mods: &mods,
            imm: 0,
            permuted: None,
            zeroes: false,
        };
        let x = operation(inst.op, inst.dst, [a, b, c]);
        let y = operation(dual.op, dual.dst, dual.src);
        if self.fused(&x, &y)? {
            return Ok(());
        }
        if !y.src.contains(&x.dst) {
            self.operation(&x)?;
            return self.operation(&y);
        }
        if !x.src.contains(&y.dst) {
            self.operation(&y)?;
            return self.operation(&x);
        }
        // Each reads what the other writes: keep X's result aside until Y is done.
        let dst = self.row(x.dst, 1)?;
        self.operation(&x)?;
        let first = self.code.last_mut().ok_or(Unsupported)?;
        first.dst = TEMP_ROW as u32;
        self.operation(&y)?;
        let mov = vop_int::entry(Op::V_MOV_B32, self.backend).ok_or(Unsupported)?;
        self.emit_extra(Di { dst, src: vector(TEMP_ROW as u32), ..Di::new(mov.general) });
        Ok(())
    }

    /// Emits one element for the pairs that matrix kernels consist of. Returns true if it did.
    fn fused(&mut self, x: &Operation<'_>, y: &Operation<'_>) -> Result<bool, Unsupported> {
        use vop_f32::{V_ADD_F32, V_FMAC_F32, V_MUL_F32};
        let f = match (x.op, y.op) {
            (Op::V_FMAC_F32, Op::V_FMAC_F32) => op::dual_pair::<V_FMAC_F32, V_FMAC_F32>(self.backend),
            (Op::V_MUL_F32, Op::V_MUL_F32) => op::dual_pair::<V_MUL_F32, V_MUL_F32>(self.backend),
            (Op::V_ADD_F32, Op::V_ADD_F32) => op::dual_pair::<V_ADD_F32, V_ADD_F32>(self.backend),
            _ => return Ok(false),
        };
        if self.float_flags(&[Format::F32])? != 0 || self.records_exceptions() {
            return Ok(false);
        }
        let width = Width { bits: 32, format: Format::F32, signed: false };
        let second = |value: u32| Source { value, kind: Kind::Vector, ..Source::ZERO };
        let (x_row, y_row) = (self.row(x.src[1], 1)?, self.row(y.src[1], 1)?);
        let src = [self.source(x.src[0], width)?, self.source(y.src[0], width)?, second(x_row)];
        let (dst, dst2) = (self.row(x.dst, 1)?, self.row(y.dst, 1)?);
        self.role = Role::Pair(x.op, y.op);
        self.emit_as(Form::Pair(x.op, y.op), Di { dst, dst2, src, imm: y_row, ..Di::new(f) });
        Ok(true)
    }

    /// Source `n`, or the row DPP put the first one in.
    pub(super) fn operand(
        &mut self,
        o: &Operation<'_>,
        n: usize,
        width: Width,
    ) -> Result<Source, Unsupported> {
        let source = self.modified(o.src[n], n, width, o.mods)?;
        match o.permuted {
            Some(_) if n == 0 && width.bits > 32 => Err(Unsupported),
            Some(row) if n == 0 => Ok(Source { value: row, kind: Kind::Vector, ..source }),
            _ => Ok(source),
        }
    }

    pub(super) fn records_exceptions(&self) -> bool {
        self.mode & exceptions::WATCHED != 0
    }

    pub(super) fn watch(&mut self, element: Di) {
        if !core::mem::replace(&mut self.watches, true) && self.mode & EXCP_EN != 0 {
            self.emit_extra(Di::new(exceptions::begin));
        }
        self.emit_extra(element);
    }

    /// Flags of an operation on floats of these formats: modes other than the usual take the slow path.
    pub(super) fn float_flags(&self, formats: &[Format]) -> Result<u8, Unsupported> {
        let mut flags = 0;
        for format in formats {
            let (round, denormals) = match format {
                Format::Bits => continue,
                Format::F32 => (self.mode & 3, self.mode >> 4 & 3),
                Format::F16 | Format::F64 => (self.mode >> 2 & 3, self.mode >> 6 & 3),
            };
            let limited = *format == Format::F16 && self.mode & FP16_OVFL != 0;
            if round != 0 || denormals != 3 || limited {
                flags |= flag::SLOW;
            }
            if self.signals() {
                flags |= flag::SLOW | flag::SIGNALS;
            }
        }
        Ok(flags)
    }

    /// Returns true if the architecture has a `MODE.IEEE`.
    fn has_ieee(&self) -> bool {
        self.file.absent_mode & IEEE == 0
    }

    /// Returns true if signalling NaNs stay signalling, as they do with `MODE.IEEE` off.
    pub(super) fn signals(&self) -> bool {
        self.has_ieee() && self.mode & IEEE == 0
    }

    /// The output multiplier of a result: with `MODE.IEEE`, and where there could be one, none where denormal results are kept.
    pub(super) fn omod(&self, mods: &Mods, format: Format) -> u8 {
        let keeps_denormals = match format {
            Format::Bits => return 0,
            Format::F32 => self.mode & 2 << 4 != 0,
            Format::F16 | Format::F64 => self.mode & 2 << 6 != 0,
        };
        if self.has_ieee() && (self.mode & IEEE != 0 || keeps_denormals) { 0 } else { mods.omod }
    }

    fn operation(&mut self, o: &Operation<'_>) -> Lowered {
        self.role = Role::Operation(o.op);
        let mut mods = *o.mods;
        if o.op == Op::V_FMAC_F16 {
            // The half that is written is the half that is added to.
            mods.op_sel = mods.op_sel & !4 | mods.op_sel >> 1 & 4;
        }
        let op = if self.signals() { as_sum(meaning(o.op), &mut mods) } else { meaning(o.op) };
        let o = &Operation {
            op,
            src: core::array::from_fn(|n| half_constant(o.op, n, o.src[n])),
            mods: &mods,
            ..*o
        };
        let backend = self.backend;
        match properties(o.op).family {
            Family::Vector(_) if self.chooses_halves(o) => self.special(o),
            Family::Vector(definitions) => {
                let clamped = || if o.mods.clamp { vop_clamp::entry(o.op, backend) } else { None };
                let high =
                    || if o.mods.op_sel & 4 != 0 { vop_half_count::entry(o.op, backend) } else { None };
                let rounded = rounded::entry(o.op, self.mode);
                let saturates = rounded.is_none() && o.mods.clamp;
                let entry = rounded.or_else(clamped).or_else(high);
                let form = match (entry.is_some(), o.op) {
                    (false, op) => Form::Vector(op),
                    (true, op) if saturates => Form::Saturating(op),
                    _ => Form::Call,
                };
                let of_numbers = if self.signals() { of_numbers(o.op) } else { None };
                let entry = entry
                    .or_else(|| dot::of_chip(o.op, self.file.float_sums, backend))
                    .or_else(|| definitions(of_numbers.unwrap_or(o.op), backend));
                self.scalar_defined(o, &entry.ok_or(Unsupported)?, form)
            }
            Family::Carry => {
                let clamped = if o.mods.clamp { carry_clamp::entry(o.op, backend) } else { None };
                let form = if clamped.is_none() { Form::Carry(o.op) } else { Form::Call };
                let entry = clamped.or_else(|| carry::entry(o.op, backend)).ok_or(Unsupported)?;
                self.with_carry(o, &entry, form)
            }
            Family::Comparison(operands, outcomes) => self.comparison(o, operands, outcomes),
            Family::Packed => self.packed(o),
            Family::Pair => self.pair(o),
            Family::Relative => self.relative(o),
            Family::Special => self.special(o),
            Family::Matrix => self.matrix(o),
            Family::Absent
            | Family::Image(_)
            | Family::Nothing
            | Family::Scalar
            | Family::ScalarFloat(..)
            | Family::ScalarComparison(..)
            | Family::ExecMask(..)
            | Family::ScalarRelative
            | Family::HalfLoop
            | Family::Control
            | Family::ScalarMemory(_)
            | Family::ScalarStore(_)
            | Family::ScalarAtomic(..)
            | Family::NarrowScalarMemory(_)
            | Family::Lds(_)
            | Family::LdsExchange(_)
            | Family::GlobalWaveSync
            | Family::Flat(_)
            | Family::FlatToLds(_)
            | Family::Transposed(_)
            | Family::LdsTransposed(_)
            | Family::RegisterBlock
            | Family::ByLane
            | Family::Buffer(_) => Err(Unsupported),
        }
    }

    fn scalar_defined(&mut self, o: &Operation<'_>, entry: &Entry, form: Form) -> Lowered {
        let &Properties { raises, signed, integers, .. } = properties(o.op);
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().take(entry.arity) {
            let format = if entry.input != Format::Bits && entry.bits[n] == bits_of(entry.input) {
                entry.input
            } else {
                Format::Bits
            };
            let mut source = self.operand(o, n, Width { bits: entry.bits[n], format, signed })?;
            let is_random = matches!(o.op, Op::V_CVT_SR_BF16_F32 | Op::V_CVT_SR_F16_F32);
            let is_number = n > 0 && integers && (entry.bits[n] == 16 || is_random);
            if (format == Format::Bits && !integers) || is_number {
                // Integers' `neg` and `abs` have no effect here, but on 32 bits of a float operation.
                (source.neg, source.abs) = (false, false);
            }
            *slot = source;
        }
        if self.records_exceptions()
            && let Some(rule) = raises
        {
            self.watch(exceptions::element(rule, entry, src));
        }
        let clamp = o.mods.clamp && entry.output != Format::Bits;
        let mut flags = self.float_flags(&[entry.input, entry.output])?;
        if integers && flags != 0 {
            flags |= flag::INTEGERS;
        }
        if o.op == Op::V_DIV_FIXUP_F16 && flags != 0 {
            flags |= flag::NO_OVERFLOW;
        }
        if matches!(o.op, Op::V_DIV_FIXUP_F16 | Op::V_DIV_FIXUP_F32 | Op::V_DIV_FIXUP_F64) && flags != 0 {
            flags |= flag::LAST_FIRST;
        }
        if clamp {
            flags |= flag::CLAMP;
            if self.mode & DX10_CLAMP == 0 {
                flags |= flag::SLOW;
            }
        }
        if entry.dst_bits == 16 && o.mods.op_sel & 8 != 0 {
            flags |= flag::DST_HIGH;
        }
        let dst = self.row(o.dst, entry.dst_bits.div_ceil(32))?;
        let omod = self.omod(o.mods, entry.output);
        let unmodified = flags == 0 && omod == 0;
        let (first, others) = src[..entry.arity].split_at(1);
        let rest_plain = unmodified && others.iter().all(|s| s.is_plain_vector());
        let f = if o.op == Op::V_LSHLREV_B64 {
            lane::lshlrev_b64(self.backend)
        } else if o.op == Op::V_LSHL_ADD_U64 {
            lane::lshl_add_u64(self.backend)
        } else if flags & flag::SLOW != 0 {
            entry.slow
        } else if rest_plain && first.iter().all(|s| s.is_plain_vector()) {
            entry.plain.unwrap_or(entry.general)
        } else if rest_plain && first.iter().all(|s| s.is_plain_uniform()) {
            entry.uniform.unwrap_or(entry.general)
        } else {
            entry.general
        };
        self.emit_as(form, Di { dst, src, flags, omod, ..Di::new(f) });
        if o.zeroes && entry.dst_bits == 16 {
            self.keep_half(dst, false);
        }
        Ok(())
    }

    fn with_carry(&mut self, o: &Operation<'_>, entry: &carry::CarryEntry, form: Form) -> Lowered {
        let signed = properties(o.op).signed;
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().take(entry.arity) {
            *slot = self.operand(o, n, Width { bits: entry.bits[n], format: entry.format, signed })?;
        }
        let mut flags = self.float_flags(&[entry.format])?;
        if o.mods.clamp && entry.format != Format::Bits {
            flags |= flag::CLAMP;
        }
        let handler = rounded::with_carry(o.op, self.mode).unwrap_or(entry.handler);
        let carry = match entry.carry {
            CarryIn::None => slot::DUMP as u32,
            CarryIn::Vcc => slot::VCC as u32,
            CarryIn::Third => match o.src[2] {
                null if self.is_null(null) => control::ZERO as u32,
                Operand::Sgpr(register) => self.scalar_slot(register, self.halves)?,
                _ => return Err(Unsupported),
            },
        };
        let dst = self.row(o.dst, entry.dst_bits / 32)?;
        let dst2 = match o.dst2 {
            Operand::None => slot::DUMP as u32,
            operand => self.scalar_destination(operand, self.halves)?,
        };
        let omod = self.omod(o.mods, entry.format);
        self.emit_as(form, Di { dst, dst2, src, imm: carry, flags, omod, ..Di::new(handler) });
        Ok(())
    }

    fn comparison(&mut self, o: &Operation<'_>, operands: cmp::Operands, outcomes: u8) -> Lowered {
        let comparison = cmp::entry(operands, outcomes, self.backend);
        let &Properties { raises, signed, .. } = properties(o.op);
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().take(2) {
            let bits = comparison.bits[n];
            // The mask of a class test is an integer.
            let format = if n == 1 && comparison.is_class { Format::Bits } else { comparison.format };
            let mut source = self.operand(o, n, Width { bits, format, signed })?;
            if format == Format::Bits {
                (source.neg, source.abs) = (false, false);
            }
            *slot = source;
        }
        if self.records_exceptions()
            && let Some(rule) = raises
        {
            self.watch(exceptions::uniform_element(rule, comparison.format, 2, src));
        }
        // Comparing rounds nothing: any rounding mode will do.
        let flags = self.float_flags(&[comparison.format]).unwrap_or_default();
        let dst = self.scalar_destination(o.dst, self.halves)?;
        let handler = if flags & flag::SLOW != 0 { comparison.slow } else { comparison.handler };
        let di = Di { dst, src, flags, aux: comparison.outcomes, ..Di::new(handler) };
        self.emit_as(Form::Compare(operands), di);
        if o.dst2 != Operand::None {
            // EXEC gets the mask besides.
            self.emit_extra(Di { dst, ..Di::new(control::copy_to_exec) });
        }
        Ok(())
    }

    /// Two operations on the halves of pairs: each reads its sources before either writes.
    fn pair(&mut self, o: &Operation<'_>) -> Lowered {
        let (op, moves) = match o.op {
            Op::V_PK_FMA_F32 => (Op::V_FMA_F32, false),
            Op::V_PK_MUL_F32 => (Op::V_MUL_F32, false),
            Op::V_PK_ADD_F32 => (Op::V_ADD_F32, false),
            _ => (Op::V_MOV_B32, true),
        };
        let bit = |mask: u8, n: usize| mask >> n & 1;
        let half = |operand: Operand, second: u8| match operand {
            Operand::Vgpr(register) => Operand::Vgpr(register.wrapping_add(second)),
            Operand::Prepared(register) => Operand::Prepared(register + second),
            Operand::Sgpr(register) => Operand::Sgpr(register + second),
            other => other,
        };
        // All of each source is there.
        for operand in o.src.into_iter().filter(|operand| operand.is_some()) {
            self.source(operand, Width::B64)?;
        }
        let mods = &o.mods;
        let sources = |select: u8| core::array::from_fn(|n| half(o.src[n], bit(select, n)));
        let (low, high) = match moves {
            true => (
                [half(o.src[0], bit(mods.op_sel, 0)), Operand::None, Operand::None],
                [half(o.src[1], bit(mods.op_sel, 1)), Operand::None, Operand::None],
            ),
            false => (sources(mods.op_sel), sources(mods.op_sel_hi)),
        };
        self.row(o.dst, 2)?;
        let signs = |neg: u8| Mods {
            neg: if moves { 0 } else { neg },
            clamp: mods.clamp && !moves,
            ..Mods::default()
        };
        let (low_mods, high_mods) = (signs(mods.neg), signs(mods.neg_hi));
        let (first, second) = (half(o.dst, 0), half(o.dst, 1));
        let part = |dst: Operand, src: [Operand; 3], mods| Operation { op, dst, src, mods, ..*o };
        let copied = high.contains(&first);
        let target = if copied { Operand::Prepared(LOW_RESULT) } else { first };
        self.operation(&part(target, low, &low_mods))?;
        self.operation(&part(second, high, &high_mods))?;
        if copied {
            let mov = vop_int::entry(Op::V_MOV_B32, self.backend).ok_or(Unsupported)?;
            let from = self.source(target, Width::B32)?;
            let dst = self.row(first, 1)?;
            let di = Di { dst, src: [from, Source::ZERO, Source::ZERO], ..Di::new(mov.general) };
            self.emit_extra_as(Form::Vector(Op::V_MOV_B32), di);
        }
        Ok(())
    }

    fn packed(&mut self, o: &Operation<'_>) -> Lowered {
        let of_numbers = if self.signals() { of_numbers(o.op) } else { None };
        let op = of_numbers.unwrap_or(o.op);
        let (handler, arity, format) = vop3p::entry(op, o.mods.clamp).ok_or(Unsupported)?;
        let handler = rounded::packed(o.op, self.mode).unwrap_or(handler);
        let mut src = [Source::ZERO; 3];
        for (n, slot) in src.iter_mut().enumerate().take(arity) {
            *slot = Source { abs: false, ..self.operand(o, n, Width { bits: 16, format, signed: false })? };
        }
        if self.records_exceptions()
            && let Some(rule) = properties(o.op).raises
        {
            let high = |n: usize| Source {
                high: o.mods.op_sel_hi >> n & 1 != 0,
                neg: o.mods.neg_hi >> n & 1 != 0,
                ..src[n]
            };
            self.watch(exceptions::uniform_element(rule, format, arity, src));
            self.watch(exceptions::uniform_element(rule, format, arity, [high(0), high(1), high(2)]));
        }
        let imm = u32::from(o.mods.op_sel_hi & 7) << vop3p::high::SELECT
            | u32::from(o.mods.neg_hi & 7) << vop3p::high::NEG;
        let mut flags = self.float_flags(&[format])?;
        if o.mods.clamp {
            flags |= flag::CLAMP;
        }
        let dst = self.row(o.dst, 1)?;
        self.emit_as(Form::Packed(o.op), Di { dst, src, imm, flags, ..Di::new(handler) });
        Ok(())
    }
}
