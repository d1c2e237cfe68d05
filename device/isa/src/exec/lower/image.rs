//! Image instructions.

use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Kind, Source, flag};
use crate::exec::image::form::{Addresses, Form};
use crate::exec::image::{self, Operation, field};
use crate::exec::properties::{Effect, properties};
use crate::inst::{Format, Inst, Operand};
use crate::registers::Images;

/// Bytes of an instruction of MIMG whose addresses are apart (NSA): a third dword has their numbers.
const WITH_ADDRESSES: u8 = 12;

impl Lowering {
    pub(super) fn image(&mut self, inst: &Inst, operation: Operation) -> Lowered {
        let effect = properties(inst.op).memory.map(|(_, effect)| effect);
        let handler = image::handler(operation, effect == Some(Effect::Store)).ok_or(Unsupported)?;
        if inst.imm & field::LWE != 0 {
            return Err(Unsupported);
        }
        let apart = match inst.format {
            Format::Mimg if inst.size == WITH_ADDRESSES => 5,
            Format::Mimg => 0,
            Format::Vsample => 4,
            _ => 5,
        };
        let form = match operation {
            Operation::Moves { names_level: true } | Operation::MovesBits { names_level: true, .. } => {
                Form::LEVEL
            }
            Operation::Sample(form) => form,
            _ => Form::PLAIN,
        };
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        let fields = inst.imm & 0xfff
            | form.bits()
            | bit(self.file.images == Some(Images::Gfx12), field::NEW)
            | bit(self.file.repeats_component, field::REPEATS)
            | apart << field::APART;
        let value = self.address_registers(inst, operation, (fields, apart))?;
        let mut src = [Source::ZERO; 3];
        src[0] = Source { value, kind: Kind::Vector, ..Source::ZERO };
        let Operand::Sgpr(register) = inst.src[1] else { return Err(Unsupported) };
        let words = if fields & field::R128 != 0 { 4 } else { 8 };
        src[1] = Source { value: self.scalar_slot(register, words)?, kind: Kind::Scalar, ..Source::ZERO };
        if let Operation::Sample(_) = operation {
            let value = self.descriptor(inst.src[2])?;
            src[2] = Source { value, kind: Kind::Scalar, ..Source::ZERO };
        }
        let mut di = Di { src, dst2: fields, imm: inst.mem.offset.cast_unsigned(), ..Di::new(handler) };
        let (data, result) = match operation {
            Operation::Atomic(function) => {
                di.aux = function as u8;
                let words = image::atomic_words(fields, function);
                (words * function.operands(), words)
            }
            Operation::Sample(form) if form.is(Form::GATHERS) => {
                let registers = image::registers(fields, 4);
                (registers, registers)
            }
            _ => {
                if let Operation::MovesBits { signed, .. } = operation {
                    di.aux = if signed { image::SIGNED } else { image::BITS };
                }
                let count = (fields & field::DMASK).count_ones().max(1);
                let registers = image::registers(fields, count);
                (registers, registers)
            }
        };
        let operand = if inst.dst.is_some() { inst.dst } else { inst.src[3] };
        di.dst = self.row(operand, data)?;
        if inst.dst.is_some() {
            di.flags |= flag::RETURN;
            if inst.mem.tfe {
                di.flags |= flag::STATUS;
                self.row(operand, result + 1)?;
            }
        }
        self.emit(di);
        Ok(())
    }

    /// Checks all address registers; returns the row of the first one.
    fn address_registers(
        &mut self,
        inst: &Inst,
        operation: Operation,
        (fields, apart): (u32, u32),
    ) -> Result<u32, Unsupported> {
        let addresses = Addresses::of(fields, Form::of(fields)).ok_or(Unsupported)?;
        let count = match operation {
            Operation::Size => 1,
            _ => addresses.count,
        };
        let Operand::Vgpr(first) = inst.src[0] else { return Err(Unsupported) };
        let others = inst.mem.offset.cast_unsigned();
        for register in 0..count {
            let number = image::address_register(first.into(), others, apart, register);
            self.row(Operand::Vgpr(u8::try_from(number).map_err(|_| Unsupported)?), 1)?;
        }
        self.row(inst.src[0], 1)
    }
}
