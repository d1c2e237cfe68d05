//! The code of one block: sources and results of elements, and the ways to their handlers.

use core::mem::offset_of;
use core::ops::Range;

use super::asm::{Assembler, At, Condition, Gpr, Integer, K0, Label, Mask, Operand, Place, Routine, Zmm};
use super::encoding::{KMOVW, VMOVDQA32, VMOVUPS_LOAD, VMOVUPS_STORE, VPANDD, VPBROADCASTD, VPXORD};
use super::stretches::{self, Elsewhere, Stretches};
use super::sums::{Product, Sums};
use super::times;
use crate::exec::compiled::known::KnownLoad;
use crate::exec::compiled::times::Counters;
use crate::exec::di::{Di, Kind, Machine, Source};
use crate::exec::form::{Form, When};
use crate::exec::waves::succession::Stretch;
use crate::lanes::BackendKind;
use crate::mem::Global;
use crate::registers::slot;
use crate::tier1::analysis::alike::{Alike, SLOTS};
use crate::tier1::analysis::recipe::Recipe;
use crate::tier1::analysis::wanted::Wanted;
use crate::tier1::scalar as scalars;
use crate::tier1::x86::avx512::rows::{Pair, Rows, in_memory};
use crate::tier1::x86::buffer::Through;
use crate::wave::Wave;

/// The wave.
pub(crate) const WAVE: Gpr = Gpr::Rbx;

/// Masks that any operation may use.
pub(crate) const SCRATCH: [Mask; 2] = [Mask(5), Mask(6)];
/// A mask of every other lane, while it is needed.
pub(crate) const ODD: Mask = Mask(7);

pub(crate) const SIGN: u32 = 0x8000_0000;

/// Room for vector registers in the frame of compiled code.
pub(crate) const SPILL: At = At(Gpr::Rsp, 0);
/// Room for a row there.
const SAVED: At = At(Gpr::Rsp, 2 * 64);
/// Place of the time at which the code was entered, if it counts.
pub(crate) const ENTERED: At = At(Gpr::Rsp, 4 * 64);
/// Offset of the findings about accesses, a dword for each; after them the frame is aligned again.
const FOUND: i32 = 4 * 64 + 8;
/// Place of the first lane's numbers of affine registers, eight bytes each.
pub(crate) const AFFINE: At = At(Gpr::Rsp, FOUND + SLOTS as i32 * 4);
/// Number of these places.
pub(crate) const AFFINE_PLACES: usize = 24;
/// Place of the stretches of accesses in loops.
pub(crate) const STRETCHES: At = At(Gpr::Rsp, AFFINE.1 + AFFINE_PLACES as i32 * 8);
/// Bytes of that frame: with them, and with the caller's registers that are kept, the stack is aligned to 16 bytes at
/// calls.
pub(crate) const FRAME: u32 = STRETCHES.1 as u32 + (stretches::PLACES * size_of::<Stretch>()) as u32;

/// Returns the place in the frame that says whether elements of accesses that lie alike follow each other.
pub(crate) fn found(slot: usize) -> At {
    At(Gpr::Rsp, FOUND + slot as i32 * 4)
}

/// A scalar register.
pub(crate) fn scalar(register: u32) -> At {
    At(WAVE, (register as i32 & 255) * 4)
}

/// Code beside the usual way: an element that its handler does after all.
pub(crate) struct Cold {
    pub(crate) entry: Label,
    pub(crate) back: Label,
    pub(crate) element: usize,
    /// Places of rows when the code is entered, and the places that they must have when it is left.
    pub(crate) before: Rows,
    pub(crate) after: Rows,
    /// A row that gets its saved content back.
    pub(crate) restores: Option<u32>,
    pub(crate) masked: bool,
    /// Instructions of the block that are not counted yet.
    pub(crate) uncounted: u32,
    /// Products whose sums are corrected; the handler is not needed then.
    pub(crate) products: Vec<Product>,
}

/// A way out, with the flow in `Rax`.
pub(crate) struct Exit {
    pub(crate) label: Label,
    pub(crate) element: usize,
    /// Instructions of the block that are not counted yet.
    pub(crate) uncounted: u32,
    /// Value for `Rax`, if it does not hold the flow yet.
    pub(crate) flow: Option<u32>,
}

/// The machine.
pub(crate) const MACHINE: Gpr = Gpr::R12;
/// Place in the machine of the address of its TLB.
pub(crate) const TLB: At =
    At(MACHINE, (offset_of!(Machine<'_>, global) + offset_of!(Global<'_>, tlb)) as i32);
/// The region's elements.
pub(crate) const ELEMENTS: Gpr = Gpr::R13;

