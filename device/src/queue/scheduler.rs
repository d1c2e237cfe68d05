//! The scheduler: one thread that serves the kernel's rings and every mapped queue, and sleeps when nothing is to do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belfry_abi::ih::{Client, IhEntry, Source};
use belfry_abi::mes::{API_FRAME_SIZE_IN_DWORDS, FRAME_SIZE};
use belfry_abi::pm4::SetResources;
use zerocopy::IntoBytes;

use crate::device::Core;
use crate::mes::{Mes, Served, Turn};
use crate::queue::{HqdId, Kiq, KiqRequest, MAX_PACKET, Ring, mqd_from_bytes, packet_length, seed_doorbell};
use crate::stats::count;
use crate::threads::{Wake, patience};
use crate::vm::AddressSpace;

/// How soon a host that does not announce doorbells has them looked at, after something happened and at most.
const LOOK: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(4));
/// Packets of a kernel ring executed before the other queues have their turn.
const BATCH: usize = 64;
/// How often a thread that rings a doorbell looks at the queue before it leaves the rest to the scheduler's thread.
const LOOKS: usize = 4;

/// How long the scheduler waits between looks at doorbells that the host does not announce. The time grows
/// while nothing happens.
#[derive(Debug, Default)]
struct Interval {
    length: Duration,
    /// The device's activity when the interval was last chosen.
    activity: u64,
}

impl Interval {
    /// Chooses the time until the next look: the shortest if there was activity since it was last chosen.
    fn next(&mut self, activity: u64) -> Duration {
        let quiet = std::mem::replace(&mut self.activity, activity) == activity;
        self.length = if quiet { (self.length * 2).clamp(LOOK.0, LOOK.1) } else { LOOK.0 };
        self.length
    }
}

/// Waits for news, first awake and then asleep.
fn wait(wake: &Wake, turn: Turn) {
    let limit = match turn {
        Turn::Now => return wake.clear(),
        Turn::After(duration) => Some(duration),
        Turn::WhenWoken => None,
    };
    let until = limit.map(|limit| Instant::now() + limit);
    patience::look_out(|| wake.is_woken() || until.is_some_and(|until| Instant::now() >= until));
    wake.sleep(until);
}

/// A kernel ring that is being served.
#[derive(Debug)]
struct Running {
    ring: Ring,
    activation: u32,
    /// Doorbell value last looked at; `None` before the first look, which takes whatever is there.
    seen: Option<u64>,
    /// It has hit something it cannot go past, until it is activated anew.
    dead: bool,
}

/// What the scheduler thread works on.
#[derive(Debug, Default)]
struct State {
    rings: BTreeMap<HqdId, Running>,
    mes: Mes,
    paused: bool,
    held: bool,
    look: Interval,
    /// Compute queues the KIQ may map, as SET_RESOURCES gave them.
    queue_mask: u64,
}

/// The scheduler and the lock that resets and pauses take.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// Threads that want the lock: the scheduler lets them pass.
    visitors: AtomicUsize,
    stopped: AtomicBool,
}

