//! Comparisons of sixteen lanes.

use super::masks::{DIFFERENT, SAME, float_predicate, integer_predicate};
use crate::exec::di::{Di, Source};
use crate::exec::vector::cmp::{EQUAL, GREATER, LESS, Operands};
use crate::tier1::analysis::classes::{Classes, Range, asked, classes, ranges};
use crate::tier1::x86::asm::{K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, scalar};
use crate::tier1::x86::encoding::*;

impl Body<'_> {
    /// A comparison.
    pub(crate) fn compare(&mut self, operands: Operands, d: &Di) {
        let masks = [Mask(5), Mask(6), Mask(7)];
        let keeps = self.keeps_masks();
        for half in self.parts() {
            for chunk in self.chunks() {
                let to = match keeps {
                    true => self.lane_mask(half, chunk),
                    false => masks[half as usize + usize::from(chunk)],
                };
                self.compare_lanes(operands, d, (half, chunk), to);
                if self.only.is_some() {
                    self.a.mask_at(KMOVW_STORE, to, Self::word(d.dst, half, chunk));
                }
            }
            if self.only.is_some() {
                return;
            }
            if !keeps {
                self.join(masks[half as usize], masks[half as usize + 1]);
            }
        }
        if keeps {
            self.store_masks(d.dst);
            self.keep_mask(d.dst);
        } else {
            self.a.mask(KUNPCKDQ, masks[0], masks[1], masks[0]);
            self.a.mask_at(KMOVQ_STORE, masks[0], scalar(d.dst));
        }
    }

    /// Sixteen lanes of a comparison to a mask; mask 0 is used.
    fn compare_lanes(&mut self, operands: Operands, d: &Di, (half, chunk): (u32, u8), to: Mask) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let exec = self.exec(half, chunk);
        match operands {
            Operands::U64 | Operands::I64 => self.compare_pairs(operands, d, (half, chunk), to),
            Operands::F64 => {
                for (eight, to) in [(0, to), (1, K0)] {
                    self.double_source(&d.src[0], (half, chunk, eight), t0);
                    self.double_source(&d.src[1], (half, chunk, eight), t1);
                    self.a.compare(VCMPPD.by(float_predicate(d.aux)), to, t0, t1, K0);
                }
                self.a.mask(KUNPCKBW, to, K0, to);
                if exec != K0 {
                    self.a.mask(KANDW, to, to, exec);
                }
            }
            Operands::F16 => {
                self.half_source(&d.src[0], half, chunk, t0);
                self.half_source(&d.src[1], half, chunk, t1);
                self.a.compare(VCMPPS.by(float_predicate(d.aux)), to, t0, t1, exec);
            }
            Operands::ClassF16 => {
                self.half_bits(&d.src[0], (half, chunk), t0);
                self.compare_ranges(&ranges(asked(d).unwrap_or_default(), 10, 16), t0, (to, exec));
            }
            Operands::ClassF32 => {
                let Some(Classes { bits, inverted }) = classes(d) else {
                    let a = self.register(&d.src[0], true, half, chunk, t0);
                    let ranges = ranges(asked(d).unwrap_or_default(), 23, 32);
                    return self.compare_ranges(&ranges, a, (to, exec));
                };
                let a = self.register(&d.src[0], true, half, chunk, t0);
                self.a.compare(VFPCLASSPS.by(bits), to, Zmm(0), a, exec);
                if inverted {
                    self.a.mask(KNOTW, to, Mask(0), to);
                    if exec != K0 {
                        self.a.mask(KANDW, to, to, exec);
                    }
                }
            }
            Operands::ClassF64 => {
                let Some(Classes { bits, inverted }) = classes(d) else {
                    // The high word, with a one where there are any in the low one: of the same class.
                    let high = self.high_word(&d.src[0], (half, chunk), t0);
                    self.put(t0, high, K0);
                    let (low, _) = self.wide(&d.src[0], half, chunk);
                    let low = self.reach(t1, low);
                    self.a.compare(VPTESTMD, to, low, low, K0);
                    self.a.masked(VPORD, t0, t0, Operand::Constant(1), to);
                    let ranges = ranges(asked(d).unwrap_or_default(), 20, 32);
                    return self.compare_ranges(&ranges, t0, (to, exec));
                };
                for (eight, to) in [(0, to), (1, K0)] {
                    self.double_source(&d.src[0], (half, chunk, eight), t0);
                    self.a.compare(VFPCLASSPD.by(bits), to, Zmm(0), t0, K0);
                }
                self.a.mask(KUNPCKBW, to, K0, to);
                if inverted {
                    self.a.mask(KNOTW, to, Mask(0), to);
                }
                if exec != K0 {
                    self.a.mask(KANDW, to, to, exec);
                }
            }
            Operands::U16 | Operands::I16 => {
                let [a, b] = [(0, t0), (1, t1)].map(|(n, t)| self.upper_half(&d.src[n], (half, chunk), t));
                let op = if operands == Operands::I16 { VPCMPD } else { VPCMPUD };
                self.a.compare(op.by(integer_predicate(d.aux)), to, a, b, exec);
            }
            _ => {
                let float = operands == Operands::F32;
                let op = match operands {
                    Operands::F32 => VCMPPS.by(float_predicate(d.aux)),
                    Operands::I32 => VPCMPD.by(integer_predicate(d.aux)),
                    _ => VPCMPUD.by(integer_predicate(d.aux)),
                };
                let a = self.register(&d.src[0], float, half, chunk, t0);
                let b = self.operand(&d.src[1], float, half, chunk, t1);
                self.a.compare(op, to, a, b, exec);
            }
        }
    }

    /// Numbers within one of some ranges, to a mask; mask 0 and temporary 1 are used.
    fn compare_ranges(&mut self, ranges: &[Range], a: Zmm, (to, exec): (Mask, Mask)) {
        let t1 = Zmm(1);
        if ranges.is_empty() {
            return self.a.compare(VPCMPUD.by(integer_predicate(0)), to, a, a, exec);
        }
        let at_most = VPCMPUD.by(integer_predicate(LESS | EQUAL));
        for (n, &Range { first, last }) in ranges.iter().enumerate() {
            self.a.evex(VPSUBD, t1, a, Operand::Constant(first));
            let one = if n == 0 { to } else { K0 };
            self.a.compare(at_most, one, t1, Operand::Constant(last - first), exec);
            if n > 0 {
                self.a.mask(KORW, to, to, one);
            }
        }
    }

    /// A half of a source in the upper half of a temporary, with zeros below: these are in the order of the halves.
    fn upper_half(&mut self, source: &Source, (half, chunk): (u32, u8), to: Zmm) -> Zmm {
        let from = self.register(source, false, half, chunk, to);
        if source.high {
            self.a.evex(VPANDD, to, from, Operand::Constant(0xffff_0000));
        } else {
            self.a.shift(VPSLLD.by(16), to, from, K0);
        }
        to
    }

    /// Integers of 64 bits: their high words decide unless they are the same.
    fn compare_pairs(&mut self, operands: Operands, d: &Di, (half, chunk): (u32, u8), to: Mask) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let exec = self.exec(half, chunk);
        let (low, high) = self.wide(&d.src[0], half, chunk);
        let (a_low, a_high) = (self.reach(t0, low), self.reach(t1, high));
        let (low, high) = self.wide(&d.src[1], half, chunk);
        let outcomes = d.aux & (LESS | EQUAL | GREATER);
        let signed = if operands == Operands::I64 { VPCMPD } else { VPCMPUD };
        if outcomes == 0 || outcomes == LESS | EQUAL | GREATER {
            return self.a.compare(VPCMPUD.by(integer_predicate(outcomes)), to, a_low, low, exec);
        }
        if outcomes == LESS | GREATER {
            self.a.compare(VPCMPUD.by(DIFFERENT), to, a_high, high, exec);
            self.a.compare(VPCMPUD.by(DIFFERENT), K0, a_low, low, exec);
            return self.a.mask(KORW, to, to, K0);
        }
        self.a.compare(VPCMPUD.by(SAME), to, a_high, high, exec);
        self.a.compare(VPCMPUD.by(integer_predicate(outcomes)), to, a_low, low, to);
        if outcomes != EQUAL {
            self.a.compare(signed.by(integer_predicate(outcomes & !EQUAL)), K0, a_high, high, exec);
            self.a.mask(KORW, to, to, K0);
        }
    }
}
