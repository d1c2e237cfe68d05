//! Operations on halves, which are done in single precision, and on doubles, which take two registers.
//!
//! A single has more than twice the digits of a half: sums, differences and products of halves are rounded to one as
//! if they had not been rounded to a single before. A fused multiply-add has too many digits for that; its single is
//! rounded to odd, which keeps the digits that decide on the way to the half.

use super::masks::UNORDERED;
use crate::exec::di::{Di, Kind, Source, flag};
use crate::exec::vector::vop3p::high;
use crate::inst::Op;
use crate::tier1::analysis::elements::steps;
use crate::tier1::analysis::packed::{Packed, packed};
use crate::tier1::analysis::template::{Arithmetic, Two};
use crate::tier1::x86::asm::{K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, SCRATCH, SIGN, scalar};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

/// Low words of sixteen pairs in turn with the high ones: of the first eight, or the others.
static PAIRS: [[u32; 16]; 2] = [in_turn(0), in_turn(8)];
/// First words of sixteen pairs in two registers, and second words.
static WORDS: [[u32; 16]; 2] = [steps(0, 2), steps(1, 2)];

const fn in_turn(from: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        pick[lane] = from + lane as u32 / 2 + (lane as u32 & 1) * 16;
        lane += 1;
    }
    pick
}

