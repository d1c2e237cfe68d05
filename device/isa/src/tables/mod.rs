//! Generated tables: the operations, and per architecture how they are encoded.

pub(crate) mod gfx11;
pub mod op;

use crate::encoding::Tables;
use crate::inst::{Arch, Format, Op};

/// The fixed bits of one encoding, for tests that want to meet every one.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Operation; of the X half for VOPD.
    pub op: Op,
    /// Encoding family.
    pub format: Format,
    /// Bits that are fixed, the first byte in the low bits.
    pub mask: u128,
    /// Their values.
    pub value: u128,
    /// Length without a trailing literal.
    pub bytes: u8,
}

/// Every encoding of an architecture.
pub fn patterns(arch: Arch) -> impl Iterator<Item = Pattern> {
    let tables = Tables::of(arch);
    tables.tables.iter().flat_map(move |table| {
        let first = usize::from(table.first);
        tables.groups[first..first + usize::from(table.len)].iter().flat_map(move |group| {
            let first = usize::from(group.first);
            tables.forms[first..first + usize::from(group.len)].iter().map(move |form| Pattern {
                op: form.op,
                format: form.format,
                mask: group.mask,
                value: form.value,
                bytes: table.bytes,
            })
        })
    })
}
