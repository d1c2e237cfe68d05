//! Addresses in code: of routines and of the guest's code, which can be put in anew, and others.

use super::{Assembler, Gpr};
use crate::exec::vector::reciprocal::Faithful;

/// A function that code calls. It is at another address in each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    /// Calls an element's handler.
    Invoke,
    /// Calls an element's handler, and counts the call.
    InvokeCounting,
}

/// Target of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A routine.
    Routine(Routine),
    /// The guest's code, at this distance in bytes from the start of the region; the guest may have the same code at
    /// several addresses.
    Guest(u64),
    /// The bits of a function, which code looks at.
    Bits(Faithful),
}

/// Place of an address in code, which takes eight bytes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) at: usize,
    pub(crate) place: Place,
}

/// The addresses in code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Addresses that are zeros until the code is [linked](Links::link).
    pub(crate) places: Vec<Link>,
    /// True if the code has other addresses as well.
    pub(crate) is_bound: bool,
}

impl Links {
    /// Puts the addresses into the code that they are of.
    pub(crate) fn link(&self, code: &mut [u8], address: impl Fn(Place) -> u64) {
        for &Link { at, place } in &self.places {
            code[at..at + size_of::<u64>()].copy_from_slice(&address(place).to_le_bytes());
        }
    }
}

impl Assembler {
    /// The address of a place.
    pub(crate) fn place(&mut self, to: Gpr, place: Place) {
        self.constant64(to, 0);
        self.links.places.push(Link { at: self.code.len() - size_of::<u64>(), place });
    }

    /// The address of a value that lives as long as the code: such code is for this process alone.
    pub(crate) fn address_of<T>(&mut self, to: Gpr, value: &T) {
        self.constant64(to, core::ptr::from_ref(value).addr() as u64);
        self.links.is_bound = true;
    }
}
