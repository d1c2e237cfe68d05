//! Vector ALU operations: one scalar definition each, and the handlers made from it.
//!
//! An operation is a type with a scalar function; its handler applies that to every lane. Where speed matters it also
//! has a lane form, written with [`Lanes`]; tests hold the two equal. The `vector_ops!` tables in the family files
//! define both in a line or two.

use super::di::{Di, Flow, Handler, Kind, Source, flag};
use super::float;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Wave, number};

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
    fn gather<L: Lanes>(w: &Wave, source: &Source, half: u32, chunk: usize) -> [Self; 16];
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
    fn gather<L: Lanes>(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u32; 16] {
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
    fn gather<L: Lanes>(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u16; 16] {
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
    fn gather<L: Lanes>(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u64; 16] {
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
pub(crate) trait VectorOp: 'static {
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
    /// The same for sixteen lanes.
    #[inline(always)]
    fn lanes<L: Lanes>(a: L::V, _b: L::V, _c: L::V) -> L::V {
        a
    }
}

/// Sixteen lanes of a 32-bit source, modifiers applied when `MODS`.
#[inline(always)]
pub(crate) fn read<L: Lanes, const PLAIN: bool>(w: &Wave, source: &Source, half: u32, format: Format) -> [L::V; 2] {
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
            value = value.map(|v| L::and(v, L::splat(0x7fff_ffff)));
        }
        if source.neg {
            value = value.map(|v| L::xor(v, L::splat(0x8000_0000)));
        }
    }
    value
}

/// EXEC of a 32-lane half.
#[inline(always)]
pub(crate) fn exec_half(w: &Wave, half: u32) -> u32 {
    w.s[(number::EXEC + half as usize) & 255]
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

/// Handler body of a [`VectorOp`].
#[inline(always)]
fn vector<O: VectorOp, L: Lanes, const PLAIN: bool>(w: &mut Wave, d: &Di) -> Flow {
    if !O::LANES || (!PLAIN && d.flags & flag::SLOW != 0 && (O::INPUT != Format::Bits || O::OUTPUT != Format::Bits)) {
        return each_lane::<O, L>(w, d);
    }
    for half in 0..w.halves {
        let a = read::<L, PLAIN>(w, &d.src[0], half, O::INPUT);
        let b = if O::ARITY > 1 { read::<L, PLAIN>(w, &d.src[1], half, O::INPUT) } else { a };
        let c = if O::ARITY > 2 { read::<L, PLAIN>(w, &d.src[2], half, O::INPUT) } else { a };
        let mut r = [O::lanes::<L>(a[0], b[0], c[0]), O::lanes::<L>(a[1], b[1], c[1])];
        if O::NAN && L::unordered(r[0], r[1]) != 0 {
            r = again::<O, L>(a, b, c);
        }
        if !PLAIN && O::OUTPUT == Format::F32 && (d.omod != 0 || d.flags & flag::CLAMP != 0) {
            r = r.map(|v| L::from_array(L::to_array(v).map(|x| float::output_f32(x, d.omod, d.flags & flag::CLAMP != 0))));
        }
        let exec = exec_half(w, half);
        write::<L>(w, d.dst + half, exec, r);
    }
    Flow::NEXT
}

/// The scalar definition over lanes already read.
#[cold]
#[inline(never)]
fn again<O: VectorOp, L: Lanes>(a: [L::V; 2], b: [L::V; 2], c: [L::V; 2]) -> [L::V; 2] {
    core::array::from_fn(|n| {
        let (a, b, c) = (L::to_array(a[n]), L::to_array(b[n]), L::to_array(c[n]));
        L::from_array(core::array::from_fn(|i| {
            let value = O::scalar(
                O::A::from_bits(u64::from(a[i])),
                O::B::from_bits(u64::from(b[i])),
                O::C::from_bits(u64::from(c[i])),
            );
            u32::from_bits(value.bits())
        }))
    })
}

/// Handler body that applies the scalar definition to each lane.
#[inline(always)]
fn each_lane<O: VectorOp, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let slow = d.flags & flag::SLOW != 0;
    for half in 0..w.halves {
        let exec = split(exec_half(w, half));
        for (chunk, &mask) in exec.iter().enumerate() {
            if mask == 0 {
                continue;
            }
            let mut a = O::A::gather::<L>(w, &d.src[0], half, chunk);
            let mut b = if O::ARITY > 1 { O::B::gather::<L>(w, &d.src[1], half, chunk) } else { [O::B::default(); 16] };
            let mut c = if O::ARITY > 2 { O::C::gather::<L>(w, &d.src[2], half, chunk) } else { [O::C::default(); 16] };
            if O::INPUT != Format::Bits {
                modify::<O>(d, &mut a, &mut b, &mut c);
            }
            if slow {
                let mode = w.mode;
                a = a.map(|x| float::flush_input(x, O::INPUT, mode));
                b = b.map(|x| float::flush_input(x, O::INPUT, mode));
                c = c.map(|x| float::flush_input(x, O::INPUT, mode));
            }
            let mut r = [O::D::default(); 16];
            for i in 0..16 {
                r[i] = O::scalar(a[i], b[i], c[i]);
            }
            if slow {
                let mode = w.mode;
                r = r.map(|x| float::flush_output(x, O::OUTPUT, mode));
            }
            if O::OUTPUT != Format::Bits && (d.omod != 0 || d.flags & flag::CLAMP != 0) {
                r = r.map(|x| float::output(x, O::OUTPUT, d.omod, d.flags & flag::CLAMP != 0));
            }
            O::D::scatter(w, d, half, chunk, mask, &r);
        }
    }
    Flow::NEXT
}

#[inline(always)]
fn modify<O: VectorOp>(d: &Di, a: &mut [O::A; 16], b: &mut [O::B; 16], c: &mut [O::C; 16]) {
    let [x, y, z] = &d.src;
    if x.neg | x.abs {
        *a = a.map(|v| v.modify(O::INPUT, x));
    }
    if O::ARITY > 1 && y.neg | y.abs {
        *b = b.map(|v| v.modify(O::INPUT, y));
    }
    if O::ARITY > 2 && z.neg | z.abs {
        *c = c.map(|v| v.modify(O::INPUT, z));
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
    general [O: VectorOp] [O] |w, _m, d, L| vector::<O, L, false>(w, d)
}
per_backend! {
    /// Handler of an operation whose sources are all plain vector registers.
    plain [O: VectorOp] [O] |w, _m, d, L| vector::<O, L, true>(w, d)
}

/// What lowering needs to know about an operation.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) general: Handler,
    /// For plain vector register sources without modifiers.
    pub(crate) plain: Option<Handler>,
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
            general: general::<O>(backend),
            plain: if O::LANES { Some(plain::<O>(backend)) } else { None },
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
            )?
            $(
                const LANES: bool = true;
                const NAN: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $nan
            )?
        }
    };
}
pub(crate) use vector_op;
