//! Vector registers that are a number counted on by the same step from lane to lane, as most addresses are: instead of all lanes, code computes
//! the first one, in general registers.
//!
//! Some of that holds only if nothing wraps, or if bits do not overlap. Code looks whether it does, and refuses otherwise.

use core::mem::offset_of;

use super::asm::{At, Condition, Gpr, Integer, Label, Operand, Zmm};
use super::body::{AFFINE, AFFINE_PLACES, Body, Cold, MACHINE, scalar};
use super::encoding::VPADDD;
use super::stretches::{keep, span_of_entry};
use crate::exec::di::{Di, Kind, Machine, Source};
use crate::exec::vector::cmp::{EQUAL, GREATER, LESS, Operands};
use crate::exec::waves::succession::{Stretch, Succession};
use crate::inst::Op;
use crate::tier1::analysis::elements::steps;
use crate::tier1::analysis::template;

mod sums;

/// Address of the [`Succession`], which keeps the stretches that accesses have found.
const SUCCESSION: Gpr = Gpr::R10;
/// Place in the machine of that address.
const IN_MACHINE: At = At(MACHINE, offset_of!(Machine<'_>, succession) as i32);

fn of_stretch(stretch: usize, field: usize) -> At {
    let stretches = offset_of!(Succession, stretches);
    At(SUCCESSION, (stretches + stretch * size_of::<Stretch>() + field) as i32)
}

/// A number in a place of the frame, and the step from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    place: usize,
    step: u32,
}

/// Content of a vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number of 32 bits and those counted on from it.
    Word(Linear),
    Zero,
    /// Halves of numbers of 64 bits.
    Low(Linear),
    High(Linear),
    /// The low half of a sum whose high half is still to be made: the number of 64 bits so far, the register that it was made of, and the mask of carries.
    Half {
        sum: Linear,
        of: Of,
        carries: u32,
    },
    /// Something that has not been computed.
    Lost,
}

/// Register that the low half of a sum was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Low(Linear),
    /// A number whose high half is zero.
    Word,
}

/// Steps above that are not followed: products of them with lanes stay far from wrapping.
const LARGEST_STEP: u32 = 1 << 16;

const A: Gpr = Gpr::Rax;
const B: Gpr = Gpr::Rcx;
const C: Gpr = Gpr::Rdx;

fn at(place: usize) -> At {
    At(AFFINE.0, AFFINE.1 + place as i32 * 8)
}

/// A constant of an operand that is nothing else.
fn constant(source: &Source) -> Option<u32> {
    (is_plain(source) && matches!(source.kind, Kind::Constant | Kind::Signed)).then_some(source.value)
}

fn is_plain(source: &Source) -> bool {
    !(source.neg || source.abs || source.high)
}

/// Registers whose contents are known, and the label of code that refuses.
pub(crate) struct Affine {
    values: Vec<(u32, Value)>,
    places: usize,
    /// Scalar registers with masks that have not been computed.
    lost: Vec<u32>,
    /// Masks of all lanes.
    full: Vec<u32>,
    halves: u32,
    /// Accesses whose address is not in the stretch that it was in last.
    elsewhere: Vec<Elsewhere>,
    /// Label that code jumps to if it refuses.
    pub(crate) refuses: Label,
}

/// An access whose place is looked up in the TLB.
pub(crate) struct Elsewhere {
    entry: Label,
    back: Label,
    stretch: usize,
    bytes: u32,
    write: bool,
}

impl Elsewhere {
    /// Looks the address in [`C`] up, and keeps how far the memory goes that it is in. Refuses where that is not in the TLB.
    pub(crate) fn look_up(&self, body: &mut Body<'_>, refuses: Label) {
        body.a.bind(self.entry);
        let cold = Cold { entry: refuses, ..body.leave() };
        body.page_entry(self.write, &cold);
        let a = &mut body.a;
        span_of_entry(a);
        a.load(Integer::Mov, true, SUCCESSION, IN_MACHINE);
        let kept = |field| of_stretch(self.stretch, field);
        keep(a, kept, self.bytes, A);
        a.integer(Integer::Mov, true, B, C);
        a.integer(Integer::Sub, true, B, A);
        a.load(Integer::Cmp, true, B, kept(offset_of!(Stretch, places)));
        a.jump_if(Condition::Below, self.back);
        a.jump(refuses);
    }
}

