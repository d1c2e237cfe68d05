//! Contents of registers of eight lanes during a pass.

use crate::tier1::x86::asm::{Assembler, At, Gpr, Operand, Zmm};
use crate::tier1::x86::avx512::rows::ROWS;
use crate::tier1::x86::body::{WAVE, scalar};
use crate::tier1::x86::encoding::{VMOVUPS_LOAD, VMOVUPS_STORE, VPANDD};

use super::opcodes::*;
use super::uses::Next;

/// Content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Eight lanes of a row.
    Row(u32),
    /// A scalar register in all lanes.
    Splat(u32),
    /// Bits of a mask in a scalar register, as all bits of a lane or none.
    Mask(u32),
    /// A constant in all lanes.
    Constant(u32),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: Key,
    dirty: bool,
}

/// Registers that nothing is kept in.
const TEMPORARIES: u8 = 4;
const PLACES: usize = 16 - TEMPORARIES as usize;

/// Register in which results for some lanes are made: the first place, which keeps nothing then.
pub(super) const RESULT: Zmm = Zmm(TEMPORARIES);

/// A bit for each of eight lanes.
const BITS: Operand = Operand::Eight([1, 2, 4, 8, 16, 32, 64, 128]);

/// Places in memory of the lanes of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    /// Number of the eight lanes at hand, if the code is for these alone.
    pub(super) eight: i32,
    /// Base of scalar registers for bytes of masks: one more for each eight lanes before.
    pub(super) masks: Gpr,
}

impl Lanes {
    /// Returns the place of these lanes of a row.
    pub(super) fn row(self, row: u32) -> At {
        At(ROWS, row as i32 * 128 + self.eight * 32)
    }

    /// Returns the place of these lanes of a mask.
    pub(super) fn mask(self, register: u32) -> At {
        let At(WAVE, displacement) = scalar(register) else { unreachable!("scalars are in the wave") };
        At(self.masks, displacement + self.eight)
    }
}

/// Rows, masks and scalars in registers.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    places: [Option<Place>; PLACES],
    locked: u16,
    /// Places whose contents stay.
    held: u16,
    first: usize,
    pub(super) lanes: Lanes,
}

impl Cache {
    /// With nothing in it; `masked` keeps [`RESULT`] free.
    pub(super) fn new(lanes: Lanes, masked: bool) -> Cache {
        Cache { places: [None; PLACES], locked: 0, held: 0, first: usize::from(masked), lanes }
    }

    /// Begins another element: the contents that the last one used may go.
    pub(super) fn unlock(&mut self) {
        self.locked = 0;
    }

    fn register(at: usize) -> Zmm {
        Zmm(TEMPORARIES + at as u8)
    }

    /// Returns the register that holds something, if one does.
    pub(super) fn find(&mut self, key: Key) -> Option<Zmm> {
        let at = self.places.iter().position(|place| place.is_some_and(|place| place.key == key))?;
        self.locked |= 1 << at;
        Some(Self::register(at))
    }

    /// Returns a register with the given content; `next_use` tells which content is needed last.
    pub(super) fn load(&mut self, a: &mut Assembler, key: Key, next_use: impl Fn(Key) -> Next) -> Zmm {
        if let Some(register) = self.find(key) {
            return register;
        }
        let to = self.take(a, key, next_use);
        match key {
            Key::Row(row) => a.vex(VMOVUPS_LOAD, to, Zmm(0), Operand::Memory(self.lanes.row(row))),
            Key::Splat(register) => a.vex(VPBROADCASTD_VEX, to, Zmm(0), Operand::Splat(scalar(register))),
            Key::Constant(value) => a.vex(VMOVUPS_LOAD, to, Zmm(0), Operand::Eight([value; 8])),
            Key::Mask(register) => {
                a.vex(VPBROADCASTB, to, Zmm(0), Operand::Memory(self.lanes.mask(register)));
                a.vex(VPANDD, to, to, BITS);
                a.vex(VPCMPEQD, to, to, BITS);
            }
        }
        to
    }

    /// Returns a register for a content that is to be written; a row is written back some time.
    pub(super) fn define(&mut self, a: &mut Assembler, key: Key, next_use: impl Fn(Key) -> Next) -> Zmm {
        let to = match self.find(key) {
            Some(register) => register,
            None => self.take(a, key, next_use),
        };
        if let Some(place) = &mut self.places[usize::from(to.0 - TEMPORARIES)] {
            place.dirty = matches!(key, Key::Row(_));
        }
        to
    }

    /// Registers that something can be in.
    pub(super) fn room(masked: bool) -> usize {
        PLACES - usize::from(masked)
    }

    /// Makes all contents stay in their registers; rows may have been written since memory was.
    pub(super) fn hold(&mut self) {
        for (at, place) in self.places.iter_mut().enumerate() {
            if let Some(place) = place {
                self.held |= 1 << at;
                place.dirty = matches!(place.key, Key::Row(_));
            }
        }
    }

    /// Forgets the contents for which `forgets` returns true.
    pub(super) fn forget(&mut self, forgets: impl Fn(Key) -> bool) {
        for place in &mut self.places {
            if place.is_some_and(|place| forgets(place.key)) {
                *place = None;
            }
        }
    }

    /// Forgets the contents that do not stay.
    pub(super) fn forget_what_is_not_held(&mut self, a: &mut Assembler) {
        for at in (0..PLACES).filter(|at| self.held >> at & 1 == 0) {
            if let Some(place) = self.places[at].take() {
                self.store(a, at, place);
            }
        }
    }

    fn take(&mut self, a: &mut Assembler, key: Key, next_use: impl Fn(Key) -> Next) -> Zmm {
        let free = (self.first..PLACES).find(|&at| self.places[at].is_none());
        let at = free.unwrap_or_else(|| {
            let unlocked = (self.first..PLACES).filter(|at| (self.locked | self.held) >> at & 1 == 0);
            let furthest =
                unlocked.max_by_key(|&at| self.places[at].map_or(Next::Dead, |place| next_use(place.key)));
            furthest.expect("an element uses fewer registers than there are")
        });
        if let Some(old) = self.places[at]
            && next_use(old.key) != Next::Dead
        {
            self.store(a, at, old);
        }
        self.places[at] = Some(Place { key, dirty: false });
        self.locked |= 1 << at;
        Self::register(at)
    }

    fn store(&self, a: &mut Assembler, at: usize, place: Place) {
        if let (Key::Row(row), true) = (place.key, place.dirty) {
            a.vex(VMOVUPS_STORE, Self::register(at), Zmm(0), Operand::Memory(self.lanes.row(row)));
        }
    }

    /// Brings memory up to date.
    pub(super) fn write_back(&self, a: &mut Assembler) {
        for (at, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                self.store(a, at, *place);
            }
        }
    }
}
