//! One user queue as the MES knows it, on a hardware slot or waiting for one.

mod save;

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;

use super::life::{Activity, Life, Rest, Slot, Wait};
use super::quanta::Asked;
use crate::cp::{AqlConfig, AqlQueue};
use crate::firmware::{Ports, Served};
use crate::guest_error::GuestError;
use crate::queue::{BlockedOn, Hqd, HqdId, Mqd, Progress, QueueEngine, QueueIdentity};
use crate::shader::Gws;
use crate::trace::TraceEvent;
use crate::vm::{AddressSpace, ShaderMemory};

pub(super) use save::{SavedKept, SavedQueue, With};

/// What becomes of a queue's waves when it is removed while they run.
///
/// Hardware writes them to the context save area and fetches them from there when the queue is added again. This model
/// keeps them itself, under a number it leaves in the MQD where hardware leaves the place to restore from
/// (`compute_wave_restore_addr`); only the same process finds them again.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) token: u64,
    pub(super) process: u64,
    pub(super) pasid: u16,
    /// Root of the page tables the waves run in.
    pub(super) base: u64,
    gws: Arc<Gws>,
    engine: Box<dyn QueueEngine>,
}

impl Saved {
    /// The waves' address space.
    pub(super) fn space(&self) -> &Arc<AddressSpace> {
        self.engine.space()
    }

    /// Drops the waves.
    pub(super) fn stop(mut self) {
        self.engine.stop();
    }
}

/// `SH_MEM_ALIGNMENT_MODE_UNALIGNED` of `SH_MEM_CONFIG.ALIGNMENT_MODE`, bits 3:2.
const UNALIGNED: u32 = 3;
/// Bytes of an AQL packet.
const PACKET: u64 = 64;

/// A queue between ADD_QUEUE and REMOVE_QUEUE.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) doorbell: DoorbellIndex,
    /// Key of the process: its context's address.
    pub(super) process: u64,
    /// Key of the gang.
    pub(super) gang: u64,
    /// MQD, in VMID 0.
    mqd: u64,
    /// Write pointer, in VMID 0.
    wptr: u64,
    /// The process's trap handler.
    trap: Option<TrapHandler>,
    /// Scheduled exclusively, and with the global wave sync, as KFD asks for queues it gives that: while it is on a slot,
    /// no other queue is.
    pub(super) exclusive: bool,
    /// Its global wave sync, which stays as it is while the queue has no engine.
    gws: Arc<Gws>,
    /// How long it asked to keep a slot that others wait for.
    pub(super) asked: Asked,
    /// When it was last put on or taken off a slot, in the scheduler's counting.
    pub(super) turn: u64,
    life: Life,
}

fn read_mqd(ports: &Ports, space: &AddressSpace, address: u64) -> Result<Mqd, GuestError> {
    Mqd::read(&ports.chip.mqd, space, address)
}

/// `SQ_SHADER_TBA` has no bits 7:0.
fn trap_handler(frame: &belfry_abi::mes::AddQueue) -> Option<TrapHandler> {
    let tba = frame.trap_handler_addr.get() & !0xff;
    (tba != 0).then(|| TrapHandler { tba, tma: frame.tma_addr.get() })
}

impl Queue {
    /// Reads and checks the MQD of a queue to be added; also gives the number its waves are kept under, or 0.
    pub(super) fn new(
        ports: &Ports,
        space: &AddressSpace,
        frame: &belfry_abi::mes::AddQueue,
    ) -> Result<(Self, u64), GuestError> {
        let mqd = read_mqd(ports, space, frame.mqd_addr.get())?;
        let mut hqd = Hqd::new();
        hqd.load(&mqd);
        if !hqd.is_aql() {
            return Err(GuestError::AddQueuePm4);
        }
        if hqd.pq_dwords().is_none_or(|dwords| dwords * 4 < PACKET) {
            return Err(GuestError::MqdRingSize);
        }
        let exclusive = frame.flags.contains(belfry_abi::mes::AddQueueFlags::EXCLUSIVELY_SCHEDULED);
        let suspended = frame.flags.contains(belfry_abi::mes::AddQueueFlags::IS_GANG_SUSPENDED);
        let gws = Arc::new(Gws::default());
        gws.grant(exclusive);
        let queue = Self {
            doorbell: frame.doorbell_offset,
            process: frame.process_context_addr.get(),
            gang: frame.gang_context_addr.get(),
            mqd: frame.mqd_addr.get(),
            wptr: frame.wptr_addr.get(),
            trap: trap_handler(frame),
            exclusive,
            gws,
            asked: Asked::new(frame),
            turn: 0,
            life: Life::Unmapped {
                wait: if suspended { Wait::Resume } else { Wait::Slot },
                rest: Rest::ReadIndex(Self::first_index(space, &hqd, frame.wptr_addr.get())),
            },
        };
        Ok((queue, mqd.wave_restore()))
    }

