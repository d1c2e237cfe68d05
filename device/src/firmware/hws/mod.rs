//! The firmware of chips without an MES: the hardware scheduler (HWS) of the compute micro engines.
//!
//! Each graphics core has a KIQ, which its driver starts through registers, and which maps the HIQ. All cores read the same HIQ, and
//! each maps the queues of run lists on its own bank of hardware queues: the model reads the packets once and acts for all of them.
//! Processes get their VMIDs here, for as long as their queues are on slots.

mod packets;
mod run_list;

use std::collections::BTreeMap;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pm4::SetResources;
use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc::{self, RLC_CP_SCHEDULERS};
use zerocopy::IntoBytes as _;

use super::kiq::{ENGINE_HIQ, Kiq, Request as KiqRequest};
use super::rings::Running;
use super::seen::{self, SeenPackets};
use super::slots::{Asked, Kind, NewProcess, NewQueue, Place, Slots, TakeOff, Whose, WritePointer};
use super::{FirmwareScheduler, Ports, SavedFirmware, SeenQueue, Served, Turn};
use crate::doorbell::Owner;
use crate::guest_error::GuestError;
use crate::queue::{Hqd, HqdId, Mqd, Ring, seed_doorbell};
use crate::save::{Broken, check};
use crate::shader::Restoring;
use crate::stats::count;
use crate::trace::TraceEvent;
use crate::vm::{AddressSpace, ShaderMemory, SpaceList, Spaces};
use packets::{Hiq, Request, Which};
use run_list::Listed;

/// Compute micro engines.
const MICRO_ENGINES: [u8; 2] = [1, 2];
/// `RLC_CP_SCHEDULERS`: it names a queue.
const VALID: u32 = 1 << 7;
/// Units of 100 ns in a unit of `MAP_PROCESS.PROCESS_QUANTUM`, which counts milliseconds.
const QUANTUM: u64 = 10_000;
/// All queues of an SDMA engine.
const ALL_QUEUES: u32 = 0xff;

/// A kernel ring, by its graphics core and its place there.
type At = (u8, HqdId);

/// KIQs, HIQ, and the queues of run lists.
pub(super) struct HwsScheduler {
    /// The KIQ of each core, and the HIQ, which the first core's stands for.
    rings: BTreeMap<At, Running>,
    /// Where the HIQ is on every core that has been told of it.
    hiq: Option<HqdId>,
    /// Doorbells of queues that the driver has taken off to change the list: the next one may have them.
    away: Vec<DoorbellIndex>,
    slots: Slots,
    ports: Ports,
}

impl std::fmt::Debug for HwsScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HwsScheduler")
            .field("rings", &self.rings)
            .field("hiq", &self.hiq)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl FirmwareScheduler for HwsScheduler {
    fn pass(&mut self) -> Turn {
        self.follow_registers();
        let turn = self.serve_rings();
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
        self.hiq = None;
        self.come_back();
    }

    fn queues(&self) -> Vec<SeenQueue> {
        let rings = self.rings.iter().map(|(&(xcc, id), running)| (xcc, id, running));
        let kernel = seen::of_kernel(&self.ports, rings, |_| SeenPackets::Pm4);
        seen::all(kernel, &self.slots, &self.ports)
    }

    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware {
        SavedFirmware {
            rings: self.rings.iter().map(|(&(xcc, id), running)| (xcc, id, running.save())).collect(),
            hiq: self.hiq,
            queue_mask: 0,
            slots: self.slots.save(spaces),
        }
    }

    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        for (xcc, id, running) in &saved.rings {
            check("micro engine of a kernel's ring", id.me, MICRO_ENGINES.contains(&id.me))?;
            check("graphics core of a kernel's ring", *xcc, *xcc < self.ports.hqds.xccs())?;
            self.rings.insert((*xcc, *id), Running::restored(running.clone())?);
        }
        self.hiq = saved.hiq;
        self.slots.restore(&self.ports, &saved.slots, spaces, restoring)
    }
}

impl HwsScheduler {
    pub(super) fn new(ports: Ports) -> Self {
        Self { rings: BTreeMap::new(), hiq: None, away: Vec::new(), slots: Slots::default(), ports }
    }

    /// The queue that a core's registers name as its KIQ.
    fn kiq(&self, xcc: u8) -> Option<HqdId> {
        let bits = self.ports.registers.get_of(gc::IP, xcc, RLC_CP_SCHEDULERS::AT);
        let id = HqdId { me: (bits >> 5 & 3) as u8, pipe: (bits >> 3 & 3) as u8, queue: (bits & 7) as u8 };
        (bits & VALID != 0 && MICRO_ENGINES.contains(&id.me)).then_some(id)
    }

