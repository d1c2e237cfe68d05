//! The interrupt rings, decoded.

use belfry_abi::ih::Source;
use serde::Serialize;

use super::{Hex, Inspector};

/// Most entries that are shown of a ring.
const MOST: u32 = 64;

/// A ring of the interrupt handler.
#[derive(Clone, Debug, Serialize)]
pub struct IhRingView {
    /// Its number.
    pub ring: u8,
    /// Entries are taken.
    pub enabled: bool,
    /// Address of the first entry, in VMID 0.
    pub base: Hex,
    /// Bytes.
    pub size: u32,
    /// Offset at which the driver reads next.
    pub rptr: u32,
    /// Offset at which the device writes next.
    pub wptr: u32,
    /// Entries were lost.
    pub overflow: bool,
    /// The next entry interrupts.
    pub armed: bool,
    /// The last entries, oldest first.
    pub entries: Vec<IhEntryView>,
}

/// An entry of a ring.
#[derive(Clone, Debug, Serialize)]
pub struct IhEntryView {
    /// Offset of the entry in the ring.
    pub offset: u32,
    /// The driver has not read it.
    pub unread: bool,
    /// Client id of the part that raised it.
    pub client: u8,
    /// Source id.
    pub source: u8,
    /// Name of the source.
    pub name: Option<&'static str>,
    /// VMID of the process.
    pub vmid: u8,
    /// PASID of the process.
    pub pasid: u16,
    /// Ticks of 10 ns.
    pub timestamp: u64,
    /// Words of context.
    pub data: [Hex; 4],
}

fn name(source: Source) -> Option<&'static str> {
    match source {
        Source::UTCL2_FAULT => Some("UTCL2_FAULT"),
        Source::SDMA_TRAP => Some("SDMA_TRAP"),
        Source::SDMA4_TRAP => Some("SDMA4_TRAP"),
        Source::SDMA4_FROZEN => Some("SDMA4_FROZEN"),
        Source::SDMA_QUEUE_HANG => Some("SDMA_QUEUE_HANG"),
        Source::CP_EOP_INTERRUPT => Some("CP_EOP_INTERRUPT"),
        Source::CP_BAD_OPCODE_ERROR => Some("CP_BAD_OPCODE_ERROR"),
        Source::CP_PRIV_REG_FAULT => Some("CP_PRIV_REG_FAULT"),
        Source::CP_PRIV_INSTR_FAULT => Some("CP_PRIV_INSTR_FAULT"),
        Source::SQ_INTERRUPT => Some("SQ_INTERRUPT"),
        _ => None,
    }
}

impl Inspector<'_> {
    /// The rings, with their last entries.
    #[must_use]
    pub fn interrupts(&self) -> Vec<IhRingView> {
        let rings = self.device.interrupts(MOST).into_iter();
        rings
            .map(|ring| IhRingView {
                ring: ring.number,
                enabled: ring.enabled,
                base: Hex(ring.base),
                size: ring.size,
                rptr: ring.rptr,
                wptr: ring.wptr,
                overflow: ring.overflow,
                armed: ring.armed,
                entries: ring
                    .entries
                    .iter()
                    .map(|&(offset, unread, entry)| IhEntryView {
                        offset,
                        unread,
                        client: entry.client().0,
                        source: entry.source().0,
                        name: name(entry.source()),
                        vmid: entry.vmid(),
                        pasid: entry.pasid(),
                        timestamp: entry.timestamp(),
                        data: entry.data.map(|word| Hex(word.into())),
                    })
                    .collect(),
            })
            .collect()
    }
}
