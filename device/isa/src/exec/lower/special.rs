//! Vector ALU instructions that fit no table: selects, lane accesses, mixed precision, matrices.

use super::operand::Width;
use super::vector::Operation;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Handler, Kind, Source, flag};
use crate::exec::form::Form;
use crate::exec::vector::op::Format;
use crate::exec::{
    matrix::{mfma, wmma, wmma_exact, wmma_spread},
    scalar::control,
    vector::{dot, lane, scaled, small, vop3p},
};
use crate::inst::{Mods, Op, Operand};

/// Halves that elements of factors are chosen from, as dot products of integers take them.
fn chosen_halves(mods: &Mods) -> u32 {
    u32::from(mods.op_sel & 3) | u32::from(mods.op_sel_hi & 3) << 2
}

impl Lowering {
    /// Returns true if a dot product of unsigned integers takes other halves than usual.
    pub(super) fn chooses_halves(&self, o: &Operation<'_>) -> bool {
        let takes = matches!(o.op, Op::V_DOT4_U32_U8 | Op::V_DOT8_U32_U4) && self.file.dots_choose_halves;
        takes && chosen_halves(o.mods) != vop3p::halves::USUAL
    }

    pub(super) fn special(&mut self, o: &Operation<'_>) -> Lowered {
        let handler: Handler = match o.op {
            Op::V_CNDMASK_B32 | Op::V_CNDMASK_B16 => return self.select(o),
            Op::V_READFIRSTLANE_B32 | Op::V_READLANE_B32 => {
                let src =
                    [self.source(o.src[0], Width::B32)?, self.source(o.src[1], Width::B32)?, Source::ZERO];
                let (form, handler): (Form, Handler) = if o.op == Op::V_READLANE_B32 {
                    (Form::ReadLane, lane::readlane)
                } else {
                    (Form::ReadFirstLane, lane::readfirstlane)
                };
                let dst = self.scalar_destination(o.dst, 1)?;
                self.emit_as(form, Di { dst, src, ..Di::new(handler) });
                return Ok(());
            }
            Op::V_WRITELANE_B32 => lane::writelane,
            Op::V_MBCNT_LO_U32_B32 => lane::mbcnt_lo,
            Op::V_MBCNT_HI_U32_B32 => lane::mbcnt_hi,
            Op::V_SWAP_B32 => {
                self.row(o.src[0], 1)?;
                lane::swap
            }
            Op::V_BITOP3_B32 | Op::V_BITOP3_B16 => return self.truth_table(o),
            Op::V_PERMLANE16_SWAP_B32 | Op::V_PERMLANE32_SWAP_B32 => {
                self.row(o.src[0], 1)?;
                if o.op == Op::V_PERMLANE16_SWAP_B32 { lane::swap_rows::<16> } else { lane::swap_rows::<32> }
            }
            Op::V_PERMLANE16_B32 => lane::permlane16,
            Op::V_PERMLANEX16_B32 => lane::permlanex16,
            Op::V_PERMLANE16_VAR_B32 => lane::permlane16_var,
            Op::V_PERMLANEX16_VAR_B32 => lane::permlanex16_var,
            Op::V_PERMLANE64_B32 => lane::permlane64,
            Op::V_DOT4_I32_IU8 => vop3p::dot4_iu8,
            Op::V_DOT8_I32_IU4 => vop3p::dot8_iu4,
            Op::V_DOT4_U32_U8 | Op::V_DOT8_U32_U4 => vop3p::dot_unsigned,
            Op::V_FMA_MIX_F32 | Op::V_FMA_MIXLO_F16 | Op::V_FMA_MIXHI_F16 => return self.mix(o),
            Op::V_MQSAD_U32_U8 => return self.wide_sad(o),
            Op::V_CVT_F32_FP8 => return self.small_floats(o, small::to_single, 0),
            Op::V_CVT_F32_BF8 => return self.small_floats(o, small::to_single, 1),
            Op::V_CVT_PK_F32_FP8 => return self.small_floats(o, small::to_singles, 0),
            Op::V_CVT_PK_F32_BF8 => return self.small_floats(o, small::to_singles, 1),
            Op::V_CVT_PK_FP8_F32 => return self.small_floats(o, small::from_singles, 0),
            Op::V_CVT_PK_BF8_F32 => return self.small_floats(o, small::from_singles, 1),
            Op::V_CVT_SR_FP8_F32 => return self.small_floats(o, small::by_chance, 0),
            Op::V_CVT_SR_BF8_F32 => return self.small_floats(o, small::by_chance, 1),
            Op::V_DOT4_F32_FP8_FP8 => return self.small_floats(o, small::dot4, 0),
            Op::V_DOT4_F32_BF8_FP8 => return self.small_floats(o, small::dot4, 1),
            Op::V_DOT4_F32_FP8_BF8 => return self.small_floats(o, small::dot4, 2),
            Op::V_DOT4_F32_BF8_BF8 => return self.small_floats(o, small::dot4, 3),
            Op::V_DOT2_F32_F16 => {
                return self.dot2(
                    o,
                    dot::dot2::<false>(self.backend),
                    dot::Card::number(self.file.float_sums),
                );
            }
            Op::V_DOT2_I32_I16 => return self.dot2(o, dot::dot2_integers, 1),
            Op::V_DOT2_U32_U16 => return self.dot2(o, dot::dot2_integers, 0),
            Op::V_DOT2_F32_BF16 => {
                return self.dot2(
                    o,
                    dot::dot2::<true>(self.backend),
                    dot::Card::number(self.file.float_sums),
                );
            }
            op => {
                let conversion = scaled::Conversion::named(op.mnemonic()).ok_or(Unsupported)?;
                return self.scaled_conversion(o, conversion);
            }
        };
        let mut src = [Source::ZERO; 3];
        for (n, source) in src.iter_mut().enumerate() {
            *source = self.operand(o, n, Width::B32)?;
        }
        // The bits of `op_sel` are FETCH_INACTIVE and BOUND_CTRL of the permutations.
        let aux = match o.op {
            Op::V_DOT4_U32_U8 => 8,
            Op::V_DOT8_U32_U4 => 4,
            _ => o.mods.op_sel & 3,
        };
        let imm = chosen_halves(o.mods);
        let flags = if o.mods.clamp { flag::CLAMP } else { 0 };
        let dst = self.row(o.dst, 1)?;
        let form = match o.op {
            Op::V_MBCNT_LO_U32_B32 => Form::CountBelow { high: false },
            Op::V_MBCNT_HI_U32_B32 => Form::CountBelow { high: true },
            Op::V_PERMLANE16_B32 => Form::PermuteRow { other: false },
            Op::V_PERMLANEX16_B32 => Form::PermuteRow { other: true },
            Op::V_WRITELANE_B32 => Form::WriteLane,
            Op::V_SWAP_B32 => Form::Swap,
            Op::V_DOT4_I32_IU8 | Op::V_DOT8_I32_IU4 if o.mods.clamp => Form::Saturating(o.op),
            Op::V_DOT4_I32_IU8 | Op::V_DOT8_I32_IU4 => Form::Vector(o.op),
            _ => Form::Call,
        };
        self.emit_as(form, Di { dst, src, aux, imm, flags, ..Di::new(handler) });
        Ok(())
    }