    /// Starts and stops what the driver has started and stopped through registers.
    fn follow_registers(&mut self) {
        for xcc in 0..self.ports.hqds.xccs() {
            for me in MICRO_ENGINES {
                for (id, hqd) in self.ports.hqds.active_of(xcc, me) {
                    self.follow(xcc, id, &hqd);
                }
            }
            // The micro engine of the MES, which there is not.
            for (id, _) in self.ports.hqds.active_of(xcc, HqdId::MES.me) {
                self.refuse((xcc, id), GuestError::SchedulerQueue);
            }
        }
        let Ports { hqds, doorbells, .. } = &self.ports;
        self.rings.retain(|&(xcc, id), running| {
            let keep = hqds.hqd_of(xcc, id, |hqd| hqd.is_active() && hqd.activation == running.activation);
            if !keep {
                doorbells.own(running.ring.doorbell(), Owner::Nobody);
            }
            keep
        });
        // Before the first core has stopped it, others may have.
        if let Some(id) = self.hiq
            && !self.rings.contains_key(&(0, id))
        {
            self.hiq = None;
        }
    }

    fn follow(&mut self, xcc: u8, id: HqdId, hqd: &Hqd) {
        let at = (xcc, id);
        if hqd.wants_dequeue() && !self.slots.is_on(id) {
            let pointers = self.rings.remove(&at).map(|running| running.ring.pointers());
            self.ports.hqds.hqd_of(xcc, id, |hqd| {
                if let Some((rptr, wptr)) = pointers {
                    hqd.set_pointers(rptr, wptr);
                }
                hqd.deactivate();
            });
            if pointers.is_some() {
                self.ports.doorbells.own(hqd.doorbell(), Owner::Nobody);
            }
            return;
        }
        let known = self.rings.get(&at).is_some_and(|running| running.activation == hqd.activation);
        if known || self.slots.is_on(id) || self.hiq == Some(id) {
            return;
        }
        if self.kiq(xcc) != Some(id) {
            self.refuse(at, GuestError::ComputeQueueByRegisters);
            return;
        }
        match Ring::new(hqd) {
            Ok(ring) => {
                self.ports.doorbells.own(ring.doorbell(), Owner::Ring);
                self.rings.insert(at, Running::new(ring, hqd.activation));
            }
            Err(why) => self.refuse(at, why),
        }
    }

    /// Stops a queue that was started through registers and may not run.
    fn refuse(&self, (xcc, id): At, why: GuestError) {
        self.error(why, (xcc, id));
        let doorbell = self.ports.hqds.hqd_of(xcc, id, |hqd| {
            hqd.deactivate();
            hqd.doorbell()
        });
        self.ports.doorbells.own(doorbell, Owner::Nobody);
    }

    fn error(&self, why: GuestError, (xcc, id): At) {
        let HqdId { me, pipe, queue } = id;
        self.ports.counters.error(why, format_args!("xcc={xcc} me={me} pipe={pipe} queue={queue}"));
    }

    fn serve_rings(&mut self) -> Turn {
        let Some(space) = self.ports.contexts.space(0) else { return Turn::WhenWoken };
        let mut turn = Turn::WhenWoken;
        let all: Vec<At> = self.rings.keys().copied().collect();
        for at in all {
            let Some(mut running) = self.rings.remove(&at) else { continue };
            running.look(&self.ports);
            let (more, failed) = running.batch(|running| {
                if self.hiq == Some(at.1) {
                    self.step_hiq(&space, running)
                } else {
                    self.step_kiq(&space, at.0, running)
                }
            });
            turn = turn.min(more);
            if let Some(why) = failed {
                self.error(why, at);
            }
            if running.ring.report(&space).is_err() {
                self.error(GuestError::RptrReportUnmapped, at);
            }
            self.rings.insert(at, running);
        }
        turn
    }

