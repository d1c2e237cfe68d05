//! Packets of the kernel's rings: about registers, translations and page tables (linux `amdgpu/sdma_v6_0.c`).

use std::sync::Arc;

use belfry_abi::sdma::{Header, Op, PollRegmem, PtePde, SrbmWrite, VM_INVALIDATION, VmInvalidation};
use zerocopy::IntoBytes as _;

use super::SdmaQueue;
use super::error::{SdmaError, memory};
use super::packets::exact;
use super::transfer::{quad, refuse};
use crate::cp::KernelReach;
use crate::pm4;
use crate::vm::AddressSpace;

/// Bits of a register's number.
const REGISTER: u32 = 0x3_ffff;
/// Bits of a number of entries.
const ENTRIES: u32 = 0x7_ffff;
/// `BYTE_EN` of all bytes.
const ALL_BYTES: u8 = 0xf;
/// Number of no engine.
const NO_ENGINE: u8 = 0x1f;
/// Entries that are made before they are written.
const CHUNK: usize = 512;

/// A packet that only the kernel may send.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KernelPacket {
    Register { number: u32, value: u32 },
    Invalidate { vmids: u32 },
    Entries { to: u64, mask: u64, first: u64, step: u64, count: u32 },
}

impl KernelPacket {
    /// Returns the bytes of the packet with this header.
    pub(super) fn bytes(header: Header) -> Result<usize, SdmaError> {
        Ok(match (Op(header.op()), header.sub_op()) {
            (Op::SRBM_WRITE, 0) => size_of::<SrbmWrite>(),
            (Op::POLL_REGMEM, VM_INVALIDATION) => size_of::<VmInvalidation>(),
            (Op::PTEPDE, 0) => size_of::<PtePde>(),
            _ => return Err(SdmaError::Operation(header)),
        })
    }

    /// Reads the fields of a whole packet.
    pub(super) fn parse(header: Header, dwords: &[u32]) -> Result<Self, SdmaError> {
        Ok(match Op(header.op()) {
            Op::SRBM_WRITE => {
                let packet: SrbmWrite = exact(dwords)?;
                refuse("SRBM_WRITE without byte_en", ALL_BYTES & !packet.header.byte_en())?;
                Self::Register { number: packet.register & REGISTER, value: packet.data }
            }
            Op::POLL_REGMEM => {
                let packet: VmInvalidation = exact(dwords)?;
                let engines = [packet.header.gfx_eng_id(), packet.header.mm_eng_id()];
                // The whole space of each VMID is invalidated, and not the range alone.
                let asked = engines.iter().any(|&engine| engine != NO_ENGINE);
                Self::Invalidate { vmids: if asked { packet.request & 0xffff } else { 0 } }
            }
            Op::PTEPDE => {
                let packet: PtePde = exact(dwords)?;
                Self::Entries {
                    to: quad(packet.addr_lo, packet.addr_hi) & !7,
                    mask: quad(packet.mask_lo, packet.mask_hi),
                    first: quad(packet.init_lo, packet.init_hi),
                    step: quad(packet.incr_lo, packet.incr_hi),
                    count: (packet.count & ENTRIES) + 1,
                }
            }
            _ => return Err(SdmaError::Operation(header)),
        })
    }
}

impl SdmaQueue {
    /// Returns the parts of the device that its packets reach if it is the kernel's.
    pub(super) fn kernel(&self) -> Option<&KernelReach> {
        self.env.cp.kernel.as_ref().filter(|_| self.config.kernel)
    }

    /// Executes a packet of the kernel's.
    pub(super) fn execute_kernel(
        &self,
        packet: &KernelPacket,
        space: &AddressSpace,
        budget: &mut u64,
    ) -> Result<(), SdmaError> {
        let Some(kernel) = self.kernel() else { return Err(SdmaError::Register("packet of the kernel")) };
        match *packet {
            KernelPacket::Register { number, value } => kernel.write(self.config.identity.xcc, number, value),
            KernelPacket::Invalidate { vmids } => kernel.invalidate(vmids),
            KernelPacket::Entries { to, mask, first, step, count } => {
                write_entries(space, (to, count), |at| first.wrapping_add(step.wrapping_mul(at)) | mask)?;
                *budget = budget.saturating_sub(u64::from(count) * 8);
            }
        }
        Ok(())
    }

