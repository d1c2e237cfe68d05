//! Runs of elements, and the passes over them.

use crate::exec::di::{Di, Kind, Source};
use crate::exec::form::Form;
use crate::exec::vector::lane::lanes_below;
use crate::inst::Op;
use crate::tier1::analysis::floats::Unary;
use crate::tier1::analysis::permuted::ONES;
use crate::tier1::analysis::recipe::Recipe;
use crate::tier1::analysis::runs::Run;
use crate::tier1::analysis::template::{self, Template};
use crate::tier1::scalar;
use crate::tier1::x86::asm::{Assembler, At, Condition, Element, Gpr, Integer, Label, Operand, Zmm};
use crate::tier1::x86::avx512::masks::UNORDERED;
use crate::tier1::x86::avx512::rows::ROWS;
use crate::tier1::x86::body::{Body, EXEC, SIGN, WAVE, scalar as scalar_at};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::sums::{self, Sums};

use super::cache::{Cache, Key, Lanes, RESULT};
use super::lanes::T;
use super::opcodes::{VBLENDVPS, VMOVMSKPS};
use super::run_loads::Loads;
use super::uses::{Next, Uses, next_use};

/// Most elements of a run whose passes each have code of their own; those of longer ones are rounds of a loop.
const UNROLLED: usize = 6;
/// Base of the bytes of masks in a loop.
pub(super) const MASKS: Gpr = Gpr::R11;
/// Address at which its rows end.
pub(super) const LAST: Gpr = Gpr::R10;

/// Returns true if there is code for a covered element; if `masked`, in blocks for waves with inactive lanes.
pub(crate) fn has(form: Form, d: &Di, masked: bool) -> bool {
    match form {
        form if is_shared(form) => true,
        form if form.is_memory() => super::memory::has(form, d, masked),
        Form::ReadLane | Form::WriteLane => true,
        Form::ReadFirstLane | Form::CountBelow { .. } => !masked,
        form => is_of_lanes(form, d),
    }
}

/// Returns true if an element has the code that AVX-512 has: it uses no vectors, or tells the back ends apart itself.
pub(crate) fn is_shared(form: Form) -> bool {
    matches!(
        form,
        Form::Scalar(_)
            | Form::ExecMask { .. }
            | Form::ScalarLoad(_)
            | Form::Look
            | Form::Branch(_)
            | Form::End
            | Form::Barrier
            | Form::Call
    )
}

/// Returns true if a minimum or maximum chooses another result than the usual one where there is a NaN.
fn treats_nans_otherwise(op: Op) -> bool {
    matches!(op, Op::V_MIN_NUM_F32 | Op::V_MAX_NUM_F32 | Op::V_MINIMUM_F32 | Op::V_MAXIMUM_F32)
}

/// Returns true if a run may contain the element.
pub(super) fn is_of_lanes(form: Form, d: &Di) -> bool {
    match form {
        Form::Vector(op) => template::vector(op, d).is_some_and(|template| {
            !matches!(
                template,
                Template::Curve(_)
                    | Template::Extremes(..)
                    | Template::Median
                    | Template::Scale(_)
                    | Template::Unary(Unary::Mantissa | Unary::Exponent, _)
                    | Template::DivideFixup
                    | Template::DivideFixupDoubles
                    | Template::DoubleRoot(_)
                    | Template::ExtremeOf(..)
            ) && !treats_nans_otherwise(op)
        }),
        Form::Carry(op) => !template::is_division(op),
        form => form.is_arithmetic(),
    }
}

/// One pass in the making.
pub(super) struct Pass<'a> {
    pub(super) a: &'a mut Assembler,
    pub(super) cache: Cache,
    pub(super) halves: u32,
    pub(super) masked: bool,
    /// Registers that each element of the run uses.
    uses: &'a [Uses],
    at: usize,
    pub(super) loads: Loads<'a>,
    /// Sums of the run that are looked at behind it.
    pub(super) sums: Sums,
    /// Code beside the usual way.
    pub(super) asides: Vec<super::singles::Aside>,
}

