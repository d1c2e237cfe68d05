//! `v_sqrt_f32` and `v_exp_f32`, see [`polynomials`](super::polynomials), and `v_rsq_f32`, see [`reciprocals`](super::reciprocals).
//!
//! Unusual numbers are left to the handlers: for roots all but positive normal ones, for powers NaNs and numbers that
//! are too large.

use crate::exec::di::Di;
use crate::tier1::analysis::template::Curve;
use crate::tier1::x86::asm::{At, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, SCRATCH, SPILL};
use crate::tier1::x86::encoding::*;

/// Predicates of `vcmpps`, none of which signals for a quiet NaN: not less, not at least, not at most, or unordered.
const NOT_LESS: u8 = 0x15;
const NOT_AT_LEAST: u8 = 0x19;
const NOT_AT_MOST: u8 = 0x16;

/// Powers of this number and of larger ones are infinite.
const MOST: f32 = 128.0;

/// Room for sixteen lanes, one of two.
pub(crate) fn kept(chunk: u8) -> Operand {
    let At(base, displacement) = SPILL;
    Operand::Memory(At(base, displacement + i32::from(chunk) * 64))
}

impl Body<'_> {
    /// A function of singles; some are left to the handler, by the way that is returned.
    pub(crate) fn curve(&mut self, curve: Curve, d: &Di, half: u32) -> Cold {
        self.load_sources(d, 1, half);
        let [any, these] = SCRATCH;
        let mut first = true;
        let mut collect = |body: &mut Self, predicate: u8, a: Zmm, bound: f32, exec: Mask| {
            let to = if core::mem::take(&mut first) { any } else { these };
            body.a.compare(VCMPPS.by(predicate), to, a, Operand::Constant(bound.to_bits()), exec);
            if to == these {
                body.a.mask(KORW, any, any, these);
            }
        };
        for chunk in 0..2 {
            let (a, exec) = (self.register(&d.src[0], true, half, chunk, Zmm(0)), self.exec(half, chunk));
            if curve == Curve::PowerOfTwo {
                collect(self, NOT_LESS, a, MOST, exec);
            } else {
                collect(self, NOT_AT_LEAST, a, f32::MIN_POSITIVE, exec);
                collect(self, NOT_AT_MOST, a, f32::MAX, exec);
            }
        }
        let cold = self.leave_if_any(any, any);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let mask = self.exec(half, chunk);
            let result = match curve {
                Curve::Root => self.roots(d, half, chunk),
                Curve::ReciprocalRoot => self.reciprocal_roots(d, half, chunk),
                Curve::PowerOfTwo => self.powers(d, half, chunk),
            };
            self.put(to.chunk(chunk), result, mask);
        }
        cold
    }
}
