//! One user queue as the MES knows it, on a hardware slot or waiting for one.

use std::sync::Arc;
use std::time::Duration;

use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;

use super::frame::Refusal;
use super::quanta::Asked;
use crate::cp::{AqlConfig, AqlQueue};
use crate::firmware::{Ports, Served};
use crate::queue::{BlockedOn, Hqd, HqdId, Mqd, Progress, QueueEngine, QueueIdentity};
use crate::shader::Gws;
use crate::vm::{AddressSpace, ShaderMemory};

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
    /// Dword index of the doorbell.
    pub(super) doorbell: u32,
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
    /// SUSPEND has named its gang.
    pub(super) suspended: bool,
    /// It has stopped for good; only REMOVE_QUEUE changes that.
    pub(super) failed: bool,
    /// The hardware queue it is on.
    pub(super) slot: Option<HqdId>,
    /// When it was put there.
    pub(super) since: Duration,
    /// When it was last put on or taken off a slot, in the scheduler's counting.
    pub(super) turn: u64,
    /// Packets, while it is on a slot or has dispatches in progress.
    engine: Option<Box<dyn QueueEngine>>,
    /// Read index, while it has no engine.
    read_index: u64,
    /// It had nothing to do when last served.
    pub(super) idle: bool,
    /// What the doorbell was told of it.
    busy: bool,
}

