//! Packed operations: two halves of a register at once, with a choice of half and a sign for each.

use super::exceptions::{self, Rule};
use super::float::{self, half, single};
use super::op::{Format, Reg, VectorOp, exec_half, split};
use super::rounded;
use super::soft::Round;
use super::{vop_clamp, vop_f16, vop_int};
use crate::exec::di::{Di, Flow, Handler, Machine, Source, flag};
use crate::inst::Op;
use crate::wave::Wave;
use crate::wave::trap::trapsts;

/// Modifiers of a packed instruction beyond those in [`Source`], in [`Di::imm`].
pub(crate) mod high {
    /// Bits 2:0: half that each source's high element comes from.
    pub(crate) const SELECT: u32 = 0;
    /// Bits 5:3: sources negated for the high element.
    pub(crate) const NEG: u32 = 3;
}

/// A scalar definition on halves, with any number of sources.
type Element = fn(u16, u16, u16) -> u16;

pub(crate) fn packed2<O: VectorOp<A = u16, B = u16, C = u32, D = u16>>(
    w: &mut Wave,
    _m: &mut Machine<'_>,
    d: &Di,
) -> Flow {
    both(w, d, O::INPUT, O::OUTPUT, |a, b, _c| O::scalar(a, b, 0))
}

pub(crate) fn packed3<O: VectorOp<A = u16, B = u16, C = u16, D = u16>>(
    w: &mut Wave,
    _m: &mut Machine<'_>,
    d: &Di,
) -> Flow {
    both(w, d, O::INPUT, O::OUTPUT, O::scalar)
}

/// Sources of the high element.
fn high_source(d: &Di, n: usize) -> Source {
    let source = d.src[n];
    let bit = |base: u32| d.imm >> (base + n as u32) & 1 != 0;
    Source { high: bit(high::SELECT), neg: bit(high::NEG), abs: false, ..source }
}

fn both(w: &mut Wave, d: &Di, input: Format, output: Format, f: Element) -> Flow {
    let high = [high_source(d, 0), high_source(d, 1), high_source(d, 2)];
    let clamp = d.flags & flag::CLAMP != 0 && output != Format::Bits;
    let slow = d.flags & flag::SLOW != 0;
    for part in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, part)).into_iter().enumerate() {
            let element = |sources: &[Source; 3]| {
                let get = |n: usize| {
                    let values = u16::gather(w, &sources[n], part, chunk);
                    if input == Format::Bits {
                        return values;
                    }
                    values.map(|x| {
                        let x = x.modify(input, &sources[n]);
                        if slow { float::flush_input(x, input, w.mode) } else { x }
                    })
                };
                let (a, b, c) = (get(0), get(1), get(2));
                let r: [u16; 16] = core::array::from_fn(|i| f(a[i], b[i], c[i]));
                let r = if slow { r.map(|x| float::flush_output(x, output, w.mode)) } else { r };
                let r = if d.flags & flag::SIGNALS != 0 {
                    let operands = |i: usize| [a[i], b[i], c[i]].map(u64::from);
                    core::array::from_fn(|i| float::signalling(r[i], output, &operands(i)))
                } else {
                    r
                };
                let r = if slow && output == Format::F16 && w.mode & float::FP16_OVFL != 0 {
                    core::array::from_fn(|i| {
                        float::limit_overflow(r[i], input, &[a[i], b[i], c[i]].map(u64::from))
                    })
                } else {
                    r
                };
                if clamp { r.map(|x| float::output_in_mode(x, output, 0, true, w.mode)) } else { r }
            };
            let (low, high) = (element(&d.src), element(&high));
            let values = core::array::from_fn(|i| u32::from(low[i]) | u32::from(high[i]) << 16);
            u32::scatter(w, d, part, chunk, mask, &values);
        }
    }
    Flow::NEXT
}

