//! The firmware of chips without an MES: the hardware scheduler (HWS) of the compute micro engines.
//!
//! Each graphics core has a KIQ, which its driver starts through registers, and which maps the HIQ. All cores read the
//! same HIQ, and each maps the queues of run lists on its own bank of hardware queues: the model reads the packets once
//! and acts for all of them. If the cores are partitioned, each partition has a HIQ of its own, represented by the ring
//! of its first core, and knows nothing of the queues of the other partitions.
//! Processes get their VMIDs here, for as long as their queues are on slots.

mod debug;
mod hiq;
mod packets;
mod run_list;

use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pm4::SetResources;
use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc::{self, RLC_CP_SCHEDULERS};
use zerocopy::IntoBytes as _;

use super::kiq::{self, Request as KiqRequest};
use super::rings::{At, Fate, KernelRings, NewRing, RingKind, Running, ServesRings};
use super::save::{SavedFirmware, SavedHws};
use super::seen::{self, SeenPackets, SeenQueue};
use super::slots::{Asked, Kind, NewProcess, NewQueue, Place, Slots, TakeOff, Whose, WritePointer};
use super::{Firmware, Ports, Served, Turn};
use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::queue::{HqdId, Partition};
use crate::save::{Broken, check};
use crate::shader::Restoring;
use crate::stats::count;
use crate::vm::{AddressSpace, ShaderMemory, SpaceList, Spaces};
use packets::{Hiq, Request, Which};
use run_list::Listed;

/// Compute micro engines.
const MICRO_ENGINES: [u8; 2] = [1, 2];
/// Bit of `RLC_CP_SCHEDULERS` that is set if the register names a queue.
const VALID: u32 = 1 << 7;
/// Units of 100 ns in a unit of `MAP_PROCESS.PROCESS_QUANTUM`, which counts milliseconds.
const QUANTUM: u64 = 10_000;
/// SDMA engines that belong to a graphics core.
const ENGINES_OF_XCC: u8 = 2;
/// All queues of an SDMA engine.
const ALL_QUEUES: u32 = 0xff;

/// Returns the key of a process. Each partition has page tables of its own for a process.
fn process_key(partition: Partition, pasid: u16) -> u64 {
    u64::from(partition.first) << 16 | u64::from(pasid)
}

/// KIQs, HIQ, and the queues of run lists.
pub(super) struct HwsScheduler {
    /// The KIQ of each core, and the HIQ of each partition under the partition's first core.
    rings: KernelRings,
    /// Partitions with a HIQ, and its hardware queue on every core of them that has been told of it.
    hiqs: Vec<(Partition, HqdId)>,
    /// Doorbells of queues that the driver has taken off to change a partition's list: the next list may have them.
    away: Vec<(Partition, DoorbellIndex)>,
    slots: Slots,
    ports: Arc<Ports>,
}

impl std::fmt::Debug for HwsScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HwsScheduler")
            .field("rings", &self.rings)
            .field("hiqs", &self.hiqs)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Firmware for HwsScheduler {
    fn pass(&mut self) -> Turn {
        self.follow_registers();
        let turn = self.serve_rings(self.rings.places().copied().collect());
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
        self.hiqs.clear();
        self.come_back(|_| true);
    }

    fn queues(&self) -> Vec<SeenQueue> {
        let kernel = seen::of_kernel(&self.ports, &self.rings, |_| SeenPackets::Pm4);
        seen::all(kernel, &self.slots, &self.ports)
    }

    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware {
        SavedFirmware::Hws(SavedHws {
            rings: self.rings.save(),
            hiqs: self.hiqs.clone(),
            slots: self.slots.save(spaces),
        })
    }

    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        let SavedFirmware::Hws(saved) = saved else { return Err(SavedFirmware::OF_ANOTHER_KIND) };
        let may_be = |id: HqdId| MICRO_ENGINES.contains(&id.me);
        self.rings.restore(&saved.rings, self.ports.hqds.xccs(), may_be)?;
        for (partition, id) in &saved.hiqs {
            partition.check(self.ports.hqds.xccs())?;
            check("HIQ of cores that have another", id.queue, self.hiq_of(*partition).is_none())?;
            self.hiqs.push((*partition, *id));
        }
        self.slots.restore(&self.ports, &saved.slots, spaces, restoring)
    }
}

impl ServesRings for HwsScheduler {
    fn rings(&mut self) -> (&mut KernelRings, &Ports) {
        (&mut self.rings, &self.ports)
    }

    fn step(&mut self, space: &AddressSpace, at: At, running: &mut Running) -> Result<bool, GuestError> {
        match self.hiq(at.0) {
            Some((partition, hiq)) if hiq == at.1 => self.step_hiq(space, partition, running),
            _ => self.step_kiq(space, at.0, running),
        }
    }
}

impl HwsScheduler {
    pub(super) fn new(ports: Arc<Ports>) -> Self {
        let (rings, slots) = (KernelRings::default(), Slots::default());
        Self { rings, hiqs: Vec::new(), away: Vec::new(), slots, ports }
    }

