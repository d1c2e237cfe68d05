//! Stretches of memory that accesses in loops have found in the TLB.
//!
//! An access in a loop mostly goes on where it was in the last round. So code keeps in its frame, for a few accesses, how far the memory
//! goes that was found for them in the TLB, and looks there first. It keeps nothing when it is entered, and forgets everything after each
//! handler that it has called, because handlers change the TLB.

use core::mem::offset_of;

use super::asm::{Assembler, At, Condition, Gpr, Integer, Label};
use super::avx512::memory::page_entry;
use super::body::{Body, Cold, STRETCHES};
use crate::exec::di::Di;
use crate::exec::form::Form;
use crate::exec::waves::succession::Stretch;
use crate::mem::{Span, Tlb, TlbEntry};
use crate::tier1::analysis::elements::bytes;

/// Accesses of a region that have a stretch.
pub(crate) const PLACES: usize = 8;

/// An access that has a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    element: usize,
    /// Bytes that the access takes at most.
    bytes: u32,
}

/// Accesses of a region that have a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches(Vec<Kept>);

/// An access that is not in its stretch, or has none yet.
pub(crate) struct Elsewhere {
    entry: Label,
    back: Label,
    /// Label of the way to the handler.
    cold: Label,
    place: usize,
    bytes: u32,
    most: u32,
    write: bool,
}

impl Stretches {
    /// Chooses the accesses of a region that are in its shortest loops.
    pub(crate) fn of(elements: &[(Form, &Di)], halves: u32) -> Stretches {
        let mut loops: Vec<_> = elements
            .iter()
            .enumerate()
            .filter_map(|(last, (form, d))| match form {
                Form::Branch(_) if d.aux == 0 && d.imm as usize <= last => Some(d.imm as usize..=last),
                _ => None,
            })
            .collect();
        loops.sort_by_key(|elements| elements.end() - elements.start());
        let mut kept: Vec<Kept> = Vec::new();
        for element in loops.into_iter().flatten() {
            let bytes = match elements[element].0 {
                // One dword more may be read.
                Form::GlobalLoad(moves)
                | Form::GlobalStore(moves)
                | Form::FlatLoad(moves)
                | Form::FlatStore(moves)
                | Form::BufferLoad(moves)
                | Form::BufferStore(moves) => bytes(moves) * 32 * halves + 4,
                Form::ScalarLoad(dwords) => dwords * 4,
                _ => continue,
            };
            if kept.len() < PLACES && kept.iter().all(|kept| kept.element != element) {
                kept.push(Kept { element, bytes });
            }
        }
        Stretches(kept)
    }

    /// Forgets all of them; `Rcx` is used, and flags stay.
    pub(crate) fn forget(&self, a: &mut Assembler) {
        if !self.0.is_empty() {
            a.immediate(Integer::Mov, false, Gpr::Rcx, 0);
        }
        for place in 0..self.0.len() {
            a.store(true, kept(place, offset_of!(Stretch, places)), Gpr::Rcx);
        }
    }

    fn place(&self, element: usize) -> Option<(usize, u32)> {
        let place = self.0.iter().position(|kept| kept.element == element)?;
        Some((place, self.0[place].bytes))
    }
}

/// A field of a stretch in the frame.
fn kept(place: usize, field: usize) -> At {
    At(STRETCHES.0, STRETCHES.1 + (place * size_of::<Stretch>() + field) as i32)
}

/// The span of the entry that [`page_entry`] has found: its address in `R11`.
pub(crate) fn span_of_entry(a: &mut Assembler) {
    let (tlb, span) = (Gpr::R10, Gpr::R11);
    const { assert!(size_of::<Span>() == 16, "a span is two words") };
    a.shift_by(4, true, span, 4);
    a.load(Integer::Add, true, span, At(tlb, offset_of!(Tlb, spans) as i32));
}

/// Fills the stretch whose fields are at `kept`, of an access of `bytes` at most, from the entry in `R9` and its span in `R11`. Leaves the
/// span's start in `number`.
pub(crate) fn keep(a: &mut Assembler, kept: impl Fn(usize) -> At, bytes: u32, number: Gpr) {
    let (entry, span) = (Gpr::R9, Gpr::R11);
    a.load(Integer::Mov, true, number, At(entry, offset_of!(TlbEntry, delta) as i32));
    a.store(true, kept(offset_of!(Stretch, delta)), number);
    // A span has a page at least, which is more than an access takes.
    a.load(Integer::Mov, true, number, At(span, offset_of!(Span, len) as i32));
    a.immediate(Integer::Sub, true, number, bytes - 1);
    a.store(true, kept(offset_of!(Stretch, places)), number);
    a.load(Integer::Mov, true, number, At(span, offset_of!(Span, start) as i32));
    a.store(true, kept(offset_of!(Stretch, start)), number);
}

impl Body<'_> {
    /// The host address for `bytes` at the GPU virtual address in `Rdx`, there, if the access at hand has a stretch. Returns `false` if it
    /// has none. Takes `Rcx`, and what [`Body::page_entry`] does.
    pub(crate) fn translate_in_stretch(&mut self, bytes: u32, write: bool, cold: &Cold) -> bool {
        let Some((place, most)) = self.stretches.place(self.at) else { return false };
        let (entry, back) = (self.a.label(), self.a.label());
        let a = &mut self.a;
        a.integer(Integer::Mov, true, Gpr::Rcx, Gpr::Rdx);
        a.load(Integer::Sub, true, Gpr::Rcx, kept(place, offset_of!(Stretch, start)));
        a.load(Integer::Cmp, true, Gpr::Rcx, kept(place, offset_of!(Stretch, places)));
        a.jump_if(Condition::AboveOrEqual, entry);
        a.bind(back);
        a.load(Integer::Add, true, Gpr::Rdx, kept(place, offset_of!(Stretch, delta)));
        self.elsewhere.push(Elsewhere {
            entry,
            back,
            cold: cold.entry,
            place,
            bytes,
            most: most.max(bytes),
            write,
        });
        true
    }
}

impl Elsewhere {
    /// Looks the address up in the TLB, keeps how far the memory goes that it is in, and goes back. Goes to the handler where the TLB has
    /// not got it, or where the memory ends within the access.
    pub(crate) fn look_up(&self, a: &mut Assembler) {
        let (address, tlb, span, number) = (Gpr::Rdx, Gpr::R10, Gpr::R11, Gpr::Rcx);
        a.bind(self.entry);
        page_entry(a, self.write, self.cold);
        span_of_entry(a);
        keep(a, |field| kept(self.place, field), self.most, number);
        a.integer(Integer::Mov, true, tlb, address);
        a.integer(Integer::Sub, true, tlb, number);
        a.immediate(Integer::Add, true, tlb, self.bytes);
        a.load(Integer::Cmp, true, tlb, At(span, offset_of!(Span, len) as i32));
        a.jump_if(Condition::Above, self.cold);
        a.jump(self.back);
    }
}
