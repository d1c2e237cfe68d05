//! One user queue as the firmware knows it, on a hardware slot or waiting for one.

mod check;
mod graphics;
mod hearing;
mod leaving;
mod save;
mod sdma;
mod seen;

use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;

use super::life::{Activity, Life, Rest, Slot, Wait};
use super::new::{NewQueue, WritePointer};
use super::{Asked, Place, Pool};
use crate::chip::CuMask;
use crate::cp::{AqlConfig, AqlQueue, Pm4Config, Pm4Queue, QueueError};
use crate::firmware::{Ports, Served};
use crate::guest_error::GuestError;
use crate::queue::{
    BlockedOn, ContextArea, ContextOffsets, Hqd, Mqd, MqdSet, Partition, Progress, QueueEngine, QueueIdentity,
};
use crate::shader::Gws;
use crate::vm::{AddressSpace, ShaderMemory};

use hearing::Deaf;
pub(super) use save::{SavedQueue, With};

/// `SH_MEM_ALIGNMENT_MODE_UNALIGNED` of `SH_MEM_CONFIG.ALIGNMENT_MODE`.
const UNALIGNED: u32 = 3;
/// Bytes of an AQL packet.
const PACKET: u64 = 64;

/// A queue between ADD_QUEUE and REMOVE_QUEUE.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) doorbell: DoorbellIndex,
    /// Graphics cores that it is for.
    pub(super) partition: Partition,
    /// Key of the process: its context's address.
    pub(super) process: u64,
    /// Key of the gang.
    pub(super) gang: u64,
    /// Hardware queues that it can be on.
    pub(super) pool: Pool,
    /// Address of the MQD, in VMID 0.
    mqd: u64,
    /// Write pointer.
    pub(super) wptr: WritePointer,
    /// The process's trap handler: `SQ_SHADER_TBA` and `SQ_SHADER_TMA`.
    trap: (u64, u64),
    /// True if it is scheduled exclusively, with the global wave sync, as KFD asks: while it is on a slot, no other
    /// queue is.
    pub(super) exclusive: bool,
    /// True if it stays when all others are taken off.
    pub(super) is_static: bool,
    /// Its global wave sync; without an engine, the counters are in the MQD.
    gws: Arc<Gws>,
    /// Quanta that it asked for, while others wait for its slot.
    pub(super) asked: Asked,
    /// Turn in which it was last put on or taken off a slot, as the scheduler counts.
    pub(super) turn: u64,
    life: Life,
    /// Set if a fault has kept it from hearing a ring while it had nothing else to do.
    deaf: Option<Deaf>,
    /// Copy that the sanitizer keeps while it is mapped.
    noted: Option<Box<check::Noted>>,
}

impl Queue {
    /// Reads its MQDs, one for each graphics core.
    fn mqds(&self, ports: &Ports, kernel: &AddressSpace) -> Result<MqdSet, GuestError> {
        MqdSet::read(&ports.chip.mqd, kernel, self.mqd, self.partition)
    }

    /// Reads and checks the MQD of a queue to be added; `pointer` is the space that its write pointer is in.
    pub(super) fn new(
        ports: &Ports,
        kernel: &AddressSpace,
        pointer: Option<&AddressSpace>,
        new: &NewQueue,
    ) -> Result<Self, GuestError> {
        let mqds = MqdSet::read(&ports.chip.mqd, kernel, new.mqd, new.partition)?;
        mqds.shares(ports.hqds.xccs())?;
        let mqd = mqds.first();
        let mut hqd = Hqd::new();
        hqd.load(mqd);
        if hqd.pq_dwords().is_none_or(|dwords| dwords * 4 < PACKET) {
            return Err(GuestError::MqdRingSize);
        }
        let gws = Arc::new(Gws::default());
        gws.grant(new.exclusive);
        let rest = Rest {
            read_index: Self::first_index(pointer, &hqd, new.wptr.address),
            saved: mqd.context().is_some(),
        };
        Ok(Self {
            // The address of the handler has no bits 7:0.
            trap: (new.trap.0 & !0xff, new.trap.1),
            exclusive: new.exclusive,
            gws,
            ..Self::waiting(new, Pool::Compute(new.partition.first), rest)
        })
    }

