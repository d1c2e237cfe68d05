//! Recipes on eight lanes.

use crate::exec::di::Di;
use crate::inst::Op;
use crate::tier1::analysis::packed::{Packed, packed};
use crate::tier1::analysis::recipe::{Place, Recipe, Step, Test, own_bytes};
use crate::tier1::x86::asm::{Operand, Zmm};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

/// Register for what has to be in one, and for masks.
const SPARE: Zmm = T[3];

impl Pass<'_> {
    /// An operation whose result saturates.
    pub(super) fn saturating(&mut self, op: Op, d: &Di) {
        let Some(recipe) = Recipe::saturating(op, d) else { unreachable!("only operations with a recipe") };
        self.recipe(recipe, d);
    }

    /// An operation on integers in both halves of registers.
    pub(super) fn packed(&mut self, op: Op, d: &Di) {
        match packed(op, d) {
            Some(Packed::Words(words)) => {
                let a = self.register(&d.src[0], false, SPARE);
                let b = self.operand(&d.src[1], false, SPARE);
                let to = self.result(d.dst);
                self.a.vex(opcodes::words(words), to, a, b);
                self.finish(d.dst, to);
            }
            Some(Packed::Recipe(recipe)) => self.recipe(recipe, d),
            Some(Packed::Halves(arithmetic)) => self.both_halves(arithmetic, d),
            None => unreachable!("only operations with a template"),
        }
    }

    /// An operation that has a recipe.
    pub(super) fn recipe(&mut self, recipe: Recipe, d: &Di) {
        let steps = recipe.steps(d);
        let Some((last, first)) = steps.split_last() else { return };
        for step in first {
            self.step(step, d, None);
        }
        if recipe.makes_pair() {
            self.step(last, d, None);
            return self.finish_pair(d, T[0], T[1]);
        }
        let result = self.step(last, d, Some(d.dst));
        self.finish(d.dst, result);
    }

    /// A place as the last operand of an instruction.
    fn found_at(&mut self, place: Place, d: &Di) -> Operand {
        match place {
            Place::Temporary(number) => Zmm(number).into(),
            Place::Number(value) => constant(value),
            Place::Bytes(bytes) => Operand::Eight(core::array::from_fn(|lane| own_bytes(bytes, lane as u32))),
            Place::Source(n) => self.operand(&d.src[n], false, SPARE),
            Place::Low(n) => self.wide(&d.src[n])[0].into(),
            Place::High(n) => self.wide(&d.src[n])[1].into(),
            Place::Old => self.row(d.dst).into(),
        }
    }

    /// A place in a register: in `spare` unless it is in one.
    fn reach(&mut self, place: Place, d: &Di, spare: Zmm) -> Zmm {
        match place {
            Place::Source(n) => self.register(&d.src[n], false, spare),
            place => match self.found_at(place, d) {
                Operand::Register(register) => register,
                from => {
                    self.a.vex(VMOVUPS_LOAD, spare, Zmm(0), from);
                    spare
                }
            },
        }
    }

    /// A step, whose result goes to its temporary or, if it is one instruction, to a register for a row. Returns the result's place.
    fn step(&mut self, step: &Step, d: &Di, row: Option<u32>) -> Zmm {
        match *step {
            Step::Two { act, to, a, b } => {
                let a = self.reach(a, d, SPARE);
                let b = self.found_at(b, d);
                let to = row.map_or(Zmm(to), |row| self.result(row));
                self.a.vex(opcodes::act(act), to, a, b);
                to
            }
            Step::Shift { how, of, by, to, from } => {
                let from = self.reach(from, d, Zmm(to));
                let to = row.map_or(Zmm(to), |row| self.result(row));
                self.a.vex_shift(opcodes::shift_of(of, how).by(by), to, from);
                to
            }
            Step::Choose { test, to, a, b, from } => {
                let a = self.reach(a, d, SPARE);
                let b = self.found_at(b, d);
                let op = match test {
                    Test::Equal => VPCMPEQD,
                    Test::Greater => VPCMPGTD,
                };
                self.a.vex(op, SPARE, a, b);
                let from = self.found_at(from, d);
                self.blend(Zmm(to), Zmm(to), from, SPARE);
                Zmm(to)
            }
        }
    }
}