    /// `v_bitop3_*`, whose constant has a bit for each combination of bits.
    fn truth_table(&mut self, o: &Operation<'_>) -> Lowered {
        let half = o.op == Op::V_BITOP3_B16;
        let bits = if half { 16 } else { 32 };
        let mut src = [Source::ZERO; 3];
        for (n, source) in src.iter_mut().enumerate() {
            *source = self.operand(o, n, Width { bits, format: Format::Bits, signed: false })?;
            (source.neg, source.abs) = (false, false);
        }
        let flags = if half && o.mods.op_sel & 8 != 0 { flag::DST_HIGH } else { 0 };
        let dst = self.row(o.dst, 1)?;
        let handler: Handler = if half { lane::truth_table_halves } else { lane::truth_table(self.backend) };
        self.emit(Di { dst, src, imm: o.imm & 0xff, flags, ..Di::new(handler) });
        Ok(())
    }

    fn select(&mut self, o: &Operation<'_>) -> Lowered {
        let half = o.op == Op::V_CNDMASK_B16;
        let width = Width {
            bits: if half { 16 } else { 32 },
            format: if half { Format::F16 } else { Format::F32 },
            signed: false,
        };
        let mask = self.source(o.src[2], Width::B32)?;
        let mask = match o.src[2] {
            null if self.is_null(null) => Source { value: control::ZERO as u32, kind: Kind::Scalar, ..mask },
            _ if half && mask.kind != Kind::Scalar => return Err(Unsupported),
            _ => mask,
        };
        let src = [self.operand(o, 0, width)?, self.operand(o, 1, width)?, mask];
        let handler: Handler = if half { lane::cndmask_b16 } else { lane::cndmask(self.backend) };
        let flags = if half && o.mods.op_sel & 8 != 0 { flag::DST_HIGH } else { 0 };
        let dst = self.row(o.dst, 1)?;
        let form = if half { Form::SelectHalf } else { Form::Select };
        self.emit_as(form, Di { dst, src, flags, ..Di::new(handler) });
        Ok(())
    }

