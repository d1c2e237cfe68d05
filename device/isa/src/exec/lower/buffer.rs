//! MUBUF and MTBUF instructions.

use super::operand::Width;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Kind, Source, flag};
use crate::exec::form::Form;
use crate::exec::memory::buffer::field;
use crate::exec::memory::buffer_format::unified;
use crate::exec::memory::mubuf::{self, Packing};
use crate::exec::properties::{Effect, Moves, properties};
use crate::inst::Inst;

/// Numbers that an addition of 64 bits can have in its instruction.
const LARGEST_CONSTANT: u32 = i32::MAX as u32;

impl Lowering {
    pub(super) fn buffer(&mut self, inst: &Inst, operation: mubuf::Operation) -> Lowered {
        let (_, effect) = properties(inst.op).memory.ok_or(Unsupported)?;
        let operation = if inst.mem.lds { operation.to_lds().ok_or(Unsupported)? } else { operation };
        let entry = mubuf::entry(operation, effect, self.file.repeats_component).ok_or(Unsupported)?;
        let mem = &inst.mem;
        let mut src = [Source::ZERO; 3];
        let addresses = u32::from(mem.offen) + u32::from(mem.idxen);
        if addresses > 0 {
            let value = self.row(inst.src[0], addresses)?;
            src[0] = Source { value, kind: Kind::Vector, ..Source::ZERO };
        }
        let value = self.descriptor(inst.src[1])?;
        src[1] = Source { value, kind: Kind::Scalar, ..Source::ZERO };
        src[2] = self.source(inst.src[2], Width::B32)?;
        let mut di = Di { src, aux: entry.aux, dst2: entry.count, ..Di::new(entry.handler) };
        di.imm = mem.offset.cast_unsigned() & field::OFFSET
            | self.format(inst) << field::FORMAT
            | if mem.offen { field::OFFEN } else { 0 }
            | if mem.idxen { field::IDXEN } else { 0 };
        let data = if inst.dst.is_some() { inst.dst } else { inst.src[3] };
        if entry.registers > 0 {
            di.dst = self.row(data, entry.registers)?;
        }
        if inst.dst.is_some() {
            di.flags |= flag::RETURN;
            if mem.tfe {
                di.flags |= flag::STATUS;
                let result = if inst.src[3].is_some() { entry.count } else { entry.registers };
                self.row(data, result + 1)?;
            }
        }
        if self.file.old_descriptors {
            di.flags |= flag::OLD_DESCRIPTOR;
        }
        self.form = form(inst, (operation, effect), &di);
        self.emit(di);
        if effect == Effect::Load {
            match operation {
                mubuf::Operation::Moves(Moves::Part(part)) => self.keep_loaded_half(di.dst, part),
                mubuf::Operation::Format { components, packing, .. }
                    if self.file.zeroes_halves && packing != Packing::Whole && components % 2 == 1 =>
                {
                    let last = di.dst + (components - 1) / 2 * self.halves;
                    self.keep_half(last, packing == Packing::High);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Number of the format that an instruction has, as gfx11 numbers them.
    fn format(&self, inst: &Inst) -> u32 {
        let format = u32::from(inst.mem.format);
        if self.file.old_descriptors { unified(format & 15, format >> 4) } else { format }
    }
}

/// The form of an access whose lanes have an offset and no index.
fn form(inst: &Inst, (operation, effect): (mubuf::Operation, Effect), di: &Di) -> Form {
    let mem = &inst.mem;
    let added = &di.src[2];
    let is_constant = matches!(added.kind, Kind::Constant | Kind::Signed) && added.value <= LARGEST_CONSTANT;
    let is_plain = added.kind == Kind::Scalar || is_constant;
    if !mem.offen || mem.idxen || mem.lds || mem.tfe || !is_plain {
        return Form::Call;
    }
    match (operation, effect) {
        (mubuf::Operation::Moves(moves), Effect::Load) => Form::BufferLoad(moves),
        (mubuf::Operation::Moves(moves), Effect::Store) => Form::BufferStore(moves),
        _ => Form::Call,
    }
}
