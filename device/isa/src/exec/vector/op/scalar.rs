//! Handlers that apply a scalar definition to each lane, with any modifiers and modes.

use crate::exec::di::{Di, Flow, Handler, Machine, flag};
use crate::exec::vector::float;
use crate::exec::vector::op::value::{Reg, exec_half, split};
use crate::exec::vector::op::{Format, VectorOp};
#[cfg(any(test, not(target_arch = "x86_64")))]
use crate::lanes::Portable;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Wave;

/// Sixteen lanes of an operation: the only code each operation without a lane form has to itself.
pub(super) type Apply<A, B, C, D> = unsafe fn(&[A; 16], &[B; 16], &[C; 16], &mut [D; 16]);

/// Properties of an operation that [`each_lane`] needs.
pub(super) struct Shape<A, B, C, D> {
    apply: Apply<A, B, C, D>,
    arity: usize,
    input: Format,
    output: Format,
}

/// Applies an operation to the active lanes. Not inlined: one copy serves all operations with the same operand types.
#[inline(never)]
#[expect(
    unsafe_code,
    reason = "the function applied is compiled for instructions the host was found to have"
)]
pub(super) fn each_lane<A: Reg, B: Reg, C: Reg, D: Reg>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape<A, B, C, D>,
) -> Flow {
    let slow = d.flags & flag::SLOW != 0;
    let modified = shape.output != Format::Bits && (d.omod != 0 || d.flags & flag::CLAMP != 0);
    for half in 0..w.halves {
        let exec = split(exec_half(w, half));
        for (chunk, &mask) in exec.iter().enumerate() {
            if mask == 0 {
                continue;
            }
            let a = fetch::<A>(w, d, 0, shape.arity, half, chunk, shape.input, slow);
            let b = fetch::<B>(w, d, 1, shape.arity, half, chunk, shape.input, slow);
            let c = fetch::<C>(w, d, 2, shape.arity, half, chunk, shape.input, slow);
            let mut r = [D::default(); 16];
            // SAFETY: lowering took `apply` for a `Backend`, which proves this host has its instructions.
            unsafe { (shape.apply)(&a, &b, &c, &mut r) };
            if slow {
                let mode = w.mode;
                r = r.map(|x| float::flush_output(x, shape.output, mode));
                if d.flags & flag::SIGNALS != 0 && shape.input == shape.output {
                    let floats = if d.flags & flag::INTEGERS != 0 { 1 } else { shape.arity };
                    for (i, value) in r.iter_mut().enumerate() {
                        let mut operands = [a[i].bits(), b[i].bits(), c[i].bits()];
                        if d.flags & flag::LAST_FIRST != 0 {
                            operands.reverse();
                        }
                        *value = float::signalling(*value, shape.output, &operands[..floats]);
                    }
                }
                let limited = shape.output == Format::F16 && mode & float::FP16_OVFL != 0;
                if limited && d.flags & flag::NO_OVERFLOW == 0 {
                    let floats = if d.flags & flag::INTEGERS != 0 { 1 } else { shape.arity };
                    for (i, value) in r.iter_mut().enumerate() {
                        let operands = [a[i].bits(), b[i].bits(), c[i].bits()];
                        *value = float::limit_overflow(*value, shape.input, &operands[..floats]);
                    }
                }
            }
            if modified {
                let (clamp, mode) = (d.flags & flag::CLAMP != 0, w.mode);
                r = r.map(|x| float::output_in_mode(x, shape.output, d.omod, clamp, mode));
            }
            D::scatter(w, d, half, chunk, mask, &r);
        }
    }
    Flow::NEXT
}

/// Sixteen lanes of source `n`, modifiers applied.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "outlined to keep the code small")]
pub(crate) fn fetch<T: Reg>(
    w: &Wave,
    d: &Di,
    n: usize,
    arity: usize,
    half: u32,
    chunk: usize,
    format: Format,
    slow: bool,
) -> [T; 16] {
    if n >= arity {
        return [T::default(); 16];
    }
    let source = &d.src[n];
    let mut values = T::gather(w, source, half, chunk);
    if source.neg | source.abs {
        values = values.map(|x| x.modify(format, source));
    }
    if slow && (n == 0 || d.flags & flag::INTEGERS == 0) {
        values = values.map(|x| float::flush_input(x, format, w.mode));
    }
    values
}