/// Handler, sources and format of a packed operation.
pub(crate) fn entry(op: Op, clamp: bool) -> Option<(Handler, usize, Format)> {
    macro_rules! table {
        ($($op:ident = $format:ident $arity:literal $handler:ident $of:ty $(, $clamped:ty)?;)*) => {
            match op {
                $(Op::$op => {
                    $(if clamp {
                        return Some(($handler::<$clamped> as Handler, $arity, Format::$format));
                    })?
                    ($handler::<$of> as Handler, $arity, Format::$format)
                })*
                _ => return None,
            }
        };
    }
    Some(table! {
        V_PK_ADD_F16 = F16 2 packed2 vop_f16::V_ADD_F16;
        V_PK_MUL_F16 = F16 2 packed2 vop_f16::V_MUL_F16;
        V_PK_MIN_F16 = F16 2 packed2 vop_f16::V_MIN_F16;
        V_PK_MAX_F16 = F16 2 packed2 vop_f16::V_MAX_F16;
        V_PK_MIN_NUM_F16 = F16 2 packed2 vop_f16::V_MIN_NUM_F16;
        V_PK_MAX_NUM_F16 = F16 2 packed2 vop_f16::V_MAX_NUM_F16;
        V_PK_MINIMUM_F16 = F16 2 packed2 vop_f16::V_MINIMUM_F16;
        V_PK_MAXIMUM_F16 = F16 2 packed2 vop_f16::V_MAXIMUM_F16;
        V_PK_MINIMUM3_F16 = F16 3 packed3 vop_f16::V_MINIMUM3_F16;
        V_PK_MAXIMUM3_F16 = F16 3 packed3 vop_f16::V_MAXIMUM3_F16;
        V_PK_FMA_F16 = F16 3 packed3 vop_f16::V_FMA_F16;
        V_PK_FMAC_F16 = F16 3 packed3 vop_f16::V_FMAC_F16;
        V_PK_ADD_U16 = Bits 2 packed2 vop_int::V_ADD_NC_U16, vop_clamp::V_ADD_NC_U16;
        V_PK_SUB_U16 = Bits 2 packed2 vop_int::V_SUB_NC_U16, vop_clamp::V_SUB_NC_U16;
        V_PK_ADD_I16 = Bits 2 packed2 vop_int::V_ADD_NC_I16, vop_clamp::V_ADD_NC_I16;
        V_PK_SUB_I16 = Bits 2 packed2 vop_int::V_SUB_NC_I16, vop_clamp::V_SUB_NC_I16;
        V_PK_MUL_LO_U16 = Bits 2 packed2 vop_int::V_MUL_LO_U16;
        V_PK_MAD_U16 = Bits 3 packed3 vop_int::V_MAD_U16, vop_clamp::V_MAD_U16;
        V_PK_MAD_I16 = Bits 3 packed3 vop_int::V_MAD_I16, vop_clamp::V_MAD_I16;
        V_PK_MIN_U16 = Bits 2 packed2 vop_int::V_MIN_U16;
        V_PK_MAX_U16 = Bits 2 packed2 vop_int::V_MAX_U16;
        V_PK_MIN_I16 = Bits 2 packed2 vop_int::V_MIN_I16;
        V_PK_MAX_I16 = Bits 2 packed2 vop_int::V_MAX_I16;
        V_PK_LSHLREV_B16 = Bits 2 packed2 vop_int::V_LSHLREV_B16;
        V_PK_LSHRREV_B16 = Bits 2 packed2 vop_int::V_LSHRREV_B16;
        V_PK_ASHRREV_I16 = Bits 2 packed2 vop_int::V_ASHRREV_I16;
    })
}

/// One source of `v_fma_mix`: a single, or a half chosen by `op_sel`, as a single. `imm` bits 2:0: it is a half.
#[inline(always)]
fn mix_source(w: &Wave, d: &Di, n: usize, lane: u32) -> u32 {
    let source = &d.src[n];
    let word = source.lane(w, lane);
    let value = if d.imm >> n & 1 != 0 {
        half::to_single((if source.high { word >> 16 } else { word }) as u16)
    } else {
        word
    };
    let value = if d.flags & flag::SLOW == 0 {
        value
    } else if d.imm >> n & 1 != 0 {
        // A half that is denormal is a normal single: flushed as the half it is.
        let kept =
            float::flush_input((if source.high { word >> 16 } else { word }) as u16, Format::F16, w.mode);
        half::to_single(kept)
    } else {
        float::flush_input(value, Format::F32, w.mode)
    };
    value.modify(Format::F32, source)
}

/// Records the exceptions of `v_fma_mix*`: its sources' own, the sum's, and with [`flag::RETURN`] those of making it
/// a half.
pub(crate) fn watch_mix(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let mut raised = 0;
    super::lane::for_each_active(w, |w, lane| {
        for n in (0..3).filter(|n| d.imm >> n & 1 != 0) {
            let word = d.src[n].lane(w, lane);
            raised |=
                exceptions::of_half_source((if d.src[n].high { word >> 16 } else { word }) as u16, w.mode);
        }
        let sources = [0, 1, 2].map(|n| mix_source(w, d, n, lane));
        raised |= exceptions::of_single(Rule::Fma, &sources.map(u64::from), Format::F32, w.mode);
        if d.flags & flag::RETURN != 0 {
            let sum = mix_of(w, d, sources);
            let converted = exceptions::of_single(Rule::Convert, &[sum.into()], Format::F16, w.mode);
            // The sum is not a source that could be denormal.
            raised |= converted & !trapsts::INPUT_DENORM;
        }
    });
    w.trapsts |= raised;
    w.raised |= raised;
    Flow::NEXT
}

