//! Operations that write or read masks of lanes: comparisons, selects, carries.

use crate::exec::di::{Di, Kind, Source, flag};
use crate::inst::Op;
use crate::registers::slot;
use crate::tier1::analysis::template::{is_division, is_product, takes_carry};
use crate::tier1::analysis::wanted::Wanted;
use crate::tier1::x86::asm::{At, Gpr, Integer, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, ODD, SCRATCH, scalar};
use crate::tier1::x86::encoding::*;

/// Predicates of `vpcmpd` and `vcmpps`.
pub(crate) const SAME: u8 = 0;
pub(crate) const LESS: u8 = 1;
pub(crate) const DIFFERENT: u8 = 4;
pub(crate) const GREATER: u8 = 6;
pub(crate) const EQUAL: u8 = 0;
pub(crate) const UNORDERED: u8 = 3;
/// Not less, or unordered; a quiet NaN does not signal.
pub(crate) const NOT_LESS: u8 = 0x15;

/// The predicate of integers for the outcomes less, equal and greater.
pub(super) fn integer_predicate(outcomes: u8) -> u8 {
    [3, 1, 0, 2, 6, 4, 5, 7][usize::from(outcomes & 7)]
}

/// The predicate of singles, none of which signals for a quiet NaN, for these and unordered.
pub(crate) fn float_predicate(outcomes: u8) -> u8 {
    const PREDICATES: [u8; 16] =
        [0x0b, 0x11, 0x00, 0x12, 0x1e, 0x0c, 0x1d, 0x07, 0x03, 0x19, 0x08, 0x1a, 0x16, 0x04, 0x15, 0x0f];
    PREDICATES[usize::from(outcomes & 15)]
}

