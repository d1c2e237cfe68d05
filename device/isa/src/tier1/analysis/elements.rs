//! Elements that are moved between registers and memory, and the moves that compiled code does.

use super::EXEC;
use crate::exec::di::{Di, Kind};
use crate::exec::form::Form;
use crate::exec::memory::atomic::Function;
use crate::exec::properties::Moves;

/// Bytes of an element.
pub(crate) fn bytes(moves: Moves) -> u32 {
    match moves {
        Moves::Dwords(dwords) => dwords * 4,
        Moves::Part(part) => part.bytes,
        Moves::Atomic(..) => 0,
    }
}

/// Registers of an element.
pub(crate) fn registers(moves: Moves) -> u32 {
    if let Moves::Dwords(dwords) = moves { dwords } else { 1 }
}

pub(crate) const fn steps(first: u32, step: u32) -> [u32; 16] {
    let mut steps = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        steps[lane] = first + lane as u32 * step;
        lane += 1;
    }
    steps
}

/// Returns true if compiled code does a load or store itself.
pub(crate) fn has(form: Form) -> bool {
    match form {
        Form::GlobalLoad(moves)
        | Form::FlatLoad(moves)
        | Form::BufferLoad(moves)
        | Form::LdsLoad(moves)
        | Form::GlobalStore(moves)
        | Form::FlatStore(moves)
        | Form::BufferStore(moves)
        | Form::LdsStore(moves) => registers(moves) <= 4,
        Form::LdsLoadTwo(dwords) | Form::LdsStoreTwo(dwords) => dwords <= 2,
        Form::LdsAtomic(function, bits) | Form::GlobalAtomic(function, bits) => has_function(function, bits),
        _ => false,
    }
}

/// Returns true if there is code for a function of `bits` bits.
fn has_function(function: Function, bits: u32) -> bool {
    let known = !matches!(
        function,
        Function::Wrap
            | Function::CompareExchangeFloat
            | Function::MinFloat
            | Function::MaxFloat
            | Function::MinNumber
            | Function::MaxNumber
            | Function::AddHalves
            | Function::AddBrains
            | Function::OrderedAdd
    );
    known && matches!(bits, 32 | 64)
}

/// Returns true if compiled code does a load of `dwords` dwords itself.
pub(crate) fn has_scalar_load(dwords: u32, d: &Di) -> bool {
    let base = d.src[0].kind == Kind::Scalar && d.src[0].value < EXEC;
    let offset = matches!(d.src[1].kind, Kind::Scalar | Kind::Constant);
    base && offset && matches!(dwords, 1..=4 | 8 | 16) && d.dst + dwords <= EXEC
}
