//! DMA_DATA: copies or fills memory.

use belfry_abi::pm4::DmaData;

use super::{Error, memory, quad};
use crate::vm::AddressSpace;

/// Bytes copied at a time.
const CHUNK: u32 = 1 << 16;

/// Selectors of source and destination that are memory, directly or through the L2 cache.
const MEMORY: [u8; 2] = [0, 3];
const SOURCE_DATA: u8 = 2;
/// Destination that keeps nothing: the bytes go into the L2 cache (mesa `radv_cs_cp_dma_prefetch`), which is not
/// modelled.
const NOWHERE: u8 = 2;

/// Executes it to its end: at most 64 MiB less a byte.
pub(super) fn execute(packet: &DmaData, space: &AddressSpace) -> Result<(), Error> {
    let DmaData { control, command, .. } = *packet;
    if command.sas() || command.das() {
        return Err(Error::Registers("DMA_DATA"));
    }
    if command.saic() || command.daic() {
        return Err(Error::Field { what: "DMA_DATA without increment, command", value: command.bits() });
    }
    let nowhere = control.dst_sel() == NOWHERE;
    if !nowhere && !MEMORY.contains(&control.dst_sel()) {
        return Err(Error::Selector { what: "DMA_DATA to destination", value: control.dst_sel() });
    }
    let fill = match control.src_sel() {
        SOURCE_DATA => Some(packet.src_lo.to_le_bytes()),
        source if MEMORY.contains(&source) => None,
        value => return Err(Error::Selector { what: "DMA_DATA from source", value }),
    };
    let (source, target) = (quad(packet.src_lo, packet.src_hi), quad(packet.dst_lo, packet.dst_hi));
    let bytes = command.byte_count();
    let mut chunk = vec![0; CHUNK.min(bytes) as usize];
    if let Some(value) = fill {
        chunk.iter_mut().zip(value.iter().cycle()).for_each(|(byte, &value)| *byte = value);
    }
    for done in (0..bytes).step_by(CHUNK as usize) {
        let part = &mut chunk[..CHUNK.min(bytes - done) as usize];
        if fill.is_none() {
            space.read_bytes(source.wrapping_add(done.into()), part).map_err(memory("DMA_DATA"))?;
        }
        if !nowhere {
            space.write_bytes(target.wrapping_add(done.into()), part).map_err(memory("DMA_DATA"))?;
        }
    }
    Ok(())
}
