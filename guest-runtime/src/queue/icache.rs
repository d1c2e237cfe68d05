//! The PM4 packet that invalidates the instruction caches after code was written.

use std::sync::Arc;

use belfry_abi::aql::{AmdFormat, PM4_IB_DW_REMAIN, PacketHeader, PacketType, Pm4IbPacket};
use zerocopy::{FromZeros, IntoBytes, transmute};

use crate::generation::Generation;
use crate::kfd::Kfd;
use crate::memory::{Allocation, HostAccess, MemoryError, MemoryKind};
use crate::opened::GpuInner;
use crate::topology::Agent;

/// `PACKET3(PACKET3_INDIRECT_BUFFER, 2)`.
const INDIRECT_BUFFER: u32 = 0xc002_3f00;
/// The VALID bit of INDIRECT_BUFFER's size dword.
const IB_VALID: u32 = 1 << 23;

/// Makes the indirect buffer.
///
/// # Errors
///
/// [`MemoryError`] when there is no memory.
pub(crate) fn make(kfd: &Arc<Kfd>, agent: &Agent) -> Result<Allocation, MemoryError> {
    let packets = Generation::of(agent).invalidate_code;
    let gpus = [agent.gpu_id];
    let memory = Allocation::new(kfd, &gpus, MemoryKind::Gtt, HostAccess::ReadWrite, size_of_val(packets))?;
    memory.write_bytes(0, packets.as_bytes());
    Ok(memory)
}

/// The AQL packet that runs it.
pub(super) fn packet(gpu: &GpuInner) -> [u32; 16] {
    let address = gpu.icache_invalidate.address();
    let dwords = Generation::of(&gpu.agent).invalidate_code.len() as u32;
    let mut packet = Pm4IbPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::VENDOR_SPECIFIC, false, 0, 0).bits();
    packet.amd_format = AmdFormat::PM4_IB.0.into();
    packet.ib_jump = [INDIRECT_BUFFER, address as u32, (address >> 32) as u32, dwords | IB_VALID];
    packet.dw_remain = PM4_IB_DW_REMAIN;
    transmute!(packet)
}
