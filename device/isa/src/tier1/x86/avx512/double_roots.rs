//! `v_rcp_f64`, `v_rsq_f64` and `v_sqrt_f64` of usual numbers, in integers of 64 bits, as the definitions have them
//! (`exec/vector/double_roots.rs`).
//!
//! A number's digits are a part, which chooses four terms, and a place in it. Tables of terms are constants of the code, of which
//! `vpermi2d` takes those of eight lanes.

use super::guarded::AT_LEAST;
use super::masks::{DIFFERENT, SAME};
use crate::exec::di::Di;
use crate::exec::vector::reciprocal::{numbers, root_numbers};
use crate::exec::vector::root;
use crate::tier1::analysis::template::DoubleRoot;
use crate::tier1::x86::asm::{At, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, ODD, SCRATCH, SPILL};
use crate::tier1::x86::encoding::*;

/// Bits of a double's fraction, and of the high word's part of it.
const FRACTION: u64 = (1 << 52) - 1;
const HIGH_FRACTION: u32 = (1 << 20) - 1;
/// The unit of exponents in a high word.
const ONE: u32 = 1 << 20;
/// The exponent's bits in a high word, and exponents of normal numbers less one, or of reciprocals of normal numbers.
const EXPONENT: u32 = 0x7ff * ONE;
const NORMAL: u32 = 0x7fe * ONE;
const WITH_RECIPROCAL: u32 = 0x7fc * ONE;

/// Lanes of odd exponents.
const OF_ODD: Mask = ODD;

static OF_RECIPROCALS: [[u32; 4]; 32] = numbers::TERMS;
static OF_RECIPROCAL_ROOTS: [[u32; 4]; 64] = root_numbers::TERMS;
static OF_ROOTS: [[u32; 4]; 32] = root::TERMS;

/// Room for eight lanes: the sum so far, the number of the part, the place in it, and the first eight results.
#[derive(Clone, Copy)]
enum Kept {
    Sum,
    Part,
    Place,
    Results,
}

fn kept(of: Kept) -> Operand {
    let At(base, displacement) = SPILL;
    Operand::Memory(At(base, displacement + of as i32 * 64))
}

/// A term of thirty-two parts.
type Column = [[u32; 16]; 2];

fn column(terms: &[[u32; 4]], term: usize) -> Column {
    core::array::from_fn(|n| core::array::from_fn(|part| terms[n * 16 + part][term]))
}

/// Numbers that are different from function to function, see the definitions.
struct Numbers {
    /// Bits of the fraction below the digits.
    below: u8,
    /// Terms; where they are twice as many, the others are of odd exponents.
    even: &'static [[u32; 4]],
    odd: Option<&'static [[u32; 4]]>,
    /// Digits by which the linear term is moved down, and up again.
    down: u8,
    up: u8,
    /// Digits by which the constant, the quadratic and the cubic term are moved.
    constant: u8,
    quadratic: u8,
    cubic: u8,
    /// Digits by which the sum is moved to the fraction.
    fraction: u8,
}

impl Numbers {
    fn of(of: DoubleRoot) -> Numbers {
        match of {
            DoubleRoot::Reciprocal => Numbers {
                below: 23,
                even: &OF_RECIPROCALS,
                odd: None,
                down: 21,
                up: 6,
                constant: 9,
                quadratic: 8,
                cubic: 12,
                fraction: 18,
            },
            DoubleRoot::ReciprocalRoot => Numbers {
                below: 23,
                even: &OF_RECIPROCAL_ROOTS,
                odd: Some(&OF_RECIPROCAL_ROOTS[32..]),
                down: 21,
                up: 7,
                constant: 10,
                quadratic: 9,
                cubic: 11,
                fraction: 17,
            },
            DoubleRoot::Root => Numbers {
                below: 24,
                even: &OF_ROOTS,
                odd: None,
                down: 22,
                up: 7,
                constant: 10,
                quadratic: 8,
                cubic: 11,
                fraction: 17,
            },
        }
    }
}