    /// Returns true if a wait for a register is over.
    pub(super) fn poll_register(&self, packet: &PollRegmem) -> Result<bool, SdmaError> {
        let kernel = self.kernel().ok_or(SdmaError::Register("POLL_REGMEM"))?;
        let value = kernel.read(self.config.identity.xcc, packet.addr_lo >> 2 & REGISTER);
        let function = packet.header.func();
        pm4::holds(function, value & packet.mask, packet.value).map_err(|_| SdmaError::Function(function))
    }

    /// Enters the memory of the VMID of an indirect buffer. A buffer of a program's queue is in the queue's own address space;
    /// the kernel's rings may name another one.
    pub(super) fn enter_vmid(&mut self, vmid: u8) -> Result<(), SdmaError> {
        let own = self.config.identity.vmid;
        if self.config.kernel {
            self.buffer_vmid = vmid;
            self.buffer_space = self.space_of(vmid);
            return if self.buffer_space.is_some() { Ok(()) } else { refuse("INDIRECT vmid", vmid) };
        }
        refuse("INDIRECT vmid", if vmid == own { 0 } else { vmid })
    }

    /// Returns the address space of a VMID for packets of the kernel's.
    pub(super) fn space_of(&self, vmid: u8) -> Option<Arc<AddressSpace>> {
        if vmid == self.config.identity.vmid {
            return Some(Arc::clone(&self.space));
        }
        self.kernel()?.space(vmid)
    }

    /// Returns the address space of the packet that it is at: of its buffer, or its own.
    pub(super) fn space_here(&self) -> &Arc<AddressSpace> {
        self.buffer_space.as_ref().filter(|_| self.context.buffer.is_some()).unwrap_or(&self.space)
    }

    /// Goes on in another address space: the one that its VMID has now.
    pub(crate) fn follow_space(&mut self, space: &Arc<AddressSpace>) {
        if !Arc::ptr_eq(&self.space, space) {
            self.space = Arc::clone(space);
            if self.buffer_vmid == self.config.identity.vmid {
                self.buffer_space = None;
            }
        }
    }
}

/// Writes entries of 64 bits, whose values `entry` gives by their number.
fn write_entries(
    space: &AddressSpace,
    (to, count): (u64, u32),
    entry: impl Fn(u64) -> u64,
) -> Result<(), SdmaError> {
    let numbers: Vec<u64> = (0..u64::from(count)).collect();
    for chunk in numbers.chunks(CHUNK) {
        let entries: Vec<u64> = chunk.iter().map(|&at| entry(at)).collect();
        let at = to.wrapping_add(chunk[0] * 8);
        space.write_bytes(at, entries.as_bytes()).map_err(memory("PTEPDE"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_the_kernel_are_those_that_linux_writes() {
        // sdma_v6_0_ring_emit_wreg.
        let write = [0xf000_000e, 0x1_a7ab, 5];
        assert_eq!(
            KernelPacket::parse(Header::from_bits(write[0]), &write),
            Ok(KernelPacket::Register { number: 0x1_a7ab, value: 5 })
        );
        // sdma_v6_0_ring_emit_vm_flush, with engine 6 of the GC hub.
        let flush = [0x1f06_0408, 0x00f8_0001, u32::MAX, 0x1f_0001];
        assert_eq!(KernelPacket::bytes(Header::from_bits(flush[0])), Ok(16));
        assert_eq!(
            KernelPacket::parse(Header::from_bits(flush[0]), &flush),
            Ok(KernelPacket::Invalidate { vmids: 1 })
        );
        let nobody = [0x1f1f_0408, 1, 0, 1];
        assert_eq!(
            KernelPacket::parse(Header::from_bits(nobody[0]), &nobody),
            Ok(KernelPacket::Invalidate { vmids: 0 })
        );
        // sdma_v6_0_vm_set_pte_pde.
        let entries = [12, 0x1000, 1, 0x71, 0x20, 0x5000, 0, 0x1000, 0, 3];
        assert_eq!(
            KernelPacket::parse(Header::from_bits(entries[0]), &entries),
            Ok(KernelPacket::Entries {
                to: 0x1_0000_1000,
                mask: 0x20_0000_0071,
                first: 0x5000,
                step: 0x1000,
                count: 4
            })
        );
        let partial = [0x3000_000e, 1, 2];
        assert!(KernelPacket::parse(Header::from_bits(partial[0]), &partial).is_err());
    }
}
