//! Addresses in code that are this process's: those of routines, which can be put in anew, and others.

use super::{Assembler, Gpr};

/// A function that code calls. It is at another address in each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Routine {
    /// Calls an element's handler.
    Invoke,
    /// The same, and counts that.
    InvokeCounting,
}

/// Where code has the address of a routine, in eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Link {
    pub(in super::super) at: usize,
    pub(in super::super) routine: Routine,
}

/// What code has of this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Links {
    /// Addresses of routines, which are zeros until the code is [linked](Links::link).
    pub(in super::super) routines: Vec<Link>,
    /// Whether there are other addresses in it.
    pub(in super::super) is_bound: bool,
}

impl Links {
    /// Puts the addresses of routines into the code that they are of.
    pub(in super::super) fn link(&self, code: &mut [u8], address: impl Fn(Routine) -> u64) {
        for &Link { at, routine } in &self.routines {
            code[at..at + size_of::<u64>()].copy_from_slice(&address(routine).to_le_bytes());
        }
    }
}

impl Assembler {
    /// The address of a routine.
    pub(in super::super) fn routine(&mut self, to: Gpr, routine: Routine) {
        self.constant64(to, 0);
        self.links.routines.push(Link { at: self.code.len() - size_of::<u64>(), routine });
    }

    /// The address of a value that lives as long as the code: such code is for this process alone.
    pub(in super::super) fn address_of<T>(&mut self, to: Gpr, value: &T) {
        self.constant64(to, core::ptr::from_ref(value).addr() as u64);
        self.links.is_bound = true;
    }
}
