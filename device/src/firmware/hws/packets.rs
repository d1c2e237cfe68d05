//! Packets of the HIQ: those about queues, and those that every stream has.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pm4::{Opcode, Pm4Header, QueryStatus, RunList, SetResources, UnmapQueues};

use crate::chip::Pm4Packets;
use crate::guest_error::GuestError;
use crate::pm4::{self, Effect, Error, Port};
use crate::queue::Partition;
use crate::regs::RegisterFile;
use crate::time::Clock;
use crate::vm::AddressSpace;

/// `PACKET3_SET_RESOURCES_QUEUE_TYPE`: the resources are the HIQ's.
const RESOURCES_OF_HIQ: u8 = 1;
/// `UNMAP_QUEUES.ENGINE_SEL`: compute; it means all engines in a packet for all queues.
const ENGINE_COMPUTE: u8 = 0;
/// `UNMAP_QUEUES.ACTION`.
const PREEMPT: u8 = 0;
const RESET: u8 = 1;

/// Queues that a packet is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Which {
    /// The queues with these doorbells.
    Doorbells(Vec<DoorbellIndex>),
    /// The queues of a process.
    Pasid(u16),
    /// All queues.
    All,
    /// All queues that are not static.
    NotStatic,
}

/// Request of a packet to the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Take over these VMIDs and queues.
    Resources(SetResources),
    /// Run the queues of the list at this address, which has this many dwords.
    Run { list: u64, dwords: u32 },
    /// Take queues off; `reset` drops the work they have begun.
    Unmap { which: Which, reset: bool },
    /// Write `value` to `at` when everything before is done.
    Fence { at: u64, value: u64 },
}

/// Parts of the device that packets reach.
pub(super) struct Hiq<'a> {
    pub(super) registers: &'a RegisterFile,
    /// VMID 0.
    pub(super) space: &'a AddressSpace,
    pub(super) clock: &'a Clock,
    /// Converts a register number in a packet to the register's address.
    pub(super) register: fn(index: u32, xcc: u8) -> u32,
    /// Graphics cores, each of which executes every packet.
    pub(super) partition: Partition,
    /// Packets that the chip has.
    pub(super) packets: Pm4Packets,
}

impl Port for Hiq<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn read_register(&mut self, _packet: &'static str, index: u32) -> Result<u32, Error> {
        Ok(self.registers.read((self.register)(index, self.partition.first)))
    }

    fn write_register(&mut self, _packet: &'static str, index: u32, value: u32) -> Result<(), Error> {
        let first = (self.register)(index, self.partition.first);
        self.registers.write(first, value);
        for xcc in self.partition.xccs().skip(1) {
            // There is only one copy of a register outside of the cores.
            let at = (self.register)(index, xcc);
            if at != first {
                self.registers.write(at, value);
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.ticks()
    }

    fn packets(&self) -> Pm4Packets {
        self.packets
    }

    fn interrupt(&mut self, _context: u32) -> Result<(), Error> {
        Err(Error::Refused(GuestError::KiqInterrupt))
    }
}

impl Hiq<'_> {
    /// Executes a packet. Returns the request of one that is about queues.
    pub(super) fn execute(&mut self, header: Pm4Header, body: &[u32]) -> Result<Option<Request>, Error> {
        if header.packet_type() == 2 {
            return Ok(None);
        }
        let opcode = header.opcode();
        match opcode {
            Opcode::SET_RESOURCES => set_resources(body).map(Some),
            Opcode::RUN_LIST => run_list(body).map(Some),
            Opcode::UNMAP_QUEUES => unmap_queues(body).map(Some),
            Opcode::QUERY_STATUS => {
                let query: QueryStatus = pm4::exact(opcode, body)?;
                let at = pm4::quad(query.addr_lo, query.addr_hi) & !7;
                Ok(Some(Request::Fence { at, value: pm4::quad(query.data_lo, query.data_hi) }))
            }
            Opcode::MAP_PROCESS | Opcode::MAP_QUEUES => Err(Error::Refused(GuestError::HwsPacket)),
            _ => match pm4::execute(opcode, body, self)? {
                Effect::Done => Ok(None),
                Effect::Wait => Err(Error::Refused(GuestError::WaitOnMemory)),
                Effect::Skip(_) => Err(Error::Operation(opcode)),
                Effect::Enter(_) => Err(Error::Refused(GuestError::KiqIndirectBuffer)),
            },
        }
    }
}

