//! Code for [known loads](crate::tier1::analysis::known).

use core::mem::offset_of;

use super::asm::{Assembler, At, Condition, Gpr, Integer, Label};
use super::body::{Body, TLB, scalar};
use crate::exec::compiled::known::KnownLoads;
use crate::mem::{Known, Tlb};

/// Goes on where addresses are those that values are known for, and else to `other`.
pub(crate) fn compare(loads: &KnownLoads, a: &mut Assembler, other: Label) {
    a.load(Integer::Mov, true, Gpr::Rax, TLB);
    for (n, base) in loads.bases.iter().enumerate() {
        let at = offset_of!(Tlb, known) + offset_of!(Known, bases) + n * size_of::<u64>();
        a.load(Integer::Mov, true, Gpr::Rdx, scalar(*base));
        a.load(Integer::Cmp, true, Gpr::Rdx, At(Gpr::Rax, at as i32));
        a.jump_if(Condition::NotEqual, other);
    }
}

/// A known value, from the TLB's address in `Rdx` on.
fn value(place: usize) -> i32 {
    (offset_of!(Tlb, known) + offset_of!(Known, values) + place * size_of::<u32>()) as i32
}

impl Body<'_> {
    /// The place of the element's values, if they are known.
    pub(crate) fn known_place(&self) -> Option<usize> {
        self.known.iter().find(|load| load.element == self.at).map(|load| load.place)
    }

    /// Puts the address of known values into `Rdx`; returns the offset to add to it.
    pub(crate) fn known_values(&mut self, place: usize) -> i32 {
        self.a.load(Integer::Mov, true, Gpr::Rdx, TLB);
        value(place)
    }
}
