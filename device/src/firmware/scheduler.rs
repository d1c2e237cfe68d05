//! The firmware of chips whose queues the MES maps: the KIQ's ring, which brings the MES up, the MES's ring, and its
//! queues.

use std::collections::BTreeMap;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{API_FRAME_SIZE_IN_DWORDS, FRAME_SIZE, v12};
use belfry_abi::pm4::SetResources;
use zerocopy::IntoBytes;

use super::kiq::{ENGINE_MES, Kiq, Request as KiqRequest};
use super::mes;
use super::rings::{Fate, Running};
use super::seen::{self, SeenPackets};
use super::slots::Slots;
use super::{FirmwareScheduler, Ports, SavedFirmware, SeenQueue, Served, Turn};
use crate::chip::{MesFirmware, MesFrames};
use crate::doorbell::Owner;
use crate::guest_error::GuestError;
use crate::queue::{HqdId, Mqd, Ring, seed_doorbell};
use crate::save::{Broken, check};
use crate::shader::Restoring;
use crate::vm::{AddressSpace, SpaceList, Spaces};

/// KIQ and MES.
pub(super) struct MesScheduler {
    rings: BTreeMap<HqdId, Running>,
    firmware: MesFirmware,
    mes: Slots,
    /// Compute queues that the KIQ may map, as SET_RESOURCES gave them.
    queue_mask: u64,
    ports: Ports,
}

impl std::fmt::Debug for MesScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MesScheduler")
            .field("rings", &self.rings)
            .field("mes", &self.mes)
            .field("queue_mask", &self.queue_mask)
            .finish_non_exhaustive()
    }
}

impl FirmwareScheduler for MesScheduler {
    fn pass(&mut self) -> Turn {
        self.follow_registers();
        let turn = self.serve_rings();
        turn.min(self.mes.pass(&self.ports))
    }

    fn serve(&mut self, doorbell: DoorbellIndex) -> Option<Served> {
        self.mes.serve(&self.ports, doorbell)
    }

    fn listens(&self) -> bool {
        !self.rings.is_empty() || self.mes.has_queues()
    }

    fn hold(&mut self, held: bool) {
        self.mes.hold(held);
    }

    fn reset(&mut self) {
        self.mes.reset(&self.ports);
        self.rings.clear();
        self.queue_mask = 0;
    }

    fn queues(&self) -> Vec<SeenQueue> {
        let of_packets = |id| !self.firmware.on_both_pipes && id == HqdId::KIQ;
        let packets = |id| if of_packets(id) { SeenPackets::Pm4 } else { SeenPackets::Mes };
        let rings = self.rings.iter().map(|(&id, running)| (0, id, running));
        seen::all(seen::of_kernel(&self.ports, rings, packets), &self.mes, &self.ports)
    }

    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware {
        SavedFirmware {
            rings: self.rings.iter().map(|(&id, running)| (0, id, running.save())).collect(),
            hiqs: Vec::new(),
            queue_mask: self.queue_mask,
            slots: self.mes.save(spaces),
        }
    }

    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        for (xcc, id, running) in &saved.rings {
            check("graphics core of a kernel's ring", *xcc, *xcc == 0)?;
            check("micro engine of a kernel's ring", id.me, [HqdId::KIQ, HqdId::MES].contains(id))?;
            self.rings.insert(*id, Running::restored(running.clone())?);
        }
        self.queue_mask = saved.queue_mask;
        self.mes.restore(&self.ports, &saved.slots, spaces, restoring)
    }
}

impl MesScheduler {
    pub(super) fn new(ports: Ports, firmware: MesFirmware) -> Self {
        Self { rings: BTreeMap::new(), firmware, mes: Slots::default(), queue_mask: 0, ports }
    }

