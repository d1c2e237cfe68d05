//! Loads and stores through a descriptor, as those of global memory: where it is plain, and all lanes' elements are inside. And those of
//! FLAT, where all lanes' addresses are in global memory.
//!
//! Everything else is left to the handler: strides that count, swizzled elements, elements that are outside; LDS and private memory.

use core::mem::offset_of;

use super::asm::{At, Condition, Gpr, Integer};
use super::body::{Body, Cold, MACHINE, scalar};
use crate::exec::di::{Di, Kind, Machine, Source, flag};
use crate::exec::form::Form;
use crate::exec::memory::buffer::field;
use crate::exec::properties::Moves;
use crate::mem::Apertures;
use crate::tier1::analysis::elements::bytes;

/// Bits of a descriptor's second word that swizzle, of its last word, and the value of the latter in a plain one. With no index and no number
/// of the thread, a stride means nothing.
struct Plain {
    swizzle: u32,
    last: u32,
    value: u32,
}

/// `SWIZZLE_ENABLE`; `ADD_TID_ENABLE` and an `OOB_SELECT` that compares bytes (gfx11 and gfx12).
const NEW: Plain = Plain { swizzle: 3 << 30, last: 3 << 28 | 1 << 23, value: 3 << 28 };
/// `SWIZZLE_ENABLE`; `ADD_TID_ENABLE` (gfx9).
const OLD: Plain = Plain { swizzle: 1 << 31, last: 1 << 23, value: 0 };

/// Difference of an access from one of global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Through {
    /// Its address may be in LDS or in private memory.
    Flat,
    Buffer(Buffer),
}

/// The descriptor of an access, and what is added to its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    descriptor: u32,
    added: Source,
    /// Offset of the instruction.
    offset: u32,
    /// Bytes of an element.
    bytes: u32,
    old: bool,
}

impl Body<'_> {
    /// Leaves where the upper half of a FLAT address, in `Rdx`, is that of LDS or of private memory. No other access has such an address.
    pub(crate) fn leave_unless_global(&mut self, cold: &Cold) {
        let Some(Through::Flat) = self.through else { return };
        for base in [offset_of!(Apertures, shared_base), offset_of!(Apertures, private_base)] {
            let upper = offset_of!(Machine<'_>, apertures) + base + 4;
            self.a.load(Integer::Cmp, false, Gpr::Rdx, At(MACHINE, upper as i32));
            self.a.jump_if(Condition::Equal, cold.entry);
        }
    }

    /// A load or store as one of global memory, and its difference from one, which is kept until [`Body::through`] is cleared.
    pub(crate) fn global_element(&mut self, form: Form, moves: Moves, d: &Di) -> Di {
        let data = match form {
            Form::BufferLoad(_) => Source::ZERO,
            Form::BufferStore(_) => Source { value: d.dst, kind: Kind::Vector, ..Source::ZERO },
            _ => {
                self.through =
                    matches!(form, Form::FlatLoad(_) | Form::FlatStore(_)).then_some(Through::Flat);
                return *d;
            }
        };
        let offset = d.imm & field::OFFSET;
        self.through = Some(Through::Buffer(Buffer {
            descriptor: d.src[1].value,
            added: d.src[2],
            offset,
            bytes: bytes(moves),
            old: d.flags & flag::OLD_DESCRIPTOR != 0,
        }));
        Di { src: [d.src[0], data, Source::ZERO], dst2: 2, imm: offset, ..*d }
    }

    /// The base of the descriptor at hand in `Rdx`, and in `Rcx` the largest offset in VADDR of an element that is inside. Leaves if it is
    /// not plain, or has no element inside. `Rax` is used.
    pub(crate) fn buffer_base(&mut self, buffer: Buffer, cold: &Cold) {
        let Buffer { descriptor, added, offset, bytes, old } = buffer;
        let word = |n: u32| scalar(descriptor + n);
        let (base, last, other) = (Gpr::Rdx, Gpr::Rcx, Gpr::Rax);
        let plain = if old { OLD } else { NEW };
        let a = &mut *self.a;
        a.load(Integer::Mov, false, base, word(1));
        a.integer(Integer::Mov, false, other, base);
        a.immediate(Integer::And, false, other, plain.swizzle);
        a.jump_if(Condition::NotEqual, cold.entry);
        a.load(Integer::Mov, false, other, word(3));
        a.immediate(Integer::And, false, other, plain.last);
        a.immediate(Integer::Cmp, false, other, plain.value);
        a.jump_if(Condition::NotEqual, cold.entry);
        a.immediate(Integer::And, false, base, 0xffff);
        a.shift_by(4, true, base, 32);
        a.load(Integer::Mov, false, other, word(0));
        a.integer(Integer::Add, true, base, other);
        a.load(Integer::Mov, false, last, word(2));
        match added.kind {
            Kind::Scalar => {
                a.load(Integer::Mov, false, other, scalar(added.value));
                a.integer(Integer::Add, true, base, other);
                if old {
                    a.integer(Integer::Sub, true, last, other);
                    a.jump_if(Condition::Below, cold.entry);
                }
            }
            _ if added.value > 0 => {
                a.immediate(Integer::Add, true, base, added.value);
                if old {
                    a.immediate(Integer::Sub, true, last, added.value);
                    a.jump_if(Condition::Below, cold.entry);
                }
            }
            _ => {}
        }
        a.immediate(Integer::Sub, true, last, offset + bytes);
        a.jump_if(Condition::Below, cold.entry);
    }
}
