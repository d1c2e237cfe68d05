//! Image instructions. Those that are not listed are refused by name.

use super::Effect::{Atomic, Load, Store};
use super::{Effect, Family, Properties, Row, Space, of};
use crate::exec::image::Operation;
use crate::exec::image::form::Form;
use crate::exec::memory::atomic::Function;
use crate::inst::Op;

const fn moves(effect: Effect, names_level: bool) -> Properties {
    of(Family::Image(Operation::Moves { names_level })).memory(Space::Image, effect).coherent()
}

const fn atomic(function: Function) -> Properties {
    of(Family::Image(Operation::Atomic(function))).memory(Space::Image, Atomic).coherent()
}

const fn bits(effect: Effect, names_level: bool, signed: bool) -> Properties {
    of(Family::Image(Operation::MovesBits { names_level, signed })).memory(Space::Image, effect).coherent()
}

const QUADS: Form = Form::QUADS;
const LEVEL: Form = Form::LEVEL;
const BIAS: Form = Form::BIAS;
const COMPARES: Form = Form::COMPARES;
const GRADIENTS: Form = Form::GRADIENTS;
const G16: Form = Form::G16;
const LEAST: Form = Form::LEAST;
const OFFSET: Form = Form::OFFSET;
const GATHERS: Form = Form::GATHERS;
const ROW: Form = Form::ROW;