fn read_mqd(ports: &Ports, space: &AddressSpace, address: u64) -> Result<Mqd, Refusal> {
    Mqd::read(&ports.chip.mqd, space, address).map_err(Refusal)
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
    ) -> Result<(Self, u64), Refusal> {
        let mqd = read_mqd(ports, space, frame.mqd_addr.get())?;
        let mut hqd = Hqd::new();
        hqd.load(&mqd);
        if !hqd.is_aql() {
            return Err(Refusal("ADD_QUEUE of a PM4 queue, which is not modelled"));
        }
        if hqd.pq_dwords().is_none_or(|dwords| dwords * 4 < PACKET) {
            return Err(Refusal("MQD with an impossible ring size"));
        }
        let exclusive = frame.flags.contains(belfry_abi::mes::AddQueueFlags::EXCLUSIVELY_SCHEDULED);
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
            suspended: frame.flags.contains(belfry_abi::mes::AddQueueFlags::IS_GANG_SUSPENDED),
            failed: false,
            slot: None,
            since: Duration::ZERO,
            turn: 0,
            engine: None,
            read_index: Self::first_index(space, &hqd, frame.wptr_addr.get()),
            idle: false,
            busy: false,
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

    /// Whether a slot would be of use to it.
    pub(super) fn wants_slot(&self, ports: &Ports, kernel: Option<&AddressSpace>) -> bool {
        if self.slot.is_some() || self.suspended || self.failed {
            return false;
        }
        if self.engine.as_ref().is_some_and(|engine| engine.is_busy()) || !self.idle {
            return true;
        }
        let written = kernel.filter(|_| self.wptr != 0).and_then(|space| space.load_u64(self.wptr).ok());
        match written {
            Some(written) => written > self.read_index(),
            None => ports.doorbells.is_rung(self.doorbell),
        }
    }

    fn read_index(&self) -> u64 {
        self.engine.as_ref().map_or(self.read_index, |engine| engine.read_index())
    }

    /// Whether it has neither packets nor waves to go on with, as far as its last service found.
    pub(super) fn is_at_rest(&self) -> bool {
        self.idle && !self.is_busy()
    }

    /// Whether waves of it are on the shader engine.
    pub(super) fn is_busy(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_busy())
    }

    /// Loads the MQD into a slot, and runs.
    pub(super) fn map(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        space: &Arc<AddressSpace>,
        id: HqdId,
        (vmid, pasid): (u8, u16),
    ) -> Result<(), Refusal> {
        let mqd = read_mqd(ports, kernel, self.mqd)?;
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
        if let Some(engine) = &mut self.engine {
            engine.set_identity(identity);
            engine.resume();
        } else {
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
                read_index: self.read_index,
                apertures: Apertures {
                    shared_base: u64::from(bases >> 16) << 48,
                    private_base: u64::from(bases & 0xffff) << 48,
                },
            };
            let engine = AqlQueue::new(config, Arc::clone(space), Arc::clone(&self.gws), &ports.env);
            self.engine = Some(Box::new(engine));
        }
        self.slot = Some(id);
        self.since = ports.env.clock.now();
        self.idle = false;
        Ok(())
    }

    /// Lets the packet processor work for a while.
    pub(super) fn serve(&mut self, ports: &Ports) -> Served {
        ports.watch.look(self.doorbell);
        let served = self.work(ports);
        let busy = !self.idle || self.is_busy();
        if busy != self.busy {
            self.busy = busy;
            ports.doorbells.set_busy(self.doorbell, busy);
        }
        served
    }

    fn work(&mut self, ports: &Ports) -> Served {
        let Some(engine) = &mut self.engine else { return Served::Idle };
        match engine.service() {
            Progress::Idle => {
                self.idle = true;
                Served::Idle
            }
            Progress::Advanced => {
                self.idle = false;
                Served::Again
            }
            Progress::Blocked(BlockedOn::Dispatches) => {
                self.idle = false;
                Served::Idle
            }
            Progress::Blocked(BlockedOn::Memory) => {
                self.idle = false;
                Served::Polls
            }
            Progress::Error(error) => {
                ports.counters.error("queue stopped", format_args!("doorbell={:#x} {error}", self.doorbell));
                self.failed = true;
                self.idle = true;
                Served::Idle
            }
        }
    }

    /// Takes the queue off its slot and saves it to its MQD; waves in progress are kept, and wait.
    pub(super) fn unmap(&mut self, ports: &Ports, kernel: Option<&AddressSpace>) {
        let Some(id) = self.slot.take() else { return };
        if let Some(engine) = &mut self.engine {
            engine.suspend();
            engine.take_off();
            self.read_index = engine.read_index();
        }
        if !self.is_busy() {
            self.drop_engine();
        }
        let read_index = self.read_index;
        let hqd = ports.hqds.hqd(id, |hqd| {
            hqd.set_pointers(read_index, hqd.pq_wptr());
            hqd.deactivate();
            *hqd
        });
        self.save(ports, kernel, &hqd);
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
                "MQD cannot be saved",
                format_args!("doorbell={:#x} mqd={:#x}", self.doorbell, self.mqd),
            );
        }
    }

    /// Takes over waves that were kept, and takes their number out of the MQD.
    pub(super) fn restore(&mut self, ports: &Ports, kernel: &AddressSpace, saved: Saved) {
        self.read_index = saved.engine.read_index();
        self.gws = saved.gws;
        self.gws.grant(self.exclusive);
        self.engine = Some(saved.engine);
        self.leave_token(ports, kernel, 0);
    }

    /// Gives up the waves in progress to be kept under a number, if the queue has a context save area for them.
    pub(super) fn save_waves(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        number: u64,
        (process, pasid, base): (u64, u16, u64),
    ) -> Option<Saved> {
        let has_area = read_mqd(ports, kernel, self.mqd).is_ok_and(|mqd| mqd.has_save_area());
        if !has_area || self.failed || !self.is_busy() {
            return None;
        }
        let engine = self.engine.take()?;
        self.leave_token(ports, kernel, number);
        Some(Saved { token: number, process, pasid, base, gws: Arc::clone(&self.gws), engine })
    }

    fn leave_token(&self, ports: &Ports, kernel: &AddressSpace, number: u64) {
        let written = read_mqd(ports, kernel, self.mqd).is_ok_and(|mut mqd| {
            mqd.set_wave_restore(number);
            mqd.write(kernel, self.mqd)
        });
        if !written {
            ports.counters.error("MQD cannot be saved", format_args!("doorbell={:#x}", self.doorbell));
        }
    }

    /// Stops whatever runs, for good: packets and waves.
    pub(super) fn drop_engine(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            self.read_index = engine.read_index();
            engine.stop();
        }
    }

    /// Keeps waves where they are, or lets them go on.
    pub(super) fn hold(&mut self, held: bool) {
        if self.slot.is_none() {
            return;
        }
        if let Some(engine) = &mut self.engine {
            if held { engine.suspend() } else { engine.resume() }
        }
    }
}