impl Body<'_> {
    /// A half of a source as a single.
    pub(super) fn half_source(&mut self, source: &Source, half: u32, chunk: u8, to: Zmm) {
        let from = self.register(&Source { neg: false, abs: false, ..*source }, false, half, chunk, to);
        let mut at = from;
        if source.high {
            self.a.shift(VPSRLD.by(16), to, at, K0);
            at = to;
        }
        // The low halves side by side; the destination is in `ModRM.rm`.
        self.a.evex(VPMOVDW, at, Zmm(0), to);
        self.a.evex(VCVTPH2PS, to, Zmm(0), to);
        self.signs(source, to);
    }

    /// A half of a source, with its sign and zeros above it.
    pub(super) fn half_bits(&mut self, source: &Source, (half, chunk): (u32, u8), to: Zmm) {
        let from = self.register(&Source { neg: false, abs: false, ..*source }, false, half, chunk, to);
        if source.high {
            self.a.shift(VPSRLD.by(16), to, from, K0);
        }
        let kept = if source.abs { 0x7fff } else { 0xffff };
        if source.abs || !source.high {
            self.a.evex(VPANDD, to, if source.high { to } else { from }, Operand::Constant(kept));
        }
        if source.neg {
            self.a.evex(VPXORD, to, to, Operand::Constant(0x8000));
        }
    }

    /// Applies `neg` and `abs` to singles.
    fn signs(&mut self, source: &Source, value: Zmm) {
        if source.abs {
            self.a.evex(VPANDD, value, value, Operand::Constant(!SIGN));
        }
        if source.neg {
            self.a.evex(VPXORD, value, value, Operand::Constant(SIGN));
        }
    }

    /// Halves in the low halves of words from the singles of a temporary, rounded as `rounding` says: 0 to nearest even, 3
    /// towards zero.
    pub(super) fn narrow(&mut self, value: Zmm, rounding: u8) {
        self.a.evex(VCVTPS2PH.by(rounding), value, Zmm(0), value);
        self.a.evex(VPMOVZXWD, value, Zmm(0), value);
    }

    /// An operation on halves to halves in temporary 0; 1 and 2 are used.
    fn half_arithmetic(&mut self, arithmetic: Arithmetic, sources: &[Source; 3], half: u32, chunk: u8) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let sources = arithmetic.signed(sources);
        self.half_source(&sources[0], half, chunk, t0);
        self.half_source(&sources[1], half, chunk, t1);
        match arithmetic {
            Arithmetic::Fused => {
                self.half_source(&sources[2], half, chunk, t2);
                self.fuse_to_odd();
            }
            _ => self.a.evex(opcodes::arithmetic(arithmetic).0, t0, t0, t1),
        }
        self.narrow(t0, 0);
    }

    /// `t0 * t1 + t2` to temporary 0, rounded to odd where it is not exact: of both neighbours one is odd.
    fn fuse_to_odd(&mut self) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [odd, _] = SCRATCH;
        self.forget_invalid();
        self.put(t3, t0, K0);
        self.a.evex(VFMADD132PS.rounded(1), t3, t2, t1);
        self.a.evex(VFMADD132PS.rounded(2), t0, t2, t1);
        self.a.compare(VPTESTMD, odd, t3, Operand::Constant(1), K0);
        self.a.masked(VMOVDQA32, t0, Zmm(0), t3, odd);
    }

    /// Makes the number in temporary 2, which is added to `t0 * t1`, zero where the product is a NaN, which then is the sum; temporary 3 is used.
    fn forget_invalid(&mut self) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [_, invalid] = SCRATCH;
        self.a.evex(VMULPS, t3, t0, t1);
        self.a.compare(VCMPPS.by(UNORDERED), invalid, t3, t3, K0);
        self.a.masked(VPXORD, t2, t2, t2, invalid);
    }

    /// Puts halves in low halves of words into the low or the high halves of a row.
    pub(super) fn put_halves(&mut self, to: Zmm, value: Zmm, high: bool, mask: Mask) {
        let either = 0xec;
        if high {
            self.a.shift(VPSLLD.by(16), value, value, K0);
        }
        let stays = if high { 0xffff } else { 0xffff_0000 };
        self.a.masked(VPTERNLOGD.by(either), to, value, Operand::Constant(stays), mask);
    }

    /// Defines a row of halves whose other halves stay.
    pub(super) fn define_half(&mut self, row: u32) -> super::rows::Pair {
        self.load_row(row);
        self.define(row)
    }

    /// An operation on halves.
    pub(crate) fn of_halves(&mut self, arithmetic: Arithmetic, d: &Di, half: u32) {
        self.load_sources(d, arithmetic.arity(), half);
        let to = self.define_half(d.dst + half);
        for chunk in self.chunks() {
            self.half_arithmetic(arithmetic, &d.src, half, chunk);
            let mask = self.exec(half, chunk);
            self.put_halves(to.chunk(chunk), Zmm(0), d.flags & flag::DST_HIGH != 0, mask);
        }
    }

    /// A half as a single.
    pub(crate) fn half_to_single(&mut self, d: &Di, half: u32) {
        self.load_sources(d, 1, half);
        let to = self.define(d.dst + half);
        for chunk in self.chunks() {
            self.half_source(&d.src[0], half, chunk, Zmm(0));
            let mask = self.exec(half, chunk);
            self.put(to.chunk(chunk), Zmm(0), mask);
        }
    }

    /// A single as a half.
    pub(crate) fn single_to_half(&mut self, d: &Di, half: u32) {
        self.load_sources(d, 1, half);
        let to = self.define_half(d.dst + half);
        for chunk in self.chunks() {
            let value = self.register(&d.src[0], true, half, chunk, Zmm(0));
            self.put(Zmm(0), value, K0);
            self.narrow(Zmm(0), 0);
            let mask = self.exec(half, chunk);
            self.put_halves(to.chunk(chunk), Zmm(0), d.flags & flag::DST_HIGH != 0, mask);
        }
    }

    /// Two singles as halves, rounded towards zero.
    pub(crate) fn singles_to_halves(&mut self, d: &Di, half: u32) {
        self.load_sources(d, 2, half);
        let to = self.define(d.dst + half);
        for chunk in self.chunks() {
            for (n, t) in [Zmm(0), Zmm(1)].into_iter().enumerate() {
                let value = self.register(&d.src[n], true, half, chunk, t);
                self.put(t, value, K0);
                self.narrow(t, 3);
            }
            self.a.shift(VPSLLD.by(16), Zmm(1), Zmm(1), K0);
            let mask = self.exec(half, chunk);
            self.a.masked(VPORD, to.chunk(chunk), Zmm(0), Zmm(1), mask);
        }
    }

    /// An operation on both halves of registers.
    pub(crate) fn packed(&mut self, op: Op, d: &Di) {
        match packed(op, d) {
            Some(Packed::Halves(arithmetic)) => self.both_halves(arithmetic, d),
            Some(Packed::Words(words)) => self.words(words, d),
            Some(Packed::Recipe(recipe)) => self.whole_recipe(recipe, d),
            None => unreachable!("only operations with a template"),
        }
    }

    /// An operation on words side by side.
    fn words(&mut self, op: Two, d: &Di) {
        for part in self.parts() {
            self.load_sources(d, 2, part);
            let to = self.define(d.dst + part);
            for chunk in self.chunks() {
                let (t0, t1, mask) = (Zmm(0), Zmm(1), self.exec(part, chunk));
                let a = self.register(&d.src[0], false, part, chunk, t0);
                let b = self.register(&d.src[1], false, part, chunk, t1);
                // A mask would count words.
                self.a.evex(opcodes::words(op), t0, a, b);
                self.put(to.chunk(chunk), t0, mask);
            }
        }
    }

    fn both_halves(&mut self, arithmetic: Arithmetic, d: &Di) {
        for part in self.parts() {
            self.load_sources(d, arithmetic.arity(), part);
            let to = self.define(d.dst + part);
            for chunk in self.chunks() {
                let (t0, mask) = (Zmm(0), self.exec(part, chunk));
                let bit = |at: u32, n: usize| d.imm >> (at + n as u32) & 1 != 0;
                let high: [Source; 3] = core::array::from_fn(|n| Source {
                    high: bit(high::SELECT, n),
                    neg: bit(high::NEG, n),
                    abs: false,
                    ..d.src[n]
                });
                // The low result waits in memory that the caller's frame has no use for: there is no register left.
                self.half_arithmetic(arithmetic, &high, part, chunk);
                self.a.shift(VPSLLD.by(16), t0, t0, K0);
                self.spill(t0);
                self.half_arithmetic(arithmetic, &d.src, part, chunk);
                self.a.masked(
                    VPORD,
                    to.chunk(chunk),
                    t0,
                    Operand::Memory(crate::tier1::x86::body::SPILL),
                    mask,
                );
            }
        }
    }

    fn spill(&mut self, value: Zmm) {
        self.a.evex(VMOVUPS_STORE, value, Zmm(0), Operand::Memory(crate::tier1::x86::body::SPILL));
    }

    /// `v_fma_mix*`: sources are singles, or halves where `imm` says so; the result is a single or a half.
    pub(crate) fn mixed(&mut self, narrows: bool, d: &Di) {
        let temporaries = [Zmm(0), Zmm(1), Zmm(2)];
        for part in self.parts() {
            self.load_sources(d, 3, part);
            let to = if narrows { self.define_half(d.dst + part) } else { self.define(d.dst + part) };
            for chunk in self.chunks() {
                for (n, t) in temporaries.into_iter().enumerate() {
                    if d.imm >> n & 1 != 0 {
                        self.half_source(&d.src[n], part, chunk, t);
                    } else {
                        let value = self.register(&d.src[n], true, part, chunk, t);
                        self.put(t, value, K0);
                    }
                }
                let [a, b, c] = temporaries;
                self.forget_invalid();
                self.a.evex(VFMADD132PS, a, c, b);
                let mask = self.exec(part, chunk);
                if narrows {
                    self.narrow(a, 0);
                    self.put_halves(to.chunk(chunk), a, d.flags & flag::DST_HIGH != 0, mask);
                } else {
                    self.put(to.chunk(chunk), a, mask);
                }
            }
        }
    }

    /// Bits of a register that stay.
    pub(crate) fn keep(&mut self, d: &Di) {
        for half in self.parts() {
            self.load_row(d.dst + half);
            let to = self.define(d.dst + half);
            for chunk in self.chunks() {
                let (to, mask) = (to.chunk(chunk), self.exec(half, chunk));
                self.a.masked(VPANDD, to, to, Operand::Constant(d.imm), mask);
            }
        }
    }

    /// Eight lanes of a source of doubles, the first or the second ones of a chunk.
    pub(super) fn double_source(&mut self, source: &Source, (half, chunk, eight): (u32, u8, usize), to: Zmm) {
        match source.kind {
            Kind::Vector => {
                let low = self.load_row(source.value + half).chunk(chunk);
                let high = self.load_row(source.value + self.halves + half).chunk(chunk);
                self.a.evex(VMOVUPS_LOAD, to, Zmm(0), Operand::Words(PAIRS[eight]));
                self.a.evex(VPERMI2D, to, low, high);
            }
            Kind::Scalar => self.a.evex(VPBROADCASTQ, to, Zmm(0), Operand::Splat(scalar(source.value))),
            kind => {
                let value = match kind {
                    Kind::Signed => i64::from(source.value.cast_signed()).cast_unsigned(),
                    Kind::High => u64::from(source.value) << 32,
                    _ => source.value.into(),
                };
                self.a.evex(VPBROADCASTQ, to, Zmm(0), Operand::Constant64(value));
            }
        }
        let in_turn = |value: u32, other: u32| {
            Operand::Words(core::array::from_fn(|n| if n & 1 == 1 { value } else { other }))
        };
        if source.abs {
            self.a.evex(VPANDD, to, to, in_turn(!SIGN, u32::MAX));
        }
        if source.neg {
            self.a.evex(VPXORD, to, to, in_turn(SIGN, 0));
        }
    }

    /// An operation on doubles.
    pub(crate) fn of_doubles(&mut self, arithmetic: Arithmetic, d: &Di, half: u32) {
        let sources = &d.src[..arithmetic.arity()];
        for source in sources.iter().filter(|source| source.kind == Kind::Vector) {
            self.load_row(source.value + half);
            self.load_row(source.value + self.halves + half);
        }
        let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
        let temporaries = [Zmm(1), Zmm(2), Zmm(3)];
        for chunk in self.chunks() {
            for eight in 0..2 {
                for (source, t) in sources.iter().zip(temporaries) {
                    self.double_source(source, (half, chunk, eight), t);
                }
                let [a, b, c] = temporaries;
                match arithmetic {
                    Arithmetic::Fused => {
                        // What is added to an invalid product does not matter; there is no register left for the product.
                        let [_, invalid] = SCRATCH;
                        self.spill(a);
                        self.a.evex(VMULPD, a, a, b);
                        self.a.compare(VCMPPD.by(UNORDERED), invalid, a, a, K0);
                        self.a.masked(VPXORQ, c, c, c, invalid);
                        self.a.evex(VMOVUPS_LOAD, a, Zmm(0), Operand::Memory(crate::tier1::x86::body::SPILL));
                        self.a.evex(VFMADD132PD, a, c, b);
                    }
                    _ => self.a.evex(opcodes::arithmetic(arithmetic).1, a, a, b),
                }
                if eight == 0 {
                    self.put(Zmm(0), a, K0);
                }
            }
            let mask = self.exec(half, chunk);
            self.put_words([low.chunk(chunk), high.chunk(chunk)], mask);
        }
    }

    /// The low and the high words of sixteen doubles in temporaries 0 and 1; 2 is used.
    pub(super) fn put_words(&mut self, to: [Zmm; 2], mask: Mask) {
        for (to, pick) in to.into_iter().zip(&WORDS) {
            self.a.evex(VMOVUPS_LOAD, Zmm(2), Zmm(0), Operand::Words(*pick));
            self.a.evex(VPERMI2D, Zmm(2), Zmm(0), Zmm(1));
            self.put(to, Zmm(2), mask);
        }
    }
}