    /// Returns the queue that a core's registers name as its KIQ.
    fn kiq(&self, xcc: u8) -> Option<HqdId> {
        let bits = self.ports.registers.get_of(gc::IP, xcc, RLC_CP_SCHEDULERS::AT);
        let id = HqdId { me: (bits >> 5 & 3) as u8, pipe: (bits >> 3 & 3) as u8, queue: (bits & 7) as u8 };
        (bits & VALID != 0 && MICRO_ENGINES.contains(&id.me)).then_some(id)
    }

    /// Starts and stops the rings that the driver has started and stopped through registers.
    fn follow_registers(&mut self) {
        for xcc in 0..self.ports.hqds.xccs() {
            for me in MICRO_ENGINES {
                for (id, hqd) in self.ports.hqds.active_of(xcc, me) {
                    let is_hiq = self.hiq(xcc).is_some_and(|(_, hiq)| hiq == id);
                    let is_mapped = self.slots.is_on(xcc, id) || is_hiq && !hqd.wants_dequeue();
                    if !is_mapped {
                        let is_kiq = self.kiq(xcc) == Some(id);
                        let kind = if is_kiq { RingKind::Kiq } else { RingKind::Compute };
                        self.rings.follow(&self.ports, (xcc, id), &hqd, Ok(kind));
                    }
                }
            }
            // The micro engine of the MES, which these chips do not have.
            for (id, _) in self.ports.hqds.active_of(xcc, HqdId::MES.me) {
                self.rings.refuse(&self.ports, (xcc, id), GuestError::SchedulerQueue);
            }
        }
        self.rings.drop_stopped(&self.ports);
        // Other cores may have stopped it before the first core has.
        self.hiqs.retain(|&(partition, id)| self.rings.has((partition.first, id)));
    }

    /// Executes one packet of a core's KIQ. Returns false if there was none.
    fn step_kiq(&mut self, space: &AddressSpace, xcc: u8, running: &mut Running) -> Result<bool, GuestError> {
        let ports = Arc::clone(&self.ports);
        let Some(taken) = kiq::take(&ports, space, running, (xcc, RingKind::Hiq, 0))? else {
            return Ok(false);
        };
        taken.obey(&ports, (xcc, running), |request| self.obey_kiq(space, xcc, request));
        Ok(true)
    }

    fn obey_kiq(&mut self, space: &AddressSpace, xcc: u8, request: KiqRequest) -> Result<(), GuestError> {
        match request {
            KiqRequest::Resources(_) => Ok(()),
            KiqRequest::Map { kind, id, mqd, doorbell } => {
                self.map_hiq(space, &NewRing { kind, at: (xcc, id), mqd, doorbell })
            }
            KiqRequest::Unmap { doorbell } => self.unmap_hiq(xcc, doorbell),
        }
    }

    /// Executes one packet of a partition's HIQ. Returns false if there was none.
    fn step_hiq(
        &mut self,
        space: &AddressSpace,
        partition: Partition,
        running: &mut Running,
    ) -> Result<bool, GuestError> {
        let fate = running.fate(&self.ports, "HIQ packet");
        if fate == Fate::Late {
            return Ok(false);
        }
        let Some((header, body)) = running.next_packet(space)? else { return Ok(false) };
        if fate == Fate::Unanswered {
            // The firmware hangs in this packet.
            running.dead = true;
            self.ports.tell(Moment::HiqDone { header: header.bits(), done: false });
            return Ok(false);
        }
        let mut hiq = Hiq {
            registers: &self.ports.registers,
            space,
            clock: &self.ports.env.clock,
            register: self.ports.chip.local_register,
            partition,
            packets: self.ports.chip.pm4,
        };
        let executed = match fate {
            Fate::Refused => Err(GuestError::FaultInjected),
            _ => hiq.execute(header, &body).map_err(|error| error.kind()),
        };
        let obey = |request| self.obey(space, partition, &request);
        let done = executed.and_then(|request| request.map_or(Ok(true), obey));
        if done == Ok(false) {
            running.put_back(header);
            return Ok(false);
        }
        self.ports.tell(Moment::HiqDone { header: header.bits(), done: done.is_ok() });
        match done {
            Ok(_) => count(&self.ports.counters.mes_frames),
            Err(why) => {
                running.dead |= why == GuestError::QueueHangs;
                count(&self.ports.counters.mes_refused);
                self.ports.counters.error(why, format_args!("HIQ header={:#010x}", header.bits()));
                self.ports.interrupts.kernel_packet_refused(partition.first, running.ring.doorbell());
            }
        }
        Ok(true)
    }

    /// Executes the request of a packet of a HIQ. Returns `false` if it has to wait for queues to leave: the packet is
    /// executed again from its beginning.
    fn obey(
        &mut self,
        space: &AddressSpace,
        partition: Partition,
        request: &Request,
    ) -> Result<bool, GuestError> {
        match request {
            Request::Resources(resources) => self.set_resources(partition, resources).map(|()| true),
            Request::Run { list, dwords } => self.run(space, partition, (*list, *dwords)),
            Request::Unmap { which, reset } => self.unmap(partition, which, *reset),
            Request::Fence { at, value } => {
                space.store_u64(*at, *value).map_err(|_| GuestError::FenceUnmapped).map(|()| true)
            }
        }
    }