/// Way in which handlers are called.
#[derive(Clone, Copy, Default)]
pub(crate) struct Callee<'a> {
    /// Counters that calls are counted in, if the code counts.
    pub(crate) counters: Option<&'a Counters>,
}

impl Callee<'_> {
    /// Counts an execution of a block, in code that counts; `Rax` and `Rcx` are used.
    pub(crate) fn count_block(self, a: &mut Assembler, first: usize) {
        if let Some(counters) = self.counters {
            times::begin_block(counters, a, first);
        }
    }
}

/// Masks of EXEC, for blocks of waves with inactive lanes; AVX2 has no masks.
pub(crate) fn load_exec(a: &mut Assembler, kind: BackendKind, halves: u32) {
    if kind != BackendKind::Avx512 {
        return;
    }
    for chunk in 0..halves * 2 {
        let At(base, displacement) = scalar(EXEC);
        a.mask_at(KMOVW, Mask(1 + chunk as u8), At(base, displacement + chunk as i32 * 2));
    }
}

/// Calls the handler of an element; its flow is in `Rax`, and the flags say whether the next element follows.
pub(crate) fn invoke(a: &mut Assembler, element: usize, callee: Callee<'_>) {
    a.vzeroupper();
    a.integer(Integer::Mov, true, Gpr::Rdi, WAVE);
    a.integer(Integer::Mov, true, Gpr::Rsi, MACHINE);
    a.address(Gpr::Rdx, At(ELEMENTS, (element * size_of::<Di>()) as i32));
    if let Some(counters) = callee.counters {
        times::pass(counters, a, element);
    }
    let routine = if callee.counters.is_some() { Routine::InvokeCounting } else { Routine::Invoke };
    a.place(Gpr::Rax, Place::Routine(routine));
    a.call(Gpr::Rax);
    a.test(false, Gpr::Rax);
}

/// Goes to a label where a branch is not taken.
pub(crate) fn jump_unless(a: &mut Assembler, when: When, halves: u32, not_taken: Label) {
    let unless = |set: bool| if set { Condition::Equal } else { Condition::NotEqual };
    match when {
        When::Always => {}
        When::Scc(set) => {
            a.compare_immediate(false, scalar(SCC), 0);
            a.jump_if(unless(set), not_taken);
        }
        When::Vccz(zero) | When::Execz(zero) => {
            let register = if matches!(when, When::Vccz(_)) { VCC } else { EXEC };
            a.compare_immediate(halves == 2, scalar(register), 0);
            a.jump_if(unless(!zero), not_taken);
        }
    }
}

/// Some lanes of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    pub(crate) half: u32,
    /// A sixteen of that half, or both.
    pub(crate) sixteen: Option<u8>,
}

/// A block in the making: straight code in which EXEC does not change.
pub(crate) struct Body<'a> {
    pub(crate) a: &'a mut Assembler,
    pub(crate) rows: Rows,
    /// Lanes are chosen by EXEC, which is in masks 1 to 4; otherwise all are active.
    pub(crate) masked: bool,
    /// Host instructions that the code uses.
    pub(crate) kind: BackendKind,
    pub(crate) halves: u32,
    /// The only lanes that elements are done for, if not for all.
    pub(crate) only: Option<Lanes>,
    /// The descriptor of the access at hand, or that its address may be in another memory.
    pub(crate) through: Option<Through>,
    /// Sums of the run at hand that are looked at behind it.
    pub(crate) sums: Sums,
    /// A row that ways to the handler restore, as the element has changed it.
    pub(crate) restores: Option<u32>,
    /// Rows of each element from this block's first on.
    pub(crate) touched: &'a [Vec<u32>],
    /// Readers of the mask that an element writes, and accesses that lie alike, for each element from this block's
    /// first on.
    pub(crate) wanted: &'a [Wanted],
    pub(crate) alike: &'a [Option<Alike>],
    /// Guessed distance of neighbouring lanes' addresses for loads from LDS, for each element of the region.
    pub(crate) steps: &'a [Option<u32>],
    /// A lane mask whose sixteens are in [`SCRATCH`] as well as in its scalar register, and the element that finds it there.
    pub(crate) kept_mask: Option<(u32, usize)>,
    /// The element at hand.
    pub(crate) at: usize,
    pub(crate) first: usize,
    /// Instructions of the block up to that one.
    pub(crate) uncounted: u32,
    pub(crate) cold: &'a mut Vec<Cold>,
    pub(crate) exits: &'a mut Vec<Exit>,
    pub(crate) callee: Callee<'a>,
    /// Accesses that look where they were last, and code for when they are elsewhere.
    pub(crate) stretches: &'a Stretches,
    pub(crate) elsewhere: &'a mut Vec<Elsewhere>,
    /// Loads whose values are known there.
    pub(crate) known: &'a [KnownLoad],
}

