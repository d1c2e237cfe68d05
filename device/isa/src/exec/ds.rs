//! LDS instructions.
//!
//! `src[0]` is the address row, `src[1]` and `src[2]` the data rows, `imm` the byte offset (two-address operations: the
//! second in `dst2`).
//!
//! What lies outside of the workgroup's allocation reads 0, is not written and does not fault ("RDNA3 Instruction Set
//! Architecture", 3.3.4.1, with `LDS_CONFIG.ADDR_OUT_OF_RANGE_REPORTING` 0). Each lane's access counts as a whole: with
//! one byte outside, all of it is. Atomics at an address that is no multiple of their size fault (3.3.3).

mod atomic;
mod load;
pub(crate) mod narrow;
pub(crate) mod pattern;
mod permute;
mod store;

pub(crate) use load::{clear, load_b64};

use super::atomic::Function;
use super::di::{Di, Handler, Machine};
use super::lane::for_each_active;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Wave;
use atomic::{append_consume, atomic32, atomic64};
use load::{load_2addr, load_n};
use narrow::{Half, Narrow, load_narrow, store_narrow};
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

/// How a DS operation is lowered.
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

/// The lowering of a mnemonic such as `ds_add_rtn_u32`.
pub(crate) fn parse(mnemonic: &str, backend: BackendKind) -> Option<DsEntry> {
    let name = mnemonic.strip_prefix("ds_")?;
    let simple = |handler: Handler, dst: u32, data: u32| DsEntry { handler, aux: 0, dst, data, unit: 0 };
    let two = |handler: Handler, dst: u32, data: u32, unit: u32| DsEntry { handler, aux: 0, dst, data, unit };
    let narrow = |bytes: u32, signed: bool, half: Option<Half>, load: bool| DsEntry {
        handler: if load { load_narrow } else { store_narrow },
        aux: Narrow { bytes, signed, half }.pack(),
        dst: u32::from(load),
        data: u32::from(!load),
        unit: 0,
    };
    Some(match name {
        "load_b32" => simple(load_n::<1>(backend), 1, 0),
        "load_b64" => simple(load_n::<2>(backend), 2, 0),
        "load_b96" => simple(load_n::<3>(backend), 3, 0),
        "load_b128" => simple(load_n::<4>(backend), 4, 0),
        "store_b32" => simple(store_n::<1>(backend), 0, 1),
        "store_b64" => simple(store_n::<2>(backend), 0, 2),
        "store_b96" => simple(store_n::<3>(backend), 0, 3),
        "store_b128" => simple(store_n::<4>(backend), 0, 4),
        "load_2addr_b32" => two(load_2addr::<1>(backend), 2, 0, 4),
        "load_2addr_b64" => two(load_2addr::<2>(backend), 4, 0, 8),
        "load_2addr_stride64_b32" => two(load_2addr::<1>(backend), 2, 0, 256),
        "load_2addr_stride64_b64" => two(load_2addr::<2>(backend), 4, 0, 512),
        "store_2addr_b32" => two(store_2addr::<1>(backend), 0, 1, 4),
        "store_2addr_b64" => two(store_2addr::<2>(backend), 0, 2, 8),
        "store_2addr_stride64_b32" => two(store_2addr::<1>(backend), 0, 1, 256),
        "store_2addr_stride64_b64" => two(store_2addr::<2>(backend), 0, 2, 512),
        "load_u8" => narrow(1, false, None, true),
        "load_i8" => narrow(1, true, None, true),
        "load_u16" => narrow(2, false, None, true),
        "load_i16" => narrow(2, true, None, true),
        "load_u8_d16" => narrow(1, false, Some(Half::Low), true),
        "load_i8_d16" => narrow(1, true, Some(Half::Low), true),
        "load_u16_d16" => narrow(2, false, Some(Half::Low), true),
        "load_u8_d16_hi" => narrow(1, false, Some(Half::High), true),
        "load_i8_d16_hi" => narrow(1, true, Some(Half::High), true),
        "load_u16_d16_hi" => narrow(2, false, Some(Half::High), true),
        "store_b8" => narrow(1, false, None, false),
        "store_b16" => narrow(2, false, None, false),
        "store_b8_d16_hi" => narrow(1, false, Some(Half::High), false),
        "store_b16_d16_hi" => narrow(2, false, Some(Half::High), false),
        "bpermute_b32" => simple(bpermute, 1, 1),
        "permute_b32" => simple(permute, 1, 1),
        "swizzle_b32" => simple(swizzle, 1, 0),
        "append" => simple(append_consume, 1, 0),
        "consume" => DsEntry { aux: 1, ..simple(append_consume, 1, 0) },
        _ => {
            let returning = name.contains("_rtn");
            let (function, bits, _) = Function::parse(&name.replace("_rtn", ""))?;
            let registers = bits / 32;
            DsEntry {
                handler: if bits == 64 { atomic64 } else { atomic32 },
                aux: function as u8,
                dst: if returning { registers } else { 0 },
                data: registers,
                unit: 0,
            }
        }
    })
}
