//! The firmware of chips whose queues the MES maps: the KIQ's ring, which brings the MES up, the MES's ring, and its
//! queues.

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{API_FRAME_SIZE_IN_DWORDS, FRAME_SIZE, v12};
use belfry_abi::pm4::SetResources;
use zerocopy::IntoBytes;

use super::frame::Frames;
use crate::chip::{MesFirmware, MesFrames};
use crate::firmware::kiq::{self, Request};
use crate::firmware::rings::{At, Fate, KernelRings, MappedBy, NewRing, RingKind, Running, ServesRings, pm4};
use crate::firmware::save::{SavedFirmware, SavedMes};
use crate::firmware::seen::{self, SeenPackets, SeenQueue};
use crate::firmware::slots::Slots;
use crate::firmware::{Firmware, Ports, Served, Turn};
use crate::guest_error::GuestError;
use crate::queue::HqdId;
use crate::save::Broken;
use crate::shader::Restoring;
use crate::vm::{AddressSpace, SpaceList, Spaces};

/// Hardware queues of the MES's rings.
const RINGS: [HqdId; 2] = [HqdId::KIQ, HqdId::MES];

/// Time between two looks at memory that a ring waits for.
const WAIT: Duration = Duration::from_micros(100);

/// KIQ and MES.
pub(in crate::firmware) struct MesScheduler {
    rings: KernelRings,
    firmware: MesFirmware,
    slots: Slots,
    /// Compute queues that the KIQ may map, as SET_RESOURCES gave them.
    queue_mask: u64,
    ports: Arc<Ports>,
}

impl std::fmt::Debug for MesScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MesScheduler")
            .field("rings", &self.rings)
            .field("slots", &self.slots)
            .field("queue_mask", &self.queue_mask)
            .finish_non_exhaustive()
    }
}

impl Firmware for MesScheduler {
    fn pass(&mut self) -> Turn {
        self.follow_registers();
        let mut order = RINGS.map(|id| (0, id)).to_vec();
        order.extend(self.rings.places().filter(|(_, id)| !RINGS.contains(id)));
        let mut turn = self.serve_rings(order);
        if self.rings.wait() {
            turn = turn.min(Turn::After(WAIT));
        }
        turn.min(self.slots.pass(&self.ports))
    }

    fn serve(&mut self, doorbell: DoorbellIndex) -> Option<Served> {
        self.slots.serve(&self.ports, doorbell)
    }

    fn listens(&self) -> bool {
        !self.rings.is_empty() || self.slots.has_queues()
    }

    fn hold(&mut self, held: bool) {
        self.slots.hold(held);
    }

    fn reset(&mut self) {
        self.slots.reset(&self.ports);
        self.rings.clear();
        self.queue_mask = 0;
    }

    fn queues(&self) -> Vec<SeenQueue> {
        let packets = |id| match self.kind(id) {
            RingKind::Mes => SeenPackets::Mes,
            _ => SeenPackets::Pm4,
        };
        seen::all(seen::of_kernel(&self.ports, &self.rings, packets), &self.slots, &self.ports)
    }

    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware {
        SavedFirmware::Mes(SavedMes {
            rings: self.rings.save(),
            queue_mask: self.queue_mask,
            slots: self.slots.save(spaces),
        })
    }

    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        let SavedFirmware::Mes(saved) = saved else { return Err(SavedFirmware::OF_ANOTHER_KIND) };
        // Rings of the scheduler, and those of the kernel on other micro engines.
        self.rings.restore(&saved.rings, 1, |id| RINGS.contains(&id) || id.me < HqdId::MES.me)?;
        self.queue_mask = saved.queue_mask;
        self.slots.restore(&self.ports, &saved.slots, spaces, restoring)
    }
}

impl ServesRings for MesScheduler {
    fn rings(&mut self) -> (&mut KernelRings, &Ports) {
        (&mut self.rings, &self.ports)
    }

    fn step(&mut self, space: &AddressSpace, at: At, running: &mut Running) -> Result<bool, GuestError> {
        let (_, id) = at;
        match self.kind(id) {
            RingKind::Kiq => self.step_kiq(space, running),
            RingKind::Mes => self.step_mes(space, id, running),
            _ => pm4::step(&self.ports, space, at, running),
        }
    }
}

impl MesScheduler {
    pub(in crate::firmware) fn new(ports: Arc<Ports>, firmware: MesFirmware) -> Self {
        let (rings, slots) = (KernelRings::default(), Slots::default());
        Self { rings, firmware, slots, queue_mask: 0, ports }
    }

    /// Returns the kind of the ring of a hardware queue.
    fn kind(&self, id: HqdId) -> RingKind {
        match id {
            HqdId::KIQ if !self.firmware.on_both_pipes => RingKind::Kiq,
            HqdId { me: 0, .. } => RingKind::Graphics,
            HqdId { me: 1..=2, .. } => RingKind::Compute,
            _ => RingKind::Mes,
        }
    }

    /// Starts and stops the rings that the driver has started and stopped through registers.
    fn follow_registers(&mut self) {
        for (id, hqd) in self.ports.hqds.active(HqdId::MES.me) {
            let kind = if RINGS.contains(&id) { Ok(self.kind(id)) } else { Err(GuestError::SchedulerQueue) };
            self.rings.follow(&self.ports, (0, id), &hqd, kind);
        }
        for me in 1..3 {
            for (id, hqd) in self.ports.hqds.active(me) {
                // Queues that the MES mapped are not handled here.
                if !self.slots.is_on(0, id) {
                    self.rings.follow(&self.ports, (0, id), &hqd, Ok(RingKind::Compute));
                }
            }
        }
        self.rings.drop_stopped(&self.ports);
    }

    /// Executes one packet of the KIQ. Returns false if there was none.
    fn step_kiq(&mut self, space: &AddressSpace, running: &mut Running) -> Result<bool, GuestError> {
        let which = (0, RingKind::Mes, self.queue_mask);
        let ports = Arc::clone(&self.ports);
        let Some(taken) = kiq::take(&ports, space, running, which)? else { return Ok(false) };
        taken.obey(&ports, (0, running), |request| self.obey(space, request));
        Ok(true)
    }

    fn obey(&mut self, space: &AddressSpace, request: Request) -> Result<(), GuestError> {
        match request {
            Request::Map { kind, id, mqd, doorbell } => {
                if !RINGS.contains(&id) {
                    return Err(GuestError::SchedulerQueue);
                }
                let new = NewRing { kind, at: (0, id), mqd, doorbell };
                self.rings.map(&self.ports, space, &new, MappedBy::Packet)
            }
            Request::Unmap { doorbell } => {
                let at = self.rings.of_doorbell(doorbell).ok_or(GuestError::UnmapQueuesUnknown)?;
                self.rings.unmap(&self.ports, at);
                Ok(())
            }
            Request::Resources(resources) => {
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
        let fate = running.fate(&self.ports, super::name(dwords[0]));
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
            let (slots, rings) = (&mut self.slots, &mut self.rings);
            Frames { slots, rings, ports: &self.ports, space, firmware: &self.firmware }.execute(id, &frame);
        } else {
            super::frame::strike(&self.ports, &frame, fate == Fate::Refused);
        }
        Ok(true)
    }
}
