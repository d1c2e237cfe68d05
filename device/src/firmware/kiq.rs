//! The kernel interface queue: PM4 packets that map the MES's ring, beside the packets that every stream has.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pm4::{
    InvalidateTlbsControl, MapQueues, Opcode, Pm4Header, QueryStatus, SetResources, UnmapQueues,
};

use super::Ports;
use super::rings::{Fate, MappedBy, RingKind, Running};
use crate::chip::Pm4Packets;
use crate::guest_error::GuestError;
use crate::pm4::{self, Effect, Error, Port};
use crate::queue::HqdId;
use crate::regs::RegisterFile;
use crate::time::Clock;
use crate::vm::{AddressSpace, Contexts};

/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: compute.
const ENGINE_COMPUTE: u8 = 0;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL` on gfx9: the HIQ, on a queue of the compute micro engines.
const ENGINE_HIQ: u8 = 1;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: the two SDMA engines.
const ENGINES_SDMA: std::ops::RangeInclusive<u8> = 2..=3;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: graphics.
const ENGINE_GRAPHICS: u8 = 4;
/// `PACKET3_MAP_QUEUES_ENGINE_SEL`: the MES, on its own micro engine.
const ENGINE_MES: u8 = 5;
/// `PACKET3_SET_RESOURCES_QUEUE_TYPE`: the resources are the KIQ's.
const RESOURCES_OF_KIQ: u8 = 0;
/// `PACKET3_INVALIDATE_TLBS_DST_SEL`: by PASID.
const INVALIDATE_PASID: u8 = 1;
/// Most dwords of a packet; the count field allows 16384, and no packet here needs more than a page.
pub(super) const MAX_PACKET: u64 = 1024;

/// Request of a packet for the queues of the firmware.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// Map the ring this MQD describes.
    Map {
        /// Kind of the ring.
        kind: RingKind,
        /// Hardware queue to map it on.
        id: HqdId,
        /// Address of the MQD in VMID 0.
        mqd: u64,
        /// Its doorbell.
        doorbell: DoorbellIndex,
    },
    /// Take the queue with this doorbell off.
    Unmap {
        /// The doorbell.
        doorbell: DoorbellIndex,
    },
    /// Take over the resources that the KIQ may give.
    Resources(SetResources),
}

/// Executor of packets; the state of the queue itself is its ring.
pub(super) struct Kiq<'a> {
    /// Registers.
    pub(super) registers: &'a RegisterFile,
    /// VMIDs, whose translations packets drop.
    pub(super) contexts: &'a Contexts,
    /// VMID 0.
    pub(super) space: &'a AddressSpace,
    pub(super) clock: &'a Clock,
    /// Compute queues that SET_RESOURCES gave, one bit each.
    pub(super) queue_mask: u64,
    /// Kind of the scheduler's ring, which it maps.
    pub(super) scheduler: RingKind,
    /// Converts a register number in a packet to the register's address.
    pub(super) register: fn(index: u32, xcc: u8) -> u32,
    /// Graphics core that it is of.
    pub(super) xcc: u8,
    /// Packets that the chip has.
    pub(super) packets: Pm4Packets,
}

impl Port for Kiq<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn read_register(&mut self, _packet: &'static str, index: u32) -> Result<u32, Error> {
        Ok(self.registers.read((self.register)(index, self.xcc)))
    }

    fn write_register(&mut self, _packet: &'static str, index: u32, value: u32) -> Result<(), Error> {
        self.registers.write((self.register)(index, self.xcc), value);
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.ticks()
    }

    fn packets(&self) -> Pm4Packets {
        self.packets
    }

    fn xcc(&self) -> u8 {
        self.xcc
    }

    fn interrupt(&mut self, _context: u32) -> Result<(), Error> {
        Err(Error::Refused(GuestError::KiqInterrupt))
    }
}

impl Kiq<'_> {
    /// Executes one packet, given as its header and body.
    pub(super) fn execute(&mut self, header: Pm4Header, body: &[u32]) -> Result<Option<Request>, Error> {
        if header.packet_type() == 2 {
            return Ok(None);
        }
        let opcode = header.opcode();
        match opcode {
            Opcode::SET_RESOURCES => set_resources(body).map(Some),
            Opcode::MAP_QUEUES => map_queues(body, self.queue_mask, self.scheduler).map(Some),
            Opcode::UNMAP_QUEUES => unmap_queues(body).map(Some),
            Opcode::INVALIDATE_TLBS => self.invalidate_tlbs(body).map(|()| None),
            Opcode::QUERY_STATUS => self.query_status(body).map(|()| None),
            _ => match pm4::execute(opcode, body, self)? {
                Effect::Done => Ok(None),
                Effect::Wait => Err(Error::Refused(GuestError::WaitOnMemory)),
                Effect::Skip(_) => Err(Error::Operation(opcode)),
                Effect::Enter(_) => Err(Error::Refused(GuestError::KiqIndirectBuffer)),
            },
        }
    }

    fn invalidate_tlbs(&self, body: &[u32]) -> Result<(), Error> {
        let control: InvalidateTlbsControl = pm4::prefix(Opcode::INVALIDATE_TLBS, body)?;
        let by_pasid = control.dst_sel() == INVALIDATE_PASID;
        let vmids = if by_pasid { self.contexts.vmids_of(control.pasid() as u16) } else { 0xffff };
        self.contexts.invalidate(vmids);
        Ok(())
    }

    fn query_status(&self, body: &[u32]) -> Result<(), Error> {
        let query: QueryStatus = pm4::prefix(Opcode::QUERY_STATUS, body)?;
        self.space
            .store_u64(pm4::quad(query.addr_lo, query.addr_hi) & !7, pm4::quad(query.data_lo, query.data_hi))
            .map_err(|fault| Error::Memory { what: "QUERY_STATUS", fault })
    }
}

/// Returns the doorbell in bits 27:2 of a packet's word.
fn doorbell(word: u32) -> DoorbellIndex {
    DoorbellIndex::from_dwords(word >> 2 & 0x03ff_ffff)
}

fn set_resources(body: &[u32]) -> Result<Request, Error> {
    let resources: SetResources = pm4::prefix(Opcode::SET_RESOURCES, body)?;
    if resources.control.queue_type() != RESOURCES_OF_KIQ {
        return Err(Error::Refused(GuestError::ResourcesOfOtherQueue));
    }
    Ok(Request::Resources(resources))
}

fn unmap_queues(body: &[u32]) -> Result<Request, Error> {
    let packet: UnmapQueues = pm4::prefix(Opcode::UNMAP_QUEUES, body)?;
    if packet.control.queue_sel() != 0 {
        return Err(Error::Refused(GuestError::UnmapQueuesSelect));
    }
    Ok(Request::Unmap { doorbell: doorbell(packet.doorbell0_or_pasid) })
}

/// Reads MAP_QUEUES. `queue_mask` has four pipes of eight queues for each micro engine
/// (`amdgpu_queue_mask_bit_to_set_resource_bit`); `scheduler` is the kind of the scheduler's ring.
fn map_queues(body: &[u32], queue_mask: u64, scheduler: RingKind) -> Result<Request, Error> {
    let packet: MapQueues = pm4::prefix(Opcode::MAP_QUEUES, body)?;
    let control = packet.control;
    let kind = match control.engine_sel() {
        ENGINE_COMPUTE => RingKind::Compute,
        ENGINE_HIQ => RingKind::Hiq,
        ENGINE_GRAPHICS => RingKind::Graphics,
        ENGINE_MES => RingKind::Mes,
        engine if ENGINES_SDMA.contains(&engine) => RingKind::Sdma,
        _ => return Err(Error::Refused(GuestError::MapQueuesEngine)),
    };
    let bit = (control.me() & 1) * 32 + control.pipe() * 8 + control.queue();
    if kind == RingKind::Compute && queue_mask >> bit & 1 == 0 {
        return Err(Error::Refused(GuestError::MapQueuesNotGiven));
    }
    kind.served(MappedBy::Packet).map_err(Error::Refused)?;
    if kind != scheduler {
        return Err(Error::Refused(GuestError::MapQueuesEngine));
    }
    // The packet counts micro engines from the first compute one: its number 2 is number 3 in registers.
    let id = HqdId { me: (control.me() & 3) + 1, pipe: control.pipe(), queue: control.queue() };
    if (id.me == HqdId::MES.me) != (kind == RingKind::Mes) || id.me > HqdId::MES.me {
        return Err(Error::Refused(GuestError::MapQueuesMicroEngine));
    }
    let mqd = pm4::quad(packet.mqd_addr_lo, packet.mqd_addr_hi);
    Ok(Request::Map { kind, id, mqd, doorbell: doorbell(packet.doorbell) })
}

/// A packet that was taken from a KIQ.
pub(super) struct Taken {
    header: Pm4Header,
    /// Its request, if it has one; or the reason why it is refused, with its text.
    request: Result<Option<Request>, (GuestError, String)>,
}

/// Takes the next packet of the KIQ of a graphics core and executes it, except its request. Returns `None` if there was
/// none. `given` are the compute queues that SET_RESOURCES gave, one bit each.
pub(super) fn take(
    ports: &Ports,
    space: &AddressSpace,
    running: &mut Running,
    (xcc, scheduler, given): (u8, RingKind, u64),
) -> Result<Option<Taken>, GuestError> {
    let fate = running.fate(ports, "KIQ packet");
    if fate == Fate::Late {
        return Ok(None);
    }
    let Some((header, body)) = running.next_packet(space)? else { return Ok(None) };
    let mut kiq = Kiq {
        registers: &ports.registers,
        contexts: &ports.contexts,
        space,
        clock: &ports.env.clock,
        queue_mask: given,
        scheduler,
        register: ports.chip.local_register,
        xcc,
        packets: ports.chip.pm4,
    };
    let request = match fate {
        Fate::Refused => Err((GuestError::FaultInjected, String::new())),
        Fate::Unanswered => {
            let details = format_args!("KIQ packet xcc={xcc} header={:#010x}", header.bits());
            ports.counters.error(GuestError::FaultInjected, details);
            Ok(None)
        }
        _ => kiq.execute(header, &body).map_err(|error| (error.kind(), format!(": {error}"))),
    };
    Ok(Some(Taken { header, request }))
}

impl Taken {
    /// Has the packet's request obeyed. A packet that is refused is counted, and the driver is told.
    pub(super) fn obey(
        self,
        ports: &Ports,
        (xcc, running): (u8, &Running),
        obey: impl FnOnce(Request) -> Result<(), GuestError>,
    ) {
        let done =
            self.request.and_then(|request| request.map_or(Ok(()), obey).map_err(|why| (why, String::new())));
        if let Err((why, text)) = done {
            let details = format_args!("KIQ packet xcc={xcc} header={:#010x}{text}", self.header.bits());
            ports.counters.error(why, details);
            ports.interrupts.kernel_packet_refused(xcc, running.ring.doorbell());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_queues_names_the_scheduler_s_queue() {
        // As gfx11_kiq_map_queues writes it for the ring on pipe 0.
        let control = 2 << 18 | 5 << 26 | 1 << 29;
        let request = map_queues(&[control, 0x16 << 2, 0x1000, 0x80, 0, 0], 0, RingKind::Mes);
        let request = request.expect("well formed");
        assert_eq!(
            request,
            Request::Map {
                kind: RingKind::Mes,
                id: HqdId::MES,
                mqd: 0x80_0000_1000,
                doorbell: DoorbellIndex::from_dwords(0x16)
            }
        );
        assert!(map_queues(&[control], 0, RingKind::Mes).is_err());
        // As kgd_gfx_v9_hiq_mqd_load writes it for the first queue of the second micro engine.
        let control = 1 << 18 | 1 << 26 | 1 << 29;
        let body = [control, 2 << 2, 0x1000, 0x80, 0, 0];
        let hiq = HqdId { me: 2, pipe: 0, queue: 0 };
        let Ok(Request::Map { id, .. }) = map_queues(&body, 0, RingKind::Hiq) else { panic!("refused") };
        assert_eq!(id, hiq);
        // Each scheduler takes only its own.
        assert_eq!(map_queues(&body, 0, RingKind::Mes), Err(Error::Refused(GuestError::MapQueuesEngine)));
    }

    #[test]
    fn map_queues_of_a_compute_queue_names_whether_it_was_given() {
        // The second queue of the third pipe of the second micro engine.
        let body = [1 << 18 | 2 << 16 | 1 << 13, 0, 0, 0, 0, 0];
        let given = 1 << (32 + 2 * 8 + 1);
        assert_eq!(
            map_queues(&body, !given, RingKind::Mes),
            Err(Error::Refused(GuestError::MapQueuesNotGiven))
        );
        assert_eq!(
            map_queues(&body, given, RingKind::Mes),
            Err(Error::Refused(GuestError::MapQueuesCompute))
        );
    }

    #[test]
    fn map_queues_of_an_engine_without_a_model_is_refused_by_its_name() {
        let body = |engine: u32| [2 << 18 | engine << 26 | 1 << 29, 0, 0, 0, 0, 0];
        for (engine, why) in [
            (2, GuestError::MapQueuesSdma),
            (3, GuestError::MapQueuesSdma),
            (4, GuestError::MapQueuesGraphics),
            (6, GuestError::MapQueuesEngine),
        ] {
            let refused = map_queues(&body(engine), u64::MAX, RingKind::Mes);
            assert_eq!(refused, Err(Error::Refused(why)), "{engine}");
        }
    }

    #[test]
    fn set_resources_takes_the_kiq_s_alone() {
        let body = [0xff, 1, 2, 3, 4, 5, 6];
        let Ok(Request::Resources(resources)) = set_resources(&body) else { panic!("refused") };
        assert_eq!(
            (resources.control.vmid_mask(), resources.queue_mask_hi, resources.gds_heap),
            (0xff, 2, 6)
        );
        assert_eq!(set_resources(&[0; 6]), Err(Error::Length { opcode: Opcode::SET_RESOURCES, dwords: 6 }));
        let hiq = [1 << 29, 0, 0, 0, 0, 0, 0];
        assert_eq!(set_resources(&hiq), Err(Error::Refused(GuestError::ResourcesOfOtherQueue)));
    }

    #[test]
    fn unmap_queues_goes_by_doorbell_alone() {
        let body = |select: u32| [select << 4, 0x16 << 2, 0, 0, 0];
        assert_eq!(unmap_queues(&body(0)), Ok(Request::Unmap { doorbell: DoorbellIndex::from_dwords(0x16) }));
        assert!(matches!(unmap_queues(&body(2)), Err(Error::Refused(_))), "all queues");
        assert!(matches!(unmap_queues(&body(0)[..4]), Err(Error::Length { .. })));
    }
}