    /// Makes a queue without waves that waits for a hardware queue of a pool.
    fn waiting(new: &NewQueue, pool: Pool, rest: Rest) -> Self {
        Self {
            doorbell: new.doorbell,
            partition: new.partition,
            process: new.process.key,
            gang: new.gang,
            pool,
            mqd: new.mqd,
            wptr: new.wptr,
            trap: (0, 0),
            exclusive: false,
            is_static: new.is_static,
            gws: Arc::new(Gws::default()),
            asked: new.asked,
            turn: 0,
            deaf: None,
            noted: None,
            life: Life::Unmapped { wait: if new.suspended { Wait::Resume } else { Wait::Slot }, rest },
        }
    }

    /// Returns the first read index. The MQD keeps 32 bits of it; the write pointer in memory has the rest.
    fn first_index(space: Option<&AddressSpace>, hqd: &Hqd, wptr: u64) -> u64 {
        let low = u64::from(hqd.pq_rptr());
        let written = space.filter(|_| wptr != 0).map_or(Some(0), |space| space.load_u64(wptr).ok());
        written.map_or(low, |written| {
            let index = written & !0xffff_ffff | low;
            if index > written { index.checked_sub(1 << 32).unwrap_or(low) } else { index }
        })
    }

    /// Returns the hardware queue that it is on.
    pub(super) fn slot(&self) -> Option<Place> {
        self.life.slot().map(|slot| slot.id)
    }

    /// Returns the slot that it is on, with the time since when.
    pub(super) fn on_slot(&self) -> Option<Slot> {
        self.life.slot()
    }