    /// Gives the partition these VMIDs and hardware queues, and all queues of its SDMA engines.
    fn set_resources(&mut self, partition: Partition, resources: &SetResources) -> Result<(), GuestError> {
        // VMID 0 is the kernel's own.
        let vmids = u32::from(resources.control.vmid_mask()) & 0xfffe;
        if vmids == 0 {
            return Err(GuestError::ResourcesWithoutVmids);
        }
        let mask = u64::from(resources.queue_mask_hi) << 32 | u64::from(resources.queue_mask_lo);
        let mut slots: Vec<Place> = Place::compute(partition.first, mask).collect();
        // The HIQ cannot give away its own hardware queue.
        let hiq = self.hiq_of(partition).map(|(_, hiq)| Place::Compute(partition.first, hiq));
        slots.retain(|slot| Some(*slot) != hiq);
        let engines = (0..self.ports.sdma_engines).filter(|engine| partition.has(engine / ENGINES_OF_XCC));
        slots.extend(engines.flat_map(|engine| Place::sdma(engine, ALL_QUEUES)));
        self.slots.configure(&self.ports, partition, vmids, slots)?;
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

    /// Takes queues off. Returns true if they are off. A driver takes all of them off to change the list, without the
    /// knowledge of their processes.
    fn unmap(&mut self, partition: Partition, which: &Which, reset: bool) -> Result<bool, GuestError> {
        if *which == Which::NotStatic && !reset {
            // The doorbells are marked while their queues still own them, so that no ring in between counts as unknown.
            for doorbell in self.slots.not_static(partition) {
                self.ports.doorbells.set_away(doorbell, true);
                if !self.away.contains(&(partition, doorbell)) {
                    self.away.push((partition, doorbell));
                }
            }
        }
        let is_meant = |queue: &TakeOff| match which {
            Which::Doorbells(doorbells) => doorbells.contains(&queue.doorbell),
            Which::Pasid(pasid) => queue.pasid == *pasid,
            Which::All => true,
            Which::NotStatic => !queue.is_static,
        };
        self.slots.take_off(&self.ports, reset, |queue| queue.partition == partition && is_meant(queue))
    }

    /// Ends the absence of the queues of some partitions: they are on the new list, or gone.
    fn come_back(&mut self, whose: impl Fn(Partition) -> bool) {
        let (back, away) = self.away.drain(..).partition(|&(partition, _)| whose(partition));
        self.away = away;
        let back: Vec<(Partition, DoorbellIndex)> = back;
        for (_, doorbell) in back {
            self.ports.doorbells.set_away(doorbell, false);
        }
    }

    /// Runs the queues of a list in place of those that run now. Returns `false` if it has to wait for those to leave.
    fn run(
        &mut self,
        space: &AddressSpace,
        partition: Partition,
        (list, dwords): (u64, u32),
    ) -> Result<bool, GuestError> {
        let mut words = vec![0u32; dwords as usize];
        space.read_bytes(list, words.as_mut_bytes()).map_err(|_| GuestError::RunListUnmapped)?;
        let processes = run_list::parse(&words)?;
        if !self.unmap(partition, &Which::NotStatic, false)? {
            return Ok(false);
        }
        // Settings that the list does not repeat are over.
        self.forget_debuggers(partition);
        for run_list::Process { process, queues } in &processes {
            let new = NewProcess {
                key: process_key(partition, process.control.pasid()),
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
            let debugged = self.debug(partition, new.key, process);
            for queue in queues {
                let added = queue.and_then(|queue| {
                    let added =
                        debugged.and_then(|()| self.add(space, (partition, new), (traps, quantum), &queue));
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
        self.come_back(|back| back == partition);
        Ok(true)
    }

    fn add(
        &mut self,
        space: &AddressSpace,
        (partition, process): (Partition, NewProcess),
        (trap, quantum): ((u64, u64), u64),
        queue: &Listed,
    ) -> Result<(), GuestError> {
        let kind = match queue.kind {
            // A list counts the engines of its partition, as KFD does.
            Kind::Sdma(Some(engine)) if engine >= partition.count * ENGINES_OF_XCC => {
                return Err(GuestError::AddQueueSdma);
            }
            Kind::Sdma(Some(engine)) => Kind::Sdma(Some(partition.first * ENGINES_OF_XCC + engine)),
            other => other,
        };
        // A static queue has not been taken off.
        if self.slots.has_static(queue.doorbell) {
            return Ok(());
        }
        let new = NewQueue {
            doorbell: queue.doorbell,
            partition,
            process,
            gang: process.key,
            kind,
            mqd: queue.mqd,
            wptr: WritePointer { address: queue.wptr, whose: Whose::Process },
            trap,
            exclusive: queue.gws && kind == Kind::Compute,
            suspended: false,
            is_static: queue.is_static,
            asked: Asked { gang: 0, process: quantum, level: 0 },
        };
        self.slots.add(&self.ports, space, &new)
    }
}
