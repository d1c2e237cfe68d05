//! Operands to sources and destinations.

use super::prepare::prepared_row;
use super::{Lowering, Unsupported};
use crate::exec::di::{Kind, Source};
use crate::exec::scalar::control;
use crate::exec::vector::op::Format;
use crate::inst::{FloatConst, Mods, Operand};
use crate::registers::slot;

/// Width and format in which an operand is read.
#[derive(Clone, Copy)]
pub(super) struct Width {
    pub(super) bits: u32,
    pub(super) format: Format,
    /// A 64-bit literal is sign-extended.
    pub(super) signed: bool,
}

impl Width {
    pub(super) const B32: Width = Width { bits: 32, format: Format::Bits, signed: false };
    pub(super) const B64: Width = Width { bits: 64, format: Format::Bits, signed: false };
}

impl Lowering {
    /// Row of a vector register of `registers` registers.
    pub(super) fn row(&mut self, operand: Operand, registers: u32) -> Result<u32, Unsupported> {
        let (register, kind) = match operand {
            Operand::Vgpr(register) => (u16::from(register), 0..self.accumulators_from),
            Operand::Agpr(register) if self.file.unified.is_some() => {
                (self.accumulators_from + u16::from(register), self.accumulators_from..self.file.allocation())
            }
            Operand::Prepared(register) => return Ok(prepared_row(register, self.halves)),
            _ => return Err(Unsupported),
        };
        let end = u32::from(register) + registers;
        let most = u32::from(kind.start + self.file.vgprs);
        let end = u16::try_from(end).ok().filter(|_| end <= most).ok_or(Unsupported)?;
        if self.file.unified.is_some() && end > kind.end {
            self.beyond = Some((end - 1 - kind.start, kind.end - kind.start));
            return Err(Unsupported);
        }
        if self.allocated != 0 && end > self.allocated {
            self.beyond = Some((end - 1, self.allocated));
            return Err(Unsupported);
        }
        if end > self.vgprs {
            (self.vgprs, self.highest_at) = (end, self.at);
        }
        self.note_shared(operand, register, end);
        Ok(u32::from(register) * self.halves)
    }

    /// A source operand.
    pub(super) fn source(&mut self, operand: Operand, width: Width) -> Result<Source, Unsupported> {
        let source = |kind: Kind, value: u32| Ok(Source { value, kind, ..Source::ZERO });
        match operand {
            Operand::None => Ok(Source::ZERO),
            Operand::Vgpr(_) | Operand::Agpr(_) | Operand::Prepared(_) => {
                let row = self.row(operand, width.bits.div_ceil(32))?;
                source(Kind::Vector, row)
            }
            Operand::Sgpr(register) if Some(register) == self.file.null => Ok(Source::ZERO),
            Operand::Sgpr(register) => {
                let slot = self.scalar_slot(register, width.bits.div_ceil(32))?;
                source(Kind::Scalar, slot)
            }
            Operand::InlineInt(value) => source(Kind::Signed, i32::from(value).cast_unsigned()),
            Operand::InlineFloat(FloatConst::InvTwoPi) if width.bits == 64 => {
                source(Kind::Scalar, slot::INV_TWO_PI as u32)
            }
            Operand::InlineFloat(constant) => match (width.bits, width.format) {
                (64, _) => source(Kind::High, (constant.f64_bits() >> 32) as u32),
                (_, Format::F16) => source(Kind::Constant, u32::from(constant.f16_bits())),
                _ => source(Kind::Constant, constant.f32_bits()),
            },
            Operand::Literal(value) => match (width.bits, width.format) {
                (64, Format::F64) => source(Kind::High, value),
                (64, _) if width.signed => source(Kind::Signed, value),
                _ => source(Kind::Constant, value),
            },
            Operand::Execz if self.copies_exec && width.bits > 32 => Err(Unsupported),
            Operand::Execz if self.copies_exec => source(Kind::Scalar, control::EXECZ_COPY as u32),
            Operand::Scc | Operand::Vccz | Operand::Execz if width.bits > 32 => {
                self.emit_extra(super::Di::new(control::refresh_wide_flags));
                let pair = match operand {
                    Operand::Scc => control::WIDE_SCC,
                    Operand::Vccz => control::WIDE_VCCZ,
                    _ => control::WIDE_EXECZ,
                };
                source(Kind::Scalar, pair as u32)
            }
            Operand::Scc => source(Kind::Scalar, slot::SCC as u32),
            Operand::Vccz | Operand::Execz => {
                self.emit_extra(super::Di::new(control::refresh_flags));
                source(Kind::Scalar, if operand == Operand::Vccz { slot::VCCZ } else { slot::EXECZ } as u32)
            }
            Operand::SharedBase => self.aperture(self.apertures.shared_base, width),
            Operand::PrivateBase => self.aperture(self.apertures.private_base, width),
            Operand::SharedLimit | Operand::PrivateLimit => Ok(self.aperture_limit(operand)),
            // Ordered pixel waves: a compute wave is none.
            Operand::PopsExitingWaveId => Ok(Source::ZERO),
            Operand::LdsDirect => Err(Unsupported),
        }
    }