    /// `v_fma_mix*`: `op_sel_hi` says which sources are halves.
    fn mix(&mut self, o: &Operation<'_>) -> Lowered {
        let halves = o.mods.op_sel_hi & 7;
        let mut src = [Source::ZERO; 3];
        for (n, source) in src.iter_mut().enumerate() {
            let bit = |mask: u8| mask >> n & 1 != 0;
            let format = if bit(halves) { Format::F16 } else { Format::F32 };
            *source = self.operand(o, n, Width { bits: 32, format, signed: false })?;
            (source.high, source.neg, source.abs) = (bit(o.mods.op_sel), bit(o.mods.neg), bit(o.mods.abs));
        }
        let mut flags = self.float_flags(&[Format::F32, Format::F16])?;
        if o.mods.clamp {
            flags |= flag::CLAMP;
        }
        let single = o.op == Op::V_FMA_MIX_F32;
        if self.records_exceptions() {
            let narrowed = if single { 0 } else { flag::RETURN };
            let imm = u32::from(halves);
            self.watch(Di { src, imm, flags: flags | narrowed, ..Di::new(vop3p::watch_mix) });
        }
        let handler: Handler = if single { vop3p::fma_mix } else { vop3p::fma_mix_half };
        if o.op == Op::V_FMA_MIXHI_F16 {
            flags |= flag::DST_HIGH;
        }
        let dst = self.row(o.dst, 1)?;
        self.emit_as(
            Form::Mixed(!single),
            Di { dst, src, imm: u32::from(halves), flags, ..Di::new(handler) },
        );
        Ok(())
    }

    /// A matrix instruction whose lanes hold no copies.
    fn spread_matrix(&mut self, o: &Operation<'_>) -> Lowered {
        let (number, shape) = wmma_spread::of(o.op).ok_or(Unsupported)?;
        let [a, b, sum] = shape.registers(self.halves);
        let mut src = [Source::ZERO; 3];
        for (n, registers) in [a, b].into_iter().enumerate() {
            let value = self.row(o.src[n], registers)?;
            src[n] = Source { value, kind: Kind::Vector, neg: o.mods.neg >> n & 1 != 0, ..Source::ZERO };
        }
        let format = if shape.is_float() { Format::F32 } else { Format::Bits };
        src[2] = match o.src[2] {
            Operand::Vgpr(_) => {
                let value = self.row(o.src[2], if shape.is_sparse() { 1 } else { sum })?;
                Source { value, kind: Kind::Vector, ..Source::ZERO }
            }
            _ if shape.is_sparse() => return Err(Unsupported),
            other => self.source(other, Width { bits: 32, format, signed: false })?,
        };
        src[2].neg = o.mods.neg & 4 != 0;
        let flags = if o.mods.clamp { flag::CLAMP } else { 0 };
        let dst = self.row(o.dst, sum)?;
        let imm = u32::from(o.mods.neg_hi & 7) | o.imm << 8;
        let handler: Handler = match shape.is_float() {
            true if self.exact_matrices && wmma_spread::has_exact(shape) => wmma_spread::exact(self.backend),
            true => wmma_spread::float(self.backend),
            false => wmma_spread::integer(self.backend, shape, self.halves),
        };
        self.emit(Di { dst, src, imm, aux: number, flags, ..Di::new(handler) });
        Ok(())
    }