impl Body<'_> {
    /// The halves of the wave that elements are done for.
    pub(crate) fn parts(&self) -> Range<u32> {
        self.only.map_or(0..self.halves, |only| only.half..only.half + 1)
    }

    /// The sixteens of a half that elements are done for.
    pub(crate) fn chunks(&self) -> Range<u8> {
        self.only.and_then(|only| only.sixteen).map_or(0..2, |chunk| chunk..chunk + 1)
    }

    /// An element after which the next one follows, and which leaves EXEC alone.
    pub(crate) fn straight(&mut self, form: Form, d: &Di) {
        match form {
            Form::Vector(op) => self.vector(op, d),
            Form::Pair(x, y) => self.pair((x, y), d),
            Form::Carry(op) => self.carry(op, d),
            Form::Compare(operands) => self.compare(operands, d),
            Form::Select => self.select(d),
            Form::SelectHalf => self.select_half(d),
            Form::Swap => self.swap(d),
            Form::Saturating(op) => self.saturating(op, d),
            Form::Packed(op) => self.packed(op, d),
            Form::Mixed(narrows) => self.mixed(narrows, d),
            Form::Keep => self.keep(d),
            Form::Part => self.whole_recipe(Recipe::part(), d),
            Form::Scalar(op) => scalars::emit(self.a, op, d),
            Form::BackwardPermute => self.backward_permute(d),
            Form::Swizzle => self.swizzle(d),
            Form::PermuteRow { other } => self.permute_row(other, d),
            Form::CountBelow { high } => self.count_below(high, d),
            Form::ReadLane => self.read_lane(d),
            Form::ReadFirstLane => self.read_first_lane(d),
            Form::WriteLane => self.write_lane(d),
            Form::GlobalLoad(moves) | Form::FlatLoad(moves) | Form::BufferLoad(moves) => {
                let plain = self.global_element(form, moves, d);
                self.global_load(moves, &plain);
                self.through = None;
            }
            Form::GlobalStore(moves) | Form::FlatStore(moves) | Form::BufferStore(moves) => {
                let plain = self.global_element(form, moves, d);
                self.global_store(moves, &plain);
                self.through = None;
            }
            Form::LdsLoad(moves) => self.lds_load(moves, d),
            Form::LdsStore(moves) => self.lds_store(moves, d),
            Form::LdsLoadTwo(dwords) => self.lds_load_two(dwords, d),
            Form::LdsStoreTwo(dwords) => self.lds_store_two(dwords, d),
            Form::LdsAtomic(..) | Form::GlobalAtomic(..) => self.atomic(form, d),
            Form::ScalarLoad(dwords) => self.scalar_load(dwords, d),
            Form::Look => self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, looked) as i32), 1),
            Form::Call
            | Form::Permute(_)
            | Form::ExecMask { .. }
            | Form::RestoreExec
            | Form::End
            | Form::Barrier
            | Form::Branch(_) => unreachable!("a block has its own way with these"),
        }
    }

    pub(crate) fn load_row(&mut self, row: u32) -> Pair {
        let later = &self.touched[self.at - self.first + 1..];
        self.rows.load(self.a, row, distance(later))
    }

    /// The place of a row that is written.
    pub(crate) fn define(&mut self, row: u32) -> Pair {
        let later = &self.touched[self.at - self.first + 1..];
        self.rows.define(self.a, row, self.masked, distance(later))
    }

    /// Loads the rows of the first `count` sources, before a place is made for the result: it may be one of them.
    pub(crate) fn load_sources(&mut self, d: &Di, count: usize, half: u32) {
        for source in &d.src[..count] {
            if source.kind == Kind::Vector {
                self.load_row(source.value + half);
            }
        }
    }

    /// Lanes of a chunk that are written.
    pub(crate) fn exec(&self, half: u32, chunk: u8) -> Mask {
        if self.masked { Mask(1 + half as u8 * 2 + chunk) } else { K0 }
    }

    fn is_modified(source: &Source, float: bool) -> bool {
        float && (source.neg || source.abs)
    }

    /// A source as the last operand of an instruction; `temporary` is for one that has to be made.
    pub(crate) fn operand(
        &mut self,
        source: &Source,
        float: bool,
        half: u32,
        chunk: u8,
        temporary: Zmm,
    ) -> Operand {
        if Self::is_modified(source, float) {
            return self.register(source, float, half, chunk, temporary).into();
        }
        match source.kind {
            Kind::Vector => self.load_row(source.value + half).chunk(chunk).into(),
            Kind::Scalar => Operand::Splat(scalar(source.value)),
            _ => Operand::Constant(source.value),
        }
    }

    /// A source in a register.
    pub(crate) fn register(
        &mut self,
        source: &Source,
        float: bool,
        half: u32,
        chunk: u8,
        temporary: Zmm,
    ) -> Zmm {
        let plain = match source.kind {
            Kind::Vector => self.load_row(source.value + half).chunk(chunk),
            Kind::Scalar => {
                self.a.evex(VPBROADCASTD, temporary, Zmm(0), Operand::Splat(scalar(source.value)));
                temporary
            }
            _ => {
                self.a.evex(VPBROADCASTD, temporary, Zmm(0), Operand::Constant(source.value));
                temporary
            }
        };
        if !Self::is_modified(source, float) {
            return plain;
        }
        let mut from = plain;
        if source.abs {
            self.a.evex(VPANDD, temporary, from, Operand::Constant(!SIGN));
            from = temporary;
        }
        if source.neg {
            self.a.evex(VPXORD, temporary, from, Operand::Constant(SIGN));
        }
        temporary
    }

    /// Copies a result to its place, for the active lanes.
    pub(crate) fn put(&mut self, to: Zmm, from: Zmm, mask: Mask) {
        if to != from {
            self.a.masked(VMOVDQA32, to, Zmm(0), from, mask);
        }
    }

    /// Saves the row of the first half of a register that the handler reads, before it is written.
    pub(crate) fn save(&mut self, row: u32) {
        let pair = self.load_row(row);
        for chunk in 0..2 {
            self.a.evex(VMOVUPS_STORE, pair.chunk(chunk), Zmm(0), saved(chunk));
        }
        self.restores = Some(row);
    }

    /// A way out to the handler. Nothing that it reads may be written before its last use.
    pub(crate) fn leave(&mut self) -> Cold {
        let (entry, back) = (self.a.label(), self.a.label());
        Cold {
            entry,
            back,
            element: self.at,
            before: self.rows.clone(),
            after: Rows::default(),
            restores: self.restores,
            masked: self.masked,
            uncounted: self.uncounted,
            products: Vec::new(),
        }
    }

    /// The element by its handler, which leaves EXEC alone.
    pub(crate) fn by_handler(&mut self) {
        self.rows.flush(self.a);
        self.a.stored.extend(&self.touched[self.at - self.first]);
        self.stretches.forget(self.a);
        invoke(self.a, self.at, self.callee);
        let label = self.a.label();
        self.exits.push(Exit { label, element: self.at, uncounted: self.uncounted, flow: None });
        self.a.jump_if(Condition::NotEqual, label);
        if self.masked {
            load_exec(self.a, self.kind, self.halves);
        }
    }

    /// Ends a wave: brings memory up to date, unless the machine says that its registers are not read any more.
    pub(crate) fn forget(&mut self) {
        if self.rows.is_clean() {
            return;
        }
        let unseen = self.a.label();
        self.a.byte_immediate(7, At(MACHINE, offset_of!(Machine<'_>, forgets_ended) as i32), 0);
        self.a.jump_if(Condition::NotEqual, unseen);
        let stored = self.a.stored.len();
        self.rows.flush(self.a);
        self.a.stored.truncate(stored);
        self.a.bind(unseen);
    }

    pub(crate) fn come_back(&mut self, mut cold: Cold) {
        cold.after = self.rows.clone();
        self.a.bind(cold.back);
        self.cold.push(cold);
    }
}

fn saved(chunk: u8) -> Operand {
    Operand::Memory(At(SAVED.0, SAVED.1 + i32::from(chunk) * 64))
}

/// Brings a row to memory as it was saved.
pub(crate) fn restore(a: &mut Assembler, row: u32) {
    for chunk in 0..2 {
        a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), saved(chunk));
        a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(in_memory(row, chunk)));
    }
}

fn distance(later: &[Vec<u32>]) -> impl Fn(u32) -> u32 + use<'_> {
    move |row| {
        let found = later.iter().take(64).position(|rows| rows.contains(&row));
        found.map_or(u32::MAX, |distance| distance as u32)
    }
}

/// Register number of `VCC`, for a branch.
pub(crate) const VCC: u32 = slot::VCC as u32;
/// Register number of `EXEC`.
pub(crate) const EXEC: u32 = slot::EXEC as u32;
/// Register number of `SCC`.
pub(crate) const SCC: u32 = slot::SCC as u32;
