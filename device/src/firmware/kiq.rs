//! The kernel interface queue: PM4 packets that map the scheduler's ring, and a few that touch registers and memory.
//!
//! Packets: Linux `drivers/gpu/drm/amd/amdgpu/nvd.h` (`PACKET3_*`); what a driver sends:
//! `amdgpu/gfx_v11_0.c` (`gfx11_kiq_*`, `gfx_v11_0_ring_emit_*`).

use belfry_abi::pm4::{Opcode, SetResources};
use zerocopy::{FromBytes, IntoBytes};

use crate::queue::HqdId;
use crate::regs::RegisterFile;
use crate::vm::{AddressSpace, Contexts};

/// First register `SET_UCONFIG_REG` counts from.
const UCONFIG_START: u32 = 0xc000;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: compute.
const ENGINE_COMPUTE: u32 = 0;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: the scheduler.
const ENGINE_MES: u32 = 5;
/// `PACKET3_SET_RESOURCES_QUEUE_TYPE`: the resources are the KIQ's.
const RESOURCES_OF_KIQ: u8 = 0;
/// Longest packet taken; the count field allows 16384 dwords, and nothing here needs more than a page.
pub(crate) const MAX_PACKET: u64 = 1024;

/// What a packet asks the scheduler to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    /// Map the queue this MQD describes.
    Map {
        /// Where.
        id: HqdId,
        /// MQD in VMID 0.
        mqd: u64,
        /// Doorbell, a dword index.
        doorbell: u32,
    },
    /// Take the queue with this doorbell off.
    Unmap {
        /// Dword index.
        doorbell: u32,
    },
    /// These are the resources the KIQ may give.
    Resources(SetResources),
}

/// A packet's length in dwords, from its first one; `Err` where it is no packet.
pub(crate) fn length(header: u32) -> Result<u64, &'static str> {
    match header >> 30 {
        2 => Ok(1),
        3 => {
            // A NOP whose count is all ones is a single dword.
            let count = header >> 16 & 0x3fff;
            Ok(if count == 0x3fff { 1 } else { u64::from(count) + 2 })
        }
        _ => Err("PM4 packet of a type this queue does not take"),
    }
}

/// Executes packets; the queue's state is its ring.
#[derive(Debug)]
pub(crate) struct Kiq<'a> {
    /// Registers.
    pub(crate) registers: &'a RegisterFile,
    /// VMIDs, whose translations it drops.
    pub(crate) contexts: &'a Contexts,
    /// VMID 0.
    pub(crate) space: &'a AddressSpace,
    /// Compute queues SET_RESOURCES gave, a bit each.
    pub(crate) queue_mask: u64,
}