    /// The MQD keeps 32 bits of the read index; the write pointer in memory has the rest.
    fn first_index(space: &AddressSpace, hqd: &Hqd, wptr: u64) -> u64 {
        let low = u64::from(hqd.pq_rptr());
        let written = if wptr == 0 { Ok(0) } else { space.load_u64(wptr) };
        match written {
            Ok(written) => {
                let index = written & !0xffff_ffff | low;
                if index > written { index.checked_sub(1 << 32).unwrap_or(low) } else { index }
            }
            Err(_) => low,
        }
    }

    /// The hardware queue it is on.
    pub(super) fn slot(&self) -> Option<HqdId> {
        self.life.slot().map(|slot| slot.id)
    }

    /// How long it has been on its slot; no time at all where it is on none.
    pub(super) fn time_on_slot(&self, now: Duration) -> Duration {
        self.life.slot().map_or(Duration::ZERO, |slot| now.saturating_sub(slot.since))
    }

    /// Whether it is on a slot and can be served.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.life, Life::Mapped { .. })
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.life, Life::Failed { .. })
    }

    /// Whether it is on a slot with packets or waves to go on with, as far as its last service found.
    pub(super) fn is_at_work(&self) -> bool {
        match &self.life {
            Life::Mapped { engine, activity, .. } => *activity == Activity::Working || engine.is_busy(),
            Life::Unmapped { .. } | Life::Failed { .. } => false,
        }
    }

    /// Whether a slot would be of use to it.
    pub(super) fn wants_slot(&self, ports: &Ports, kernel: Option<&AddressSpace>) -> bool {
        let Life::Unmapped { wait, rest } = &self.life else { return false };
        match (wait, rest) {
            (Wait::Resume, _) => false,
            (Wait::Slot, _) | (Wait::Doorbell, Rest::Waves(_)) => true,
            (Wait::Doorbell, Rest::ReadIndex(read_index)) => {
                let written =
                    kernel.filter(|_| self.wptr != 0).and_then(|space| space.load_u64(self.wptr).ok());
                match written {
                    Some(written) => written > *read_index,
                    None => ports.doorbells.is_rung(self.doorbell),
                }
            }
        }
    }

    /// Loads the MQD into a slot, and runs. A queue for which that cannot be done has failed.
    pub(super) fn map(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        space: Option<&Arc<AddressSpace>>,
        id: HqdId,
        (vmid, pasid): (u8, u16),
    ) -> Result<(), GuestError> {
        let found = space
            .ok_or(GuestError::ProcessWithoutTables)
            .and_then(|space| Ok((space, read_mqd(ports, kernel, self.mqd)?)));
        let (rest, space, mqd) = match (self.end(), found) {
            (Life::Unmapped { rest, .. }, Ok((space, mqd))) => (rest, space, mqd),
            (life @ Life::Unmapped { .. }, Err(refusal)) => {
                life.stop();
                return Err(refusal);
            }
            (life, _) => {
                self.life = life;
                return Err(GuestError::QueueNotWaiting);
            }
        };
        let hqd = ports.hqds.hqd(id, |hqd| {
            hqd.load(&mqd);
            hqd.set_vmid(vmid);
            hqd.set_doorbell(self.doorbell);
            hqd.activate();
            *hqd
        });
        let identity = QueueIdentity {
            me: id.me,
            pipe: id.pipe,
            queue: id.queue,
            vmid,
            pasid: pasid.into(),
            doorbell: self.doorbell,
        };
        let engine = match rest {
            Rest::Waves(mut engine) => {
                engine.set_identity(identity);
                engine.resume();
                engine
            }
            Rest::ReadIndex(read_index) => self.new_engine(ports, &hqd, space, identity, read_index),
        };
        let slot = Slot { id, since: ports.env.clock.now() };
        self.life = Life::Mapped { slot, engine, activity: Activity::Working };
        Ok(())
    }

    /// An engine that begins at a packet, for the queue as its registers describe it.
    fn new_engine(
        &self,
        ports: &Ports,
        hqd: &Hqd,
        space: &Arc<AddressSpace>,
        identity: QueueIdentity,
        read_index: u64,
    ) -> Box<dyn QueueEngine> {
        let vmid = identity.vmid;
        let ShaderMemory { bases, config } = ports.contexts.shader_memory(vmid);
        let alignment = config >> 2 & 3;
        if alignment != UNALIGNED {
            ports.counters.unmodelled(
                "SH_MEM_CONFIG alignment_mode other than UNALIGNED",
                format_args!("vmid={vmid} mode={alignment}, which runs as UNALIGNED"),
            );
        }
        let config = AqlConfig {
            identity,
            ring_base: hqd.pq_base(),
            ring_packets: hqd.pq_dwords().unwrap_or(0) * 4 / PACKET,
            trap: self.trap,
            rptr_report: hqd.rptr_report_addr(),
            wptr_poll: hqd.wptr_poll_addr(),
            read_index,
            apertures: Apertures {
                shared_base: u64::from(bases >> 16) << 48,
                private_base: u64::from(bases & 0xffff) << 48,
            },
        };
        Box::new(AqlQueue::new(config, Arc::clone(space), Arc::clone(&self.gws), &ports.env))
    }

    /// Lets the packet processor of a mapped queue work for a while.
    pub(super) fn serve(&mut self, ports: &Ports) -> Served {
        ports.watch.look(self.doorbell);
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
                // Packets before the bad one are retired, and there is nothing else to keep of the engine.
                engine.suspend();
                self.life = Life::Failed { slot: Some(*slot), read_index: engine.read_index() };
                return Served::Idle;
            }
        };
        *activity = now;
        served
    }

    /// Takes the queue off its slot and saves it to its MQD; waves in progress are kept, and wait.
    pub(super) fn unmap(&mut self, ports: &Ports, kernel: Option<&AddressSpace>) {
        let (slot, read_index) = match self.end() {
            Life::Mapped { slot, mut engine, activity } => {
                engine.suspend();
                engine.take_off();
                let read_index = engine.read_index();
                let rest = if engine.is_busy() {
                    Rest::Waves(engine)
                } else {
                    engine.stop();
                    Rest::ReadIndex(read_index)
                };
                let wait = if activity == Activity::Idle { Wait::Doorbell } else { Wait::Slot };
                self.life = Life::Unmapped { wait, rest };
                (slot, read_index)
            }
            Life::Failed { slot: Some(slot), read_index } => {
                self.life = Life::Failed { slot: None, read_index };
                (slot, read_index)
            }
            off @ (Life::Unmapped { .. } | Life::Failed { slot: None, .. }) => {
                self.life = off;
                return;
            }
        };
        let hqd = ports.hqds.hqd(slot.id, |hqd| {
            hqd.set_pointers(read_index, hqd.pq_wptr());
            hqd.deactivate();
            *hqd
        });
        self.save(ports, kernel, &hqd);
        ports.trace(TraceEvent::QueueUnmapped { doorbell: self.doorbell });
    }

    /// SUSPEND of its gang: off its slot, and no other until RESUME.
    pub(super) fn suspend(&mut self, ports: &Ports, kernel: Option<&AddressSpace>) {
        self.unmap(ports, kernel);
        if let Life::Unmapped { wait, .. } = &mut self.life {
            *wait = Wait::Resume;
        }
    }

    /// RESUME of its gang: it may have work.
    pub(super) fn resume(&mut self) {
        match &mut self.life {
            Life::Unmapped { wait, .. } => *wait = Wait::Slot,
            Life::Mapped { activity, .. } => *activity = Activity::Working,
            Life::Failed { .. } => {}
        }
    }

    /// Takes the state out of the queue, which has failed unless it is given another one.
    fn end(&mut self) -> Life {
        std::mem::replace(&mut self.life, Life::Failed { slot: None, read_index: 0 })
    }

    fn save(&self, ports: &Ports, kernel: Option<&AddressSpace>, hqd: &Hqd) {
        let saved = kernel.is_some_and(|space| {
            Mqd::read_unchecked(&ports.chip.mqd, space, self.mqd).is_ok_and(|mut mqd| {
                hqd.save(&mut mqd);
                mqd.write(space, self.mqd)
            })
        });
        if !saved {
            ports.counters.error(
                GuestError::MqdNotSaved,
                format_args!("doorbell={:#x} mqd={:#x}", self.doorbell, self.mqd),
            );
        }
    }

    /// Takes over waves that were kept, and takes their number out of the MQD; for a queue that is being added.
    pub(super) fn restore(&mut self, ports: &Ports, kernel: &AddressSpace, saved: Saved) {
        let Life::Unmapped { rest, .. } = &mut self.life else { return saved.stop() };
        *rest = Rest::Waves(saved.engine);
        self.gws = saved.gws;
        self.gws.grant(self.exclusive);
        self.leave_token(ports, kernel, 0);
    }

    /// Ends a queue that is on no slot. Gives up the waves in progress to be kept under a number, if it has a context save
    /// area for them; otherwise they are dropped.
    pub(super) fn remove(
        self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        number: u64,
        owner: Option<(u64, u16, u64)>,
    ) -> Option<Saved> {
        let has_area = |kernel| read_mqd(ports, kernel, self.mqd).is_ok_and(|mqd| mqd.has_save_area());
        let kept = kernel.filter(|&kernel| has_area(kernel)).zip(owner);
        if let Some((kernel, _)) = kept.filter(|_| self.has_waves()) {
            self.leave_token(ports, kernel, number);
        }
        match (self.life, kept) {
            (Life::Unmapped { rest: Rest::Waves(engine), .. }, Some((_, (process, pasid, base)))) => {
                Some(Saved { token: number, process, pasid, base, gws: self.gws, engine })
            }
            (life, _) => {
                life.stop();
                None
            }
        }
    }

    fn has_waves(&self) -> bool {
        matches!(self.life, Life::Unmapped { rest: Rest::Waves(_), .. })
    }

    fn leave_token(&self, ports: &Ports, kernel: &AddressSpace, number: u64) {
        let written = read_mqd(ports, kernel, self.mqd).is_ok_and(|mut mqd| {
            mqd.set_wave_restore(number);
            mqd.write(kernel, self.mqd)
        });
        if !written {
            ports.counters.error(GuestError::MqdNotSaved, format_args!("doorbell={:#x}", self.doorbell));
        }
    }

    /// Stops whatever runs, for good: packets and waves.
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