impl Body<'_> {
    /// The elements of a run, whose loads are as guessed.
    pub(super) fn passes(&mut self, run: &Run, elements: &[(Form, &Di)], guesses: &[(u32, u32)]) {
        for &at in &run.scalars {
            if let (Form::Scalar(op), d) = elements[at] {
                scalar::emit(self.a, op, d);
            }
        }
        let all: Vec<(Form, &Di)> = run.lanes.iter().map(|&at| elements[at]).collect();
        self.emit(&all, guesses);
    }

    /// An element that is in no run.
    pub(crate) fn one(&mut self, form: Form, d: &Di) {
        match form {
            // Its passes may not be apart.
            form if is_of_lanes(form, d) => self.by_handler(),
            form if !has(form, d, self.masked) => self.by_handler(),
            Form::ReadLane if d.src[1].kind == Kind::Scalar => self.any_lane_as_scalar(d),
            Form::ReadLane => self.lane_as_scalar(d, d.src[1].value & (self.halves * 32 - 1)),
            Form::ReadFirstLane => self.lane_as_scalar(d, 0),
            Form::WriteLane => self.scalar_as_lane(d),
            Form::CountBelow { high } => self.bits_below(high, d),
            form => self.memory(form, d),
        }
    }

    fn lane_as_scalar(&mut self, d: &Di, lane: u32) {
        let at = Self::eight(d.src[0].value, 0);
        self.a.load(Integer::Mov, false, Gpr::Rax, At(at.0, at.1 + lane as i32 * 4));
        self.a.store(false, scalar_at(d.dst), Gpr::Rax);
    }

    /// The lane of a row that a scalar register says, whose number is left in `Rcx`.
    fn any_lane(&mut self, number: u32, row: u32) -> Element {
        self.a.load(Integer::Mov, false, Gpr::Rcx, scalar_at(number));
        self.a.immediate(Integer::And, false, Gpr::Rcx, self.halves * 32 - 1);
        let At(base, displacement) = Self::eight(row, 0);
        Element { base, index: Gpr::Rcx, scale: 2, displacement }
    }

    fn any_lane_as_scalar(&mut self, d: &Di) {
        let at = self.any_lane(d.src[1].value, d.src[0].value);
        self.a.load_element(Integer::Mov, false, Gpr::Rax, at);
        self.a.store(false, scalar_at(d.dst), Gpr::Rax);
    }

    /// `v_writelane_b32`.
    fn scalar_as_lane(&mut self, d: &Di) {
        let [value, lane, _] = &d.src;
        if value.kind == Kind::Scalar {
            self.a.load(Integer::Mov, false, Gpr::Rax, scalar_at(value.value));
        } else {
            self.a.immediate(Integer::Mov, false, Gpr::Rax, value.value);
        }
        if lane.kind == Kind::Scalar {
            let at = self.any_lane(lane.value, d.dst);
            return self.a.change_element(Integer::Mov, false, at, Gpr::Rax);
        }
        let At(base, displacement) = Self::eight(d.dst, 0);
        let lane = lane.value & (self.halves * 32 - 1);
        self.a.store(false, At(base, displacement + lane as i32 * 4), Gpr::Rax);
    }

    /// The numbers of ones of a mask among the bits below each of eight lanes; temporaries 0, 2 and 3 are used.
    fn ones_below(&mut self, mask: &Source, eight: i32, below: [u32; 8]) -> Operand {
        if !matches!(mask.kind, Kind::Vector | Kind::Scalar) {
            return Operand::Eight(below.map(|below| (mask.value & below).count_ones()));
        }
        let (ones, low, table) = (Zmm(0), Zmm(2), Zmm(3));
        if mask.kind == Kind::Vector {
            self.a.vex(VMOVUPS_LOAD, ones, Zmm(0), Operand::Memory(Self::eight(mask.value, eight)));
        } else {
            self.a.vex(VPBROADCASTD, ones, Zmm(0), Operand::Splat(scalar_at(mask.value)));
        }
        self.a.vex(VPANDD, ones, ones, Operand::Eight(below));
        let nibbles = constant(0x0f0f_0f0f);
        self.a.vex(VMOVUPS_LOAD, table, Zmm(0), Operand::Eight(core::array::from_fn(|n| ONES[n & 3])));
        self.a.vex(VPANDD, low, ones, nibbles);
        self.a.vex(VPSHUFB, low, table, low);
        self.a.vex_shift(VPSRLD.by(4), ones, ones);
        self.a.vex(VPANDD, ones, ones, nibbles);
        self.a.vex(VPSHUFB, ones, table, ones);
        self.a.vex(VPADDD, ones, ones, low);
        // The highest byte of the product is the sum of all.
        self.a.vex(VPMULLD, ones, ones, constant(0x0101_0101));
        self.a.vex_shift(VPSRLD.by(24), ones, ones);
        ones.into()
    }

    /// `v_mbcnt_lo_u32_b32` and `v_mbcnt_hi_u32_b32`.
    fn bits_below(&mut self, high: bool, d: &Di) {
        let added = &d.src[1];
        if added.kind == Kind::Scalar {
            let from = Operand::Splat(scalar_at(added.value));
            self.a.vex(VPBROADCASTD, Zmm(1), Zmm(0), from);
        } else if added.kind != Kind::Vector {
            self.a.vex(VMOVUPS_LOAD, Zmm(1), Zmm(0), constant(added.value));
        }
        for eight in self.eights() {
            if added.kind == Kind::Vector {
                let from = Operand::Memory(Self::eight(added.value, eight));
                self.a.vex(VMOVUPS_LOAD, Zmm(1), Zmm(0), from);
            }
            let below = core::array::from_fn(|lane| lanes_below(high, eight as u32 * 8 + lane as u32));
            let counts = self.ones_below(&d.src[0], eight, below);
            self.a.vex(VPADDD, Zmm(0), Zmm(1), counts);
            let to = Operand::Memory(Self::eight(d.dst, eight));
            self.a.vex(VMOVUPS_STORE, Zmm(0), Zmm(0), to);
        }
    }
}

