//! Vector ALU operations: one scalar definition each, and the handlers made from it.
//!
//! An operation is a type with a scalar function; its handler applies that to every lane. Where speed matters it also
//! has a lane form, written with [`Lanes`]; tests hold the two equal. The `vector_ops!` tables in the family files
//! define both in a line or two.

use super::di::{Di, Flow, Handler, Kind, Machine, Source, flag};
use super::float;
use crate::lanes::{BackendKind, Lanes, Portable};
use crate::registers::slot;
use crate::wave::Wave;

/// Number format of an operation's operands, for modifiers and denormals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Integers and bits: no modifiers.
    Bits,
    F16,
    F32,
    F64,
}

/// A value held in one or two vector registers.
pub(crate) trait Reg: Copy + Default + 'static {
    /// 16, 32 or 64.
    const BITS: u32;
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [Self; 16];
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[Self; 16]);
    fn modify(self, format: Format, source: &Source) -> Self;
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
}

#[inline(always)]
fn words(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u32; 16] {
    match source.kind {
        Kind::Vector => w.v.row(source.value + half)[chunk].0,
        _ => [source.scalar(w); 16],
    }
}

impl Reg for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u32; 16] {
        words(w, source, half, chunk)
    }
    #[inline(always)]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u32; 16]) {
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { values[i] } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, format: Format, source: &Source) -> u32 {
        let sign = if format == Format::F16 { 0x8000 } else { 0x8000_0000 };
        let value = if source.abs { self & !sign } else { self };
        if source.neg { value ^ sign } else { value }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn from_bits(bits: u64) -> u32 {
        bits as u32
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Reg for u16 {
    const BITS: u32 = 16;
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the half asked for")]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u16; 16] {
        let shift = if source.high { 16 } else { 0 };
        words(w, source, half, chunk).map(|word| (word >> shift) as u16)
    }
    #[inline(always)]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u16; 16]) {
        let (shift, keep) = if di.flags & flag::DST_HIGH != 0 { (16, 0xffff) } else { (0, 0xffff_0000) };
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            let new = row[i] & keep | u32::from(values[i]) << shift;
            row[i] = if mask >> i & 1 != 0 { new } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, _format: Format, source: &Source) -> u16 {
        let value = if source.abs { self & 0x7fff } else { self };
        if source.neg { value ^ 0x8000 } else { value }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn from_bits(bits: u64) -> u16 {
        bits as u16
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Reg for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u64; 16] {
        match source.kind {
            Kind::Vector => {
                let low = &w.v.row(source.value + half)[chunk].0;
                let high = &w.v.row(source.value + half + w.halves)[chunk].0;
                core::array::from_fn(|i| u64::from(low[i]) | u64::from(high[i]) << 32)
            }
            _ => [source.scalar64(w); 16],
        }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "split into halves")]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u64; 16]) {
        let halves = w.halves;
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { values[i] as u32 } else { row[i] };
        }
        let row = &mut w.v.row_mut(di.dst + half + halves)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { (values[i] >> 32) as u32 } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, _format: Format, source: &Source) -> u64 {
        let value = if source.abs { self & !(1 << 63) } else { self };
        if source.neg { value ^ 1 << 63 } else { value }
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> u64 {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
}

/// An operation on up to three sources.
pub(crate) trait VectorOp: Sized + 'static {
    type A: Reg;
    type B: Reg;
    type C: Reg;
    type D: Reg;
    /// Sources it has.
    const ARITY: usize;
    /// Format of sources, for `neg`, `abs` and denormals.
    const INPUT: Format;
    /// Format of the result, for `omod`, `clamp` and denormals.
    const OUTPUT: Format;
    /// Whether [`VectorOp::lanes`] is there; all operands are then `u32`.
    const LANES: bool = false;
    /// Whether NaNs of the lane form have unspecified payloads, so that lanes with NaN results are done again.
    const NAN: bool = false;
    /// The definition.
    fn scalar(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
    /// The handler made from [`VectorOp::lanes`], for any operands.
    fn general(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// The same for plain vector register sources.
    fn plain(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// The same for plain vector register sources but the first, which is a scalar or constant without modifiers.
    fn uniform(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// The same for sixteen lanes.
    #[inline(always)]
    fn lanes<L: Lanes>(a: L::V, _b: L::V, _c: L::V) -> L::V {
        a
    }
}

/// Sixteen lanes of a 32-bit source, modifiers applied when `MODS`.
#[inline(always)]
pub(crate) fn read<L: Lanes, const PLAIN: bool>(
    w: &Wave,
    source: &Source,
    half: u32,
    format: Format,
) -> [L::V; 2] {
    if PLAIN {
        let row = w.v.row(source.value + half);
        return [L::load(&row[0]), L::load(&row[1])];
    }
    let mut value = match source.kind {
        Kind::Vector => {
            let row = w.v.row(source.value + half);
            [L::load(&row[0]), L::load(&row[1])]
        }
        _ => [L::splat(source.scalar(w)); 2],
    };
    if format == Format::F32 && (source.abs | source.neg) {
        if source.abs {
            let magnitude = L::splat(0x7fff_ffff);
            value = [L::and(value[0], magnitude), L::and(value[1], magnitude)];
        }
        if source.neg {
            let sign = L::splat(0x8000_0000);
            value = [L::xor(value[0], sign), L::xor(value[1], sign)];
        }
    }
    value
}

/// EXEC of a 32-lane half.
#[inline(always)]
pub(crate) fn exec_half(w: &Wave, half: u32) -> u32 {
    w.s[(slot::EXEC + half as usize) & 255]
}

/// Stores 32 lanes where `exec` says.
#[inline(always)]
pub(crate) fn write<L: Lanes>(w: &mut Wave, row: u32, exec: u32, value: [L::V; 2]) {
    let row = w.v.row_mut(row);
    if exec == u32::MAX {
        L::store(&mut row[0], value[0]);
        L::store(&mut row[1], value[1]);
    } else {
        let [low, high] = split(exec);
        L::store_mask(&mut row[0], value[0], low);
        L::store_mask(&mut row[1], value[1], high);
    }
}

/// The masks of both chunks.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "split into halves")]
pub(crate) fn split(exec: u32) -> [u16; 2] {
    [exec as u16, (exec >> 16) as u16]
}

/// Handler body of a [`VectorOp`] with a lane form, for any operands.
#[inline(always)]
fn vector<O: VectorOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
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

/// The same without modifiers in a wave32: vector registers for all sources, or all but the first with `UNIFORM`.
///
/// Whatever is rare is left to another handler as a whole, so that no operand has to go through memory for it.
#[inline(always)]
#[expect(unsafe_code, reason = "calls handlers of the same backend as the one it is called from")]
fn unmodified<O: VectorOp, L: Lanes, const UNIFORM: bool>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves != 1 {
        // SAFETY: the same backend, which whoever called this one had.
        return unsafe { general::<O>(L::KIND)(w, m, d) };
    }
    let a =
        if UNIFORM { [L::splat(d.src[0].scalar(w)); 2] } else { read::<L, true>(w, &d.src[0], 0, O::INPUT) };
    let b = if O::ARITY > 1 { read::<L, true>(w, &d.src[1], 0, O::INPUT) } else { a };
    let c = if O::ARITY > 2 { read::<L, true>(w, &d.src[2], 0, O::INPUT) } else { a };
    let r = [O::lanes::<L>(a[0], b[0], c[0]), O::lanes::<L>(a[1], b[1], c[1])];
    if O::NAN && L::unordered(r[0], r[1]) != 0 {
        // SAFETY: as above.
        return unsafe { scalar_handler::<O>(L::KIND)(w, m, d) };
    }
    let exec = exec_half(w, 0);
    write::<L>(w, d.dst, exec, r);
    Flow::NEXT
}

/// Handler body of a VOPD: two operations without modifiers, whose sources are all read before either writes.
///
/// `src[0]` and `src[1]` are the first sources, rows `src[2].value` and `imm` the second; a third is the destination.
#[inline(always)]
fn dual<X: VectorOp, Y: VectorOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
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
fn dual_again<X: VectorOp, Y: VectorOp>(w: &mut Wave, d: &Di) -> Flow {
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
fn modified_output<L: Lanes>(r: [L::V; 2], d: &Di) -> [L::V; 2] {
    r.map(|v| L::from_array(L::to_array(v).map(|x| float::output_f32(x, d.omod, d.flags & flag::CLAMP != 0))))
}

/// The scalar definition over lanes already read.
#[cold]
#[inline(never)]
fn again<O: VectorOp, L: Lanes>(a: [L::V; 2], b: [L::V; 2], c: [L::V; 2]) -> [L::V; 2] {
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

/// Sixteen lanes of an operation: the only code each operation without a lane form has to itself.
type Apply<A, B, C, D> = unsafe fn(&[A; 16], &[B; 16], &[C; 16], &mut [D; 16]);

/// What [`each_lane`] needs to know about an operation.
struct Shape<A, B, C, D> {
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
fn each_lane<A: Reg, B: Reg, C: Reg, D: Reg>(w: &mut Wave, d: &Di, shape: &Shape<A, B, C, D>) -> Flow {
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

#[inline(always)]
fn apply_all<O: VectorOp>(a: &[O::A; 16], b: &[O::B; 16], c: &[O::C; 16], r: &mut [O::D; 16]) {
    for i in 0..16 {
        r[i] = O::scalar(a[i], b[i], c[i]);
    }
}

fn apply_portable<O: VectorOp>(a: &[O::A; 16], b: &[O::B; 16], c: &[O::C; 16], r: &mut [O::D; 16]) {
    apply_all::<O>(a, b, c, r);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn apply_avx2<O: VectorOp>(a: &[O::A; 16], b: &[O::B; 16], c: &[O::C; 16], r: &mut [O::D; 16]) {
    apply_all::<O>(a, b, c, r);
}

fn scalar_portable<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: apply_portable::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

#[cfg(target_arch = "x86_64")]
fn scalar_avx2<O: VectorOp>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = Shape { apply: apply_avx2::<O>, arity: O::ARITY, input: O::INPUT, output: O::OUTPUT };
    each_lane(w, d, &shape)
}

/// Handler that applies the scalar definition to each lane, with any modifiers and modes.
fn scalar_handler<O: VectorOp>(backend: BackendKind) -> Handler {
    match backend {
        // With a lane form this one is for rare modes only.
        _ if O::LANES => scalar_portable::<O>,
        BackendKind::Portable => scalar_portable::<O>,
        #[cfg(target_arch = "x86_64")]
        BackendKind::Avx2 | BackendKind::Avx512 => scalar_avx2::<O>,
        #[cfg(not(target_arch = "x86_64"))]
        _ => scalar_portable::<O>,
    }
}

/// Instantiates a handler body for each backend.
///
/// `per_backend!(fn name<O: Bound>(w, m, d) => body::<O, L>(...))` makes a module `name` with `select`.
macro_rules! per_backend {
    ($(#[$meta:meta])* $name:ident [$($param:tt)*] [$($arg:tt)*] |$w:ident, $m:ident, $d:ident, $lanes:ident| $body:expr) => {
        $(#[$meta])*
        pub(crate) fn $name<$($param)*>(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            use $crate::exec::di::{Di, Flow, Handler, Machine};
            use $crate::wave::Wave;
            #[inline]
            fn portable<$($param)*>($w: &mut Wave, $m: &mut Machine<'_>, $d: &Di) -> Flow {
                type $lanes = $crate::lanes::Portable;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2<$($param)*>($w: &mut Wave, $m: &mut Machine<'_>, $d: &Di) -> Flow {
                type $lanes = $crate::lanes::Avx2;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            fn avx512<$($param)*>($w: &mut Wave, $m: &mut Machine<'_>, $d: &Di) -> Flow {
                type $lanes = $crate::lanes::Avx512;
                $body
            }
            match backend {
                $crate::lanes::BackendKind::Portable => portable::<$($arg)*> as Handler,
                #[cfg(target_arch = "x86_64")]
                $crate::lanes::BackendKind::Avx2 => avx2::<$($arg)*> as Handler,
                #[cfg(target_arch = "x86_64")]
                $crate::lanes::BackendKind::Avx512 => avx512::<$($arg)*> as Handler,
                #[cfg(not(target_arch = "x86_64"))]
                _ => portable::<$($arg)*> as Handler,
            }
        }
    };
}
pub(crate) use per_backend;

per_backend! {
    /// Handler of an operation with any operands.
    general [O: VectorOp] [O] |w, _m, d, L| vector::<O, L>(w, d)
}
per_backend! {
    /// Handler of an operation whose sources are all plain vector registers.
    plain [O: VectorOp] [O] |w, m, d, L| unmodified::<O, L, false>(w, m, d)
}
per_backend! {
    /// Handler of an operation whose first source is scalar and whose others are plain vector registers.
    uniform [O: VectorOp] [O] |w, m, d, L| unmodified::<O, L, true>(w, m, d)
}

per_backend! {
    /// Handler of a VOPD made of two operations with lane forms.
    dual_pair [X: VectorOp, Y: VectorOp] [X, Y] |w, _m, d, L| dual::<X, Y, L>(w, d)
}

/// What lowering needs to know about an operation.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) general: Handler,
    /// For modes that flush denormals.
    pub(crate) slow: Handler,
    /// For plain vector register sources without modifiers.
    pub(crate) plain: Option<Handler>,
    /// For a scalar or constant first source and plain vector registers for the others.
    pub(crate) uniform: Option<Handler>,
    pub(crate) arity: usize,
    /// Bits of each source.
    pub(crate) bits: [u32; 3],
    /// Bits of the destination.
    pub(crate) dst_bits: u32,
    pub(crate) input: Format,
    pub(crate) output: Format,
    /// The definition, on zero-extended bits: for tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by tests"))]
    pub(crate) scalar: fn(u64, u64, u64) -> u64,
}

impl Entry {
    /// The entry of `O` for a backend.
    pub(crate) fn of<O: VectorOp>(backend: BackendKind) -> Entry {
        Entry {
            general: if O::LANES { O::general(backend) } else { scalar_handler::<O>(backend) },
            slow: scalar_handler::<O>(backend),
            plain: if O::LANES { Some(O::plain(backend)) } else { None },
            uniform: if O::LANES { Some(O::uniform(backend)) } else { None },
            arity: O::ARITY,
            bits: [O::A::BITS, O::B::BITS, O::C::BITS],
            dst_bits: O::D::BITS,
            input: O::INPUT,
            output: O::OUTPUT,
            scalar: |a, b, c| O::scalar(O::A::from_bits(a), O::B::from_bits(b), O::C::from_bits(c)).bits(),
        }
    }
}

/// Defines operations and their table.
///
/// Each line is `NAME: INPUT -> OUTPUT, (a: T, b: T) -> T { scalar }`, optionally followed by `, lanes { … }` (or
/// `, nan { … }` when NaN payloads need the scalar form), where `L` is the backend.
macro_rules! vector_ops {
    ($($op:ident: $input:ident -> $output:ident, ($($arg:ident: $type:ty),*) -> $result:ty $scalar:block
        $(, lanes $lanes:block)? $(, nan $nan:block)?)*) => {
        $(
            #[expect(non_camel_case_types, reason = "named as the operation")]
            pub(crate) struct $op;
            $crate::exec::op::vector_op!($op $input $output ($($arg: $type),*) $result $scalar [$($lanes)?] [$($nan)?]);
        )*
        /// The operations defined here.
        #[cfg(test)]
        pub(crate) const ALL: &[$crate::inst::Op] = &[$($crate::inst::Op::$op),*];
        /// The entry of an operation defined here.
        pub(crate) fn entry(
            op: $crate::inst::Op,
            backend: $crate::lanes::BackendKind,
        ) -> Option<$crate::exec::op::Entry> {
            Some(match op {
                $($crate::inst::Op::$op => $crate::exec::op::Entry::of::<$op>(backend),)*
                _ => return None,
            })
        }
    };
}
pub(crate) use vector_ops;

macro_rules! vector_op {
    (@handlers) => {
        fn general(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::op::general::<Self>(backend)
        }
        fn plain(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::op::plain::<Self>(backend)
        }
        fn uniform(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::op::uniform::<Self>(backend)
        }
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?]) => {
        $crate::exec::op::vector_op!(@impl $op $input $output 1 ($a: $A, _b: u32, _c: u32) $D $scalar [$($lanes)?] [$($nan)?]);
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty, $b:ident: $B:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?]) => {
        $crate::exec::op::vector_op!(@impl $op $input $output 2 ($a: $A, $b: $B, _c: u32) $D $scalar [$($lanes)?] [$($nan)?]);
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?]) => {
        $crate::exec::op::vector_op!(@impl $op $input $output 3 ($a: $A, $b: $B, $c: $C) $D $scalar [$($lanes)?] [$($nan)?]);
    };
    (@impl $op:ident $input:ident $output:ident $arity:literal ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) $D:ty $scalar:block
        [$($lanes:block)?] [$($nan:block)?]) => {
        impl $crate::exec::op::VectorOp for $op {
            type A = $A;
            type B = $B;
            type C = $C;
            type D = $D;
            const ARITY: usize = $arity;
            const INPUT: $crate::exec::op::Format = $crate::exec::op::Format::$input;
            const OUTPUT: $crate::exec::op::Format = $crate::exec::op::Format::$output;
            #[inline(always)]
            fn scalar($a: $A, $b: $B, $c: $C) -> $D $scalar
            $(
                const LANES: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $lanes
                $crate::exec::op::vector_op!(@handlers);
            )?
            $(
                const LANES: bool = true;
                const NAN: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $nan
                $crate::exec::op::vector_op!(@handlers);
            )?
        }
    };
}
pub(crate) use vector_op;
