//! Comparisons: `V_CMP_*` write a lane mask, `V_CMPX_*` EXEC.
//!
//! A comparison is a set of outcomes that count as true, in the bits of the hardware's own opcode order: 1 less, 2 equal,
//! 4 greater, 8 unordered. So one handler per operand type serves all sixteen conditions.

use super::float;
use super::float::{double, half, single};
use super::op::{Format, Reg, exec_half, per_backend, read};
use crate::exec::di::flag;
use crate::exec::di::{Di, Flow, Handler, Machine};
use crate::lanes::{BackendKind, Lanes};
use crate::registers::slot;
use crate::wave::Wave;

pub(crate) const LESS: u8 = 1;
pub(crate) const EQUAL: u8 = 2;
pub(crate) const GREATER: u8 = 4;
pub(crate) const UNORDERED: u8 = 8;

/// Type of the operands of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operands {
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    /// A number and a mask of classes.
    ClassF16,
    ClassF32,
    ClassF64,
}

/// A type of compared operands.
pub(crate) trait Compared: Sized + 'static {
    type A: Reg;
    type B: Reg;
    const FORMAT: Format;
    /// True if `b` is a mask of classes.
    const CLASS: bool = false;
    /// Handler, by the lane form where there is one.
    fn handler(_backend: BackendKind) -> Handler {
        each_handler::<Self>
    }
    /// Returns true if the comparison is true. `outcomes` has a bit for each result (less, equal, greater, unordered)
    /// that counts as true.
    fn scalar(a: Self::A, b: Self::B, outcomes: u8) -> bool;
    /// Lanes that are less, equal, unordered.
    #[inline(always)]
    fn lanes<L: Lanes>(_a: L::V, _b: L::V) -> [u16; 3] {
        [0; 3]
    }
}

fn ordering<T: PartialOrd>(a: &T, b: &T) -> u8 {
    match a.partial_cmp(b) {
        Some(core::cmp::Ordering::Less) => LESS,
        Some(core::cmp::Ordering::Equal) => EQUAL,
        Some(core::cmp::Ordering::Greater) => GREATER,
        None => UNORDERED,
    }
}

macro_rules! compared {
    ($($name:ident: $reg:ty, $format:ident, |$x:ident| $value:expr $(, lanes($a:ident, $b:ident) $lanes:expr)?;)*) => {$(
        pub(crate) struct $name;
        impl Compared for $name {
            type A = $reg;
            type B = $reg;
            const FORMAT: Format = Format::$format;
            #[inline(always)]
            fn scalar(a: $reg, b: $reg, outcomes: u8) -> bool {
                let value = |$x: $reg| $value;
                ordering(&value(a), &value(b)) & outcomes != 0
            }
            $(
                fn handler(backend: BackendKind) -> Handler {
                    lanes_handler::<Self>(backend)
                }
                #[inline(always)]
                fn lanes<L: Lanes>($a: L::V, $b: L::V) -> [u16; 3] {
                    $lanes
                }
            )?
        }
    )*};
}

compared! {
    U16: u16, Bits, |x| x;
    I16: u16, Bits, |x| x.cast_signed();
    U32: u32, Bits, |x| x, lanes(a, b) [L::lt_u(a, b), L::eq(a, b), 0];
    I32: u32, Bits, |x| x.cast_signed(), lanes(a, b) [L::lt_i(a, b), L::eq(a, b), 0];
    U64: u64, Bits, |x| x;
    I64: u64, Bits, |x| x.cast_signed();
    F16: u16, F16, |x| half::to_f64(x);
    F32: u32, F32, |x| single::of(x), lanes(a, b) [L::flt(a, b), L::feq(a, b), L::unordered(a, b)];
    F64: u64, F64, |x| double::of(x);
}

macro_rules! classified {
    ($($name:ident: $reg:ty, $mask:ty, $format:ident, $class:path;)*) => {$(
        pub(crate) struct $name;
        impl Compared for $name {
            type A = $reg;
            type B = $mask;
            const FORMAT: Format = Format::$format;
            const CLASS: bool = true;
            #[inline(always)]
            fn scalar(a: $reg, b: $mask, _outcomes: u8) -> bool {
                $class(a, b.into())
            }
        }
    )*};
}

classified! {
    ClassF16: u16, u16, F16, half::class;
    ClassF32: u32, u32, F32, single::class;
    ClassF64: u64, u32, F64, double::class;
}

/// Handler of a comparison of scalar registers.
pub(crate) fn on_scalars<T: Compared>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let slow = d.flags & flag::SLOW != 0;
    let bits = |n: usize| u64::from(d.src[n].scalar(w));
    let (mut a, mut b) = (T::A::from_bits(bits(0)), T::B::from_bits(bits(1)));
    if slow {
        (a, b) = (float::flush_input(a, T::FORMAT, w.mode), float::flush_input(b, T::FORMAT, w.mode));
    }
    w.s[slot::SCC] = u32::from(T::scalar(a, b, d.aux));
    Flow::NEXT
}