/// `None` if something is not as code that counts lanes on needs it.
pub(crate) type Known<T> = Option<T>;

impl Affine {
    /// With nothing but the first register, which counts lanes on from the number in `Rax`.
    pub(crate) fn begin(body: &mut Body<'_>, refuses: Label) -> Affine {
        let halves = body.halves;
        let mut affine = Affine {
            values: Vec::new(),
            places: 0,
            lost: Vec::new(),
            full: Vec::new(),
            halves,
            elsewhere: Vec::new(),
            refuses,
        };
        if let Some(numbers) = affine.keep(body, 1) {
            affine.values.push((0, Value::Word(numbers)));
        }
        affine
    }

    fn get(&self, row: u32) -> Option<Value> {
        self.values.iter().find(|(of, _)| *of == row).map(|&(_, value)| value)
    }

    fn set(&mut self, row: u32, value: Value) {
        self.forget(row);
        self.values.push((row, value));
    }

    /// The register whose first row that is has something else.
    pub(crate) fn forget(&mut self, row: u32) {
        self.values.retain(|(of, _)| *of != row);
    }

    /// The distance of the last lane from the first one.
    fn width(&self, step: u32) -> u32 {
        (self.halves * 32 - 1) * step
    }

    /// Keeps the number in [`A`].
    fn keep(&mut self, body: &mut Body<'_>, step: u32) -> Known<Linear> {
        let place = self.places;
        if place == AFFINE_PLACES || step > LARGEST_STEP {
            return None;
        }
        self.places += 1;
        body.a.store(true, at(place), A);
        Some(Linear { place, step })
    }

    fn refuse_if(&self, body: &mut Body<'_>, condition: Condition) {
        body.a.jump_if(condition, self.refuses);
    }

    /// Refuses if the number of 32 bits in a register is above a limit less the numbers that lanes add.
    fn refuse_above(&self, body: &mut Body<'_>, register: Gpr, (limit, step): (u32, u32)) -> Known<()> {
        let most = limit.checked_sub(self.width(step))?;
        body.a.immediate(Integer::Cmp, false, register, most);
        self.refuse_if(body, Condition::Above);
        Some(())
    }

    /// Returns true if a scalar register has its right value.
    fn is_there(&self, register: u32) -> bool {
        !self.lost.iter().any(|lost| lost.abs_diff(register) < 2)
    }

    /// Returns true if all scalar registers that an element reads have their right values.
    pub(crate) fn finds_scalars(&self, d: &Di) -> bool {
        let mut sources = d.src.iter().filter(|source| source.kind == Kind::Scalar);
        sources.all(|source| self.is_there(source.value))
    }

    /// Returns true if the carries that a sum or difference reads are there.
    pub(crate) fn finds_carries(&self, op: Op, d: &Di) -> bool {
        !template::takes_carry(op) || self.is_there(d.imm)
    }

    /// An element has written these scalar registers.
    pub(crate) fn wrote_scalars(&mut self, written: &[(u32, u32)]) {
        let is =
            |register: &u32| written.iter().any(|&(first, count)| (first..first + count).contains(register));
        self.full.retain(|register| !is(register));
        self.lost.retain(|register| !is(register));
        self.lose(|carries| is(&carries));
    }

    /// Sums whose carries are in these masks cannot be finished.
    fn lose(&mut self, is: impl Fn(u32) -> bool) {
        for (_, value) in &mut self.values {
            if matches!(value, Value::Half { carries, .. } if is(*carries)) {
                *value = Value::Lost;
            }
        }
    }

