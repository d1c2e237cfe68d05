//! Atomics of LDS and global memory, lane by lane, where all active lanes' elements are aligned, and are in range or in one span of the
//! TLB's. Everything else is left to the handler, before anything is written.
//!
//! Addresses and data are in the wave's rows in memory, which is brought up to date for that, and results go there.
//! So the code is integer code, and both back ends share it, except for the checks of lanes' addresses.

use core::mem::offset_of;

use super::asm::{Assembler, At, Condition, Element, Gpr, Integer, K0, Operand, Zmm};
use super::body::{Body, Cold, EXEC, TLB, scalar};
use super::encoding::*;
use crate::exec::di::{Di, flag};
use crate::exec::form::Form;
use crate::exec::memory::atomic::Function;
use crate::lanes::BackendKind;
use crate::mem::Tlb;
use crate::tier1::analysis::template;
use crate::tier1::x86::avx512::masks::GREATER;
use crate::tier1::x86::avx512::rows::{Pair, ROWS};

/// The lane at hand, and the active lanes from it on.
pub(crate) const LANE: Gpr = Gpr::Rsi;
const LEFT: Gpr = Gpr::Rdi;
/// Offset of its element from the base.
const PLACE: Gpr = Gpr::Rcx;
/// Old and new value; the old one is where `cmpxchg` has it.
const OLD: Gpr = Gpr::Rax;
const NEW: Gpr = Gpr::Rdx;
/// The operands.
const DATA: Gpr = Gpr::R10;
const OTHER: Gpr = Gpr::R11;
/// Address of LDS, and the host address that an element of the span would have if the low half of its address were 0.
const OF_LDS: Gpr = Gpr::R9;
const OF_SPAN: Gpr = Gpr::R8;

/// Bytes of a row.
const ROW: i32 = 128;

/// An atomic, and the first rows of its operands.
#[derive(Clone, Copy, Debug)]
struct Atomic {
    function: Function,
    wide: bool,
    data: u32,
    other: u32,
    /// First row of the old value, if that is wanted.
    result: Option<u32>,
}

/// Places of the elements of lanes.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// The row of addresses, or of their low halves, and the offset that is added to each.
    row: u32,
    offset: u32,
    base: Gpr,
    /// True if others may access them meanwhile.
    shared: bool,
}

/// The integer instruction that does a function.
fn integer(function: Function) -> Option<Integer> {
    Some(match function {
        Function::Add => Integer::Add,
        Function::Sub => Integer::Sub,
        Function::And => Integer::And,
        Function::Or => Integer::Or,
        Function::Xor => Integer::Xor,
        _ => return None,
    })
}

/// The lane at hand of a row.
pub(crate) fn of_lane(row: u32) -> Element {
    Element { base: ROWS, index: LANE, scale: 2, displacement: row as i32 * ROW }
}

impl Atomic {
    fn new((function, bits): (Function, u32), d: &Di, other: u32) -> Atomic {
        let result = (d.flags & flag::RETURN != 0).then_some(d.dst);
        Atomic { function, wide: bits == 64, data: d.src[1].value, other, result }
    }
}