pub(super) fn apply_portable<O: VectorOp>(
    a: &[O::A; 16],
    b: &[O::B; 16],
    c: &[O::C; 16],
    r: &mut [O::D; 16],
) {
    for i in 0..16 {
        r[i] = O::scalar(a[i], b[i], c[i]);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn apply_avx2<O: VectorOp>(a: &[O::A; 16], b: &[O::B; 16], c: &[O::C; 16], r: &mut [O::D; 16]) {
    O::sixteen(a, b, c, r);
}

/// Sixteen lanes by the lane form of a backend.
#[inline(always)]
fn apply_lanes<O: VectorOp, L: Lanes>(a: &[O::A; 16], r: &mut [O::D; 16]) {
    let mut words = [0; 16];
    for i in 0..16 {
        words[i] = a[i].bits() as u32;
    }
    let a = L::from_array(words);
    let words = L::to_array(O::lanes::<L>(a, a, a));
    for i in 0..16 {
        r[i] = O::D::from_bits(words[i].into());
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn curve_avx2<O: VectorOp>(a: &[O::A; 16], _b: &[O::B; 16], _c: &[O::C; 16], r: &mut [O::D; 16]) {
    apply_lanes::<O, Avx2>(a, r);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn curve_avx512<O: VectorOp>(a: &[O::A; 16], _b: &[O::B; 16], _c: &[O::C; 16], r: &mut [O::D; 16]) {
    apply_lanes::<O, Avx512>(a, r);
}

/// Sixteen results of a lane form with one source, on a backend that the host has.
#[cfg(test)]
#[expect(unsafe_code, reason = "the caller has a backend with the instructions")]
pub(super) fn lanes_of<O: VectorOp<A = u32>>(backend: BackendKind, a: &[u32; 16]) -> [u32; 16] {
    let (b, c, mut r) = ([O::B::default(); 16], [O::C::default(); 16], [O::D::default(); 16]);
    match backend {
        BackendKind::Portable => apply_lanes::<O, Portable>(a, &mut r),
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx2 => unsafe { curve_avx2::<O>(a, &b, &c, &mut r) },
        // SAFETY: the same.
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx512 => unsafe { curve_avx512::<O>(a, &b, &c, &mut r) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => unreachable!("no such host"),
    }
    r.map(|value| value.bits() as u32)
}

pub(super) fn scalar_portable<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: apply_portable::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

#[cfg(target_arch = "x86_64")]
pub(super) fn scalar_avx2<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: apply_avx2::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

#[cfg(target_arch = "x86_64")]
fn curved_avx2<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: curve_avx2::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

#[cfg(target_arch = "x86_64")]
fn curved_avx512<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: curve_avx512::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

/// Handler that applies the scalar definition to each lane, with any modifiers and modes.
pub(super) fn scalar_handler<O: VectorOp>(backend: BackendKind) -> Handler {
    match backend {
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx2 if O::CURVE => curved_avx2::<O>,
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx512 if O::CURVE => curved_avx512::<O>,
        // With a lane form this one is for rare modes only.
        _ if O::LANES => scalar_portable::<O>,
        BackendKind::Portable => scalar_portable::<O>,
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx2 | BackendKind::Avx512 => scalar_avx2::<O>,
        #[cfg(not(target_arch = "x86_64"))]
        _ => scalar_portable::<O>,
    }
}

/// Handler of an operation on scalar registers. A result of 16 bits is zero-extended.
pub(super) fn on_scalars<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let a = scalar_source::<O::A>(w, d, 0, O::INPUT);
    let b = if O::ARITY > 1 { scalar_source::<O::B>(w, d, 1, O::INPUT) } else { O::B::default() };
    let c = if O::ARITY > 2 { scalar_source::<O::C>(w, d, 2, O::INPUT) } else { O::C::default() };
    let mut r = O::scalar(a, b, c);
    if d.flags & flag::SLOW != 0 {
        r = float::flush_output(r, O::OUTPUT, w.mode);
        let operands = &[a.bits(), b.bits(), c.bits()][..O::ARITY];
        if d.flags & flag::SIGNALS != 0 && O::INPUT == O::OUTPUT {
            r = float::signalling(r, O::OUTPUT, operands);
        }
        if O::OUTPUT == Format::F16 && w.mode & float::FP16_OVFL != 0 {
            r = float::limit_overflow(r, O::INPUT, operands);
        }
    }
    if d.omod != 0 || d.flags & flag::CLAMP != 0 {
        r = float::output_in_mode(r, O::OUTPUT, d.omod, d.flags & flag::CLAMP != 0, w.mode);
    }
    w.s[d.dst as usize & 255] = r.bits() as u32;
    Flow::NEXT
}

/// Source `n` of an operation on scalar registers, modifiers applied.
#[inline(always)]
fn scalar_source<T: Reg>(w: &Wave, d: &Di, n: usize, format: Format) -> T {
    let source = &d.src[n];
    let word = source.scalar(w) >> if source.high { 16 } else { 0 };
    let mut value = T::from_bits(u64::from(word));
    if source.neg | source.abs {
        value = value.modify(format, source);
    }
    if d.flags & flag::SLOW != 0 { float::flush_input(value, format, w.mode) } else { value }
}