    /// Executes one packet of a core's KIQ; whether there was one.
    fn step_kiq(&mut self, space: &AddressSpace, xcc: u8, running: &mut Running) -> Result<bool, GuestError> {
        let Some((header, body)) = running.next_packet(space)? else { return Ok(false) };
        let mut kiq = Kiq {
            registers: &self.ports.registers,
            contexts: &self.ports.contexts,
            space,
            clock: &self.ports.env.clock,
            queue_mask: 0,
            engine: ENGINE_HIQ,
            register: self.ports.chip.local_register,
            xcc,
            packets: self.ports.chip.pm4,
        };
        let done = match kiq.execute(header, &body) {
            Ok(None | Some(KiqRequest::Resources(_))) => Ok(()),
            Ok(Some(KiqRequest::Map { id, mqd, doorbell })) => self.map_hiq(space, (xcc, id), mqd, doorbell),
            Ok(Some(KiqRequest::Unmap { doorbell })) => self.unmap_hiq(xcc, doorbell),
            Err(error) => Err(error.kind()),
        };
        if let Err(why) = done {
            self.ports.counters.error(why, format_args!("KIQ xcc={xcc} header={:#010x}", header.bits()));
            self.ports.interrupts.kernel_packet_refused(running.ring.doorbell());
        }
        Ok(true)
    }

    /// Loads the HIQ on a core. All cores have it at the same place; the first core's ring is the one that is read.
    fn map_hiq(
        &mut self,
        space: &AddressSpace,
        at: At,
        mqd: u64,
        doorbell: DoorbellIndex,
    ) -> Result<(), GuestError> {
        let (xcc, id) = at;
        if self.hiq.is_some_and(|hiq| hiq != id) || self.rings.contains_key(&at) {
            return Err(GuestError::HwsRing);
        }
        let mqd = Mqd::read(&self.ports.chip.mqd, space, mqd)?;
        let mut hqd = Hqd::new();
        hqd.load(&mqd);
        hqd.set_doorbell(doorbell);
        let ring = Ring::new(&hqd)?;
        let hqd = self.ports.hqds.hqd_of(xcc, id, |hqd| {
            hqd.load(&mqd);
            hqd.set_doorbell(doorbell);
            hqd.activate();
            *hqd
        });
        self.hiq = Some(id);
        if xcc == 0 {
            seed_doorbell(&hqd, Some(space), &self.ports.doorbells);
            self.ports.doorbells.own(doorbell, Owner::Ring);
            self.rings.insert(at, Running::new(ring, hqd.activation));
        }
        Ok(())
    }

    fn unmap_hiq(&mut self, xcc: u8, doorbell: DoorbellIndex) -> Result<(), GuestError> {
        let id = self.hiq.ok_or(GuestError::UnmapQueuesUnknown)?;
        let own = self.ports.hqds.hqd_of(xcc, id, |hqd| {
            let own = hqd.is_active() && hqd.doorbell() == doorbell;
            if own {
                hqd.deactivate();
            }
            own
        });
        if !own {
            return Err(GuestError::UnmapQueuesUnknown);
        }
        if xcc == 0 {
            self.rings.remove(&(0, id));
            self.hiq = None;
            self.ports.doorbells.own(doorbell, Owner::Nobody);
        }
        Ok(())
    }

    /// Executes one packet of the HIQ; whether there was one.
    fn step_hiq(&mut self, space: &AddressSpace, running: &mut Running) -> Result<bool, GuestError> {
        let Some((header, body)) = running.next_packet(space)? else { return Ok(false) };
        let mut hiq = Hiq {
            registers: &self.ports.registers,
            space,
            clock: &self.ports.env.clock,
            register: self.ports.chip.local_register,
            xccs: self.ports.hqds.xccs(),
            packets: self.ports.chip.pm4,
        };
        let done = match hiq.execute(header, &body) {
            Ok(None) => Ok(()),
            Ok(Some(request)) => self.obey(space, &request),
            Err(error) => Err(error.kind()),
        };
        self.ports.trace(TraceEvent::HiqPacket { header: header.bits(), done: done.is_ok() });
        match done {
            Ok(()) => count(&self.ports.counters.mes_frames),
            Err(why) => {
                count(&self.ports.counters.mes_refused);
                self.ports.counters.error(why, format_args!("HIQ header={:#010x}", header.bits()));
                self.ports.interrupts.kernel_packet_refused(running.ring.doorbell());
            }
        }
        Ok(true)
    }

    fn obey(&mut self, space: &AddressSpace, request: &Request) -> Result<(), GuestError> {
        match request {
            Request::Resources(resources) => self.set_resources(resources),
            Request::Run { list, dwords } => self.run(space, *list, *dwords),
            Request::Unmap { which, reset } => {
                self.unmap(which, *reset);
                Ok(())
            }
            Request::Fence { at, value } => {
                space.store_u64(*at, *value).map_err(|_| GuestError::FenceUnmapped)
            }
        }
    }