impl Kiq<'_> {
    /// Executes one packet, header included.
    pub(crate) fn execute(&self, packet: &[u32]) -> Result<Option<Request>, &'static str> {
        let Some((&header, body)) = packet.split_first() else { return Err("empty packet") };
        if header >> 30 == 2 {
            return Ok(None);
        }
        match Opcode((header >> 8) as u8) {
            Opcode::NOP => Ok(None),
            Opcode::SET_RESOURCES => set_resources(body).map(Some),
            Opcode::WRITE_DATA => self.write_data(body).map(|()| None),
            Opcode::COPY_DATA => self.copy_data(body).map(|()| None),
            Opcode::WAIT_REG_MEM => self.wait_reg_mem(body).map(|()| None),
            Opcode::SET_UCONFIG_REG => {
                let (&start, values) = body.split_first().ok_or("SET_UCONFIG_REG is cut short")?;
                for (index, &value) in (UCONFIG_START + (start & 0xffff)..).zip(values) {
                    self.registers.write(index, value);
                }
                Ok(None)
            }
            Opcode::INVALIDATE_TLBS => {
                let &[control, ..] = body else { return Err("INVALIDATE_TLBS is cut short") };
                // DST_SEL 1: by PASID.
                let vmids =
                    if control & 0xf == 1 { self.contexts.vmids_of((control >> 5) as u16) } else { 0xffff };
                self.contexts.invalidate(vmids);
                Ok(None)
            }
            Opcode::MAP_QUEUES => map_queues(body, self.queue_mask),
            Opcode::UNMAP_QUEUES => {
                let &[_, doorbell, ..] = body else { return Err("UNMAP_QUEUES is cut short") };
                Ok(Some(Request::Unmap { doorbell: doorbell >> 2 & 0x03ff_ffff }))
            }
            Opcode::QUERY_STATUS => {
                let &[_, _, lo, hi, data_lo, data_hi, ..] = body else {
                    return Err("QUERY_STATUS is cut short");
                };
                let value = u64::from(data_hi) << 32 | u64::from(data_lo);
                self.space
                    .store_u64(address(lo, hi) & !7, value)
                    .map_err(|_| "QUERY_STATUS to an unmapped address")?;
                Ok(None)
            }
            _ => Err("PM4 opcode this queue does not know"),
        }
    }

    fn write_data(&self, body: &[u32]) -> Result<(), &'static str> {
        let &[control, lo, hi, ref values @ ..] = body else { return Err("WRITE_DATA is cut short") };
        let step = u32::from(control & 1 << 16 == 0);
        match control >> 8 & 0xf {
            0 => {
                for (i, &value) in (0u32..).zip(values) {
                    self.registers.write((lo & 0x3_ffff).wrapping_add(i * step), value);
                }
            }
            1 | 2 | 5 => {
                for (i, &value) in (0u64..).zip(values) {
                    let at = (address(lo, hi) & !3).wrapping_add(i * u64::from(step) * 4);
                    self.space.store_u32(at, value).map_err(|_| "WRITE_DATA to an unmapped address")?;
                }
            }
            _ => return Err("WRITE_DATA to a destination that is not modelled"),
        }
        Ok(())
    }

    fn copy_data(&self, body: &[u32]) -> Result<(), &'static str> {
        let &[control, source, _, lo, hi, ..] = body else { return Err("COPY_DATA is cut short") };
        if control & 0xf != 0 || control & 1 << 16 != 0 {
            return Err("COPY_DATA other than 32 bits from a register");
        }
        let value = self.registers.read(source & 0x3_ffff);
        match control >> 8 & 0xf {
            0 => {
                self.registers.write(lo & 0x3_ffff, value);
                Ok(())
            }
            1 | 2 | 5 => self
                .space
                .store_u32(address(lo, hi) & !3, value)
                .map_err(|_| "COPY_DATA to an unmapped address"),
            _ => Err("COPY_DATA to a destination that is not modelled"),
        }
    }

    /// Registers change at once in this device, so a condition that does not hold now would never hold.
    fn wait_reg_mem(&self, body: &[u32]) -> Result<(), &'static str> {
        let &[control, first, second, reference, mask, ..] = body else {
            return Err("WAIT_REG_MEM is cut short");
        };
        if control >> 4 & 3 != 0 {
            return Err("WAIT_REG_MEM on memory");
        }
        let register = if control >> 6 & 3 == 1 {
            self.registers.write(first & 0x3_ffff, reference);
            second
        } else {
            first
        };
        let value = self.registers.read(register & 0x3_ffff) & mask;
        let reference = reference & mask;
        let holds = match control & 7 {
            0 => true,
            1 => value < reference,
            2 => value <= reference,
            3 => value == reference,
            4 => value != reference,
            5 => value >= reference,
            _ => value > reference,
        };
        if holds { Ok(()) } else { Err("WAIT_REG_MEM for what never comes") }
    }
}

fn address(lo: u32, hi: u32) -> u64 {
    u64::from(hi) << 32 | u64::from(lo)
}

fn set_resources(body: &[u32]) -> Result<Request, &'static str> {
    let (resources, _) =
        SetResources::read_from_prefix(body.as_bytes()).map_err(|_| "SET_RESOURCES is cut short")?;
    if resources.control.queue_type() != RESOURCES_OF_KIQ {
        return Err("SET_RESOURCES for a queue other than the KIQ");
    }
    Ok(Request::Resources(resources))
}