    /// Starts and stops the rings that the driver has started and stopped through registers.
    fn follow_registers(&mut self) {
        self.rings.retain(|&id, running| running.goes_on(&self.ports, (0, id)));
        for (id, hqd) in self.ports.hqds.active(HqdId::MES.me) {
            if hqd.wants_dequeue() {
                let pointers = self.rings.remove(&id).map(|running| running.ring);
                self.ports.hqds.hqd(id, |hqd| {
                    if let Some(ring) = &pointers {
                        let (rptr, wptr) = ring.pointers();
                        hqd.set_pointers(rptr, wptr);
                    }
                    // The doorbell is given up before the driver sees the ring off and may start another one with it.
                    self.ports.doorbells.own(hqd.doorbell(), Owner::Nobody);
                    hqd.deactivate();
                });
                continue;
            }
            if self.rings.contains_key(&id) {
                continue;
            }
            let ring = if id == HqdId::MES || id == HqdId::KIQ {
                Ring::new(&hqd)
            } else {
                Err(GuestError::SchedulerQueue)
            };
            match ring {
                Ok(ring) => {
                    self.ports.doorbells.own(ring.doorbell(), Owner::Ring);
                    self.rings.insert(id, Running::new(ring, hqd.activation));
                }
                Err(why) => {
                    self.error(why, id);
                    self.ports.hqds.hqd(id, |hqd| hqd.deactivate());
                    self.ports.doorbells.own(hqd.doorbell(), Owner::Nobody);
                }
            }
        }
        for me in 1..3 {
            for (id, hqd) in self.ports.hqds.active(me) {
                // Queues that the MES mapped are not handled here; queues that a driver started by registers are refused.
                if !self.mes.is_on(0, id) {
                    if !hqd.wants_dequeue() {
                        self.error(GuestError::ComputeQueueByRegisters, id);
                    }
                    self.ports.hqds.hqd(id, |hqd| hqd.deactivate());
                    self.ports.doorbells.own(hqd.doorbell(), Owner::Nobody);
                }
            }
        }
    }

    fn error(&self, why: GuestError, HqdId { me, pipe, queue }: HqdId) {
        self.ports.counters.error(why, format_args!("me={me} pipe={pipe} queue={queue}"));
    }

    fn serve_rings(&mut self) -> Turn {
        let Some(space) = self.ports.contexts.space(0) else { return Turn::WhenWoken };
        let mut turn = Turn::WhenWoken;
        for id in [HqdId::KIQ, HqdId::MES] {
            let Some(mut running) = self.rings.remove(&id) else { continue };
            running.look(&self.ports);
            let (more, failed) = running.batch(|running| {
                if id == HqdId::KIQ && !self.firmware.on_both_pipes {
                    self.step_kiq(&space, running)
                } else {
                    self.step_mes(&space, id, running)
                }
            });
            turn = turn.min(more);
            if let Some(why) = failed {
                self.error(why, id);
            }
            if running.ring.report(&space).is_err() {
                self.error(GuestError::RptrReportUnmapped, id);
            }
            self.rings.insert(id, running);
        }
        turn
    }

    /// Executes one packet of the KIQ. Returns false if there was none.
    fn step_kiq(&mut self, space: &AddressSpace, running: &mut Running) -> Result<bool, GuestError> {
        let fate = running.fate(&self.ports, "KIQ packet");
        if fate == Fate::Late {
            return Ok(false);
        }
        let Some((header, body)) = running.next_packet(space)? else { return Ok(false) };
        if fate != Fate::Done {
            self.ports
                .counters
                .error(GuestError::FaultInjected, format_args!("KIQ packet header={:#010x}", header.bits()));
            if fate == Fate::Refused {
                self.ports.interrupts.kernel_packet_refused(0, running.ring.doorbell());
            }
            return Ok(true);
        }
        let mut kiq = Kiq {
            registers: &self.ports.registers,
            contexts: &self.ports.contexts,
            space,
            clock: &self.ports.env.clock,
            queue_mask: self.queue_mask,
            engine: ENGINE_MES,
            register: self.ports.chip.local_register,
            xcc: 0,
            packets: self.ports.chip.pm4,
        };
        match kiq.execute(header, &body) {
            Ok(None) => {}
            Ok(Some(request)) => {
                if let Err(why) = self.obey(space, request) {
                    self.ports.counters.error(why, format_args!("KIQ {request:x?}"));
                }
            }
            Err(error) => {
                let details = format_args!("KIQ packet header={:#010x}: {error}", header.bits());
                self.ports.counters.error(error.kind(), details);
                self.ports.interrupts.kernel_packet_refused(0, running.ring.doorbell());
            }
        }
        Ok(true)
    }

