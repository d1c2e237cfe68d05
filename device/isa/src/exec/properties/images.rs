//! Image instructions. Those that are not listed are refused by name.

use super::Effect::{Atomic, Load, Store};
use super::{Effect, Family, Properties, Row, Space, of};
use crate::exec::image::Operation;
use crate::exec::memory::atomic::Function;
use crate::inst::Op;

const fn moves(effect: Effect, names_level: bool) -> Properties {
    of(Family::Image(Operation::Moves { names_level })).memory(Space::Image, effect).coherent()
}

const fn atomic(function: Function) -> Properties {
    of(Family::Image(Operation::Atomic(function))).memory(Space::Image, Atomic).coherent()
}

const fn sample(names_level: bool, gathers: bool) -> Properties {
    of(Family::Image(Operation::Sample { names_level, gathers })).memory(Space::Image, Load).coherent()
}

pub(super) const ROWS: &[Row] = &[
    (Op::IMAGE_ATOMIC_ADD, atomic(Function::Add)),
    (Op::IMAGE_ATOMIC_ADD_FLT, atomic(Function::AddFloat)),
    (Op::IMAGE_ATOMIC_ADD_UINT, atomic(Function::Add)),
    (Op::IMAGE_ATOMIC_AND, atomic(Function::And)),
    (Op::IMAGE_ATOMIC_CMPSWAP, atomic(Function::CompareExchange)),
    (Op::IMAGE_ATOMIC_DEC, atomic(Function::Decrement)),
    (Op::IMAGE_ATOMIC_DEC_UINT, atomic(Function::Decrement)),
    (Op::IMAGE_ATOMIC_INC, atomic(Function::Increment)),
    (Op::IMAGE_ATOMIC_INC_UINT, atomic(Function::Increment)),
    (Op::IMAGE_ATOMIC_MAX_FLT, atomic(Function::MaxNumber)),
    (Op::IMAGE_ATOMIC_MAX_INT, atomic(Function::MaxSigned)),
    (Op::IMAGE_ATOMIC_MAX_UINT, atomic(Function::MaxUnsigned)),
    (Op::IMAGE_ATOMIC_MIN_FLT, atomic(Function::MinNumber)),
    (Op::IMAGE_ATOMIC_MIN_INT, atomic(Function::MinSigned)),
    (Op::IMAGE_ATOMIC_MIN_UINT, atomic(Function::MinUnsigned)),
    (Op::IMAGE_ATOMIC_OR, atomic(Function::Or)),
    (Op::IMAGE_ATOMIC_PK_ADD_BF16, atomic(Function::AddBrains)),
    (Op::IMAGE_ATOMIC_PK_ADD_F16, atomic(Function::AddHalves)),
    (Op::IMAGE_ATOMIC_SMAX, atomic(Function::MaxSigned)),
    (Op::IMAGE_ATOMIC_SMIN, atomic(Function::MinSigned)),
    (Op::IMAGE_ATOMIC_SUB, atomic(Function::Sub)),
    (Op::IMAGE_ATOMIC_SUB_UINT, atomic(Function::Sub)),
    (Op::IMAGE_ATOMIC_SWAP, atomic(Function::Exchange)),
    (Op::IMAGE_ATOMIC_UMAX, atomic(Function::MaxUnsigned)),
    (Op::IMAGE_ATOMIC_UMIN, atomic(Function::MinUnsigned)),
    (Op::IMAGE_ATOMIC_XOR, atomic(Function::Xor)),
    (Op::IMAGE_GATHER4_L, sample(true, true)),
    (Op::IMAGE_GATHER4_LZ, sample(false, true)),
    (Op::IMAGE_GET_RESINFO, of(Family::Image(Operation::Size))),
    (Op::IMAGE_LOAD, moves(Load, false)),
    (Op::IMAGE_LOAD_MIP, moves(Load, true)),
    (Op::IMAGE_SAMPLE_L, sample(true, false)),
    (Op::IMAGE_SAMPLE_LZ, sample(false, false)),
    (Op::IMAGE_STORE, moves(Store, false)),
    (Op::IMAGE_STORE_MIP, moves(Store, true)),
];
