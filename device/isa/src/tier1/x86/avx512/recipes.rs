//! Recipes on sixteen lanes.

use super::masks::{GREATER, SAME};
use crate::exec::di::{Di, Kind};
use crate::tier1::analysis::recipe::{Place, Recipe, Step, Test, own_bytes};
use crate::tier1::x86::asm::{K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, SCRATCH};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

/// Register for what has to be in one.
const SPARE: Zmm = Zmm(3);

/// Sixteen lanes of an element.
#[derive(Clone, Copy)]
struct Sixteen<'a> {
    d: &'a Di,
    half: u32,
    chunk: u8,
}

impl Body<'_> {
    /// A recipe on all lanes.
    pub(crate) fn whole_recipe(&mut self, recipe: Recipe, d: &Di) {
        for half in self.parts() {
            self.rows.unlock();
            self.recipe(recipe, d, half);
        }
    }

    /// A recipe on the lanes of a half.
    pub(crate) fn recipe(&mut self, recipe: Recipe, d: &Di, half: u32) {
        let halves = self.halves;
        for (n, source) in d.src[..recipe.arity()].iter().enumerate() {
            if source.kind == Kind::Vector {
                self.load_row(source.value + half);
                if recipe.takes_pair(n) {
                    self.load_row(source.value + halves + half);
                }
            }
        }
        if recipe.keeps() {
            self.load_row(d.dst + half);
        }
        let low = self.define(d.dst + half);
        let high = recipe.makes_pair().then(|| self.define(d.dst + halves + half));
        let steps = recipe.steps(d);
        let Some((last, first)) = steps.split_last() else { return };
        for chunk in self.chunks() {
            let (lanes, mask) = (Sixteen { d, half, chunk }, self.exec(half, chunk));
            first.iter().for_each(|step| self.step(step, lanes, None));
            match high {
                Some(high) => {
                    self.step(last, lanes, None);
                    self.put(low.chunk(chunk), Zmm(0), mask);
                    self.put(high.chunk(chunk), Zmm(1), mask);
                }
                None => self.step(last, lanes, Some((low.chunk(chunk), mask))),
            }
        }
    }

    /// A place as the last operand of an instruction.
    fn found_at(&mut self, place: Place, Sixteen { d, half, chunk }: Sixteen<'_>, spare: Zmm) -> Operand {
        match place {
            Place::Temporary(number) => Zmm(number).into(),
            Place::Number(value) => Operand::Constant(value),
            Place::Bytes(bytes) => Operand::Words(core::array::from_fn(|lane| own_bytes(bytes, lane as u32))),
            Place::Source(n) => self.operand(&d.src[n], false, half, chunk, spare),
            Place::Low(n) => self.wide(&d.src[n], half, chunk).0,
            Place::High(n) => self.wide(&d.src[n], half, chunk).1,
            Place::Old => self.load_row(d.dst + half).chunk(chunk).into(),
        }
    }

    /// An operand in a register: in `spare` unless it is in one.
    pub(super) fn reach(&mut self, spare: Zmm, from: Operand) -> Zmm {
        if let Operand::Register(register) = from {
            return register;
        }
        let op = if let Operand::Words(_) = from { VMOVUPS_LOAD } else { VPBROADCASTD };
        self.a.evex(op, spare, Zmm(0), from);
        spare
    }

    /// A step, whose result goes to its temporary, or to a register where a mask says.
    fn step(&mut self, step: &Step, lanes: Sixteen<'_>, at: Option<(Zmm, Mask)>) {
        match *step {
            Step::Two { act, to, a, b } => {
                let mut b = self.found_at(b, lanes, SPARE);
                if !act.is_of_dwords() {
                    b = self.reach(SPARE, b).into();
                }
                let spare = if b == Operand::Register(SPARE) { Zmm(to) } else { SPARE };
                let a = self.found_at(a, lanes, spare);
                let a = self.reach(spare, a);
                match at {
                    Some((at, mask)) if mask == K0 || act.is_of_dwords() => {
                        self.a.masked(opcodes::act(act), at, a, b, mask);
                    }
                    at => {
                        self.a.evex(opcodes::act(act), Zmm(to), a, b);
                        self.put_result(to, at);
                    }
                }
            }
            Step::Shift { how, of, by, to, from } => {
                let from = self.found_at(from, lanes, Zmm(to));
                let from = self.reach(Zmm(to), from);
                self.a.shift(opcodes::shift_of(of, how).by(by), Zmm(to), from, K0);
                self.put_result(to, at);
            }
            Step::Choose { test, to, a, b, from } => {
                let b = self.found_at(b, lanes, SPARE);
                let a = self.found_at(a, lanes, SPARE);
                let a = self.reach(SPARE, a);
                let [mask, _] = SCRATCH;
                let predicate = match test {
                    Test::Equal => SAME,
                    Test::Greater => GREATER,
                };
                self.a.compare(VPCMPD.by(predicate), mask, a, b, K0);
                match self.found_at(from, lanes, SPARE) {
                    Operand::Register(from) => self.put(Zmm(to), from, mask),
                    from => self.a.masked(VPBROADCASTD, Zmm(to), Zmm(0), from, mask),
                }
                self.put_result(to, at);
            }
        }
    }

    fn put_result(&mut self, from: u8, at: Option<(Zmm, Mask)>) {
        if let Some((to, mask)) = at {
            self.put(to, Zmm(from), mask);
        }
    }
}
