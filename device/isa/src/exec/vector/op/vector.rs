//! Handlers made from lane forms.

use crate::exec::di::{Di, Flow, Machine, flag, leave_to};
use crate::exec::vector::float;
use crate::exec::vector::op::scalar::scalar_handler;
use crate::exec::vector::op::value::{Reg, exec_half, read, write};
use crate::exec::vector::op::{Format, VectorOp};
use crate::lanes::{Lanes, Portable};
use crate::wave::Wave;

/// Handler body of a [`VectorOp`] with a lane form, for any operands.
#[inline(always)]
pub(super) fn vector<O: VectorOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    for half in 0..w.halves {
        let a = read::<L, false>(w, &d.src[0], half, O::INPUT);
        let b = if O::ARITY > 1 { read::<L, false>(w, &d.src[1], half, O::INPUT) } else { a };
        let c = if O::ARITY > 2 { read::<L, false>(w, &d.src[2], half, O::INPUT) } else { a };
        let mut r = [O::lanes::<L>(a[0], b[0], c[0]), O::lanes::<L>(a[1], b[1], c[1])];
        if O::NAN && L::unordered(r[0], r[1]) != 0 {
            r = again::<O, L>(a, b, c);
        }
        if O::OUTPUT == Format::F32 && (d.omod != 0 || d.flags & flag::CLAMP != 0) {
            r = modified_output::<L>(r, d);
        }
        let exec = exec_half(w, half);
        write::<L>(w, d.dst + half, exec, r);
    }
    Flow::NEXT
}

/// As the function above, without modifiers: vector registers for all sources, or all but the first with `UNIFORM`.
///
/// Rare cases are left to another handler as a whole, so that no operand has to go through memory for them.
#[inline(always)]
#[expect(unsafe_code, reason = "calls handlers of the same backend as the one it is called from")]
pub(super) fn unmodified<O: VectorOp, L: Lanes, const UNIFORM: bool>(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
) -> Flow {
    let low = half_of::<O, L, UNIFORM>(w, d, 0);
    // All sources are read before anything is written, so the other handler can do the instruction anew.
    let high = if w.halves == 1 { low } else { half_of::<O, L, UNIFORM>(w, d, 1) };
    let is_nan = |r: [L::V; 2]| O::NAN && L::unordered(r[0], r[1]) != 0;
    if is_nan(low) || w.halves != 1 && is_nan(high) {
        // SAFETY: the caller runs on a host with this backend, and the callee needs the same one.
        return unsafe { leave_to(scalar_handler::<O>(L::KIND), w, m, d) };
    }
    write::<L>(w, d.dst, exec_half(w, 0), low);
    if w.halves != 1 {
        write::<L>(w, d.dst + 1, exec_half(w, 1), high);
    }
    Flow::NEXT
}

/// The results of 32 lanes for [`unmodified`].
#[inline(always)]
fn half_of<O: VectorOp, L: Lanes, const UNIFORM: bool>(w: &Wave, d: &Di, half: u32) -> [L::V; 2] {
    let a = if UNIFORM {
        [L::splat(d.src[0].scalar(w)); 2]
    } else {
        read::<L, true>(w, &d.src[0], half, O::INPUT)
    };
    let b = if O::ARITY > 1 { read::<L, true>(w, &d.src[1], half, O::INPUT) } else { a };
    let c = if O::ARITY > 2 { read::<L, true>(w, &d.src[2], half, O::INPUT) } else { a };
    [O::lanes::<L>(a[0], b[0], c[0]), O::lanes::<L>(a[1], b[1], c[1])]
}

/// Handler body of a VOPD: two operations without modifiers, whose sources are all read before either writes.
///
/// `src[0]` and `src[1]` are the first sources, rows `src[2].value` and `imm` the second; a third is the destination.
#[inline(always)]
pub(super) fn dual<X: VectorOp, Y: VectorOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let row = |at: u32| w.v.row(at);
    let (x_row, y_row, x_acc, y_acc) = (row(d.src[2].value), row(d.imm), row(d.dst), row(d.dst2));
    let xa = read::<L, false>(w, &d.src[0], 0, Format::Bits);
    let ya = read::<L, false>(w, &d.src[1], 0, Format::Bits);
    let xb = [L::load(&x_row[0]), L::load(&x_row[1])];
    let yb = [L::load(&y_row[0]), L::load(&y_row[1])];
    let xc = if X::ARITY > 2 { [L::load(&x_acc[0]), L::load(&x_acc[1])] } else { xa };
    let yc = if Y::ARITY > 2 { [L::load(&y_acc[0]), L::load(&y_acc[1])] } else { ya };
    let x = [X::lanes::<L>(xa[0], xb[0], xc[0]), X::lanes::<L>(xa[1], xb[1], xc[1])];
    let y = [Y::lanes::<L>(ya[0], yb[0], yc[0]), Y::lanes::<L>(ya[1], yb[1], yc[1])];
    let x_nan = X::NAN && L::unordered(x[0], x[1]) != 0;
    let y_nan = Y::NAN && L::unordered(y[0], y[1]) != 0;
    if x_nan || y_nan {
        return dual_again::<X, Y>(w, d);
    }
    let exec = exec_half(w, 0);
    write::<L>(w, d.dst, exec, x);
    write::<L>(w, d.dst2, exec, y);
    Flow::NEXT
}

/// As [`dual`], by the scalar definitions.
#[cold]
#[inline(never)]
pub(super) fn dual_again<X: VectorOp, Y: VectorOp>(w: &mut Wave, d: &Di) -> Flow {
    let row = |at: u32| w.v.row(at).map(|chunk| chunk.0);
    let (xa, ya) = (
        read::<Portable, false>(w, &d.src[0], 0, Format::Bits),
        read::<Portable, false>(w, &d.src[1], 0, Format::Bits),
    );
    let x = again::<X, Portable>(xa, row(d.src[2].value), row(d.dst));
    let y = again::<Y, Portable>(ya, row(d.imm), row(d.dst2));
    let exec = exec_half(w, 0);
    write::<Portable>(w, d.dst, exec, x);
    write::<Portable>(w, d.dst2, exec, y);
    Flow::NEXT
}

/// `omod` and `clamp` of a single-precision result.
#[inline(never)]
pub(super) fn modified_output<L: Lanes>(r: [L::V; 2], d: &Di) -> [L::V; 2] {
    r.map(|v| L::from_array(L::to_array(v).map(|x| float::output_f32(x, d.omod, d.flags & flag::CLAMP != 0))))
}

/// The scalar definition over lanes already read.
#[cold]
#[inline(never)]
pub(super) fn again<O: VectorOp, L: Lanes>(a: [L::V; 2], b: [L::V; 2], c: [L::V; 2]) -> [L::V; 2] {
    core::array::from_fn(|n| {
        let (a, b, c) = (L::to_array(a[n]), L::to_array(b[n]), L::to_array(c[n]));
        let mut r = [0; 16];
        for i in 0..16 {
            let bits = [a[i], b[i], c[i]].map(u64::from);
            let value =
                O::scalar(O::A::from_bits(bits[0]), O::B::from_bits(bits[1]), O::C::from_bits(bits[2]));
            r[i] = u32::from_bits(value.bits());
        }
        L::from_array(r)
    })
}