    /// A source of 32 bits in a register, and its step.
    fn term(&self, body: &mut Body<'_>, to: Gpr, source: &Source) -> Known<u32> {
        if !is_plain(source) {
            return None;
        }
        match source.kind {
            Kind::Vector => match self.get(source.value)? {
                Value::Word(number) | Value::Low(number) => {
                    body.a.load(Integer::Mov, false, to, at(number.place));
                    Some(number.step)
                }
                Value::Zero => {
                    body.a.immediate(Integer::Mov, false, to, 0);
                    Some(0)
                }
                _ => None,
            },
            Kind::Scalar if self.is_there(source.value) => {
                body.a.load(Integer::Mov, false, to, scalar(source.value));
                Some(0)
            }
            Kind::Constant | Kind::Signed => {
                body.a.immediate(Integer::Mov, false, to, source.value);
                Some(0)
            }
            _ => None,
        }
    }

    /// As [`Affine::term`], for a source that is equal in all lanes.
    fn uniform(&self, body: &mut Body<'_>, to: Gpr, source: &Source) -> Known<()> {
        (self.term(body, to, source)? == 0).then_some(())
    }

    /// A source of 64 bits in a register, and its step.
    fn pair(&self, body: &mut Body<'_>, to: Gpr, source: &Source) -> Known<u32> {
        if !is_plain(source) {
            return None;
        }
        match source.kind {
            Kind::Vector => match (self.get(source.value)?, self.get(source.value + self.halves)?) {
                (Value::Low(number), Value::High(other)) if number == other => {
                    body.a.load(Integer::Mov, true, to, at(number.place));
                    Some(number.step)
                }
                (Value::Word(number), Value::Zero) => {
                    body.a.load(Integer::Mov, false, to, at(number.place));
                    self.refuse_above(body, to, (u32::MAX, number.step))?;
                    Some(number.step)
                }
                _ => None,
            },
            Kind::Scalar if self.is_there(source.value) && self.is_there(source.value + 1) => {
                body.a.load(Integer::Mov, true, to, scalar(source.value));
                Some(0)
            }
            Kind::Constant => {
                body.a.immediate(Integer::Mov, false, to, source.value);
                Some(0)
            }
            Kind::Signed => {
                body.a.immediate(Integer::Mov, true, to, source.value);
                Some(0)
            }
            _ => None,
        }
    }

    fn set_word(&mut self, body: &mut Body<'_>, row: u32, step: u32) -> Known<()> {
        let number = self.keep(body, step)?;
        self.set(row, Value::Word(number));
        Some(())
    }

    fn set_pair(&mut self, body: &mut Body<'_>, row: u32, step: u32) -> Known<()> {
        let number = self.keep(body, step)?;
        self.set(row, Value::Low(number));
        self.set(row + self.halves, Value::High(number));
        Some(())
    }

    /// Refuses unless a comparison holds for all lanes.
    pub(crate) fn compare(&mut self, body: &mut Body<'_>, operands: Operands, d: &Di) -> Known<()> {
        let signed = match operands {
            Operands::I32 => true,
            Operands::U32 => false,
            _ => return None,
        };
        let fails = match (d.aux & (LESS | EQUAL | GREATER), signed) {
            (LESS, true) => Condition::GreaterOrEqual,
            (LESS, false) => Condition::AboveOrEqual,
            (GREATER, true) => Condition::LessOrEqual,
            (GREATER, false) => Condition::BelowOrEqual,
            (outcomes, true) if outcomes == LESS | EQUAL => Condition::Greater,
            (outcomes, false) if outcomes == LESS | EQUAL => Condition::Above,
            (outcomes, true) if outcomes == GREATER | EQUAL => Condition::Less,
            (outcomes, false) if outcomes == GREATER | EQUAL => Condition::Below,
            _ => return None,
        };
        let steps = [self.term(body, A, &d.src[0])?, self.term(body, B, &d.src[1])?];
        let (counted, step) = match steps {
            [step, 0] => (A, step),
            [0, step] => (B, step),
            _ => return None,
        };
        // Of lanes between two of which it holds, it holds as well, unless they wrap.
        for last in [false, true] {
            if last {
                body.a.immediate(Integer::Add, false, counted, self.width(step));
                self.refuse_if(body, if signed { Condition::Overflow } else { Condition::Below });
            }
            body.a.integer(Integer::Cmp, false, A, B);
            self.refuse_if(body, fails);
        }
        body.a.immediate(Integer::Mov, true, A, u32::MAX);
        body.a.store(self.halves == 2, scalar(d.dst), A);
        self.wrote_scalars(&[(d.dst, self.halves)]);
        self.full.push(d.dst);
        Some(())
    }