/// Returns the lanes of one half for which the comparison is true, lanes that are off in EXEC included.
#[inline(always)]
fn compare<T: Compared, L: Lanes>(w: &Wave, d: &Di, half: u32) -> u32 {
    let a = read::<L, false>(w, &d.src[0], half, T::FORMAT);
    let b = read::<L, false>(w, &d.src[1], half, T::FORMAT);
    let (low, high) = (T::lanes::<L>(a[0], b[0]), T::lanes::<L>(a[1], b[1]));
    let join = |n: usize| u32::from(low[n]) | u32::from(high[n]) << 16;
    let (less, equal, unordered) = (join(0), join(1), join(2));
    let greater = !(less | equal | unordered);
    let pick = |outcome: u8, lanes: u32| if d.aux & outcome != 0 { lanes } else { 0 };
    pick(LESS, less) | pick(EQUAL, equal) | pick(GREATER, greater) | pick(UNORDERED, unordered)
}

/// As [`compare`], by the scalar definition.
fn compare_each<T: Compared>(w: &Wave, d: &Di, half: u32) -> u32 {
    let mut result = 0;
    for chunk in 0..2 {
        let mut a = T::A::gather(w, &d.src[0], half, chunk);
        let mut b = T::B::gather(w, &d.src[1], half, chunk);
        if T::FORMAT != Format::Bits {
            a = a.map(|x| x.modify(T::FORMAT, &d.src[0]));
            b = b.map(|x| x.modify(T::FORMAT, &d.src[1]));
            if d.flags & flag::SLOW != 0 {
                a = a.map(|x| float::flush_input(x, T::FORMAT, w.mode));
                if !T::CLASS {
                    b = b.map(|x| float::flush_input(x, T::FORMAT, w.mode));
                }
            }
        }
        for i in 0..16 {
            result |= u32::from(T::scalar(a[i], b[i], d.aux)) << (chunk * 16 + i);
        }
    }
    result
}

/// Writes a mask to a register pair, or to EXEC.
#[inline(always)]
fn to_mask(w: &mut Wave, d: &Di, first: u32, second: u32) -> Flow {
    let register = d.dst as usize;
    w.s[register & 255] = first & exec_half(w, 0);
    if w.halves == 2 {
        w.s[(register + 1) & 255] = second & exec_half(w, 1);
    }
    Flow::NEXT
}

/// Both halves come first: a source may be the destination.
#[inline(always)]
fn by_lanes<T: Compared, L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let first = compare::<T, L>(w, d, 0);
    let second = if w.halves == 2 { compare::<T, L>(w, d, 1) } else { 0 };
    to_mask(w, d, first, second)
}

per_backend! {
    lanes_handler [T: Compared] [T] |w, _m, d, L| by_lanes::<T, L>(w, d)
}

fn each_handler<T: Compared>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let first = compare_each::<T>(w, d, 0);
    let second = if w.halves == 2 { compare_each::<T>(w, d, 1) } else { 0 };
    to_mask(w, d, first, second)
}

/// Handlers of a comparison, for lowering.
pub(crate) struct Comparison {
    pub(crate) handler: Handler,
    /// For modes that flush denormals.
    pub(crate) slow: Handler,
    /// Outcomes that are true, for [`Di::aux`].
    pub(crate) outcomes: u8,
    pub(crate) bits: [u32; 2],
    pub(crate) format: Format,
    /// A class test: its second source is a mask.
    pub(crate) is_class: bool,
}

/// The comparison of such operands that is true for these outcomes.
pub(crate) fn entry(operands: Operands, outcomes: u8, backend: BackendKind) -> Comparison {
    match operands {
        Operands::U16 => of::<U16>(outcomes, backend),
        Operands::I16 => of::<I16>(outcomes, backend),
        Operands::U32 => of::<U32>(outcomes, backend),
        Operands::I32 => of::<I32>(outcomes, backend),
        Operands::U64 => of::<U64>(outcomes, backend),
        Operands::I64 => of::<I64>(outcomes, backend),
        Operands::F16 => of::<F16>(outcomes, backend),
        Operands::F32 => of::<F32>(outcomes, backend),
        Operands::F64 => of::<F64>(outcomes, backend),
        Operands::ClassF16 => of::<ClassF16>(outcomes, backend),
        Operands::ClassF32 => of::<ClassF32>(outcomes, backend),
        Operands::ClassF64 => of::<ClassF64>(outcomes, backend),
    }
}

fn of<T: Compared>(outcomes: u8, backend: BackendKind) -> Comparison {
    Comparison {
        handler: T::handler(backend),
        slow: each_handler::<T>,
        outcomes,
        bits: [T::A::BITS, T::B::BITS],
        format: T::FORMAT,
        is_class: T::CLASS,
    }
}