    /// Conversions of floats of eight bits, and dot products of them.
    fn small_floats(&mut self, o: &Operation<'_>, handler: Handler, aux: u8) -> Lowered {
        let mut src = [Source::ZERO; 3];
        for (n, source) in src.iter_mut().enumerate() {
            let format = Format::F32;
            *source = self.operand(o, n, Width { bits: 32, format, signed: false })?;
        }
        // Of a dot product `neg_hi` is the absolute value of the sum.
        let dot = matches!(
            o.op,
            Op::V_DOT4_F32_FP8_FP8 | Op::V_DOT4_F32_FP8_BF8 | Op::V_DOT4_F32_BF8_FP8 | Op::V_DOT4_F32_BF8_BF8
        );
        if dot {
            (src[0].neg, src[1].neg) = (false, false);
            src[2].abs = o.mods.neg_hi & 4 != 0;
        }
        let wide = matches!(o.op, Op::V_CVT_PK_F32_FP8 | Op::V_CVT_PK_F32_BF8);
        // A byte, or the half of the source or of the destination. Where `op_sel` says which byte, bit 3 is its number's high one.
        let half = o.mods.op_sel & if wide { 1 } else { 8 } != 0;
        let byte = u32::from(o.mods.op_sel >> 2 & 1) | u32::from(half) << 1;
        let by_chance = matches!(o.op, Op::V_CVT_SR_FP8_F32 | Op::V_CVT_SR_BF8_F32);
        let imm = match o.imm {
            0 if by_chance && self.file.zeroes_halves => byte,
            0 => u32::from(half),
            imm => imm,
        };
        let aux = if self.file.old_bytes { aux | small::FNUZ } else { aux };
        let flags = self.float_flags(&[Format::F32])?;
        let dst = self.row(o.dst, if wide { 2 } else { 1 })?;
        self.emit(Di { dst, src, imm, aux, flags, ..Di::new(handler) });
        Ok(())
    }

    /// `v_cvt_scalef32_*`.
    fn scaled_conversion(&mut self, o: &Operation<'_>, conversion: scaled::Conversion) -> Lowered {
        let scaled::Conversion { wide, narrow, narrows, count, by_chance, .. } = conversion;
        let mut src = [Source::ZERO; 3];
        let (numbers, scale) = match (conversion.takes_two(), by_chance) {
            (true, _) => (2, 2),
            (false, true) => (1, 2),
            (false, false) => (1, 1),
        };
        let format = if narrows && wide == scaled::Wide::Half { Format::F16 } else { Format::Bits };
        let registers = if narrows { conversion.wide_registers() } else { conversion.narrow_registers() };
        for (n, source) in src.iter_mut().enumerate().take(numbers) {
            // Only a half alone is chosen by `op_sel`.
            let is_constant =
                matches!(o.src[n], Operand::InlineInt(_) | Operand::InlineFloat(_) | Operand::Literal(_));
            let bits = match registers {
                1 if narrows && count == 1 && wide != scaled::Wide::Single => 16,
                2 if is_constant => 32,
                _ => registers * 32,
            };
            *source = self.operand(o, n, Width { bits, format, signed: false })?;
        }
        if by_chance {
            src[1] = self.operand(o, 1, Width::B32)?;
        }
        src[2] = self.operand(o, scale, Width::B32)?;
        let size = narrow.bits() * count;
        // Of a destination its byte or half, of a source too, where other bits say it.
        let aux = match (size, narrows) {
            (8, true) => o.mods.op_sel >> 2 & 3,
            (16, true) => o.mods.op_sel >> 3 & 1,
            (8, false) => o.mods.op_sel & 3,
            (16, false) => o.mods.op_sel & 1,
            _ => 0,
        };
        let flags = if o.mods.op_sel & 8 != 0 { flag::DST_HIGH } else { 0 };
        let (handler, registers): (Handler, u32) = if narrows {
            (scaled::narrow, conversion.narrow_registers())
        } else {
            (scaled::widen, conversion.wide_registers())
        };
        let dst = self.row(o.dst, registers)?;
        self.emit(Di { dst, src, imm: conversion.word(), aux, flags, ..Di::new(handler) });
        Ok(())
    }

