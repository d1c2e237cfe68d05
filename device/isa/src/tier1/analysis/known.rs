//! Scalar loads at the beginning of a region whose values a launch gives all of its waves alike: arguments, most of all.
//!
//! A wave that comes into the region at its beginning goes from element to element as far as the first call, store,
//! atomic or end. A load on that way from an address that the wave began with reads the same value for every wave
//! that begins with the same address. The worker's TLB ([`Known`]) keeps these values for the launch, and the
//! elements of that way are compiled once more, with such loads copied from there. The code compares the addresses
//! first; waves with others go the usual way.
//!
//! The result of a scalar load while the launch writes the same memory is not defined: scalar caches are not
//! coherent. Instructions that look for writes of others, by invalidating or bypassing caches, have a form of their
//! own ([`Form::Look`]), and end that way.

#![expect(unsafe_code, reason = "has handlers load what is to be known")]

use core::mem::offset_of;

use super::covered::is_covered;
use super::touched::scalars;
use crate::exec::di::{Di, Flow, Kind, Machine};
use crate::exec::form::{Form, When};
use crate::mem::{Known, Tlb};
use crate::tier1::x86::asm::{Assembler, At, Condition, Gpr, Integer, Label};
use crate::tier1::x86::body::{Body, TLB, scalar};
use crate::tier1::x86::code::Source;
use crate::wave::Wave;

/// Elements that are looked at: longer ways have few of their loads at the beginning.
const LONGEST: usize = 256;

/// A load whose value may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownLoad {
    pub(crate) element: usize,
    pub(crate) dwords: u32,
    /// The scalar register that the address is made of, with the next one.
    base: u32,
    dst: u32,
    /// Place of its first value among the known values.
    pub(crate) place: usize,
}

/// Loads of a region whose values may be known when a wave begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownLoads {
    /// In the order of their elements.
    pub(crate) loads: Vec<KnownLoad>,
    /// Scalar registers that addresses are made of.
    bases: Vec<u32>,
}

impl KnownLoads {
    /// The loads of a region that may be known, if there are any.
    pub(crate) fn of(source: &Source<'_>) -> Option<KnownLoads> {
        if source.waits {
            return None;
        }
        let mut loads: Vec<KnownLoad> = Vec::new();
        let mut bases: Vec<u32> = Vec::new();
        let mut written = [false; 256];
        let mut place = 0;
        let elements = source.code.iter().zip(source.forms).enumerate();
        for (element, (d, &form)) in elements.take(LONGEST) {
            let leaves = matches!(form, Form::End | Form::Barrier | Form::Branch(When::Always));
            let stores = matches!(form, Form::GlobalStore(_) | Form::LdsStore(_) | Form::LdsStoreTwo(_))
                || form.is_atomic()
                || form == Form::Look;
            if leaves || stores || !is_covered(form, d, source.halves) {
                break;
            }
            if let Form::ScalarLoad(dwords) = form {
                let base = d.src[0].value;
                let is_new = !bases.contains(&base);
                let fits = place + dwords as usize <= Known::VALUES
                    && bases.len() + usize::from(is_new) <= Known::BASES;
                let stays = !written[base as usize & 255] && !written[(base as usize + 1) & 255];
                if fits && stays && d.src[1].kind == Kind::Constant {
                    loads.push(KnownLoad { element, dwords, base, dst: d.dst, place });
                    bases.extend(is_new.then_some(base));
                    place += dwords as usize;
                }
            }
            for (first, count) in scalars(form, d) {
                (first..first + count).for_each(|register| written[register as usize & 255] = true);
            }
        }
        // What is gone back to is done again, perhaps with another address.
        for (end, (d, form)) in source.code.iter().zip(source.forms).enumerate() {
            if let (Form::Branch(_), 0) = (form, d.aux) {
                loads.retain(|load| !(d.imm as usize..=end).contains(&load.element));
            }
        }
        bases.retain(|base| loads.iter().any(|load| load.base == *base));
        (!loads.is_empty()).then_some(KnownLoads { loads, bases })
    }

    /// One past the last of the loads.
    pub(crate) fn end(&self) -> usize {
        self.loads.last().map_or(0, |load| load.element + 1)
    }

    /// Goes on where addresses are those that values are known for, and else to `other`.
    pub(crate) fn compare(&self, a: &mut Assembler, other: Label) {
        a.load(Integer::Mov, true, Gpr::Rax, TLB);
        for (n, base) in self.bases.iter().enumerate() {
            let at = offset_of!(Tlb, known) + offset_of!(Known, bases) + n * size_of::<u64>();
            a.load(Integer::Mov, true, Gpr::Rdx, scalar(*base));
            a.load(Integer::Cmp, true, Gpr::Rdx, At(Gpr::Rax, at as i32));
            a.jump_if(Condition::NotEqual, other);
        }
    }

    /// Loads the values for waves that begin as this one, which has not begun. Returns true if they could be loaded.
    /// The wave is as before.
    ///
    /// # Safety
    ///
    /// `code` are the elements that the loads were found in, lowered for a backend that the host has.
    pub(crate) unsafe fn learn(&self, wave: &mut Wave, machine: &mut Machine<'_>, code: &[Di]) -> bool {
        for load in &self.loads {
            let registers = load.dst as usize..(load.dst + load.dwords) as usize;
            let (Some(d), Some(before)) = (code.get(load.element), wave.s.get(registers.clone())) else {
                return false;
            };
            let mut kept = [0; Known::VALUES];
            let kept = &mut kept[..before.len()];
            kept.copy_from_slice(before);
            // SAFETY: the caller vouches for the handler.
            let flow = unsafe { (d.f)(wave, machine, d) };
            let known = &mut machine.global.tlb.known.values[load.place..][..kept.len()];
            known.copy_from_slice(&wave.s[registers.clone()]);
            wave.s[registers].copy_from_slice(kept);
            if flow != Flow::NEXT {
                // The wave that does this load reports the fault.
                machine.stop = None;
                return false;
            }
        }
        for (known, base) in machine.global.tlb.known.bases.iter_mut().zip(&self.bases) {
            *known = wave.pair(*base as usize);
        }
        true
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