fn set_resources(body: &[u32]) -> Result<Request, Error> {
    let resources: SetResources = pm4::exact(Opcode::SET_RESOURCES, body)?;
    if resources.control.queue_type() != RESOURCES_OF_HIQ {
        return Err(Error::Refused(GuestError::ResourcesOfOtherQueue));
    }
    Ok(Request::Resources(resources))
}

fn run_list(body: &[u32]) -> Result<Request, Error> {
    let packet: RunList = pm4::exact(Opcode::RUN_LIST, body)?;
    let list = pm4::quad(packet.ib_base_lo, packet.ib_base_hi) & !3;
    let dwords = packet.control.ib_size();
    if !packet.control.valid() || list == 0 {
        return Err(Error::Refused(GuestError::RunListInvalid));
    }
    Ok(Request::Run { list, dwords })
}

fn unmap_queues(body: &[u32]) -> Result<Request, Error> {
    let packet: UnmapQueues = pm4::exact(Opcode::UNMAP_QUEUES, body)?;
    let control = packet.control;
    let reset = match control.action() {
        PREEMPT => false,
        RESET => true,
        _ => return Err(Error::Refused(GuestError::UnmapQueuesAction)),
    };
    if control.engine_sel() != ENGINE_COMPUTE {
        return Err(Error::Refused(GuestError::UnmapQueuesEngine));
    }
    let listed = [packet.doorbell0_or_pasid, packet.doorbell1, packet.doorbell2, packet.doorbell3];
    let which = match control.queue_sel() {
        0 if (1..=4).contains(&control.num_queues()) => Which::Doorbells(
            listed
                .iter()
                .take(control.num_queues().into())
                .map(|word| DoorbellIndex::from_dwords(word >> 2 & 0x03ff_ffff))
                .collect(),
        ),
        0 => return Err(Error::Refused(GuestError::UnmapQueuesUnknown)),
        1 => Which::Pasid(packet.doorbell0_or_pasid as u16),
        2 => Which::All,
        _ => Which::NotStatic,
    };
    Ok(Request::Unmap { which, reset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_the_packet() {
        let unmap = |control: u32| unmap_queues(&[control, 0x802 << 2, 0x804 << 2, 0, 0]);
        let which = |control| match unmap(control) {
            Ok(Request::Unmap { which, reset }) => (which, reset),
            other => panic!("{other:?}"),
        };
        let doorbells = [0x802, 0x804].map(DoorbellIndex::from_dwords).to_vec();
        assert_eq!(which(2 << 29), (Which::Doorbells(doorbells), false));
        assert_eq!(which(1 << 4 | 1), (Which::Pasid(0x2008), true));
        assert_eq!((which(2 << 4).0, which(3 << 4).0), (Which::All, Which::NotStatic));
        assert_eq!(unmap(2), Err(Error::Refused(GuestError::UnmapQueuesAction)));
        assert_eq!(unmap(3 << 4 | 2 << 26), Err(Error::Refused(GuestError::UnmapQueuesEngine)));
        assert_eq!(unmap(0), Err(Error::Refused(GuestError::UnmapQueuesUnknown)), "no queue");
        assert!(matches!(unmap_queues(&[0; 4]), Err(Error::Length { .. })));
    }

    #[test]
    fn resources_and_lists_say_whose_and_where_they_are() {
        let hiq = [1 << 29 | 0xfff8, 0xff, 0, 0, 0, 0, 0];
        assert!(matches!(set_resources(&hiq), Ok(Request::Resources(_))));
        assert_eq!(set_resources(&[0; 7]), Err(Error::Refused(GuestError::ResourcesOfOtherQueue)));
        assert_eq!(
            run_list(&[0x1000, 1, 28 | 1 << 23]),
            Ok(Request::Run { list: 0x1_0000_1000, dwords: 28 })
        );
        for bad in [[0x1000, 1, 28], [0, 0, 28 | 1 << 23]] {
            assert_eq!(run_list(&bad), Err(Error::Refused(GuestError::RunListInvalid)));
        }
    }
}