    /// Returns the code that is still to be placed after the program.
    pub(crate) fn finish(self) -> Vec<Elsewhere> {
        self.elsewhere
    }

    /// Returns true if a scalar register has a mask of all lanes.
    pub(crate) fn is_full(&self, source: &Source) -> bool {
        source.kind == Kind::Scalar && self.full.contains(&source.value)
    }

    /// The address of an access in [`C`], and its step.
    pub(crate) fn address(&self, body: &mut Body<'_>, d: &Di) -> Known<u32> {
        let row = &d.src[0];
        if row.kind != Kind::Vector {
            return None;
        }
        let step = if d.dst2 == 2 {
            let step = self.term(body, A, row)?;
            self.refuse_above(body, A, (u32::MAX, step))?;
            if self.pair(body, C, &d.src[2])? != 0 {
                return None;
            }
            step
        } else {
            let step = self.pair(body, A, row)?;
            body.a.immediate(Integer::Mov, false, C, 0);
            step
        };
        body.add_offset(d);
        Some(step)
    }

    /// Turns the address of `bytes` bytes in [`C`] into the host address.
    pub(crate) fn translate(&mut self, body: &mut Body<'_>, bytes: u32, write: bool) -> Known<()> {
        let stretch = self.elsewhere.len();
        if stretch == Succession::STRETCHES {
            return None;
        }
        let (entry, back) = (body.a.label(), body.a.label());
        let a = &mut body.a;
        a.load(Integer::Mov, true, SUCCESSION, IN_MACHINE);
        a.integer(Integer::Mov, true, B, C);
        a.load(Integer::Sub, true, B, of_stretch(stretch, offset_of!(Stretch, start)));
        a.load(Integer::Cmp, true, B, of_stretch(stretch, offset_of!(Stretch, places)));
        a.jump_if(Condition::AboveOrEqual, entry);
        a.bind(back);
        a.load(Integer::Add, true, C, of_stretch(stretch, offset_of!(Stretch, delta)));
        self.elsewhere.push(Elsewhere { entry, back, stretch, bytes, write });
        Some(())
    }

    /// Keeps the host address in [`C`] for a store; where.
    pub(crate) fn keep_address(&mut self, body: &mut Body<'_>) -> Known<At> {
        body.a.integer(Integer::Mov, true, A, C);
        self.keep(body, 0).map(|number| at(number.place))
    }

    /// Puts lanes of registers in place that an element of the lanes reads.
    pub(crate) fn put_in_place(&mut self, body: &mut Body<'_>, rows: &[u32]) -> Known<()> {
        let counted: Vec<_> = self.values.iter().copied().filter(|(row, _)| rows.contains(row)).collect();
        for (row, value) in counted {
            let step = match value {
                Value::Word(number) | Value::Low(number) => {
                    body.a.load(Integer::Mov, false, A, at(number.place));
                    number.step
                }
                Value::Zero => {
                    body.a.immediate(Integer::Mov, false, A, 0);
                    0
                }
                _ => return None,
            };
            body.a.everywhere(Zmm(0), A);
            for half in 0..self.halves {
                let pair = body.define(row + half);
                for chunk in 0..2 {
                    let first = half * 32 + u32::from(chunk) * 16;
                    let add = Operand::Words(steps(first * step, step));
                    body.a.evex(VPADDD, pair.chunk(chunk), Zmm(0), add);
                }
            }
        }
        Some(())
    }
}
