//! Vector ALU operations: one scalar definition each, and the handlers made from it.
//!
//! An operation is a type with a scalar function; its handler applies that to every lane. Where speed matters it also
//! has a lane form, written with [`Lanes`]; tests hold the two equal. The `vector_ops!` tables in the family files
//! define both in a line or two.

mod scalar;
mod value;
mod vector;

pub(crate) use scalar::fetch;
pub(crate) use value::{Reg, exec_half, read, split, write};

use crate::exec::di::Handler;
use crate::lanes::{BackendKind, Lanes};
use scalar::{on_scalars, scalar_handler};
use vector::{dual, unmodified, vector};

/// Number format of an operation's operands, for modifiers and denormals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Integers and bits: no modifiers.
    Bits,
    F16,
    F32,
    F64,
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
    /// True if [`VectorOp::lanes`] is defined; all operands are then `u32`.
    const LANES: bool = false;
    /// True if NaNs of the lane form have unspecified payloads, so that lanes with NaN results are done again.
    const NAN: bool = false;
    /// The definition.
    fn scalar(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
    /// True if the lane form serves all modes, which flush denormals before and after it: the definition takes too long.
    const CURVE: bool = false;
    /// Sixteen of them, for hosts with fused multiply-adds.
    #[inline(always)]
    fn sixteen(a: &[Self::A; 16], b: &[Self::B; 16], c: &[Self::C; 16], r: &mut [Self::D; 16]) {
        for i in 0..16 {
            r[i] = Self::scalar(a[i], b[i], c[i]);
        }
    }
    /// The handler made from [`VectorOp::lanes`], for any operands.
    fn general(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// As [`VectorOp::general`], for plain vector register sources.
    fn plain(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// As [`VectorOp::general`], for plain vector register sources except the first, which is a scalar or constant
    /// without modifiers.
    fn uniform(backend: BackendKind) -> Handler {
        scalar_handler::<Self>(backend)
    }
    /// The definition for sixteen lanes.
    #[inline(always)]
    fn lanes<L: Lanes>(a: L::V, _b: L::V, _c: L::V) -> L::V {
        a
    }
}

/// Sixteen results of a lane form with one source: for tests.
#[cfg(test)]
pub(crate) fn lanes_of<O: VectorOp<A = u32>>(backend: BackendKind, a: &[u32; 16]) -> [u32; 16] {
    scalar::lanes_of::<O>(backend, a)
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

/// Handlers and operand types of an operation, for lowering.
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
    /// As `general` on scalar registers, with any modifiers and modes.
    pub(crate) on_scalars: Handler,
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
            on_scalars: on_scalars::<O>,
            scalar: |a, b, c| O::scalar(O::A::from_bits(a), O::B::from_bits(b), O::C::from_bits(c)).bits(),
        }
    }
}

/// Defines operations and their table.
///
/// Each line is `NAME: INPUT -> OUTPUT, (a: T, b: T) -> T { scalar }`, optionally followed by `, lanes { … }` (or
/// `, nan { … }` when NaN payloads need the scalar form, or `, curve { … }` when the scalar form takes long), where `L` is the backend; or by
/// `, sixteen path`, a function of sixteen lanes of three sources, their results and the scalar form.
macro_rules! vector_ops {
    ($($op:ident: $input:ident -> $output:ident, ($($arg:ident: $type:ty),*) -> $result:ty $scalar:block
        $(, lanes $lanes:block)? $(, nan $nan:block)? $(, sixteen $sixteen:path)? $(, curve $curve:block)?)*) => {
        $(
            #[expect(non_camel_case_types, reason = "named as the operation")]
            pub(crate) struct $op;
            $crate::exec::vector::op::vector_op!($op $input $output ($($arg: $type),*) $result $scalar [$($lanes)?] [$($nan)?] [$($sixteen)?] [$($curve)?]);
        )*
        /// The operations defined here.
        #[cfg(test)]
        pub(crate) const ALL: &[$crate::inst::Op] = &[$($crate::inst::Op::$op),*];
        /// The entry of an operation defined here.
        pub(crate) fn entry(
            op: $crate::inst::Op,
            backend: $crate::lanes::BackendKind,
        ) -> Option<$crate::exec::vector::op::Entry> {
            Some(match op {
                $($crate::inst::Op::$op => $crate::exec::vector::op::Entry::of::<$op>(backend),)*
                _ => return None,
            })
        }
    };
}
pub(crate) use vector_ops;

macro_rules! vector_op {
    (@sixteen 3 $sixteen:path, $a:ident, $b:ident, $c:ident, $r:ident) => {
        $sixteen([$a, $b, $c], $r, Self::scalar)
    };
    (@handlers) => {
        fn general(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::vector::op::general::<Self>(backend)
        }
        fn plain(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::vector::op::plain::<Self>(backend)
        }
        fn uniform(backend: $crate::lanes::BackendKind) -> $crate::exec::di::Handler {
            $crate::exec::vector::op::uniform::<Self>(backend)
        }
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?] [$($sixteen:path)?] [$($curve:block)?]) => {
        $crate::exec::vector::op::vector_op!(@impl $op $input $output 1 ($a: $A, _b: u32, _c: u32) $D $scalar [$($lanes)?] [$($nan)?] [$($sixteen)?] [$($curve)?]);
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty, $b:ident: $B:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?] [$($sixteen:path)?] [$($curve:block)?]) => {
        $crate::exec::vector::op::vector_op!(@impl $op $input $output 2 ($a: $A, $b: $B, _c: u32) $D $scalar [$($lanes)?] [$($nan)?] [$($sixteen)?] [$($curve)?]);
    };
    ($op:ident $input:ident $output:ident ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) $D:ty $scalar:block [$($lanes:block)?] [$($nan:block)?] [$($sixteen:path)?] [$($curve:block)?]) => {
        $crate::exec::vector::op::vector_op!(@impl $op $input $output 3 ($a: $A, $b: $B, $c: $C) $D $scalar [$($lanes)?] [$($nan)?] [$($sixteen)?] [$($curve)?]);
    };
    (@impl $op:ident $input:ident $output:ident $arity:tt ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) $D:ty $scalar:block
        [$($lanes:block)?] [$($nan:block)?] [$($sixteen:path)?] [$($curve:block)?]) => {
        impl $crate::exec::vector::op::VectorOp for $op {
            type A = $A;
            type B = $B;
            type C = $C;
            type D = $D;
            const ARITY: usize = $arity;
            const INPUT: $crate::exec::vector::op::Format = $crate::exec::vector::op::Format::$input;
            const OUTPUT: $crate::exec::vector::op::Format = $crate::exec::vector::op::Format::$output;
            #[inline(always)]
            fn scalar($a: $A, $b: $B, $c: $C) -> $D $scalar
            $(
                const LANES: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $lanes
                $crate::exec::vector::op::vector_op!(@handlers);
            )?
            $(
                const LANES: bool = true;
                const NAN: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $nan
                $crate::exec::vector::op::vector_op!(@handlers);
            )?
            $(
                const LANES: bool = true;
                const CURVE: bool = true;
                #[inline(always)]
                fn lanes<L: $crate::lanes::Lanes>($a: L::V, $b: L::V, $c: L::V) -> L::V $curve
                $crate::exec::vector::op::vector_op!(@handlers);
            )?
            $(
                #[inline(always)]
                fn sixteen(a: &[$A; 16], _b: &[$B; 16], _c: &[$C; 16], r: &mut [$D; 16]) {
                    $crate::exec::vector::op::vector_op!(@sixteen $arity $sixteen, a, _b, _c, r);
                }
            )?
        }
    };
}
pub(crate) use vector_op;