impl Scheduler {
    /// Serves until stopped.
    pub(crate) fn run(&self, core: &Core) {
        while !self.stopped.load(Ordering::SeqCst) {
            while self.visitors.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
            let turn = self.lock().pass(core);
            count(&core.counters.scheduler_looks);
            wait(&core.wake, turn);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit<R>(&self, operation: impl FnOnce(&mut State) -> R) -> R {
        self.visitors.fetch_add(1, Ordering::SeqCst);
        let result = operation(&mut self.lock());
        self.visitors.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Serves the queue of a doorbell on the calling thread; `false` if that is for the scheduler's thread to do, or to
    /// go on with.
    pub(crate) fn serve(&self, core: &Core, doorbell: u32) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        if state.paused || state.held || !core.interrupts.bus_master() {
            return false;
        }
        for _ in 0..LOOKS {
            match state.mes.serve(core, doorbell) {
                Some(Served::Again) => {}
                served => return served == Some(Served::Idle),
            }
        }
        false
    }

    /// Looks once on the calling thread, and gives the time until the next look.
    #[cfg(test)]
    pub(crate) fn look(&self, core: &Core) -> Duration {
        let mut state = self.lock();
        state.pass(core);
        state.look.length
    }

    /// Stops every queue and forgets them; `between` runs while nothing is served.
    pub(crate) fn reset(&self, core: &Core, between: impl FnOnce()) {
        self.visit(|state| {
            state.mes.reset(core);
            state.rings.clear();
            state.held = false;
            state.queue_mask = 0;
            between();
        });
        core.wake.wake();
    }

    /// Stops serving and holds waves, or goes on.
    pub(crate) fn pause(&self, core: &Core, paused: bool) {
        self.visit(|state| {
            state.paused = paused;
            if paused {
                state.hold(true);
            }
        });
        core.wake.wake();
    }

    /// Returns once nothing is served any more because the function may not touch memory.
    pub(crate) fn hold(&self, core: &Core) {
        self.visit(|state| state.hold(true));
        core.wake.wake();
    }

    /// Serves everything once on the calling thread; whether there is more to do at once.
    #[cfg(fuzzing)]
    pub(crate) fn pass(&self, core: &Core) -> bool {
        self.visit(|state| state.pass(core)) == Turn::Now
    }

    /// Lets the thread end.
    pub(crate) fn stop(&self, core: &Core) {
        self.visit(|state| {
            state.mes.reset(core);
            state.rings.clear();
        });
        self.stopped.store(true, Ordering::SeqCst);
        core.wake.wake();
    }
}

impl State {
    fn pass(&mut self, core: &Core) -> Turn {
        if let Some(offset) = core.interrupts.rptr_doorbell().filter(|_| core.config.poll_doorbells) {
            core.interrupts.set_rptr(core.doorbells.load32(offset));
        }
        if self.paused || !core.interrupts.bus_master() {
            self.hold(true);
            return Turn::WhenWoken;
        }
        self.hold(false);
        self.follow_registers(core);
        let mut turn = self.serve_rings(core);
        turn = turn.min(self.mes.pass(core));
        let interval = self.look.next(core.activity());
        if core.config.poll_doorbells && (!self.rings.is_empty() || self.mes.has_queues()) {
            turn = turn.min(Turn::After(interval));
        }
        turn
    }

    /// Waves stop where they are while the function may not touch memory.
    fn hold(&mut self, held: bool) {
        if self.held != held {
            self.held = held;
            self.mes.hold(held);
        }
    }

    /// Starts and stops what the driver has started and stopped through registers.
    fn follow_registers(&mut self, core: &Core) {
        let active = core.hqds.active(HqdId::MES.me);
        self.rings.retain(|id, running| {
            let keep = active.iter().any(|(at, hqd)| at == id && hqd.activation == running.activation);
            if !keep {
                core.doorbells.own(running.ring.doorbell(), false);
            }
            keep
        });
        for (id, hqd) in active {
            if hqd.wants_dequeue() {
                let pointers = self.rings.remove(&id).map(|running| running.ring);
                core.hqds.hqd(id, |hqd| {
                    if let Some(ring) = &pointers {
                        let (rptr, wptr) = ring.pointers();
                        hqd.set_pointers(rptr, wptr);
                    }
                    hqd.deactivate();
                });
                core.doorbells.own(hqd.doorbell(), false);
                continue;
            }
            if self.rings.contains_key(&id) {
                continue;
            }
            let ring = if id == HqdId::MES || id == HqdId::KIQ {
                Ring::new(&hqd)
            } else {
                Err("queue of the scheduler's engine that is not modelled")
            };
            match ring {
                Ok(ring) => {
                    core.doorbells.own(ring.doorbell(), true);
                    self.rings
                        .insert(id, Running { ring, activation: hqd.activation, seen: None, dead: false });
                }
                Err(why) => {
                    core.counters
                        .error(why, format_args!("me={} pipe={} queue={}", id.me, id.pipe, id.queue));
                    core.hqds.hqd(id, |hqd| hqd.deactivate());
                    core.doorbells.own(hqd.doorbell(), false);
                }
            }
        }
        for me in 1..3 {
            for (id, hqd) in core.hqds.active(me) {
                // Queues of the scheduler's making are none of our business; those a driver started by hand are.
                if !self.mes.is_on(id) {
                    if !hqd.wants_dequeue() {
                        core.counters.error(
                            "compute queue started through registers, which is not modelled",
                            format_args!("me={} pipe={} queue={}", id.me, id.pipe, id.queue),
                        );
                    }
                    core.hqds.hqd(id, |hqd| hqd.deactivate());
                    core.doorbells.own(hqd.doorbell(), false);
                }
            }
        }
    }

    fn serve_rings(&mut self, core: &Core) -> Turn {
        let Some(space) = core.contexts.space(0) else { return Turn::WhenWoken };
        let mut turn = Turn::WhenWoken;
        for id in [HqdId::KIQ, HqdId::MES] {
            let Some(mut running) = self.rings.remove(&id) else { continue };
            running.look(core);
            for _ in 0..BATCH {
                let stepped = match id {
                    HqdId::KIQ => self.step_kiq(core, &space, &mut running),
                    _ => self.step_mes(core, &space, &mut running),
                };
                match stepped {
                    Ok(true) => turn = Turn::Now,
                    Ok(false) => break,
                    Err(why) => {
                        running.dead = true;
                        core.counters
                            .error(why, format_args!("me={} pipe={} queue={}", id.me, id.pipe, id.queue));
                        break;
                    }
                }
            }
            if running.ring.report(&space).is_err() {
                core.counters
                    .error("read pointer report to an unmapped address", format_args!("pipe={}", id.pipe));
            }
            self.rings.insert(id, running);
        }
        turn
    }

    /// Executes one packet of the KIQ; whether there was one.
    fn step_kiq(
        &mut self,
        core: &Core,
        space: &AddressSpace,
        running: &mut Running,
    ) -> Result<bool, &'static str> {
        let available = running.ring.available();
        if running.dead || available == 0 {
            return Ok(false);
        }
        let mut header = [0];
        running.ring.peek(space, 0, &mut header).map_err(|_| "the KIQ's ring is not mapped")?;
        let length = packet_length(header[0])?;
        if length > MAX_PACKET {
            return Err("PM4 packet longer than any this queue takes");
        }
        if length > available {
            return Ok(false);
        }
        let mut packet = vec![0; length as usize];
        running.ring.peek(space, 0, &mut packet).map_err(|_| "the KIQ's ring is not mapped")?;
        running.ring.consume(length);
        match (Kiq {
            registers: &core.registers,
            contexts: &core.contexts,
            space,
            queue_mask: self.queue_mask,
        })
        .execute(&packet)
        {
            Ok(None) => {}
            Ok(Some(request)) => {
                if let Err(why) = self.obey(core, space, request) {
                    core.counters.error(why, format_args!("KIQ {request:x?}"));
                }
            }
            Err(why) => {
                core.counters.error(why, format_args!("KIQ packet header={:#010x}", packet[0]));
                let mut entry = IhEntry::new(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, 0, 0);
                entry.data[0] = running.ring.doorbell() & 0x3ff;
                core.interrupts.push(Some(space), entry, (core.clock)());
            }
        }
        Ok(true)
    }

    fn obey(&mut self, core: &Core, space: &AddressSpace, request: KiqRequest) -> Result<(), &'static str> {
        match request {
            KiqRequest::Map { id, mqd, doorbell } => {
                let mut bytes = [0; 2048];
                space.read_bytes(mqd, &mut bytes).map_err(|_| "MQD at an address that is not mapped")?;
                let mqd = mqd_from_bytes(&bytes)?;
                let hqd = core.hqds.hqd(id, |hqd| {
                    hqd.load(&mqd);
                    hqd.set_doorbell(doorbell);
                    hqd.activate();
                    *hqd
                });
                seed_doorbell(&hqd, Some(space), &core.doorbells);
                self.follow_registers(core);
                Ok(())
            }
            KiqRequest::Unmap { doorbell } => {
                let id = self
                    .rings
                    .iter()
                    .find(|(_, running)| running.ring.doorbell() == doorbell)
                    .map(|(&id, _)| id);
                let id = id.ok_or("UNMAP_QUEUES of a queue that does not exist")?;
                self.rings.remove(&id);
                core.hqds.hqd(id, |hqd| hqd.deactivate());
                core.doorbells.own(doorbell, false);
                Ok(())
            }
            KiqRequest::Resources(resources) => {
                self.set_resources(core, &resources);
                Ok(())
            }
        }
    }