/// `v_fma_mix_f32`.
pub(crate) fn fma_mix(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    super::lane::for_each_active(w, |w, lane| {
        let value = mix(w, d, lane);
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}

fn mix(w: &Wave, d: &Di, lane: u32) -> u32 {
    mix_of(w, d, [0, 1, 2].map(|n| mix_source(w, d, n, lane)))
}

fn mix_of(w: &Wave, d: &Di, [a, b, c]: [u32; 3]) -> u32 {
    let signals = d.flags & flag::SIGNALS != 0;
    let value = match w.mode & 3 {
        0 => single::fma(a, b, c),
        mode => rounded::fma_f32(a, b, c, Round::from_bits(mode)),
    };
    let value =
        if signals { float::signalling(value, Format::F32, &[a, b, c].map(u64::from)) } else { value };
    let value =
        if d.flags & flag::SLOW != 0 { float::flush_output(value, Format::F32, w.mode) } else { value };
    float::output_in_mode(value, Format::F32, 0, d.flags & flag::CLAMP != 0, w.mode)
}

/// `v_fma_mixlo_f16` and, with [`flag::DST_HIGH`], `v_fma_mixhi_f16`.
pub(crate) fn fma_mix_half(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    super::lane::for_each_active(w, |w, lane| {
        let sources = [0, 1, 2].map(|n| mix_source(w, d, n, lane));
        let single = mix_of(w, d, sources);
        let value = match w.mode >> 2 & 3 {
            0 => half::from_single(single),
            mode => rounded::half_from_single(single, Round::from_bits(mode)),
        };
        let value = float::flush_output(value, Format::F16, w.mode);
        let value = if w.mode & float::FP16_OVFL != 0 {
            float::limit_overflow(value, Format::F32, &sources.map(u64::from))
        } else {
            value
        };
        let value = u32::from(value);
        let old = w.v.lane(d.dst + lane / 32, lane & 31);
        let new = if d.flags & flag::DST_HIGH != 0 {
            old & 0xffff | value << 16
        } else {
            old & 0xffff_0000 | value
        };
        w.v.set_lane(d.dst + lane / 32, lane & 31, new);
    });
    Flow::NEXT
}

/// The halves that low and high elements of both factors come from, in [`Di::imm`]: bits of `op_sel`, then of `op_sel_hi`.
pub(crate) mod halves {
    /// The low half for low elements and the high half for high ones.
    pub(crate) const USUAL: u32 = 0b1100;
}

/// Elements of a factor, made of the halves that are chosen.
fn factor(w: &Wave, d: &Di, n: usize, lane: u32) -> u32 {
    let word = d.src[n].lane(w, lane);
    let half = |bit: usize| if d.imm >> bit & 1 != 0 { word >> 16 } else { word & 0xffff };
    half(n) | half(2 + n) << 16
}

/// Sum of products of small integers, each operand signed where its `neg` bit is set.
fn dot_signed(w: &mut Wave, d: &Di, bits: u32) -> Flow {
    let clamp = d.flags & flag::CLAMP != 0;
    super::lane::for_each_active(w, |w, lane| {
        let factors = [0, 1].map(|n| factor(w, d, n, lane));
        let part = |n: usize, k: u32| {
            let word = factors[n] << (32 - bits - k * bits);
            let signed = i64::from(word.cast_signed() >> (32 - bits));
            if d.src[n].neg { signed } else { i64::from(word >> (32 - bits)) }
        };
        let sum: i64 = (0..32 / bits).map(|k| part(0, k) * part(1, k)).sum();
        let total = sum + i64::from(d.src[2].lane(w, lane).cast_signed());
        let value = if clamp { total.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { total };
        w.v.set_lane(d.dst + lane / 32, lane & 31, value as u32);
    });
    Flow::NEXT
}

/// `v_dot4_u32_u8` and `v_dot8_u32_u4` of halves that are chosen; `aux` has the bits of elements.
pub(crate) fn dot_unsigned(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (bits, clamp) = (u32::from(d.aux), d.flags & flag::CLAMP != 0);
    super::lane::for_each_active(w, |w, lane| {
        let factors = [0, 1].map(|n| factor(w, d, n, lane));
        let part = |n: usize, k: u32| u64::from(factors[n] >> (k * bits) & ((1 << bits) - 1));
        let sum: u64 = (0..32 / bits).map(|k| part(0, k) * part(1, k)).sum();
        let total = sum + u64::from(d.src[2].lane(w, lane));
        let value = if clamp { total.min(u64::from(u32::MAX)) } else { total };
        w.v.set_lane(d.dst + lane / 32, lane & 31, value as u32);
    });
    Flow::NEXT
}

/// `v_dot4_i32_iu8`.
pub(crate) fn dot4_iu8(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    dot_signed(w, d, 8)
}

/// `v_dot8_i32_iu4`.
pub(crate) fn dot8_iu4(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    dot_signed(w, d, 4)
}