/// `queue_mask` has four pipes of eight queues for each micro engine (`amdgpu_queue_mask_bit_to_set_resource_bit`).
fn map_queues(body: &[u32], queue_mask: u64) -> Result<Option<Request>, &'static str> {
    let &[control, doorbell, mqd_lo, mqd_hi, ..] = body else { return Err("MAP_QUEUES is cut short") };
    match control >> 26 & 7 {
        ENGINE_MES => {}
        ENGINE_COMPUTE => {
            let bit = (control >> 18 & 1) * 32 + (control >> 16 & 3) * 8 + (control >> 13 & 7);
            return Err(if queue_mask >> bit & 1 == 0 {
                "MAP_QUEUES of a queue SET_RESOURCES did not give"
            } else {
                "MAP_QUEUES of a compute queue, which is not modelled"
            });
        }
        _ => return Err("MAP_QUEUES for an engine other than the scheduler"),
    }
    // The packet counts micro engines from the first compute one: 2 is what registers call 3.
    let id = HqdId {
        me: (control >> 18 & 3) as u8 + 1,
        pipe: (control >> 16 & 3) as u8,
        queue: (control >> 13 & 7) as u8,
    };
    if id.me != HqdId::MES.me {
        return Err("MAP_QUEUES of the scheduler on a micro engine that is not its own");
    }
    Ok(Some(Request::Map { id, mqd: address(mqd_lo, mqd_hi), doorbell: doorbell >> 2 & 0x03ff_ffff }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_count_field() {
        assert_eq!(length(3 << 30 | 5 << 16 | u32::from(Opcode::MAP_QUEUES.0) << 8), Ok(7));
        assert_eq!(length(3 << 30 | 0x3fff << 16 | u32::from(Opcode::NOP.0) << 8), Ok(1));
        assert_eq!(length(2 << 30), Ok(1));
        assert!(length(0).is_err() && length(1 << 30).is_err());
    }

    #[test]
    fn map_queues_names_the_scheduler_s_queue() {
        // As gfx11_kiq_map_queues writes it for the ring on pipe 0.
        let control = 2 << 18 | 5 << 26 | 1 << 29;
        let request = map_queues(&[control, 0x16 << 2, 0x1000, 0x80, 0, 0], 0).expect("well formed");
        assert_eq!(request, Some(Request::Map { id: HqdId::MES, mqd: 0x80_0000_1000, doorbell: 0x16 }));
        assert!(map_queues(&[control], 0).is_err());
    }

    #[test]
    fn map_queues_of_a_compute_queue_names_whether_it_was_given() {
        // The second queue of the third pipe of the second micro engine.
        let body = [1 << 18 | 2 << 16 | 1 << 13, 0, 0, 0, 0, 0];
        let given = 1 << (32 + 2 * 8 + 1);
        assert_eq!(map_queues(&body, !given), Err("MAP_QUEUES of a queue SET_RESOURCES did not give"));
        assert_eq!(map_queues(&body, given), Err("MAP_QUEUES of a compute queue, which is not modelled"));
    }

    #[test]
    fn set_resources_takes_the_kiq_s_alone() {
        let body = [0xff, 1, 2, 3, 4, 5, 6];
        let Ok(Request::Resources(resources)) = set_resources(&body) else { panic!("refused") };
        assert_eq!(
            (resources.control.vmid_mask(), resources.queue_mask_hi, resources.gds_heap),
            (0xff, 2, 6)
        );
        assert_eq!(set_resources(&[0; 6]), Err("SET_RESOURCES is cut short"));
        let hiq = [1 << 29, 0, 0, 0, 0, 0, 0];
        assert_eq!(set_resources(&hiq), Err("SET_RESOURCES for a queue other than the KIQ"));
    }
}
