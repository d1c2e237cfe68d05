//! Dot products: of two 16-bit floats, and of signed integers.
//!
//! Sums of floats are those of gfx11 and of gfx12, see [`sums`]. For gfx9, whose sums no public capture has, the products are exact, the
//! first sum is rounded to double precision, which loses nothing for halves, the last to a single, and denormal singles are zeros.

pub(crate) mod gfx12;
pub(crate) mod gfx9;
pub(crate) mod lanes;
pub(crate) mod sums;

pub(crate) use sums::Card;
use sums::Factors;

use super::float::{self, brain, flushed, half, single};
use super::lane::{active, for_each_active};
use super::op::{Entry, Format, Reg, per_backend, vector_ops};
use crate::exec::di::{Di, Flow, Machine, flag};
use crate::inst::Op;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Wave;
use lanes::Prepared;

/// Pairs of the halves of two words.
pub(crate) fn pairs(a: u32, b: u32) -> [[u16; 2]; 2] {
    [0, 16].map(|shift| [(a >> shift) as u16, (b >> shift) as u16])
}

/// The definition of an operation on a chip with such sums, where it is not that of gfx11.
pub(crate) fn of_chip(op: Op, sums: Option<Card>, backend: BackendKind) -> Option<Entry> {
    match sums {
        Some(Card::Gfx11) => None,
        Some(Card::Gfx12) => gfx12::entry(op, backend),
        None => gfx9::entry(op, backend),
    }
}

vector_ops! {
    V_DOT2_BF16_BF16: Bits -> Bits, (a: u32, b: u32, c: u16) -> u16 { sums::narrow(Card::Gfx11, Factors::Brains, pairs(a, b), c) }
    V_DOT2C_I32_I16: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 16).wrapping_add(i64::from(c)) as u32 }
    V_DOT4_I32_I8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 8).wrapping_add(i64::from(c)) as u32 }
    V_DOT8_I32_I4: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 4).wrapping_add(i64::from(c)) as u32 }
}

/// The sum of the products of signed elements of `bits` bits.
#[inline(always)]
pub(crate) fn signed(a: u32, b: u32, bits: u32) -> i64 {
    let element =
        |word: u32, n: u32| i64::from((word << (32 - bits - n * bits)).cast_signed() >> (32 - bits));
    (0..32 / bits).map(|n| element(a, n) * element(b, n)).sum()
}

/// `v_dot2_i32_i16` (`aux` 1) and `v_dot2_u32_u16`: as [`dot2`], without signs.
pub(crate) fn dot2_integers(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let is_signed = d.aux != 0;
    for_each_active(w, |w, lane| {
        let part = |n: usize, second: bool| {
            let word = d.src[n].lane(w, lane);
            let high = if second { d.imm >> n & 1 != 0 } else { d.src[n].high };
            let bits = (if high { word >> 16 } else { word }) as u16;
            if is_signed { i64::from(bits.cast_signed()) } else { i64::from(bits) }
        };
        let c = d.src[2].lane(w, lane);
        let c = if is_signed { i64::from(c.cast_signed()) } else { i64::from(c) };
        let sum = part(0, false) * part(1, false) + part(0, true) * part(1, true) + c;
        let (least, most) =
            if is_signed { (i64::from(i32::MIN), i64::from(i32::MAX)) } else { (0, i64::from(u32::MAX)) };
        let sum = if d.flags & flag::CLAMP != 0 { sum.clamp(least, most) } else { sum };
        w.v.set_lane(d.dst + lane / 32, lane & 31, sum as u32);
    });
    Flow::NEXT
}

/// The halves of a source for the first or the second product, of sixteen lanes.
#[inline(always)]
fn factors(w: &Wave, d: &Di, n: usize, second: bool, first_lane: u32) -> [u16; 16] {
    let source = &d.src[n];
    let (high, negate) = match second {
        true => (d.imm >> n & 1 != 0, d.imm >> (3 + n) & 1 != 0),
        false => (source.high, source.neg),
    };
    let sign = if negate { 0x8000 } else { 0 };
    lanes::halves(&source.sixteen(w, first_lane), high).map(|bits| bits ^ sign)
}

#[inline(always)]
fn floats<L: Lanes, const BRAIN: bool>(w: &mut Wave, d: &Di) -> Flow {
    let of = if BRAIN { Factors::Brains } else { Factors::Halves };
    let (exec, card) = (active(w), Card::of_number(d.aux));
    // Cards with sums of their own do not clamp them.
    let clamp = card.is_none() && d.flags & flag::CLAMP != 0;
    for first in (0..w.halves * 32).step_by(16).filter(|first| exec >> first & 0xffff != 0) {
        let [a, b] = [0, 1].map(|n| [false, true].map(|second| factors(w, d, n, second, first)));
        // `neg_hi` of the third source negates it, too.
        let sign = if d.imm >> 5 & 1 != 0 { single::SIGN } else { 0 };
        let c = d.src[2].sixteen(w, first).map(|c| c.modify(Format::F32, &d.src[2]) ^ sign);
        let mut result = [0; 16];
        let others = card.map_or([1; 16], |card| {
            let [x, y] = [&a, &b].map(|two| two.each_ref().map(|bits| Prepared::of(of, bits)));
            lanes::singles(card, [x.each_ref(), y.each_ref()], &c, &mut result)
        });
        for lane in (0..16_usize).filter(|lane| exec >> (first as usize + lane) & 1 != 0) {
            if others[lane] != 0 {
                let pairs = [0, 1].map(|n: usize| [a[n][lane], b[n][lane]]);
                result[lane] = match card {
                    Some(card) => sums::single(card, of, pairs, c[lane]),
                    None if BRAIN => exact_brains(pairs, c[lane]),
                    None => exact(pairs, c[lane]),
                };
            }
            let value = float::output_in_mode(result[lane], Format::F32, 0, clamp, w.mode);
            w.v.set_lane(d.dst + first / 32, (first & 16) + lane as u32, value);
        }
    }
    Flow::NEXT
}

per_backend! {
    /// `v_dot2_f32_f16` and, with `BRAIN`, `v_dot2_f32_bf16`: `op_sel` chooses the halves of the first product, `op_sel_hi`
    /// (bits 2:0 of `imm`) of the second; `neg` negates in the first and `neg_hi` (bits 5:3) in the second.
    dot2 [const BRAIN: bool] [BRAIN] |w, _m, d, L| floats::<L, BRAIN>(w, d)
}

/// Products of `bfloat16` and `c`, rounded after each addition; singles have no denormals.
fn exact_brains(pairs: [[u16; 2]; 2], c: u32) -> u32 {
    let factor = |bits: u16| flushed(brain::to_single(bits));
    pairs.iter().fold(flushed(c), |sum, [a, b]| flushed(single::fma(factor(*a), factor(*b), sum)))
}

/// Products of halves and `c`, rounded once; singles have no denormals.
fn exact(pairs: [[u16; 2]; 2], c: u32) -> u32 {
    let start = f64::from(single::of(flushed(c)));
    let sum = pairs.iter().fold(start, |sum, [a, b]| sum + half::to_f64(*a) * half::to_f64(*b));
    flushed(single::result(sum as f32))
}