/// A sample with these parts in its name; one without a level of any kind is of level 0 (`_lz`).
const fn sample(parts: &[Form]) -> Properties {
    let (mut form, mut at) = (Form::PLAIN, 0);
    while at < parts.len() {
        form = form.and(parts[at]);
        at += 1;
    }
    of(Family::Image(Operation::Sample(form))).memory(Space::Image, Load).coherent()
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
    (Op::IMAGE_GATHER4, sample(&[GATHERS, QUADS])),
    (Op::IMAGE_GATHER4_B, sample(&[GATHERS, QUADS, BIAS])),
    (Op::IMAGE_GATHER4_B_CL, sample(&[GATHERS, QUADS, BIAS, LEAST])),
    (Op::IMAGE_GATHER4_C, sample(&[GATHERS, QUADS, COMPARES])),
    (Op::IMAGE_GATHER4_C_B, sample(&[GATHERS, COMPARES, QUADS, BIAS])),
    (Op::IMAGE_GATHER4_C_B_CL, sample(&[GATHERS, COMPARES, QUADS, BIAS, LEAST])),
    (Op::IMAGE_GATHER4_C_CL, sample(&[GATHERS, QUADS, COMPARES, LEAST])),
    (Op::IMAGE_GATHER4_C_L, sample(&[GATHERS, COMPARES, LEVEL])),
    (Op::IMAGE_GATHER4_C_LZ, sample(&[GATHERS, COMPARES])),
    (Op::IMAGE_GATHER4_C_LZ_O, sample(&[GATHERS, COMPARES, OFFSET])),
    (Op::IMAGE_GATHER4_CL, sample(&[GATHERS, QUADS, LEAST])),
    (Op::IMAGE_GATHER4_L, sample(&[GATHERS, LEVEL])),
    (Op::IMAGE_GATHER4_LZ, sample(&[GATHERS])),
    (Op::IMAGE_GATHER4_LZ_O, sample(&[GATHERS, OFFSET])),
    (Op::IMAGE_GATHER4_O, sample(&[GATHERS, QUADS, OFFSET])),
    (Op::IMAGE_GATHER4H, sample(&[GATHERS, ROW, QUADS])),
    (Op::IMAGE_GET_LOD, of(Family::Image(Operation::Sample(QUADS.and(Form::ASKS))))),
    (Op::IMAGE_GET_RESINFO, of(Family::Image(Operation::Size))),
    (Op::IMAGE_LOAD, moves(Load, false)),
    (Op::IMAGE_LOAD_MIP, moves(Load, true)),
    (Op::IMAGE_LOAD_MIP_PCK, bits(Load, true, false)),
    (Op::IMAGE_LOAD_MIP_PCK_SGN, bits(Load, true, true)),
    (Op::IMAGE_LOAD_PCK, bits(Load, false, false)),
    (Op::IMAGE_LOAD_PCK_SGN, bits(Load, false, true)),
    (Op::IMAGE_SAMPLE, sample(&[QUADS])),
    (Op::IMAGE_SAMPLE_B, sample(&[QUADS, BIAS])),
    (Op::IMAGE_SAMPLE_B_CL, sample(&[QUADS, BIAS, LEAST])),
    (Op::IMAGE_SAMPLE_B_CL_O, sample(&[QUADS, BIAS, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_B_O, sample(&[QUADS, BIAS, OFFSET])),
    (Op::IMAGE_SAMPLE_C, sample(&[QUADS, COMPARES])),
    (Op::IMAGE_SAMPLE_C_B, sample(&[COMPARES, QUADS, BIAS])),
    (Op::IMAGE_SAMPLE_C_B_CL, sample(&[COMPARES, QUADS, BIAS, LEAST])),
    (Op::IMAGE_SAMPLE_C_B_CL_O, sample(&[COMPARES, QUADS, BIAS, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_C_B_O, sample(&[COMPARES, QUADS, BIAS, OFFSET])),
    (Op::IMAGE_SAMPLE_C_CL, sample(&[QUADS, COMPARES, LEAST])),
    (Op::IMAGE_SAMPLE_C_CL_O, sample(&[QUADS, COMPARES, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_C_D, sample(&[COMPARES, GRADIENTS])),
    (Op::IMAGE_SAMPLE_C_D_CL, sample(&[COMPARES, GRADIENTS, LEAST])),
    (Op::IMAGE_SAMPLE_C_D_CL_G16, sample(&[COMPARES, GRADIENTS, LEAST, G16])),
    (Op::IMAGE_SAMPLE_C_D_CL_O, sample(&[COMPARES, GRADIENTS, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_C_D_CL_O_G16, sample(&[COMPARES, GRADIENTS, LEAST, OFFSET, G16])),
    (Op::IMAGE_SAMPLE_C_D_G16, sample(&[COMPARES, GRADIENTS, G16])),
    (Op::IMAGE_SAMPLE_C_D_O, sample(&[COMPARES, GRADIENTS, OFFSET])),
    (Op::IMAGE_SAMPLE_C_D_O_G16, sample(&[COMPARES, GRADIENTS, OFFSET, G16])),
    (Op::IMAGE_SAMPLE_C_L, sample(&[COMPARES, LEVEL])),
    (Op::IMAGE_SAMPLE_C_L_O, sample(&[COMPARES, LEVEL, OFFSET])),
    (Op::IMAGE_SAMPLE_C_LZ, sample(&[COMPARES])),
    (Op::IMAGE_SAMPLE_C_LZ_O, sample(&[COMPARES, OFFSET])),
    (Op::IMAGE_SAMPLE_C_O, sample(&[QUADS, COMPARES, OFFSET])),
    (Op::IMAGE_SAMPLE_CL, sample(&[QUADS, LEAST])),
    (Op::IMAGE_SAMPLE_CL_O, sample(&[QUADS, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_D, sample(&[GRADIENTS])),
    (Op::IMAGE_SAMPLE_D_CL, sample(&[GRADIENTS, LEAST])),
    (Op::IMAGE_SAMPLE_D_CL_G16, sample(&[GRADIENTS, LEAST, G16])),
    (Op::IMAGE_SAMPLE_D_CL_O, sample(&[GRADIENTS, LEAST, OFFSET])),
    (Op::IMAGE_SAMPLE_D_CL_O_G16, sample(&[GRADIENTS, LEAST, OFFSET, G16])),
    (Op::IMAGE_SAMPLE_D_G16, sample(&[GRADIENTS, G16])),
    (Op::IMAGE_SAMPLE_D_O, sample(&[GRADIENTS, OFFSET])),
    (Op::IMAGE_SAMPLE_D_O_G16, sample(&[GRADIENTS, OFFSET, G16])),
    (Op::IMAGE_SAMPLE_L, sample(&[LEVEL])),
    (Op::IMAGE_SAMPLE_L_O, sample(&[LEVEL, OFFSET])),
    (Op::IMAGE_SAMPLE_LZ, sample(&[])),
    (Op::IMAGE_SAMPLE_LZ_O, sample(&[OFFSET])),
    (Op::IMAGE_SAMPLE_O, sample(&[QUADS, OFFSET])),
    (Op::IMAGE_STORE, moves(Store, false)),
    (Op::IMAGE_STORE_MIP, moves(Store, true)),
    (Op::IMAGE_STORE_MIP_PCK, bits(Store, true, false)),
    (Op::IMAGE_STORE_PCK, bits(Store, false, false)),
];