    /// An aperture base, whose low half is 0: that is also what an operand of 32 bits gets.
    fn aperture(&self, base: u64, width: Width) -> Result<Source, Unsupported> {
        if width.bits < 64 {
            return Ok(Source::ZERO);
        }
        Ok(Source { value: (base >> 32) as u32, kind: Kind::High, ..Source::ZERO })
    }

    /// A vector ALU source with its modifiers.
    pub(super) fn modified(
        &mut self,
        operand: Operand,
        n: usize,
        width: Width,
        mods: &Mods,
    ) -> Result<Source, Unsupported> {
        let source = self.source(operand, width)?;
        let bit = |mask: u8| mask >> n & 1 != 0;
        Ok(Source {
            high: width.bits == 16 && bit(mods.op_sel),
            neg: bit(mods.neg),
            abs: bit(mods.abs),
            ..source
        })
    }

    /// Returns the place of `registers` scalar registers from a source's number on.
    pub(super) fn scalar_slot(&self, register: u8, registers: u32) -> Result<u32, Unsupported> {
        let slot = self.file.slots(register, registers).ok_or(Unsupported)?;
        let copy = slot >= slot::EXEC && self.copies_exec;
        Ok(if copy { slot - slot::EXEC + control::EXEC_COPY } else { slot } as u32)
    }

    /// Returns the place of the four registers of a buffer descriptor.
    pub(super) fn descriptor(&self, operand: Operand) -> Result<u32, Unsupported> {
        let Operand::Sgpr(register) = operand else { return Err(Unsupported) };
        self.scalar_slot(register, 4)
    }

    /// A scalar destination of `registers` registers.
    pub(super) fn scalar_destination(
        &mut self,
        operand: Operand,
        registers: u32,
    ) -> Result<u32, Unsupported> {
        let Operand::Sgpr(register) = operand else { return Err(Unsupported) };
        if Some(register) == self.file.null {
            return if registers <= 2 { Ok(slot::DUMP as u32) } else { Err(Unsupported) };
        }
        let slot = self.file.slots(register, registers).ok_or(Unsupported)?;
        let scratch = slot::FLAT_SCRATCH..slot::FLAT_SCRATCH + 2;
        self.moves_scratch |= self.file.flat_scratch.is_some()
            && slot < scratch.end
            && slot + registers as usize > scratch.start;
        Ok(slot as u32)
    }

    /// Returns true if an operand is `NULL`.
    pub(super) fn is_null(&self, operand: Operand) -> bool {
        matches!(operand, Operand::Sgpr(register) if Some(register) == self.file.null)
    }

    /// Returns true if an operand is or begins with `EXEC`, or is its high half.
    pub(super) fn is_exec(&self, operand: Operand) -> bool {
        matches!(operand, Operand::Sgpr(register) if self.file.slot(register).is_some_and(|slot| slot >= slot::EXEC))
    }
}