impl Body<'_> {
    /// A function of doubles; those that are not usual are left to the handler.
    pub(super) fn double_roots(&mut self, of: DoubleRoot, d: &Di) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let cold = self.leave_unusual(d, 1, |body, first, lanes| {
            let exec = body.exec(lanes.0, lanes.1);
            let high = body.high_word(&d.src[0], lanes, t0);
            if of == DoubleRoot::Reciprocal {
                // Where almost all digits are set, they may all be.
                body.a.evex(VPANDD, t1, high, Operand::Constant(HIGH_FRACTION));
                body.leave_for(first, VPCMPUD.by(SAME), t1, Operand::Constant(HIGH_FRACTION), exec);
                body.a.evex(VPANDD, t0, high, Operand::Constant(EXPONENT));
                body.a.evex(VPSUBD, t0, t0, Operand::Constant(ONE));
                body.leave_for(first, VPCMPUD.by(AT_LEAST), t0, Operand::Constant(WITH_RECIPROCAL), exec);
            } else {
                // A sign is too large.
                body.a.evex(VPSUBD, t0, high, Operand::Constant(ONE));
                body.leave_for(first, VPCMPUD.by(AT_LEAST), t0, Operand::Constant(NORMAL), exec);
            }
        });
        for half in self.parts() {
            self.rows.unlock();
            self.load_pairs(d, 1, half);
            let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
            for chunk in self.chunks() {
                for eight in 0..2 {
                    self.double_source(&d.src[0], (half, chunk, eight), t0);
                    self.root_of_eight(of, &Numbers::of(of));
                    self.double_source(&d.src[0], (half, chunk, eight), t0);
                    self.root_with_exponent(of);
                    if eight == 0 {
                        self.a.evex(VMOVUPS_STORE, t1, Zmm(0), kept(Kept::Results));
                    }
                }
                self.a.evex(VMOVUPS_LOAD, t0, Zmm(0), kept(Kept::Results));
                let mask = self.exec(half, chunk);
                self.put_words([low.chunk(chunk), high.chunk(chunk)], mask);
            }
        }
        self.come_back(cold);
    }

    /// A term of the parts at hand to the low words of `to`; two temporaries are used.
    fn root_term(&mut self, of: &Numbers, term: usize, to: Zmm, [table, other]: [Zmm; 2]) {
        let mut take = |terms: &[[u32; 4]], to: Zmm| {
            let [low, high] = column(terms, term);
            self.a.evex(VMOVUPS_LOAD, to, Zmm(0), kept(Kept::Part));
            self.a.evex(VMOVUPS_LOAD, table, Zmm(0), Operand::Words(low));
            self.a.evex(VPERMI2D, to, table, Operand::Words(high));
        };
        take(of.even, to);
        if let Some(odd) = of.odd {
            take(odd, other);
            self.a.masked(VMOVDQA64, to, Zmm(0), other, OF_ODD);
        }
    }

    /// The low words of a register, moved up by some digits.
    fn raised(&mut self, to: Zmm, by: u8) {
        self.a.shift(VPSLLQ.by(32), to, to, K0);
        self.a.shift(VPSRLQ.by(32 - by), to, to, K0);
    }

    /// `from` moved down by some digits, to nearest even.
    fn lowered(&mut self, to: Zmm, from: Zmm, by: u8) {
        self.a.shift(VPSRLQ.by(by), to, from, K0);
        self.a.evex(VPANDQ, to, to, Operand::Constant64(1));
        self.a.evex(VPADDQ, to, to, from);
        self.a.evex(VPADDQ, to, to, Operand::Constant64((1 << (by - 1)) - 1));
        self.a.shift(VPSRLQ.by(by), to, to, K0);
    }

    /// Digits of the results for the doubles in temporary 0, in their places of the fraction, to temporary 1; all others are used, and the
    /// lanes with odd exponents are collected.
    fn root_of_eight(&mut self, of: DoubleRoot, numbers: &Numbers) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [k, l] = SCRATCH;
        let is_root = of == DoubleRoot::Root;
        // Exponents count from an odd number on.
        self.a.compare(VPTESTNMQ, OF_ODD, t0, Operand::Constant64(1 << 52), K0);
        self.a.evex(VPANDQ, t1, t0, Operand::Constant64(FRACTION));
        self.a.shift(VPSRLQ.by(numbers.below), t1, t1, K0);
        self.a.shift(VPSRLQ.by(24), t2, t1, K0);
        if is_root {
            // Terms of odd exponents are behind the others.
            self.a.masked(VPADDQ, t2, t2, Operand::Constant64(16), OF_ODD);
        }
        self.a.evex(VMOVUPS_STORE, t2, Zmm(0), kept(Kept::Part));
        self.a.evex(VPANDQ, t1, t1, Operand::Constant64(0xff_ffff));
        self.a.evex(VMOVUPS_STORE, t1, Zmm(0), kept(Kept::Place));
        if of == DoubleRoot::ReciprocalRoot {
            // Two bits are not looked at in the last part.
            self.a.compare(VPCMPUQ.by(SAME), k, t2, Operand::Constant64(31), K0);
            self.a.masked(VPANDQ, t1, t1, Operand::Constant64(!0x30), k);
        }
        self.root_term(numbers, 1, t3, [t0, t2]);
        self.a.evex(VPMULUDQ, t3, t3, t1);
        // What the linear term is rounded by.
        let [limit, below] = match of {
            DoubleRoot::Reciprocal => [1 << 44, 0x17_ffff],
            DoubleRoot::ReciprocalRoot => [1 << 43, 0x1b_ffff],
            DoubleRoot::Root => [1 << 45, 1 << 20],
        };
        self.a.compare(VPCMPUQ.by(AT_LEAST), k, t3, Operand::Constant64(limit), K0);
        self.a.evex(VPBROADCASTQ, t2, Zmm(0), Operand::Constant64(below));
        if of == DoubleRoot::ReciprocalRoot {
            self.a.masked(VPBROADCASTQ, t2, Zmm(0), Operand::Constant64(0x17_ffff), k);
        } else {
            self.a.shift(VPSRLQ.by(numbers.down), t0, t3, K0);
            self.a.evex(VPANDQ, t0, t0, Operand::Constant64(1));
            let half = Operand::Constant64((1 << (numbers.down - 1)) - 1);
            self.a.masked(VPADDQ, t2, t0, half, k);
        }
        self.a.evex(VPADDQ, t3, t3, t2);
        self.a.shift(VPSRLQ.by(numbers.down), t3, t3, K0);
        self.a.shift(VPSLLQ.by(numbers.up), t3, t3, K0);
        // The constant, and half a unit more but in one part: the first one, of roots the last.
        self.root_term(numbers, 0, t2, [t0, t1]);
        self.raised(t2, numbers.constant);
        self.a.evex(VMOVUPS_LOAD, t0, Zmm(0), kept(Kept::Part));
        if is_root {
            self.a.evex(VPANDQ, t0, t0, Operand::Constant64(15));
            self.a.compare(VPCMPUQ.by(DIFFERENT), l, t0, Operand::Constant64(15), K0);
        } else {
            self.a.compare(VPTESTMQ, l, t0, t0, K0);
        }
        let half = Operand::Constant64(1 << (numbers.constant - 1));
        self.a.masked(VPADDQ, t2, t2, half, l);
        self.a.evex(if is_root { VPADDQ } else { VPSUBQ }, t3, t2, t3);
        self.a.evex(VMOVUPS_STORE, t3, Zmm(0), kept(Kept::Sum));
        // The cubic term, and the quadratic one less it.
        self.root_term(numbers, 3, t0, [t1, t2]);
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(Kept::Place));
        self.a.shift(VPSRLQ.by(4), t1, t1, K0);
        self.a.evex(VPADDQ, t1, t1, Operand::Constant64(1));
        self.a.evex(VPMULUDQ, t1, t0, t1);
        self.lowered(t0, t1, numbers.cubic);
        self.root_term(numbers, 2, t1, [t2, t3]);
        self.raised(t1, numbers.quadratic);
        self.a.evex(VPSUBQ, t1, t1, t0);
        self.a.evex(VMOVUPS_LOAD, t0, Zmm(0), kept(Kept::Place));
        self.a.shift(VPSRLQ.by(7), t0, t0, K0);
        self.a.evex(VPMULUDQ, t0, t0, t0);
        self.a.shift(VPSRLQ.by(10), t0, t0, K0);
        self.a.evex(VPMULUDQ, t0, t0, t1);
        // To 24 digits.
        self.a.compare(VPCMPUQ.by(AT_LEAST), k, t0, Operand::Constant64(1 << 47), K0);
        self.lowered(t1, t0, 23);
        self.lowered(t2, t0, 24);
        self.a.shift(VPSLLQ.by(1), t1, t2, k);
        self.a.evex(VMOVUPS_LOAD, t0, Zmm(0), kept(Kept::Sum));
        self.a.evex(if is_root { VPSUBQ } else { VPADDQ }, t1, t0, t1);
        self.a.shift(VPSLLQ.by(numbers.fraction), t1, t1, K0);
        self.a.evex(VPANDQ, t1, t1, Operand::Constant64(FRACTION));
    }

    /// Adds the exponents of the results for the doubles in temporary 0 to the digits in 1, and their signs; powers of two and what is next
    /// above them have other digits. 2 and 3 are used.
    fn root_with_exponent(&mut self, of: DoubleRoot) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [k, l] = SCRATCH;
        self.a.shift(VPSLLQ.by(1), t2, t0, K0);
        self.a.shift(VPSRLQ.by(53), t2, t2, K0);
        if of != DoubleRoot::Reciprocal {
            self.a.evex(VPADDQ, t2, t2, Operand::Constant64(1));
            self.a.shift(VPSRLQ.by(1), t2, t2, K0);
        }
        if of == DoubleRoot::Root {
            self.a.evex(VPADDQ, t2, t2, Operand::Constant64(511));
            self.a.shift(VPSLLQ.by(52), t2, t2, K0);
            return self.a.evex(VPORQ, t1, t1, t2);
        }
        let most = if of == DoubleRoot::Reciprocal { 2045 } else { 1534 };
        self.a.evex(VPBROADCASTQ, t3, Zmm(0), Operand::Constant64(most));
        self.a.evex(VPSUBQ, t3, t3, t2);
        self.a.shift(VPSLLQ.by(52), t3, t3, K0);
        self.a.evex(VPORQ, t1, t1, t3);
        // Digits that are zero: the power of two, or the number below it.
        let digits = Operand::Constant64(FRACTION >> 23 << 23);
        let mut among = K0;
        if of == DoubleRoot::ReciprocalRoot {
            self.a.mask(KNOTW, l, Mask(0), OF_ODD);
            among = l;
        }
        self.a.compare(VPTESTNMQ, k, t0, digits, among);
        self.a.masked(VPADDQ, t1, t3, Operand::Constant64(1 << 52), k);
        self.a.compare(VPTESTMQ, l, t0, Operand::Constant64(FRACTION), k);
        self.a.masked(VPSUBQ, t1, t1, Operand::Constant64(1), l);
        if of == DoubleRoot::Reciprocal {
            self.a.evex(VPANDQ, t0, t0, Operand::Constant64(1 << 63));
            self.a.evex(VPORQ, t1, t1, t0);
        }
    }
}
