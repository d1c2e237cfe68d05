//! LDS instructions.
//!
//! `src[0]` is the address row, `src[1]` and `src[2]` the data rows, `imm` the byte offset (two-address operations: the
//! second in `dst2`).
//!
//! Bytes outside the workgroup's allocation read 0, are not written and do not fault ("RDNA3 Instruction Set
//! Architecture", 3.3.4.1, with `LDS_CONFIG.ADDR_OUT_OF_RANGE_REPORTING` 0). Each lane's access counts as a whole: if
//! one byte is outside, all of it is. Atomics at an address that is no multiple of their size fault (3.3.3).

mod atomic;
mod load;
pub(crate) mod narrow;
pub(crate) mod pattern;
mod permute;
mod store;
mod transposed;

pub(crate) use load::{clear, load_b64};
pub(crate) use transposed::{dwords as transposed_dwords, transpose};

use super::atomic::Function;
use crate::exec::di::{Di, Handler, Machine};
use crate::exec::properties::{Effect, Moves};
use crate::exec::vector::lane::for_each_active;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Wave;
use atomic::{append_consume, atomic32, atomic64};
use load::{load_2addr, load_n};
use narrow::{load_narrow, store_narrow};
pub(crate) use permute::swizzled;
use permute::{bpermute, permute, swizzle};
use store::{store_2addr, store_n};

/// Lanes whose `bytes` at `at`, the sum of address and offset, are all inside. The sum wraps at 32 bits: compilers give
/// negative addresses an offset that makes up for it.
#[inline(always)]
fn in_range<L: Lanes>(m: &Machine<'_>, at: L::V, bytes: u32) -> u16 {
    let Some(last) = m.lds.size().checked_sub(bytes) else { return 0 };
    !L::lt_u(L::splat(last), at)
}

/// Calls `f` with each active lane's address.
#[inline(always)]
fn each_address(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, u32),
) {
    for_each_active(w, |w, lane| {
        let base = w.v.lane(d.src[0].value + lane / 32, lane & 31);
        f(w, m, lane, base.wrapping_add(d.imm));
    });
}

/// Handler and operands of a DS operation, for lowering.
pub(crate) struct DsEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Registers of the destination, 0 for none.
    pub(crate) dst: u32,
    /// Registers of each data operand.
    pub(crate) data: u32,
    /// Bytes one unit of `offset0`/`offset1` stands for; 0: one 16-bit byte offset.
    pub(crate) unit: u32,
}

/// Kind of a DS operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A load, a store, or an atomic that returns nothing.
    Moves(Moves),
    /// An atomic of this many bits that returns the old value.
    Returning(Function, u32),
    /// A load or store of this many dwords at each of two addresses, whose offsets count units of this many bytes.
    Two { dwords: u32, unit: u32 },
    /// `ds_permute_b32`.
    Permute,
    /// `ds_bpermute_b32`.
    BackwardPermute,
    /// `ds_swizzle_b32`.
    Swizzle,
    /// `ds_append`.
    Append,
    /// `ds_consume`.
    Consume,
}

/// Returns the entry of an operation with this effect on LDS; `None` if no operation is like that.
pub(crate) fn entry(operation: Operation, effect: Option<Effect>, backend: BackendKind) -> Option<DsEntry> {
    use Effect::{Load, Store};
    use Moves::{Dwords, Part};
    let simple = |handler: Handler, dst: u32, data: u32| DsEntry { handler, aux: 0, dst, data, unit: 0 };
    let atomic = |function: Function, bits: u32, returns: bool| DsEntry {
        handler: if bits == 64 { atomic64 } else { atomic32 },
        aux: function as u8,
        dst: if returns { bits / 32 } else { 0 },
        data: bits / 32,
        unit: 0,
    };
    Some(match (operation, effect) {
        (Operation::Moves(Dwords(1)), Some(Load)) => simple(load_n::<1>(backend), 1, 0),
        (Operation::Moves(Dwords(2)), Some(Load)) => simple(load_n::<2>(backend), 2, 0),
        (Operation::Moves(Dwords(3)), Some(Load)) => simple(load_n::<3>(backend), 3, 0),
        (Operation::Moves(Dwords(4)), Some(Load)) => simple(load_n::<4>(backend), 4, 0),
        (Operation::Moves(Dwords(1)), Some(Store)) => simple(store_n::<1>(backend), 0, 1),
        (Operation::Moves(Dwords(2)), Some(Store)) => simple(store_n::<2>(backend), 0, 2),
        (Operation::Moves(Dwords(3)), Some(Store)) => simple(store_n::<3>(backend), 0, 3),
        (Operation::Moves(Dwords(4)), Some(Store)) => simple(store_n::<4>(backend), 0, 4),
        (Operation::Moves(Part(part)), Some(Load)) => {
            DsEntry { aux: part.pack(), ..simple(load_narrow, 1, 0) }
        }
        (Operation::Moves(Part(part)), Some(Store)) => {
            DsEntry { aux: part.pack(), ..simple(store_narrow, 0, 1) }
        }
        (Operation::Moves(Moves::Atomic(function, bits)), _) => atomic(function, bits, false),
        (Operation::Returning(function, bits), _) => atomic(function, bits, true),
        (Operation::Two { dwords: 1, unit }, Some(Load)) => {
            DsEntry { unit, ..simple(load_2addr::<1>(backend), 2, 0) }
        }
        (Operation::Two { dwords: 2, unit }, Some(Load)) => {
            DsEntry { unit, ..simple(load_2addr::<2>(backend), 4, 0) }
        }
        (Operation::Two { dwords: 1, unit }, Some(Store)) => {
            DsEntry { unit, ..simple(store_2addr::<1>(backend), 0, 1) }
        }
        (Operation::Two { dwords: 2, unit }, Some(Store)) => {
            DsEntry { unit, ..simple(store_2addr::<2>(backend), 0, 2) }
        }
        (Operation::BackwardPermute, _) => simple(bpermute, 1, 1),
        (Operation::Permute, _) => simple(permute, 1, 1),
        (Operation::Swizzle, _) => simple(swizzle, 1, 0),
        (Operation::Append, _) => simple(append_consume, 1, 0),
        (Operation::Consume, _) => DsEntry { aux: 1, ..simple(append_consume, 1, 0) },
        _ => return None,
    })
}