    pub(super) fn matrix(&mut self, o: &Operation<'_>) -> Lowered {
        if let Some((number, shape)) = mfma::named(o.op.mnemonic(), self.file.old_bytes) {
            return self.multiplied(o, number, shape);
        }
        if !self.file.copies_matrices {
            return self.spread_matrix(o);
        }
        let (handler, registers, aux): (Handler, u32, u8) = match o.op {
            Op::V_WMMA_F32_16X16X16_F16 if self.exact_matrices => {
                (wmma_exact::exact::<false, false>(self.backend), 8, 0)
            }
            Op::V_WMMA_F32_16X16X16_BF16 if self.exact_matrices => {
                (wmma_exact::exact::<true, false>(self.backend), 8, 0)
            }
            Op::V_WMMA_F16_16X16X16_F16 if self.exact_matrices => {
                (wmma_exact::exact::<false, true>(self.backend), 8, 0)
            }
            Op::V_WMMA_BF16_16X16X16_BF16 if self.exact_matrices => {
                (wmma_exact::exact::<true, true>(self.backend), 8, 0)
            }
            Op::V_WMMA_F32_16X16X16_F16 => (wmma::f32_result::<false>(self.backend), 8, 0),
            Op::V_WMMA_F32_16X16X16_BF16 => (wmma::f32_result::<true>(self.backend), 8, 0),
            Op::V_WMMA_F16_16X16X16_F16 => (wmma::half_result::<false>(self.backend), 8, 0),
            Op::V_WMMA_BF16_16X16X16_BF16 => (wmma::half_result::<true>(self.backend), 8, 0),
            Op::V_WMMA_I32_16X16X16_IU8 => (wmma::integer::<8>(self.backend), 4, 8),
            Op::V_WMMA_I32_16X16X16_IU4 => (wmma::integer::<4>(self.backend), 2, 4),
            _ => return Err(Unsupported),
        };
        let float = aux == 0;
        let rows = 8 / self.halves;
        let vector = |value: u32, n: usize| Source {
            value,
            kind: Kind::Vector,
            neg: o.mods.neg >> n & 1 != 0,
            ..Source::ZERO
        };
        let a = vector(self.row(o.src[0], registers)?, 0);
        let b = vector(self.row(o.src[1], registers)?, 1);
        let c = match o.src[2] {
            Operand::Vgpr(_) => vector(self.row(o.src[2], rows)?, 2),
            other => self.source(
                other,
                Width { bits: 32, format: if float { Format::F32 } else { Format::Bits }, signed: false },
            )?,
        };
        let mut flags = if o.mods.clamp { flag::CLAMP } else { 0 };
        if o.mods.op_sel & 4 != 0 {
            flags |= flag::DST_HIGH;
        }
        let dst = self.row(o.dst, rows)?;
        let imm = u32::from(o.mods.neg_hi & 7);
        self.emit(Di {
            dst,
            src: [a, b, Source { neg: o.mods.neg & 4 != 0, ..c }],
            imm,
            aux,
            flags,
            ..Di::new(handler)
        });
        Ok(())
    }
}
