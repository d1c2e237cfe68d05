//! FLAT, GLOBAL and SCRATCH instructions.
//!
//! `src[0]` is VADDR, `src[1]` VDATA, `src[2]` SADDR (a constant 0 when it is off), `imm` the signed byte offset, `aux`
//! what the handler needs, `dst2` the address form: see [`Form`].

mod address;
mod atomic;
mod block;
mod failure;
mod lane;
mod load;
mod store;
mod transposed;

pub(crate) use address::Form;
pub(crate) use address::segment;
pub(crate) use block::{load_block, store_block};
pub(crate) use failure::{active, lanes};
pub(crate) use transposed::transpose;

use crate::exec::di::Handler;
use crate::exec::properties::{Effect, Moves};
use crate::lanes::BackendKind;
use atomic::{atomic32, atomic64};
use load::{load_b32, load_n, load_narrow};
use store::{store_b32, store_n, store_narrow};

/// Handler and operands of a FLAT, GLOBAL or SCRATCH operation, for lowering.
pub(crate) struct FlatEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Registers of the result, 0 for none (atomics: when they return).
    pub(crate) dst: u32,
    /// Registers of the data operand.
    pub(crate) data: u32,
    pub(crate) atomic: bool,
}

impl FlatEntry {
    pub(crate) const fn new(handler: Handler) -> Self {
        FlatEntry { handler, aux: 0, dst: 0, data: 0, atomic: false }
    }
}

/// Returns the entry of an operation with this effect; `None` if no operation is like that.
pub(crate) fn entry(moves: Moves, effect: Effect, backend: BackendKind) -> Option<FlatEntry> {
    let load = |handler: Handler, dst: u32| FlatEntry { dst, ..FlatEntry::new(handler) };
    let store = |handler: Handler, data: u32| FlatEntry { data, ..FlatEntry::new(handler) };
    Some(match (effect, moves) {
        (Effect::Load, Moves::Dwords(1)) => load(load_b32(backend), 1),
        (Effect::Load, Moves::Dwords(2)) => load(load_n::<2>(backend), 2),
        (Effect::Load, Moves::Dwords(3)) => load(load_n::<3>(backend), 3),
        (Effect::Load, Moves::Dwords(4)) => load(load_n::<4>(backend), 4),
        (Effect::Load, Moves::Part(part)) => FlatEntry { aux: part.pack(), ..load(load_narrow(backend), 1) },
        (Effect::Store, Moves::Dwords(1)) => store(store_b32(backend), 1),
        (Effect::Store, Moves::Dwords(2)) => store(store_n::<2>(backend), 2),
        (Effect::Store, Moves::Dwords(3)) => store(store_n::<3>(backend), 3),
        (Effect::Store, Moves::Dwords(4)) => store(store_n::<4>(backend), 4),
        (Effect::Store, Moves::Part(part)) => FlatEntry { aux: part.pack(), ..store(store_narrow, 1) },
        (Effect::Atomic, Moves::Atomic(function, bits)) => FlatEntry {
            handler: if bits == 64 { atomic64 } else { atomic32 },
            aux: function as u8,
            dst: bits / 32,
            data: bits / 32 * function.operands(),
            atomic: true,
        },
        _ => return None,
    })
}
