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

use super::covered::is_covered;
use super::source::Source;
use super::touched::scalars;
use crate::exec::compiled::known::{KnownLoad, KnownLoads};
use crate::exec::di::Kind;
use crate::exec::form::{Form, When};
use crate::mem::Known;

/// Elements that are looked at: longer ways have few of their loads at the beginning.
const LONGEST: usize = 256;

/// The loads of a region that may be known, if there are any.
pub(crate) fn loads(source: &Source<'_>) -> Option<KnownLoads> {
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
        let stores = matches!(
            form,
            Form::GlobalStore(_)
                | Form::FlatStore(_)
                | Form::BufferStore(_)
                | Form::LdsStore(_)
                | Form::LdsStoreTwo(_)
        ) || form.is_atomic()
            || form == Form::Look;
        if leaves || stores || !is_covered(form, d, source.halves) {
            break;
        }
        if let Form::ScalarLoad(dwords) = form {
            let base = d.src[0].value;
            let is_new = !bases.contains(&base);
            let fits =
                place + dwords as usize <= Known::VALUES && bases.len() + usize::from(is_new) <= Known::BASES;
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