    /// The KIQ maps the MES alone: what it may give to others is known, but nobody ever gets it. MAP_QUEUES and
    /// MAP_PROCESS, which would give it, are refused. Queues are taken off at once, within any latency.
    fn set_resources(&mut self, core: &Core, resources: &SetResources) {
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
            core.counters.unmodelled(name, format_args!("{value:#x}, which the KIQ gives to nobody"));
        }
    }

    /// Executes one frame of the scheduler's ring; whether there was one.
    fn step_mes(
        &mut self,
        core: &Core,
        space: &AddressSpace,
        running: &mut Running,
    ) -> Result<bool, &'static str> {
        let available = running.ring.available();
        if running.dead || available == 0 {
            return Ok(false);
        }
        let mut dwords = [0u32; API_FRAME_SIZE_IN_DWORDS];
        if available < dwords.len() as u64 {
            // Part of a frame is no frame; what is there is dropped, or the ring would never move again.
            core.counters.error("MES frame that is cut short", format_args!("dwords={available}"));
            running.ring.consume(available);
            return Ok(true);
        }
        running.ring.peek(space, 0, &mut dwords).map_err(|_| "the MES ring is not mapped")?;
        let mut frame = [0; FRAME_SIZE];
        frame.copy_from_slice(dwords.as_bytes());
        running.ring.consume(dwords.len() as u64);
        self.mes.execute(core, space, &frame);
        Ok(true)
    }
}

impl Running {
    /// Takes the doorbell's value, if it has changed.
    fn look(&mut self, core: &Core) {
        let value = core.doorbells.load(u64::from(self.ring.doorbell()) * 4);
        match self.seen.replace(value) {
            Some(seen) if seen == value => return,
            // What was rung before the ring was mapped was rung for it.
            None => {
                core.doorbells.take(self.ring.doorbell());
            }
            Some(_) => core.look_at_doorbell(self.ring.doorbell()),
        }
        if let Err(why) = self.ring.look(&core.doorbells) {
            core.counters.error(why, format_args!("doorbell={:#x} value={value:#x}", self.ring.doorbell()));
        }
    }
}

/// Starts the scheduler's thread.
pub(crate) fn spawn(
    scheduler: &Arc<Scheduler>,
    core: &Arc<Core>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (scheduler, core) = (Arc::clone(scheduler), Arc::clone(core));
    std::thread::Builder::new().name("gpu-scheduler".into()).spawn(move || scheduler.run(&core))
}