impl Body<'_> {
    /// An atomic that there is code for.
    pub(crate) fn atomic(&mut self, form: Form, d: &Di) {
        let cold = match form {
            Form::LdsAtomic(function, bits) => self.lds_atomic((function, bits), d),
            Form::GlobalAtomic(function, bits) => self.global_atomic((function, bits), d),
            _ => unreachable!("only atomics"),
        };
        // What has been written is in memory alone.
        let written = template::written(form, d, self.halves);
        self.rows.forget(&written);
        self.a.stored.extend(written);
        self.come_back(cold);
    }

    fn lds_atomic(&mut self, (function, bits): (Function, u32), d: &Di) -> Cold {
        let size = bits / 8;
        let address = self.has_masks().then(|| self.register_rows(d.src[0].value));
        let cold = self.leave_from_memory();
        let done = self.a.label();
        self.leave_out_none(done);
        self.lds(size, &cold);
        match (&address, self.masked) {
            (Some(address), _) => self.leave_unless_aligned_inside(address, (d.imm, size), &cold),
            (None, true) => self.look_at_each_in_lds(d, (d.imm, size), &cold),
            (None, false) => self.leave_unless_aligned_in_lds(d, size, &cold),
        }
        let places = Places { row: d.src[0].value, offset: d.imm, base: OF_LDS, shared: false };
        let atomic = Atomic::new((function, bits), d, d.src[2].value);
        self.each_lane(|body| body.modify(&atomic, places));
        self.a.bind(done);
        cold
    }

    fn global_atomic(&mut self, (function, bits): (Function, u32), d: &Di) -> Cold {
        let size = bits / 8;
        let addresses = self.has_masks().then(|| self.addresses(d));
        let cold = self.leave_from_memory();
        let done = self.a.label();
        self.leave_out_none(done);
        // If a copy of the memory is kept, the handler has to do the atomic.
        self.a.load(Integer::Mov, true, Gpr::Rcx, TLB);
        self.a.byte_immediate(7, At(Gpr::Rcx, offset_of!(Tlb, mirrored) as i32), 0);
        self.a.jump_if(Condition::NotEqual, cold.entry);
        match (&addresses, self.masked) {
            (Some((low, high)), _) => {
                self.global_base(d, high.as_deref(), &cold);
                self.first_active(low, Zmm(0), Gpr::Rax);
                self.leave_unless_first_is_aligned(d, size, &cold);
                self.one_span(d, low, (size, true), &cold);
                for (half, chunk) in self.sixteens() {
                    self.a.evex(VPSUBD, Zmm(1), low[half as usize].chunk(chunk), Zmm(0));
                    self.unlike(VPTESTMD, Zmm(1), Operand::Constant(size - 1), (half, chunk));
                }
                self.leave_if_unlike(cold.entry);
            }
            (None, true) => self.look_at_each_in_span(d, (size, size), &cold),
            (None, false) => self.leave_unless_aligned_in_span(d, size, &cold),
        }
        // So has the host's address to be.
        self.a.integer(Integer::Mov, false, Gpr::Rcx, Gpr::Rdx);
        self.a.immediate(Integer::And, false, Gpr::Rcx, size - 1);
        self.a.jump_if(Condition::NotEqual, cold.entry);
        self.a.integer(Integer::Mov, true, OF_SPAN, Gpr::Rdx);
        self.a.integer(Integer::Sub, true, OF_SPAN, Gpr::Rax);
        let places = Places { row: d.src[0].value, offset: 0, base: OF_SPAN, shared: true };
        let atomic = Atomic::new((function, bits), d, d.src[1].value + bits / 32 * self.halves);
        self.each_lane(|body| body.modify(&atomic, places));
        self.a.bind(done);
        cold
    }

    /// Returns true if rows are in registers of the processor, and EXEC in masks.
    fn has_masks(&self) -> bool {
        self.kind == BackendKind::Avx512
    }

    /// A way out, with the rows of the element in memory as well.
    fn leave_from_memory(&mut self) -> Cold {
        self.rows.bring_to_memory(self.a, &self.touched[self.at - self.first]);
        self.leave()
    }

    /// Leaves if an element of LDS of an active lane is out of range or at an address that is no multiple of its size.
    fn leave_unless_aligned_inside(&mut self, address: &[Pair], (offset, size): (u32, u32), cold: &Cold) {
        // Addresses in units of the size: where one is no multiple, they are larger than any.
        let unit = size.trailing_zeros() as u8;
        self.a.shift_by(5, false, Gpr::R10, unit);
        self.a.everywhere(Zmm(3), Gpr::R10);
        for (half, chunk) in self.sixteens() {
            let mut from = address[half as usize].chunk(chunk);
            if offset != 0 {
                self.a.evex(VPADDD, Zmm(1), from, Operand::Constant(offset));
                from = Zmm(1);
            }
            self.a.shift(VPRORD.by(unit), Zmm(1), from, K0);
            self.unlike(VPCMPUD.by(GREATER), Zmm(1), Zmm(3), (half, chunk));
        }
        self.leave_if_unlike(cold.entry);
    }

    /// Leaves if the first lane's address is no multiple of `size` bytes: its low half is in `Rax`, its base in
    /// `Rdx`.
    pub(crate) fn leave_unless_first_is_aligned(&mut self, d: &Di, size: u32, cold: &Cold) {
        self.a.address(Gpr::Rcx, At(Gpr::Rdx, d.imm.cast_signed()));
        self.a.integer(Integer::Add, false, Gpr::Rcx, Gpr::Rax);
        self.a.immediate(Integer::And, false, Gpr::Rcx, size - 1);
        self.a.jump_if(Condition::NotEqual, cold.entry);
    }

    /// Code for each active lane, the lowest one first; there is one. `NEW` is used.
    pub(crate) fn each_lane(&mut self, f: impl FnOnce(&mut Self)) {
        let next = self.a.label();
        if self.masked {
            self.a.load(Integer::Mov, self.halves == 2, LEFT, scalar(EXEC));
            self.a.bind(next);
            self.a.lowest_bit(LANE, LEFT);
            f(self);
            self.a.address(NEW, At(LEFT, -1));
            self.a.integer(Integer::And, true, LEFT, NEW);
            self.a.jump_if(Condition::NotEqual, next);
        } else {
            self.a.immediate(Integer::Mov, false, LANE, 0);
            self.a.bind(next);
            f(self);
            self.a.immediate(Integer::Add, false, LANE, 1);
            self.a.immediate(Integer::Cmp, false, LANE, 32 * self.halves);
            self.a.jump_if(Condition::Below, next);
        }
    }

    /// The lane at hand of a register, or of two; `NEW` is used.
    fn load_lane(&mut self, wide: bool, to: Gpr, row: u32) {
        if !wide {
            return self.a.load_element(Integer::Mov, false, to, of_lane(row));
        }
        self.a.load_element(Integer::Mov, false, to, of_lane(row + self.halves));
        self.a.shift_by(4, true, to, 32);
        self.a.load_element(Integer::Mov, false, NEW, of_lane(row));
        self.a.integer(Integer::Or, true, to, NEW);
    }

    /// Emits the atomic of the lane at hand.
    fn modify(&mut self, atomic: &Atomic, places: Places) {
        let Atomic { function, wide, .. } = *atomic;
        self.load_lane(wide, DATA, atomic.data);
        if function.operands() == 2 {
            self.load_lane(wide, OTHER, atomic.other);
        }
        self.a.load_element(Integer::Mov, false, PLACE, of_lane(places.row));
        if places.offset != 0 {
            self.a.immediate(Integer::Add, false, PLACE, places.offset);
        }
        let at = Element { base: places.base, index: PLACE, scale: 0, displacement: 0 };
        if places.shared {
            self.modify_shared(atomic, at);
        } else {
            self.modify_own(atomic, at);
        }
        let Some(row) = atomic.result else { return };
        self.a.change_element(Integer::Mov, false, of_lane(row), OLD);
        if wide {
            self.a.shift_by(5, true, OLD, 32);
            self.a.change_element(Integer::Mov, false, of_lane(row + self.halves), OLD);
        }
    }

    /// An element of LDS, which only this thread accesses while the wave runs.
    fn modify_own(&mut self, atomic: &Atomic, at: Element) {
        let Atomic { function, wide, result, .. } = *atomic;
        if let (Some(op), None) = (integer(function), result) {
            return self.a.change_element(op, wide, at, DATA);
        }
        if function == Function::AddFloat {
            // A number that lanes add to one after the other stays in vector registers.
            let (load, add, store) =
                if wide { (VMOVSD_LOAD, VADDSD, VMOVSD_STORE) } else { (VMOVSS_LOAD, VADDSS, VMOVSS_STORE) };
            let in_lds = Operand::Indexed(at.base, Zmm(at.index as u8));
            if result.is_some() {
                self.a.load_element(Integer::Mov, wide, OLD, at);
            }
            self.a.vex_number(if wide { VMOVD_FROM.wide() } else { VMOVD_FROM }, 1, DATA as u8);
            self.a.vex(load, Zmm(0), Zmm(0), in_lds);
            // Of NaNs the first one is the result.
            self.a.vex(add, Zmm(0), Zmm(0), Zmm(1));
            return self.a.vex(store, Zmm(0), Zmm(0), in_lds);
        }
        self.a.load_element(Integer::Mov, wide, OLD, at);
        self.apply(atomic);
        self.a.change_element(Integer::Mov, wide, at, NEW);
    }

    /// An element of global memory, which other threads may access at the same time.
    fn modify_shared(&mut self, atomic: &Atomic, at: Element) {
        let Atomic { function, wide, result, .. } = *atomic;
        match (function, integer(function)) {
            (_, Some(op)) if result.is_none() => self.a.change_atomically(op, wide, at, DATA),
            (Function::Add, _) => {
                self.a.integer(Integer::Mov, true, OLD, DATA);
                self.a.exchange_and_add(wide, at, OLD);
            }
            (Function::Sub, _) => {
                self.a.immediate(Integer::Mov, false, OLD, 0);
                self.a.integer(Integer::Sub, wide, OLD, DATA);
                self.a.exchange_and_add(wide, at, OLD);
            }
            (Function::Exchange, _) => {
                self.a.integer(Integer::Mov, true, OLD, DATA);
                self.a.exchange(wide, at, OLD);
            }
            (Function::CompareExchange, _) => {
                self.a.integer(Integer::Mov, true, OLD, OTHER);
                self.a.compare_and_exchange(wide, at, DATA);
            }
            _ => {
                self.a.load_element(Integer::Mov, wide, OLD, at);
                let again = self.a.label();
                self.a.bind(again);
                self.apply(atomic);
                self.a.compare_and_exchange(wide, at, NEW);
                self.a.jump_if(Condition::NotEqual, again);
            }
        }
    }

    /// `NEW` from `OLD` and the operands, as [`Function::apply32`] and [`Function::apply64`] have it; operands stay.
    fn apply(&mut self, atomic: &Atomic) {
        let Atomic { function, wide, .. } = *atomic;
        let a = &mut *self.a;
        let plain = integer(function);
        let from = match function {
            Function::ReverseSub | Function::Exchange | Function::MaskOr => DATA,
            _ => OLD,
        };
        a.integer(Integer::Mov, true, NEW, from);
        // Most others take a value instead where a comparison comes out so.
        let unless = |a: &mut Assembler, op: Integer, with: Gpr, condition: Condition, instead: Gpr| {
            a.integer(op, wide, NEW, with);
            a.choose(condition, NEW, instead);
        };
        match function {
            Function::Exchange => {}
            Function::ReverseSub => a.integer(Integer::Sub, wide, NEW, OLD),
            Function::MinSigned => unless(a, Integer::Cmp, DATA, Condition::Greater, DATA),
            Function::MaxSigned => unless(a, Integer::Cmp, DATA, Condition::Less, DATA),
            Function::MinUnsigned => unless(a, Integer::Cmp, DATA, Condition::Above, DATA),
            Function::MaxUnsigned => unless(a, Integer::Cmp, DATA, Condition::Below, DATA),
            Function::ConditionalSub => unless(a, Integer::Sub, DATA, Condition::Below, OLD),
            Function::ClampedSub => {
                a.immediate(Integer::Mov, false, OTHER, 0);
                unless(a, Integer::Sub, DATA, Condition::Below, OTHER);
            }
            Function::Increment => {
                a.immediate(Integer::Mov, false, OTHER, 0);
                a.immediate(Integer::Add, wide, NEW, 1);
                a.integer(Integer::Cmp, wide, OLD, DATA);
                a.choose(Condition::AboveOrEqual, NEW, OTHER);
            }
            Function::Decrement => {
                // Of zero it is more than anything.
                a.immediate(Integer::Sub, wide, NEW, 1);
                unless(a, Integer::Cmp, DATA, Condition::AboveOrEqual, DATA);
            }
            Function::MaskOr => {
                a.not(wide, NEW);
                a.integer(Integer::And, wide, NEW, OLD);
                a.integer(Integer::Or, wide, NEW, OTHER);
            }
            Function::CompareExchange => {
                a.integer(Integer::Cmp, wide, OLD, OTHER);
                a.choose(Condition::Equal, NEW, DATA);
            }
            Function::AddFloat => {
                let (from, add, to) =
                    if wide { (VMOVD_FROM.wide(), VADDSD, VMOVQ) } else { (VMOVD_FROM, VADDSS, VMOVD) };
                a.vex_number(from, 0, OLD as u8);
                a.vex_number(from, 1, DATA as u8);
                a.vex(add, Zmm(0), Zmm(0), Zmm(1));
                a.vex_number(to, 0, NEW as u8);
            }
            _ => match plain {
                Some(op) => a.integer(op, wide, NEW, DATA),
                None => unreachable!("there is no code for {function:?}"),
            },
        }
    }
}
