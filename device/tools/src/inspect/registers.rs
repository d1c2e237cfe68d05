//! Registers by block and field, and doorbells.

use std::collections::BTreeSet;

use belfry_abi::regs::Ip;
use serde::Serialize;

use super::{Hex, InspectError, Inspector};

/// A register.
#[derive(Clone, Debug, Serialize)]
pub struct RegisterView {
    /// Its block, with a number if there are several.
    pub block: String,
    /// Upstream's name.
    pub name: String,
    /// Byte offset in BAR5.
    pub offset: Hex,
    /// Value that a driver would read.
    pub value: Hex,
    /// Its value after reset, if that is known.
    pub reset: Option<Hex>,
    /// True if the value differs from the one after reset, or is not 0 if that is not known.
    pub changed: bool,
    /// Its fields.
    pub fields: Vec<FieldView>,
}

/// A field of a register.
#[derive(Clone, Debug, Serialize)]
pub struct FieldView {
    /// Upstream's name.
    pub name: &'static str,
    /// Last and first bit.
    pub bits: [u8; 2],
    /// Its value.
    pub value: u32,
}

/// Something that was used and has no model.
#[derive(Clone, Debug, Serialize)]
pub struct UnmodelledView {
    /// Name of the register or field.
    pub name: String,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// A doorbell that belongs to a queue or ring.
#[derive(Clone, Debug, Serialize)]
pub struct DoorbellView {
    /// In dwords of BAR2, as queues are named.
    pub doorbell: u64,
    /// Byte offset in BAR2.
    pub offset: Hex,
    /// Its value.
    pub value: u64,
    /// `process`, or `kernel` for its own rings.
    pub owner: &'static str,
    /// True if it was rung, and its queue has not looked yet.
    pub rung: bool,
    /// Its queue has work.
    pub busy: bool,
}

/// Name of a block.
fn block(ip: Ip, instance: u8) -> String {
    let name = match ip {
        Ip::GC => "GC",
        Ip::MMHUB => "MMHUB",
        Ip::ATHUB => "ATHUB",
        Ip::OSSSYS => "OSSSYS",
        Ip::NBIF => "NBIF",
        Ip::UMC => "UMC",
        Ip::SMUIO => "SMUIO",
        Ip::MP0 => "MP0",
        Ip::MP1 => "MP1",
        Ip(other) => return format!("IP{other}.{instance}"),
    };
    if instance == 0 { name.to_owned() } else { format!("{name}{instance}") }
}

impl Inspector<'_> {
    /// Registers that have a model: all of a block's, or the changed ones of all blocks.
    ///
    /// # Errors
    ///
    /// No such block.
    pub fn registers(&self, of: Option<&str>) -> Result<Vec<RegisterView>, InspectError> {
        let seen = self.device.registers();
        let blocks: BTreeSet<String> = seen.iter().map(|seen| block(seen.ip, seen.instance)).collect();
        if let Some(of) = of
            && !blocks.iter().any(|block| block.eq_ignore_ascii_case(of))
        {
            let blocks: Vec<String> = blocks.into_iter().collect();
            return Err(InspectError::Block(of.to_owned(), blocks.join(", ")));
        }
        let view = seen.into_iter().map(|seen| RegisterView {
            block: block(seen.ip, seen.instance),
            name: seen.name,
            offset: Hex(u64::from(seen.dword) * 4),
            value: Hex(seen.value.into()),
            reset: seen.reset.map(|reset| Hex(reset.into())),
            changed: seen.value != seen.reset.unwrap_or(0),
            fields: seen
                .fields
                .iter()
                .map(|field| FieldView {
                    name: field.name,
                    bits: [field.last, field.first],
                    value: field.of(seen.value),
                })
                .collect(),
        });
        let wanted = |view: &RegisterView| match of {
            Some(of) => view.block.eq_ignore_ascii_case(of),
            None => view.changed,
        };
        Ok(view.filter(wanted).collect())
    }

    /// Registers and fields that were used and have no model, most used first.
    #[must_use]
    pub fn unmodelled(&self) -> Vec<UnmodelledView> {
        let all = self.device.gpu().unmodelled().into_iter();
        all.map(|(name, reads, writes)| UnmodelledView { name, reads, writes }).collect()
    }

    /// The doorbells that belong to a queue or ring.
    #[must_use]
    pub fn doorbells(&self) -> Vec<DoorbellView> {
        let seen = self.device.doorbells().into_iter();
        seen.map(|seen| DoorbellView {
            doorbell: seen.offset.bytes() / 4,
            offset: Hex(seen.offset.bytes()),
            value: seen.value,
            owner: if seen.of_process { "process" } else { "kernel" },
            rung: seen.rung,
            busy: seen.busy,
        })
        .collect()
    }
}