    /// Returns true if it is on a slot and can be served.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.life, Life::Mapped { .. })
    }

    /// Returns true if it waits for pages to be taken off its slot.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.life, Life::Leaving { .. })
    }

    /// Returns true if its engine stays at a packet, and so cannot be taken off its slot.
    pub(super) fn hangs(&self) -> bool {
        matches!(&self.life, Life::Mapped { engine, .. } if engine.hangs())
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.life, Life::Failed { .. })
    }

    /// Returns true if it is on a slot with packets or waves to go on with, as far as its last service found.
    pub(super) fn is_at_work(&self) -> bool {
        match &self.life {
            Life::Mapped { engine, activity, .. } => *activity == Activity::Working || engine.is_busy(),
            Life::Leaving { .. } => true,
            Life::Unmapped { .. } | Life::Failed { .. } => false,
        }
    }

    /// Returns true if it has work for a slot; `pointer` is the space that its write pointer is in.
    pub(super) fn wants_slot(&self, ports: &Ports, pointer: Option<&AddressSpace>) -> bool {
        let Life::Unmapped { wait, rest } = &self.life else { return false };
        match wait {
            Wait::Resume => false,
            Wait::Slot => true,
            Wait::Doorbell if rest.saved => true,
            Wait::Doorbell if self.is_deaf(ports) => false,
            Wait::Doorbell => {
                let at = self.wptr.address;
                let written = pointer.filter(|_| at != 0).and_then(|space| space.load_u64(at).ok());
                match written {
                    Some(written) => written > rest.read_index,
                    None => ports.doorbells.is_rung(self.doorbell),
                }
            }
        }
    }

    /// Loads the MQD into a slot, and runs. If that is not possible, the queue has failed.
    pub(super) fn map(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        space: Option<&Arc<AddressSpace>>,
        place: Place,
        (vmid, pasid): (u8, u16),
    ) -> Result<(), GuestError> {
        let id = match place {
            Place::Compute(_, id) => id,
            Place::Sdma { engine, queue } => {
                return self.map_sdma(ports, kernel, space, (engine, queue), (vmid, pasid));
            }
            Place::Graphics(id) => return self.map_graphics(ports, kernel, space, id, (vmid, pasid)),
        };
        let found = space.ok_or(GuestError::ProcessWithoutTables).and_then(|space| {
            let mqds = self.mqds(ports, kernel)?;
            let shares = mqds.shares(ports.hqds.xccs())?;
            Ok((space, mqds, shares))
        });
        let (rest, space, mut mqds, shares) = match (self.end(), found) {
            (Life::Unmapped { rest, .. }, Ok((space, mqds, shares))) => (rest, space, mqds, shares),
            (life @ Life::Unmapped { .. }, Err(refusal)) => {
                life.stop();
                return Err(refusal);
            }
            (life, _) => {
                self.life = life;
                return Err(GuestError::QueueNotWaiting);
            }
        };
        let (area, saved) = (mqds.context_area(), mqds.first().context());
        // The restored state is in the area no longer.
        mqds.first_mut().set_context(None);
        let mqd = mqds.first();
        let mut hqd = Hqd::new();
        hqd.load(mqd);
        let identity = QueueIdentity {
            xcc: self.partition.first,
            me: id.me,
            pipe: id.pipe,
            queue: id.queue,
            vmid,
            pasid: pasid.into(),
            doorbell: self.doorbell,
        };
        self.gws.set_counters(&mqd.gws());
        if saved.is_some() && !mqds.write(kernel) {
            return Err(GuestError::MqdUnmapped);
        }
        let config = self.config(ports, &hqd, identity, (rest.read_index, mqd.takes_traps()));
        let config = AqlConfig { cus: mqds.cus(ports.hqds.xccs()), shares, ..config };
        let context = saved.map(|offsets| (area.as_ref(), offsets));
        let engine = self.engine(ports, space, config, (&hqd, mqd), context).map_err(|error| {
            log::warn!(target: "gpu::slots", "not restored doorbell={:#x} {error}", self.doorbell);
            GuestError::ContextNotRestored
        })?;
        for (xcc, mqd) in mqds.each() {
            ports.hqds.hqd_of(self.partition.first + xcc, id, |hqd| {
                hqd.load(mqd);
                hqd.set_vmid(vmid);
                hqd.set_doorbell(self.doorbell);
                hqd.activate();
            });
        }
        let slot = Slot::now(place, &ports.env.clock);
        self.life = Life::Mapped { slot, engine, activity: Activity::Working };
        self.note_mapped(ports, kernel, pasid);
        Ok(())
    }

    /// Makes the engine that the queue's packets need, at its first packet or where its context was saved.
    fn engine(
        &self,
        ports: &Ports,
        space: &Arc<AddressSpace>,
        config: AqlConfig,
        (hqd, mqd): (&Hqd, &Mqd),
        context: Option<(Option<&ContextArea>, ContextOffsets)>,
    ) -> Result<Box<dyn QueueEngine>, QueueError> {
        let (space, gws, env) = (Arc::clone(space), Arc::clone(&self.gws), &ports.env);
        if hqd.is_aql() {
            let engine = match context {
                None => AqlQueue::new(config, space, gws, env),
                Some(context) => AqlQueue::from_context(config, space, gws, env, context)?,
            };
            return Ok(Box::new(engine));
        }
        let AqlConfig {
            identity,
            ring_base,
            rptr_report,
            wptr_poll,
            read_index,
            apertures,
            trap,
            shares,
            ..
        } = config;
        let ring_dwords = hqd.pq_dwords().unwrap_or(0);
        let config = Pm4Config {
            identity,
            ring_base,
            ring_dwords,
            rptr_report,
            wptr_poll,
            read_index,
            apertures,
            trap,
            shares,
            kernel: hqd.is_of_kernel(),
        };
        let engine = match context {
            None => Pm4Queue::new(config, space, gws, env, mqd.compute()),
            Some(context) => Pm4Queue::from_context(config, space, gws, env, mqd.compute(), context)?,
        };
        Ok(Box::new(engine))
    }

    /// Makes the configuration of an engine: from the queue's registers, the index of a packet, and the bit that lets
    /// waves take traps.
    fn config(
        &self,
        ports: &Ports,
        hqd: &Hqd,
        identity: QueueIdentity,
        (read_index, takes_traps): (u64, bool),
    ) -> AqlConfig {
        let vmid = identity.vmid;
        let ShaderMemory { bases, config } = ports.contexts.shader_memory(vmid);
        let alignment = config >> ports.chip.shader.alignment_mode & 3;
        if alignment != UNALIGNED {
            ports.counters.unmodelled(
                "SH_MEM_CONFIG alignment_mode other than UNALIGNED",
                format_args!("vmid={vmid} mode={alignment}, which runs as UNALIGNED"),
            );
        }
        let (tba, tma) = self.trap;
        AqlConfig {
            identity,
            ring_base: hqd.pq_base(),
            ring_packets: hqd.pq_dwords().unwrap_or(0) * 4 / PACKET,
            trap: (tba != 0).then_some(TrapHandler { tba, tma, takes_traps }),
            rptr_report: hqd.rptr_report_addr(),
            wptr_poll: hqd.wptr_poll_addr(),
            read_index,
            cus: CuMask::ALL,
            shares: None,
            apertures: Apertures {
                shared_base: u64::from(bases >> 16) << 48,
                private_base: u64::from(bases & 0xffff) << 48,
            },
        }
    }

    /// Lets the packet processor of a mapped queue work for a while.
    pub(super) fn serve(&mut self, ports: &Ports) -> Served {
        if !self.hears(ports) {
            return Served::Idle;
        }
        let served = self.work(ports);
        ports.doorbells.set_busy(self.doorbell, self.is_at_work());
        served
    }

    fn work(&mut self, ports: &Ports) -> Served {
        let Life::Mapped { slot, engine, activity } = &mut self.life else { return Served::Idle };
        let (now, served) = match engine.service() {
            Progress::Idle => (Activity::Idle, Served::Idle),
            Progress::Advanced => (Activity::Working, Served::Again),
            Progress::Blocked(BlockedOn::Dispatches) => (Activity::Working, Served::Idle),
            Progress::Blocked(BlockedOn::Memory) => (Activity::Working, Served::Polls),
            Progress::Error(error) => {
                ports
                    .counters
                    .error(GuestError::QueueStopped, format_args!("doorbell={:#x} {error}", self.doorbell));
                // Packets before the bad one are retired; nothing else of the engine has to be kept.
                engine.suspend();
                self.life = Life::Failed { slot: Some(*slot), read_index: engine.read_index() };
                return Served::Idle;
            }
        };
        *activity = now;
        served
    }

    /// Takes RESUME of its gang: it may have work.
    pub(super) fn resume(&mut self) {
        match &mut self.life {
            Life::Unmapped { wait, .. } | Life::Leaving { then: wait, .. } => *wait = Wait::Slot,
            Life::Mapped { activity, .. } => *activity = Activity::Working,
            Life::Failed { .. } => {}
        }
    }

    /// Takes the state out of the queue. The queue counts as failed unless it is given another state.
    fn end(&mut self) -> Life {
        std::mem::replace(&mut self.life, Life::Failed { slot: None, read_index: 0 })
    }

    /// Stops all packets and waves, for good.
    pub(super) fn stop(self) {
        self.life.stop();
    }

    /// Keeps waves where they are, or lets them go on.
    pub(super) fn hold(&mut self, held: bool) {
        if let Life::Mapped { engine, .. } = &mut self.life {
            if held { engine.suspend() } else { engine.resume() }
        }
    }
}
