//! FLAT, GLOBAL and SCRATCH instructions.
//!
//! `src[0]` is VADDR, `src[1]` VDATA, `src[2]` SADDR (a constant 0 when it is off), `imm` the signed byte offset, `aux`
//! what the handler needs, `dst2` the address form: see [`Form`].

mod address;
mod atomic;
mod failure;
mod lane;
mod load;
mod store;

pub(crate) use address::Form;

use super::atomic::Function;
use super::di::Handler;
use super::ds::narrow::{Half, Narrow};
use crate::lanes::BackendKind;
use atomic::{atomic32, atomic64};
use load::{load_b32, load_n, load_narrow};
use store::{store_b32, store_n, store_narrow};

/// How a FLAT, GLOBAL or SCRATCH operation is lowered.
pub(crate) struct FlatEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Registers of the result, 0 for none (atomics: when they return).
    pub(crate) dst: u32,
    /// Registers of the data operand.
    pub(crate) data: u32,
    pub(crate) atomic: bool,
}

/// The lowering of a name such as `load_b32` or `atomic_add_u32`, the part after `flat_`, `global_`, `scratch_`.
pub(crate) fn parse(name: &str, backend: BackendKind) -> Option<FlatEntry> {
    let narrow = |bytes: u32, signed: bool, half: Option<Half>, load: bool| FlatEntry {
        handler: if load { load_narrow } else { store_narrow },
        aux: Narrow { bytes, signed, half }.pack(),
        dst: u32::from(load),
        data: u32::from(!load),
        atomic: false,
    };
    let load = |handler: Handler, dst: u32| FlatEntry { handler, aux: 0, dst, data: 0, atomic: false };
    let store = |handler: Handler, data: u32| FlatEntry { handler, aux: 0, dst: 0, data, atomic: false };
    Some(match name {
        "load_b32" => load(load_b32(backend), 1),
        "load_b64" => load(load_n::<2>(backend), 2),
        "load_b96" => load(load_n::<3>(backend), 3),
        "load_b128" => load(load_n::<4>(backend), 4),
        "store_b32" => store(store_b32(backend), 1),
        "store_b64" => store(store_n::<2>(backend), 2),
        "store_b96" => store(store_n::<3>(backend), 3),
        "store_b128" => store(store_n::<4>(backend), 4),
        "load_u8" => narrow(1, false, None, true),
        "load_i8" => narrow(1, true, None, true),
        "load_u16" => narrow(2, false, None, true),
        "load_i16" => narrow(2, true, None, true),
        "load_d16_u8" => narrow(1, false, Some(Half::Low), true),
        "load_d16_i8" => narrow(1, true, Some(Half::Low), true),
        "load_d16_b16" => narrow(2, false, Some(Half::Low), true),
        "load_d16_hi_u8" => narrow(1, false, Some(Half::High), true),
        "load_d16_hi_i8" => narrow(1, true, Some(Half::High), true),
        "load_d16_hi_b16" => narrow(2, false, Some(Half::High), true),
        "store_b8" => narrow(1, false, None, false),
        "store_b16" => narrow(2, false, None, false),
        "store_d16_hi_b8" => narrow(1, false, Some(Half::High), false),
        "store_d16_hi_b16" => narrow(2, false, Some(Half::High), false),
        _ => {
            let (function, bits, operands) = Function::parse(name.strip_prefix("atomic_")?)?;
            FlatEntry {
                handler: if bits == 64 { atomic64 } else { atomic32 },
                aux: function as u8,
                dst: bits / 32,
                data: bits / 32 * operands,
                atomic: true,
            }
        }
    })
}