    fn obey(&mut self, space: &AddressSpace, request: KiqRequest) -> Result<(), GuestError> {
        match request {
            KiqRequest::Map { id, mqd, doorbell } => {
                let mqd = Mqd::read(&self.ports.chip.mqd, space, mqd)?;
                let hqd = self.ports.hqds.hqd(id, |hqd| {
                    hqd.load(&mqd);
                    hqd.set_doorbell(doorbell);
                    hqd.activate();
                    *hqd
                });
                seed_doorbell(&hqd, Some(space), &self.ports.doorbells);
                self.follow_registers();
                Ok(())
            }
            KiqRequest::Unmap { doorbell } => {
                let id = self
                    .rings
                    .iter()
                    .find(|(_, running)| running.ring.doorbell() == doorbell)
                    .map(|(&id, _)| id);
                let id = id.ok_or(GuestError::UnmapQueuesUnknown)?;
                self.rings.remove(&id);
                self.ports.hqds.hqd(id, |hqd| hqd.deactivate());
                self.ports.doorbells.own(doorbell, Owner::Nobody);
                Ok(())
            }
            KiqRequest::Resources(resources) => {
                self.set_resources(&resources);
                Ok(())
            }
        }
    }

    /// Takes SET_RESOURCES of the KIQ. The KIQ maps only the MES: the resources that it may give to others are noted,
    /// but no queue ever gets them. MAP_QUEUES and MAP_PROCESS, which would give them, are refused. Queues are taken
    /// off at once, within any latency.
    fn set_resources(&mut self, resources: &SetResources) {
        self.queue_mask = u64::from(resources.queue_mask_hi) << 32 | u64::from(resources.queue_mask_lo);
        let others = [
            ("SET_RESOURCES vmid_mask", u64::from(resources.control.vmid_mask())),
            ("SET_RESOURCES queue_mask", self.queue_mask),
            (
                "SET_RESOURCES gws_mask",
                u64::from(resources.gws_mask_hi) << 32 | u64::from(resources.gws_mask_lo),
            ),
            ("SET_RESOURCES oac_mask", resources.oac_mask.into()),
            ("SET_RESOURCES gds_heap", resources.gds_heap.into()),
        ];
        for (name, value) in others.into_iter().filter(|(_, value)| *value != 0) {
            self.ports.counters.unmodelled(name, format_args!("{value:#x}, which the KIQ gives to nobody"));
        }
    }

    /// Executes one frame of a ring of the MES. Returns false if there was none.
    fn step_mes(
        &mut self,
        space: &AddressSpace,
        id: HqdId,
        running: &mut Running,
    ) -> Result<bool, GuestError> {
        let available = running.ring.available();
        if running.dead || available == 0 {
            return Ok(false);
        }
        let mut dwords = [0u32; API_FRAME_SIZE_IN_DWORDS];
        if available < dwords.len() as u64 {
            // A part of a frame is not a frame. It is dropped, or the ring would never move again.
            self.ports.counters.error(GuestError::MesFrameCutShort, format_args!("dwords={available}"));
            running.ring.consume(available);
            return Ok(true);
        }
        running.note_frames(&self.ports, space);
        running.ring.peek(space, 0, &mut dwords).map_err(|_| GuestError::MesRingUnmapped)?;
        let fate = running.fate(&self.ports, mes::name(dwords[0]));
        if fate == Fate::Late {
            return Ok(false);
        }
        running.check_frame(&self.ports, &dwords);
        let mut frame = [0; FRAME_SIZE];
        frame.copy_from_slice(dwords.as_bytes());
        running.ring.consume(dwords.len() as u64);
        if self.firmware.frames == MesFrames::V12 {
            frame = v12::to_v11(&frame);
        }
        if fate == Fate::Done {
            mes::execute(&mut self.mes, &self.ports, space, id, &frame);
        } else {
            mes::strike(&self.ports, &frame, fate == Fate::Refused);
        }
        Ok(true)
    }
}
