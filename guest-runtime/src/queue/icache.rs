//! The PM4 packet that invalidates the instruction caches after code was written.

use belfry_abi::aql::{AmdFormat, PM4_IB_DW_REMAIN, PacketHeader, PacketType, Pm4IbPacket};
use zerocopy::{FromZeros, transmute};

use crate::memory::Allocation;

/// `PACKET3(PACKET3_ACQUIRE_MEM, 6)`: the packet has seven dwords of body. Source: linux `soc15d.h`.
const ACQUIRE_MEM: u32 = 0xc006_5800;
/// `GCR_CNTL`: GLI_INV (all), GLK_INV, GLV_INV, GL1_INV and GL2_INV. Source: ROCr
/// `AqlQueue::ExecutePM4` callers, `GpuAgent::InvalidateCodeCaches`.
const GCR_CNTL: u32 = 0x4381;
/// CP_COHER_CNTL 0, whole range, poll interval 0, then GCR_CNTL.
const PACKET: [u32; 8] = [ACQUIRE_MEM, 0, 0xffff_ffff, 0xff, 0, 0, 0, GCR_CNTL];
/// `PACKET3(PACKET3_INDIRECT_BUFFER, 2)`.
const INDIRECT_BUFFER: u32 = 0xc002_3f00;
/// The VALID bit of INDIRECT_BUFFER's size dword.
const IB_VALID: u32 = 1 << 23;

/// Bytes of the indirect buffer.
pub(crate) const SIZE: usize = size_of_val(&PACKET);

/// Writes the indirect buffer.
pub(crate) fn write(memory: &Allocation) {
    memory.write(0, &PACKET);
}

/// The AQL packet that runs it.
pub(super) fn packet(memory: &Allocation) -> [u32; 16] {
    let address = memory.address();
    let mut packet = Pm4IbPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::VENDOR_SPECIFIC, false, 0, 0).bits();
    packet.amd_format = AmdFormat::PM4_IB.0.into();
    packet.ib_jump =
        [INDIRECT_BUFFER, address as u32, (address >> 32) as u32, PACKET.len() as u32 | IB_VALID];
    packet.dw_remain = PM4_IB_DW_REMAIN;
    transmute!(packet)
}