impl Body<'_> {
    /// The code of the elements of the lanes.
    fn emit(&mut self, all: &[(Form, &Di)], guesses: &[(u32, u32)]) {
        let (halves, masked) = (self.halves, self.masked);
        let a = &mut *self.a;
        let uses: Vec<Uses> = all.iter().map(|(form, d)| Uses::new(*form, d, halves, masked)).collect();
        let passes = halves as i32 * 4;
        let sums = sums::of_run(all.iter().copied(), halves);
        let (mut asides, mut again) = (Vec::new(), Vec::new());
        let mut pass = |a: &mut Assembler, lanes: Lanes| {
            let mut pass = Pass::new(a, Cache::new(lanes, masked), (halves, masked), &uses);
            pass.sums = sums.clone();
            pass.run(all, guesses);
            if !sums.rows.is_empty() {
                let [entry, back] = pass.look_at_sums();
                again.push((entry, back, pass.cache.clone()));
                pass.cache.write_back(pass.a);
                pass.a.bind(back);
            } else {
                pass.cache.write_back(pass.a);
            }
            asides.append(&mut pass.asides);
        };
        if all.len() * halves as usize <= UNROLLED {
            for eight in 0..passes {
                pass(a, Lanes { eight, masks: WAVE });
            }
        } else {
            a.address(LAST, At(ROWS, passes * 32));
            a.integer(Integer::Mov, true, MASKS, WAVE);
            let next = a.label();
            a.bind(next);
            pass(a, Lanes { eight: 0, masks: MASKS });
            a.address(ROWS, At(ROWS, 32));
            a.address(MASKS, At(MASKS, 1));
            a.integer(Integer::Cmp, true, ROWS, LAST);
            a.jump_if(Condition::Below, next);
            a.address(ROWS, At(ROWS, -passes * 32));
        }
        if asides.is_empty() && again.is_empty() {
            return;
        }
        let behind = a.label();
        a.jump(behind);
        for (entry, back, cache) in again {
            a.bind(entry);
            cache.write_back(a);
            let mut pass = Pass::new(a, Cache::new(cache.lanes, masked), (halves, masked), &uses);
            pass.sums = Sums { again: true, ..sums.clone() };
            pass.run(all, guesses);
            pass.cache.write_back(pass.a);
            pass.a.jump(back);
            asides.append(&mut pass.asides);
        }
        asides.iter().for_each(|aside| aside.emit(a));
        a.bind(behind);
    }
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        a: &'a mut Assembler,
        cache: Cache,
        (halves, masked): (u32, bool),
        uses: &'a [Uses],
    ) -> Pass<'a> {
        Pass {
            a,
            cache,
            halves,
            masked,
            uses,
            at: 0,
            loads: Loads::default(),
            sums: Sums::default(),
            asides: Vec::new(),
        }
    }
}

impl<'a> Pass<'a> {
    /// Begins an element of the run.
    pub(super) fn begin(&mut self, at: usize) {
        self.at = at;
        self.cache.unlock();
    }

    /// All elements of the run, whose loads are as guessed.
    fn run(&mut self, all: &[(Form, &Di)], guesses: &'a [(u32, u32)]) {
        self.loads = Loads::new(guesses);
        for (at, (form, d)) in all.iter().enumerate() {
            self.begin(at);
            self.element(*form, d);
            self.loads.note(*form, d, self.halves);
        }
    }

    /// Looks at the sums of the run; returns the label to which code jumps where one is a NaN, and the one behind all that.
    fn look_at_sums(&mut self) -> [Label; 2] {
        let [all, these, ..] = T;
        let labels = [self.a.label(), self.a.label()];
        let rows = core::mem::take(&mut self.sums.rows);
        // No element is at hand: what the last one has written is needed.
        self.at = self.uses.len();
        for (n, two) in rows.chunks(2).enumerate() {
            self.cache.unlock();
            let to = if n == 0 { all } else { these };
            let a = self.row(two[0]);
            let b = self.row(two[two.len() - 1]);
            self.a.vex(VCMPPS.by(UNORDERED), to, a, b);
            if n > 0 {
                self.a.vex(VPORD, all, all, these);
            }
        }
        self.a.vex_number(VMOVMSKPS, Gpr::Rax as u8, all.0);
        self.a.test(false, Gpr::Rax);
        self.a.jump_if(Condition::NotEqual, labels[0]);
        labels
    }