impl Body<'_> {
    /// Joins the masks of two chunks in the first one.
    pub(super) fn join(&mut self, low: Mask, high: Mask) {
        self.a.mask(KUNPCKWD, low, high, low);
    }

    /// Returns the place of the bits of sixteen lanes of a mask in a scalar register.
    pub(super) fn word(register: u32, half: u32, chunk: u8) -> At {
        let At(base, displacement) = scalar(register + half);
        At(base, displacement + i32::from(chunk) * 2)
    }

    /// Returns true if the next element can have the masks of all sixteens: four more mask registers are free if EXEC
    /// has none.
    pub(super) fn keeps_masks(&self) -> bool {
        self.only.is_none() && (self.halves == 1 || !self.masked)
    }

    /// Returns the mask register that has the mask of a sixteen for the next element.
    pub(super) fn lane_mask(&self, half: u32, chunk: u8) -> Mask {
        if self.halves == 1 || self.masked {
            SCRATCH[usize::from(chunk)]
        } else {
            Mask(1 + half as u8 * 2 + chunk)
        }
    }

    /// Brings the masks of all sixteens to a scalar register; those of a wave of 32 lanes are joined in the first one.
    pub(super) fn store_masks(&mut self, register: u32) {
        let [all, upper] = SCRATCH;
        if self.halves == 1 {
            self.join(all, upper);
            return self.a.mask_at(KMOVD_STORE, all, scalar(register));
        }
        self.a.mask(KUNPCKWD, all, self.lane_mask(0, 1), self.lane_mask(0, 0));
        self.a.mask(KUNPCKWD, upper, self.lane_mask(1, 1), self.lane_mask(1, 0));
        self.a.mask(KUNPCKDQ, all, upper, all);
        self.a.mask_at(KMOVQ_STORE, all, scalar(register));
    }

    /// Leaves the masks of a wave's sixteens to the next element.
    pub(super) fn keep_mask(&mut self, register: u32) {
        self.kept_mask = Some((register, self.at + 1));
    }

    /// Returns true if the element before has left the mask of a scalar register: from memory it would come many
    /// cycles later.
    fn finds_mask(&self, register: u32) -> bool {
        self.kept_mask == Some((register, self.at)) && self.keeps_masks()
    }

    /// `v_cndmask_b32`.
    pub(crate) fn select(&mut self, d: &Di) {
        let is_kept = self.finds_mask(d.src[2].value);
        for half in self.parts() {
            self.load_sources(d, 2, half);
            let pair = self.define(d.dst + half);
            for chunk in self.chunks() {
                let k = if is_kept { self.lane_mask(half, chunk) } else { SCRATCH[0] };
                if !is_kept {
                    self.a.mask_at(KMOVW, k, Self::word(d.src[2].value, half, chunk));
                }
                let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
                let b = self.operand(&d.src[1], true, half, chunk, Zmm(1));
                let (to, mask) = (pair.chunk(chunk), self.exec(half, chunk));
                if mask == K0 {
                    self.a.masked(VPBLENDMD, to, a, b, k);
                } else {
                    self.a.masked(VPBLENDMD, Zmm(2), a, b, k);
                    self.put(to, Zmm(2), mask);
                }
            }
        }
        if is_kept {
            self.keep_mask(d.src[2].value);
        }
    }

    /// `v_cndmask_b16`.
    pub(crate) fn select_half(&mut self, d: &Di) {
        let (t0, t1, k) = (Zmm(0), Zmm(1), SCRATCH[0]);
        for half in self.parts() {
            self.rows.unlock();
            self.load_sources(d, 2, half);
            self.load_row(d.dst + half);
            let to = self.define(d.dst + half);
            for chunk in self.chunks() {
                self.a.mask_at(KMOVW, k, Self::word(d.src[2].value, half, chunk));
                for (source, t) in d.src[..2].iter().zip([t0, t1]) {
                    self.half_bits(source, (half, chunk), t);
                }
                self.a.masked(VPBLENDMD, t0, t0, t1, k);
                let mask = self.exec(half, chunk);
                self.put_halves(to.chunk(chunk), t0, d.flags & flag::DST_HIGH != 0, mask);
            }
        }
    }

    /// `v_swap_b32`.
    pub(crate) fn swap(&mut self, d: &Di) {
        for half in self.parts() {
            self.rows.unlock();
            let rows = [d.dst, d.src[0].value].map(|row| row + half);
            rows.iter().for_each(|&row| _ = self.load_row(row));
            let [a, b] = rows.map(|row| self.define(row));
            for chunk in self.chunks() {
                let mask = self.exec(half, chunk);
                self.put(Zmm(0), a.chunk(chunk), K0);
                self.put(a.chunk(chunk), b.chunk(chunk), mask);
                self.put(b.chunk(chunk), Zmm(0), mask);
            }
        }
    }

    /// Returns the readers of the mask of carries that the element at hand writes.
    fn wanted_mask(&self, d: &Di) -> Wanted {
        if d.dst2 == slot::DUMP as u32 {
            return Wanted::ByNobody;
        }
        match self.wanted[self.at - self.first] {
            // Of some lanes after the others it is always in memory.
            _ if self.only.is_some() => Wanted::InMemory,
            Wanted::ByNext if !self.keeps_masks() => Wanted::InMemory,
            wanted => wanted,
        }
    }

    /// A sum, difference or product with carry.
    pub(crate) fn carry(&mut self, op: Op, d: &Di) {
        if is_division(op) {
            return self.division(op, d);
        }
        let wide = is_product(op);
        let out = d.dst2 != slot::DUMP as u32;
        let wanted = self.wanted_mask(d);
        for half in self.parts() {
            self.load_sources(d, if wide { 3 } else { 2 }, half);
            for chunk in self.chunks() {
                if wide {
                    self.multiply_add(op, d, half, chunk);
                } else {
                    self.add_or_subtract(op, d, half, chunk);
                }
            }
        }
        if !out || wanted == Wanted::ByNobody || self.only.is_some() {
            return;
        }
        // After both halves: it may be the mask in.
        if wide || !self.keeps_masks() {
            return self.a.store(self.halves == 2, scalar(d.dst2), Gpr::Rdx);
        }
        if wanted == Wanted::InMemory {
            self.store_masks(d.dst2);
        }
        self.keep_mask(d.dst2);
    }

    /// Brings the mask of a sixteen to its place in a scalar register, if these lanes are the only ones at hand; otherwise keeps it in
    /// `Rdx`, after those before it.
    fn mask_out(&mut self, out: Mask, d: &Di, (half, chunk): (u32, u8)) {
        if self.only.is_none() {
            self.collect(out, half, chunk);
        } else if d.dst2 != slot::DUMP as u32 {
            self.a.mask_at(KMOVW_STORE, out, Self::word(d.dst2, half, chunk));
        }
    }

    /// Keeps the mask of a sixteen in `Rdx`, after those before it.
    pub(crate) fn collect(&mut self, out: Mask, half: u32, chunk: u8) {
        let sixteen = half as u8 * 2 + chunk;
        let number = if sixteen == 0 { Gpr::Rdx } else { Gpr::Rax };
        self.a.mask_to(number, out);
        if sixteen > 0 {
            self.a.shift_by(4, true, Gpr::Rax, sixteen * 16);
            self.a.integer(Integer::Or, true, Gpr::Rdx, Gpr::Rax);
        }
    }

    /// Sixteen lanes of a product that is added.
    fn multiply_add(&mut self, op: Op, d: &Di, half: u32, chunk: u8) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let mask = self.exec(half, chunk);
        self.products(d, half, chunk);
        let is_signed = op == Op::V_MAD_I64_I32;
        if is_signed {
            self.subtract_signs(d, half, chunk);
        }
        let (low, high) = self.wide(&d.src[2], half, chunk);
        self.a.evex(VPADDD, t2, t0, low);
        self.a.compare(VPCMPUD.by(LESS), ODD, t2, t0, K0);
        self.a.evex(VPADDD, t3, t1, high);
        let ([out, wraps], has_out) = (SCRATCH, d.dst2 != slot::DUMP as u32);
        if has_out && !is_signed {
            self.a.compare(VPCMPUD.by(LESS), out, t3, t1, mask);
        }
        self.a.masked(VPADDD, t3, t3, Operand::Constant(1), ODD);
        if has_out && is_signed {
            // The sum's sign is neither that of the product nor that of what is added.
            self.a.evex(VPXORD, t0, t3, high);
            self.a.evex(VPXORD, t1, t3, t1);
            self.a.evex(VPANDD, t0, t0, t1);
            self.a.compare(VPCMPD.by(LESS), out, t0, Operand::Constant(0), mask);
            self.mask_out(out, d, (half, chunk));
        } else if has_out {
            // What the carry of the low words wraps.
            self.a.compare(VPCMPUD.by(SAME), wraps, t3, Operand::Constant(0), ODD);
            if mask != K0 {
                self.a.mask(KANDW, wraps, wraps, mask);
            }
            self.a.mask(KORW, out, out, wraps);
            self.mask_out(out, d, (half, chunk));
        }
        let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
        self.put(to_low.chunk(chunk), t2, mask);
        self.put(to_high.chunk(chunk), t3, mask);
    }

    /// The carries of a sixteen that a sum takes, which are in [`ODD`] then, or in the place of the carries out if there will be none.
    fn carry_in(&mut self, d: &Di, out: Mask, is_out_wanted: bool, (half, chunk): (u32, u8)) -> Mask {
        if !self.finds_mask(d.imm) {
            self.a.mask_at(KMOVW, ODD, Self::word(d.imm, half, chunk));
        } else if is_out_wanted {
            // Before the carries out.
            self.a.mask(KORW, ODD, out, out);
        } else {
            return out;
        }
        ODD
    }

    /// Sixteen lanes of a sum or difference; its carries are in a mask of the chunk's, or of a wave with two halves in `Rdx`.
    fn add_or_subtract(&mut self, op: Op, d: &Di, half: u32, chunk: u8) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let mask = self.exec(half, chunk);
        let (one, keeps) = (self.halves == 1, self.keeps_masks());
        let out = if one || keeps { self.lane_mask(half, chunk) } else { SCRATCH[0] };
        let carries = takes_carry(op);
        if !self.masked && matches!(op, Op::V_ADD_CO_U32 | Op::V_ADD_CO_CI_U32) {
            let is_wanted = self.wanted_mask(d) != Wanted::ByNobody;
            let carry_in = carries.then(|| self.carry_in(d, out, is_wanted, (half, chunk)));
            self.sum(d, (half, chunk), carry_in, is_wanted.then_some(out));
            if is_wanted && !keeps {
                self.mask_out(out, d, (half, chunk));
            }
            return;
        }
        let (swap, subtract) = match op {
            Op::V_SUBREV_CO_U32 | Op::V_SUBREV_CO_CI_U32 => (true, true),
            Op::V_SUB_CO_U32 | Op::V_SUB_CO_CI_U32 => (false, true),
            _ => (false, false),
        };
        let (first, second) = if swap { (1, 0) } else { (0, 1) };
        let a = self.register(&d.src[first], false, half, chunk, t0);
        let b = self.operand(&d.src[second], false, half, chunk, t1);
        if carries {
            self.carry_in(d, out, true, (half, chunk));
        }
        self.a.evex(if subtract { VPSUBD } else { VPADDD }, t2, a, b);
        // A carry is where the sum is less than a source, a borrow where one source is less than the other.
        if subtract {
            self.a.compare(VPCMPUD.by(LESS), out, a, b, mask);
        } else {
            self.a.compare(VPCMPUD.by(LESS), out, t2, a, mask);
        }
        if carries {
            let limit = if subtract { 0 } else { u32::MAX };
            self.a.evex(VPBROADCASTD, t3, Zmm(0), Operand::Constant(limit));
            // What the carry wraps.
            let wraps = match (one, self.masked) {
                (false, _) => SCRATCH[1],
                (true, true) => Mask(3),
                (true, false) => Mask(1),
            };
            self.a.compare(VPCMPUD.by(SAME), wraps, t2, t3, ODD);
            if mask != K0 {
                self.a.mask(KANDW, wraps, wraps, mask);
            }
            self.a.mask(KORW, out, out, wraps);
            let op = if subtract { VPSUBD } else { VPADDD };
            self.a.masked(op, t2, t2, Operand::Constant(1), ODD);
        }
        let to = self.define(d.dst + half).chunk(chunk);
        self.put(to, t2, mask);
        if !keeps {
            self.mask_out(out, d, (half, chunk));
        }
    }

    /// Sixteen lanes of a sum where all lanes are active: to its place at once, and its carries to `out`, if a later
    /// element reads them.
    fn sum(&mut self, d: &Di, (half, chunk): (u32, u8), carry_in: Option<Mask>, out: Option<Mask>) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let (first, second) = if d.src[0].kind == Kind::Vector { (0, 1) } else { (1, 0) };
        let a = self.register(&d.src[first], false, half, chunk, t0);
        let mut b = self.operand(&d.src[second], false, half, chunk, t1);
        let to = self.define(d.dst + half).chunk(chunk);
        if b == Operand::Register(to) && a == to {
            self.put(t1, a, K0);
            b = t1.into();
        }
        self.a.evex(VPADDD, to, a, b);
        if let Some(out) = out {
            // A carry is where the sum is less than a source: than one that is still there.
            let source = if b == Operand::Register(to) { a.into() } else { b };
            self.a.compare(VPCMPUD.by(LESS), out, to, source, K0);
        }
        let Some(carry_in) = carry_in else { return };
        if let Some(out) = out {
            // What the carry wraps.
            let wraps = if self.halves == 1 { Mask(1) } else { SCRATCH[1] };
            self.a.compare(VPCMPUD.by(SAME), wraps, to, Operand::Constant(u32::MAX), carry_in);
            self.a.mask(KORW, out, out, wraps);
        }
        self.a.masked(VPADDD, to, to, Operand::Constant(1), carry_in);
    }

    /// Both words of a source of 64 bits.
    pub(crate) fn wide(&mut self, source: &Source, half: u32, chunk: u8) -> (Operand, Operand) {
        match source.kind {
            Kind::Vector => {
                let low = self.load_row(source.value + half).chunk(chunk);
                let high = self.load_row(source.value + self.halves + half).chunk(chunk);
                (low.into(), high.into())
            }
            Kind::Scalar => {
                let At(base, displacement) = scalar(source.value);
                (Operand::Splat(At(base, displacement)), Operand::Splat(At(base, displacement + 4)))
            }
            Kind::Signed => {
                let high = if source.value >> 31 != 0 { u32::MAX } else { 0 };
                (Operand::Constant(source.value), Operand::Constant(high))
            }
            Kind::High => (Operand::Constant(0), Operand::Constant(source.value)),
            Kind::Constant => (Operand::Constant(source.value), Operand::Constant(0)),
        }
    }
}