    /// The scheduler has these VMIDs and hardware queues, and all queues of the SDMA engines.
    fn set_resources(&mut self, resources: &SetResources) -> Result<(), GuestError> {
        // VMID 0 is the kernel's own.
        let vmids = u32::from(resources.control.vmid_mask()) & 0xfffe;
        if vmids == 0 {
            return Err(GuestError::ResourcesWithoutVmids);
        }
        let mask = u64::from(resources.queue_mask_hi) << 32 | u64::from(resources.queue_mask_lo);
        let mut slots: Vec<Place> = Place::compute(mask).collect();
        // The place of the HIQ itself is not its own to give.
        slots.retain(|slot| self.hiq.is_none_or(|hiq| *slot != Place::Compute(hiq)));
        slots.extend((0..self.ports.sdma_engines).flat_map(|engine| Place::sdma(engine, ALL_QUEUES)));
        self.slots.configure(vmids, slots)?;
        for (name, asks) in [
            ("SET_RESOURCES oac_mask", resources.oac_mask != 0),
            ("SET_RESOURCES gds_heap", resources.gds_heap != 0),
        ] {
            if asks {
                self.ports.counters.unmodelled(name, format_args!("answered without it"));
            }
        }
        Ok(())
    }

    /// Takes queues off. A driver takes all of them off to change the list, and their processes know nothing of that.
    fn unmap(&mut self, which: &Which, reset: bool) {
        if *which == Which::NotStatic && !reset {
            // The doorbells are marked while their queues still own them, so that no ring in between counts as unknown.
            for doorbell in self.slots.not_static() {
                self.ports.doorbells.set_away(doorbell, true);
                self.away.push(doorbell);
            }
        }
        self.slots.take_off(&self.ports, reset, |queue: &TakeOff| match which {
            Which::Doorbells(doorbells) => doorbells.contains(&queue.doorbell),
            Which::Pasid(pasid) => queue.pasid == *pasid,
            Which::All => true,
            Which::NotStatic => !queue.is_static,
        });
    }

    /// The queues that were taken off are on the new list, or gone.
    fn come_back(&mut self) {
        for doorbell in self.away.drain(..) {
            self.ports.doorbells.set_away(doorbell, false);
        }
    }

    /// Runs the queues of a list instead of those that run now.
    fn run(&mut self, space: &AddressSpace, list: u64, dwords: u32) -> Result<(), GuestError> {
        let mut words = vec![0u32; dwords as usize];
        space.read_bytes(list, words.as_mut_bytes()).map_err(|_| GuestError::RunListUnmapped)?;
        let processes = run_list::parse(&words)?;
        self.unmap(&Which::NotStatic, false);
        for run_list::Process { process, queues } in &processes {
            let new = NewProcess {
                key: process.control.pasid().into(),
                pasid: process.control.pasid(),
                base: u64::from(process.page_table_base_hi) << 32 | u64::from(process.page_table_base_lo),
                shape: None,
                shader: Some(ShaderMemory { bases: process.sh_mem_bases, config: process.sh_mem_config }),
            };
            let trap = |lo: u32, hi: u32| (u64::from(hi & 0xff) << 32 | u64::from(lo)) << 8;
            let traps = (
                trap(process.sq_shader_tba_lo, process.sq_shader_tba_hi),
                trap(process.sq_shader_tma_lo, process.sq_shader_tma_hi),
            );
            let quantum = u64::from(process.control.process_quantum()) * QUANTUM;
            for queue in queues {
                let added = queue.and_then(|queue| {
                    let added = self.add(space, new, (traps, quantum), &queue);
                    added.map_err(|why| (queue.doorbell, why))
                });
                if let Err((doorbell, why)) = added {
                    let pasid = new.pasid;
                    self.ports
                        .counters
                        .error(why, format_args!("run list pasid={pasid:#x} doorbell={doorbell:#x}"));
                }
            }
        }
        self.come_back();
        Ok(())
    }

    fn add(
        &mut self,
        space: &AddressSpace,
        process: NewProcess,
        (trap, quantum): ((u64, u64), u64),
        queue: &Listed,
    ) -> Result<(), GuestError> {
        // It has not been taken off.
        if self.slots.has_static(queue.doorbell) {
            return Ok(());
        }
        let new = NewQueue {
            doorbell: queue.doorbell,
            process,
            gang: process.key,
            kind: queue.kind,
            mqd: queue.mqd,
            wptr: WritePointer { address: queue.wptr, whose: Whose::Process },
            trap,
            exclusive: queue.gws && queue.kind == Kind::Compute,
            suspended: false,
            is_static: queue.is_static,
            asked: Asked { gang: 0, process: quantum, level: 0 },
        };
        self.slots.add(&self.ports, space, &new)
    }
}