    /// Loads the contents that stay in registers.
    pub(super) fn hold(&mut self, keys: &[Key]) {
        for &key in keys {
            self.cache.load(self.a, key, |_| Next::In(0));
        }
        self.cache.hold();
    }

    pub(super) fn element(&mut self, form: Form, d: &Di) {
        match form {
            Form::Vector(op) => self.vector(op, d),
            Form::Pair(x, y) => self.pair((x, y), d),
            Form::Carry(op) => self.carry(op, d),
            Form::Compare(operands) => self.compare(operands, d),
            Form::Select => self.select(d),
            Form::SelectHalf => self.select_half(d),
            Form::Swap => self.swap(d),
            Form::Mixed(narrows) => self.mixed(narrows, d),
            Form::Saturating(op) => self.saturating(op, d),
            Form::Packed(op) => self.packed(op, d),
            Form::Keep => self.keep(d),
            Form::Part => self.recipe(Recipe::part(), d),
            Form::LdsLoad(_) | Form::LdsLoadTwo(_) => self.load_lds(form, d),
            _ => unreachable!("only elements of the lanes"),
        }
    }

    pub(super) fn load(&mut self, key: Key) -> Zmm {
        // The element at hand may not have come to all that it reads.
        let uses = &self.uses[self.at..];
        self.cache.load(self.a, key, |key| next_use(uses, key))
    }

    /// A register for a mask or a row that the element writes.
    pub(super) fn define(&mut self, key: Key) -> Zmm {
        let uses = &self.uses[self.at..];
        self.cache.define(self.a, key, |key| next_use(uses, key))
    }

    pub(super) fn row(&mut self, row: u32) -> Zmm {
        self.load(Key::Row(row))
    }

    /// A row as the last operand of an instruction: in memory if nothing else uses it.
    fn row_operand(&mut self, row: u32) -> Operand {
        if let Some(register) = self.cache.find(Key::Row(row)) {
            return register.into();
        }
        if next_use(&self.uses[self.at + 1..], Key::Row(row)) >= Next::Never {
            return Operand::Memory(self.cache.lanes.row(row));
        }
        self.row(row).into()
    }

    fn is_modified(source: &Source, float: bool) -> bool {
        float && (source.neg || source.abs)
    }

    /// A source as the last operand of an instruction; `temporary` is for one that has to be made.
    pub(super) fn operand(&mut self, source: &Source, float: bool, temporary: Zmm) -> Operand {
        if Self::is_modified(source, float) {
            return self.register(source, float, temporary).into();
        }
        match source.kind {
            Kind::Vector => self.row_operand(source.value),
            Kind::Scalar => self.load(Key::Splat(source.value)).into(),
            _ => constant(source.value),
        }
    }

    /// A source in a register.
    pub(super) fn register(&mut self, source: &Source, float: bool, temporary: Zmm) -> Zmm {
        let plain = match source.kind {
            Kind::Vector => self.row(source.value),
            Kind::Scalar => self.load(Key::Splat(source.value)),
            _ => self.load(Key::Constant(source.value)),
        };
        if !Self::is_modified(source, float) {
            return plain;
        }
        let mut from = plain;
        if source.abs {
            self.a.vex(VPANDD, temporary, from, constant(!SIGN));
            from = temporary;
        }
        if source.neg {
            self.a.vex(VPXORD, temporary, from, constant(SIGN));
        }
        temporary
    }

    pub(super) fn put(&mut self, to: Zmm, from: Zmm) {
        if to != from {
            self.a.vex(VMOVDQA32, to, Zmm(0), from);
        }
    }

    /// A register for the result of an element to a row: the row's own, or where lanes are off one beside it.
    pub(super) fn result(&mut self, row: u32) -> Zmm {
        if self.masked { RESULT } else { self.define(Key::Row(row)) }
    }

    /// Brings a result to its row, for the active lanes.
    pub(super) fn finish(&mut self, row: u32, result: Zmm) {
        if !self.masked {
            let to = self.define(Key::Row(row));
            return self.put(to, result);
        }
        let exec = self.load(Key::Mask(EXEC));
        self.row(row);
        let to = self.define(Key::Row(row));
        self.blend(to, to, result, exec);
    }

    /// `b` in the lanes of a mask, `a` in others.
    pub(super) fn blend(&mut self, to: Zmm, a: Zmm, b: impl Into<Operand>, Zmm(mask): Zmm) {
        self.a.vex(VBLENDVPS.by(mask << 4), to, a, b);
    }
}

/// A constant in all lanes, in memory.
pub(super) fn constant(value: u32) -> Operand {
    Operand::Eight([value; 8])
}
