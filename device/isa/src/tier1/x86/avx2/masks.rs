//! Operations that write or read masks of lanes: comparisons, selects, carries.

use crate::exec::di::{Di, Kind, flag};
use crate::inst::Op;
use crate::registers::slot;
use crate::tier1::analysis::template::{is_product, takes_carry};
use crate::tier1::x86::asm::{Gpr, Zmm};
use crate::tier1::x86::body::EXEC;
use crate::tier1::x86::encoding::*;

use super::cache::Key;
use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

impl Pass<'_> {
    /// Writes a mask to its scalar register, with zeros for inactive lanes. A vector register keeps it for elements that read it.
    pub(super) fn write_mask(&mut self, register: u32, from: Zmm) {
        if self.masked {
            let exec = self.load(Key::Mask(EXEC));
            let to = self.define(Key::Mask(register));
            self.a.vex(VPANDD, to, from, exec);
        } else {
            let to = self.define(Key::Mask(register));
            self.put(to, from);
        }
        let to = self.define(Key::Mask(register));
        self.a.vex_number(VMOVMSKPS, Gpr::Rax as u8, to.0);
        let at = self.cache.lanes.mask(register);
        self.a.store_al(at);
    }

    pub(super) fn invert(&mut self, value: Zmm) {
        self.a.vex(VPXORD, value, value, constant(u32::MAX));
    }

    /// `v_cndmask_b32`.
    pub(super) fn select(&mut self, d: &Di) {
        let [t0, t1, _, _] = T;
        let mask = self.load(Key::Mask(d.src[2].value));
        let a = self.register(&d.src[0], true, t0);
        let b = self.operand(&d.src[1], true, t1);
        let to = self.result(d.dst);
        self.blend(to, a, b, mask);
        self.finish(d.dst, to);
    }

    /// `v_cndmask_b16`.
    pub(super) fn select_half(&mut self, d: &Di) {
        let [t0, t1, _, _] = T;
        self.half_bits(&d.src[0], t0);
        self.half_bits(&d.src[1], t1);
        let mask = self.load(Key::Mask(d.src[2].value));
        self.blend(t0, t0, t1, mask);
        self.put_halves(d.dst, t0, d.flags & flag::DST_HIGH != 0);
    }

    /// `v_swap_b32`.
    pub(super) fn swap(&mut self, d: &Di) {
        let rows = [d.dst, d.src[0].value];
        let [a, b] = rows.map(|row| self.row(row));
        self.put(T[0], a);
        self.put(T[1], b);
        self.finish(rows[0], T[1]);
        self.finish(rows[1], T[0]);
    }

    /// A sum, difference or product with carry.
    pub(super) fn carry(&mut self, op: Op, d: &Di) {
        if is_product(op) {
            return self.multiply_add(op == Op::V_MAD_I64_I32, d);
        }
        let [t0, t1, t2, t3] = T;
        let (swap, subtract) = match op {
            Op::V_SUBREV_CO_U32 | Op::V_SUBREV_CO_CI_U32 => (true, true),
            Op::V_SUB_CO_U32 | Op::V_SUB_CO_CI_U32 => (false, true),
            _ => (false, false),
        };
        let (first, second) = if swap { (1, 0) } else { (0, 1) };
        let mask_in = takes_carry(op).then(|| self.load(Key::Mask(d.imm)));
        let a = self.register(&d.src[first], false, t0);
        let b = self.operand(&d.src[second], false, t1);
        self.a.vex(if subtract { VPSUBD } else { VPADDD }, t2, a, b);
        if let Some(mask) = mask_in {
            // All bits are one less.
            self.a.vex(if subtract { VPADDD } else { VPSUBD }, t2, t2, mask);
        }
        let writes = d.dst2 != slot::DUMP as u32;
        if writes {
            // A carry is where the sum is less than a source, a borrow where one source is less than the other; with a carry or a
            // borrow from before, also where they are equal.
            let (other, larger) = if subtract { (b, a) } else { (t2.into(), t2) };
            self.a.vex(VPMAXUD, t3, a, other);
            self.a.vex(VPCMPEQD, t3, t3, larger);
            self.invert(t3);
            if let Some(mask) = mask_in {
                self.a.vex(VPCMPEQD, t1, a, other);
                self.a.vex(VPANDD, t1, t1, mask);
                self.a.vex(VPORD, t3, t3, t1);
            }
        }
        self.finish(d.dst, t2);
        if writes {
            self.write_mask(d.dst2, t3);
        }
    }

    /// A product that is added.
    fn multiply_add(&mut self, is_signed: bool, d: &Di) {
        let [t0, t1, t2, t3] = T;
        self.products(d);
        if is_signed {
            self.subtract_signs(d);
        }
        let writes = d.dst2 != slot::DUMP as u32;
        let adds = matches!(d.src[2].kind, Kind::Vector | Kind::Scalar) || d.src[2].value != 0;
        if !adds {
            self.finish_pair(d, t0, t1);
            if writes {
                // A product alone never carries.
                self.a.vex(VPXORD, t3, t3, t3);
                self.write_mask(d.dst2, t3);
            }
            return;
        }
        let [low, high] = self.wide(&d.src[2]);
        self.a.vex(VPADDD, t2, t0, low);
        // All bits where the low words do not carry, which is one less. The high word of a product has room for it.
        self.a.vex(VPMAXUD, t3, t2, t0);
        self.a.vex(VPCMPEQD, t3, t3, t2);
        self.a.vex(VPADDD, t1, t1, t3);
        self.a.vex(VPADDD, t1, t1, constant(1));
        self.a.vex(VPADDD, t0, t1, high);
        if writes && is_signed {
            // The sum's sign is neither that of the product nor that of what is added.
            self.a.vex(VPXORD, t3, t0, t1);
            self.a.vex(VPXORD, t1, t0, high);
            self.a.vex(VPANDD, t3, t3, t1);
            self.a.vex_shift(VPSRAD.by(31), t3, t3);
        } else if writes {
            self.a.vex(VPMAXUD, t3, t0, t1);
            self.a.vex(VPCMPEQD, t3, t3, t0);
            self.invert(t3);
        }
        self.finish_pair(d, t2, t0);
        if writes {
            self.write_mask(d.dst2, t3);
        }
    }
}
