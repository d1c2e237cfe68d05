//! The hardware slots of queues, and the turns of queues when not all can be on a slot.
//!
//! Queues that want a slot wait in the order in which they were last put on or taken off one. There are not enough
//! slots if there are more queues than hardware has, or if a queue is scheduled exclusively, as queues with the global
//! wave sync are: such a queue is alone on the hardware. A queue keeps its slot while it has work; when others wait for
//! the slot, it keeps it for its quantum. An exclusive queue that waits is not overtaken. An exclusive queue whose
//! quantum is over goes after the queues that wait.

mod debuggers;
mod life;
mod new;
mod place;
mod process;
mod quanta;
mod queue;
mod save;
mod turns;
mod vmids;

use std::collections::BTreeMap;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;

use crate::doorbell::Owner;
use crate::faults::Rule;
use crate::firmware::{Ports, Served, Turn};
use crate::guest_error::GuestError;
use crate::moments::{Moment, Verdict};
use crate::queue::{HqdId, Partition};
use crate::stats::count;
use crate::trace::{Engine, Owner as EventOwner};
use crate::vm::{AddressSpace, DebugSettings};
pub(super) use new::{Kind, NewProcess, NewQueue, Shape, Whose, WritePointer};
pub(super) use place::{Place, Pool};
use process::Process;
pub(super) use quanta::{Asked, Quanta};
use queue::Queue;

pub(crate) use save::SavedSlots;

/// Most queues that are known: as many as fit a few processes' doorbell slices.
const MAX_QUEUES: usize = 8192;
/// Shortest and longest time until the next look at a queue that waits for a value in memory.
const POLL: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// Properties by which queues are chosen to be taken off.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakeOff {
    /// Graphics cores that the queue is for.
    pub(super) partition: Partition,
    pub(super) doorbell: DoorbellIndex,
    pub(super) pasid: u16,
    /// True if the queue stays unless it is named, or all are.
    pub(super) is_static: bool,
}

/// Resources that the driver gave a partition: by SET_HW_RSRC, or by SET_RESOURCES.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
struct Hardware {
    partition: Partition,
    vmids: u32,
    slots: Vec<Place>,
}

/// Queues, processes, and the hardware that they share.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Resources of each partition that has been given any.
    hardware: Vec<Hardware>,
    processes: BTreeMap<u64, Process>,
    queues: BTreeMap<DoorbellIndex, Queue>,
    /// Settings of debuggers, by the key of the process; it may have no queue yet.
    debuggers: BTreeMap<u64, DebugSettings>,
    turns: u64,
    pub(super) quanta: Quanta,
    poll: Duration,
}

impl Slots {
    /// Returns true if any queue is known.
    pub(super) fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Returns true if one of its queues is on this hardware queue of a graphics core.
    pub(super) fn is_on(&self, xcc: u8, id: HqdId) -> bool {
        let is_there = |queue: &Queue| match queue.slot() {
            Some(Place::Compute(_, place)) => place == id && queue.partition.has(xcc),
            _ => false,
        };
        self.queues.values().any(is_there)
    }

    /// Returns true if the driver gave this hardware queue of a graphics core to be shared by its queues.
    pub(super) fn has_place(&self, xcc: u8, id: HqdId) -> bool {
        let is_there = |place: &Place| matches!(place, Place::Compute(_, place) | Place::Graphics(place) if *place == id);
        let mut cores = self.hardware.iter().filter(|hardware| hardware.partition.has(xcc));
        cores.any(|hardware| hardware.slots.iter().any(is_there))
    }

    /// Takes over the resources that the driver gives a partition: VMIDs and hardware queues.
    pub(super) fn configure(
        &mut self,
        ports: &Ports,
        partition: Partition,
        mut vmids: u32,
        mut slots: Vec<Place>,
    ) -> Result<(), GuestError> {
        if self.queues.values().any(|queue| queue.partition.overlaps(partition)) {
            return Err(GuestError::ResourcesInUse);
        }
        if !slots.iter().any(|slot| slot.pool().is_compute()) {
            return Err(GuestError::ResourcesWithoutQueues);
        }
        match ports.at(Moment::Resources) {
            Verdict::Strike(Rule::FewVmids) => vmids &= vmids.wrapping_neg(),
            Verdict::Strike(_) => {
                let first = slots.iter().find(|slot| slot.pool().is_compute()).copied();
                slots.retain(|slot| !slot.pool().is_compute() || Some(*slot) == first);
            }
            _ => {}
        }
        // Cores that belonged to another partition now belong to this one.
        self.hardware.retain(|hardware| !hardware.partition.overlaps(partition));
        self.hardware.push(Hardware { partition, vmids, slots });
        Ok(())
    }

    /// Returns the resources that a partition has been given.
    fn hardware(&self, partition: Partition) -> Option<&Hardware> {
        self.hardware.iter().find(|hardware| hardware.partition == partition)
    }

    /// Adds a queue, which gets a slot at once if there is one.
    pub(super) fn add(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        new: &NewQueue,
    ) -> Result<(), GuestError> {
        let hardware = self.hardware(new.partition).ok_or(GuestError::AddQueueTooEarly)?;
        let pools: Vec<Pool> = hardware.slots.iter().map(|slot| slot.pool()).collect();
        let doorbell = new.doorbell;
        if doorbell.number().is_none() || !doorbell.is_whole() {
            return Err(GuestError::AddQueueDoorbell);
        }
        if ports.doorbells.is_owned(doorbell.offset()) {
            return Err(GuestError::AddQueueDoorbellTaken);
        }
        if self.queues.len() >= MAX_QUEUES {
            return Err(GuestError::AddQueueTooMany);
        }
        if let Some(Shape { range: (start, end), .. }) = new.process.shape
            && (start > end || end >= 1 << 36)
        {
            return Err(GuestError::AddQueueRange);
        }
        let key = new.process.key;
        if self.processes.get(&key).is_some_and(|process| !process.agrees(&new.process)) {
            return Err(GuestError::AddQueueOtherProcess);
        }
        let known = self.processes.get(&key);
        let fresh = if known.is_none() { Some(self.process(ports, new)) } else { None };
        let space = known.or(fresh.as_ref()).and_then(|process| process.space.as_deref());
        let pointer = new.wptr.space(kernel, space);
        let mut queue = match new.kind {
            Kind::Compute => Queue::new(ports, kernel, pointer, new)?,
            Kind::Sdma(engine) => Queue::new_sdma(ports.chip.sdma.mqd, kernel, new, engine)?,
            Kind::Graphics => Queue::new_graphics(kernel, pointer, new)?,
        };
        if !pools.contains(&queue.pool) {
            return Err(match new.kind {
                Kind::Graphics => GuestError::AddQueueGraphics,
                Kind::Compute | Kind::Sdma(_) => GuestError::AddQueueSdma,
            });
        }
        // After the queues that wait already.
        self.turns += 1;
        queue.turn = self.turns;
        if let Some(process) = fresh {
            self.processes.insert(key, process);
        }
        if let Some(process) = self.processes.get_mut(&key) {
            process.queues += 1;
        }
        ports.doorbells.own(doorbell, Owner::Queue);
        queue.tell_added(ports);
        self.queues.insert(doorbell, queue);
        // A queue that cannot be mapped now waits. If it can never be mapped, that is not the fault of the driver
        // alone.
        self.fill_slots(ports, kernel);
        Ok(())
    }

    /// Makes a process that has no queue yet. If the write pointers of its queues are in its own memory, it has an
    /// address space before it has a VMID.
    fn process(&self, ports: &Ports, new: &NewQueue) -> Process {
        let mut process = Process::new(&new.process, new.partition);
        if new.process.shape.is_none() {
            let vmids = self.hardware(new.partition).map_or(0, |hardware| hardware.vmids);
            let any = vmids.trailing_zeros() as u8;
            process.space = ports.contexts.process_space(process.tables(ports.contexts.tables(any)));
            process.set_waiting(ports.chip);
        }
        process
    }

    /// Takes off the queues that `which` selects, for good, in the order of their doorbells; with `reset`, the work
    /// they have begun is dropped. Returns false if some still wait for pages to save their work to: the caller has to
    /// try again.
    ///
    /// # Errors
    ///
    /// [`GuestError::QueueHangs`], if one of them hangs and is not dropped: those before it are off, and the others
    /// stay.
    pub(super) fn take_off(
        &mut self,
        ports: &Ports,
        reset: bool,
        which: impl Fn(&TakeOff) -> bool,
    ) -> Result<bool, GuestError> {
        let pasid = |key| self.processes.get(&key).map_or(0, |process| process.pasid);
        let off: Vec<DoorbellIndex> = self
            .queues
            .values()
            .map(|queue| TakeOff {
                partition: queue.partition,
                doorbell: queue.doorbell,
                pasid: pasid(queue.process),
                is_static: queue.is_static,
            })
            .filter(|queue| which(queue))
            .map(|queue| queue.doorbell)
            .collect();
        let kernel = ports.contexts.space(0);
        let mut all = true;
        for doorbell in off {
            if !reset && self.queues.get(&doorbell).is_some_and(Queue::hangs) {
                return Err(GuestError::QueueHangs);
            }
            let Some(mut queue) = self.queues.remove(&doorbell) else { continue };
            if reset {
                queue.drop_work(ports);
            } else if !queue.suspend(ports, kernel.as_deref()) {
                self.queues.insert(doorbell, queue);
                all = false;
                continue;
            } else {
                self.check_removed(ports, &queue, kernel.as_deref());
            }
            let key = queue.process;
            queue.stop();
            ports.doorbells.own(doorbell, Owner::Nobody);
            self.leave(ports, key);
        }
        Ok(all)
    }

    /// Returns the doorbells of the queues of a partition that do not stay when all are taken off.
    pub(super) fn not_static(&self, partition: Partition) -> impl Iterator<Item = DoorbellIndex> {
        let queues = self.queues.values().filter(move |queue| queue.partition == partition);
        queues.filter(|queue| !queue.is_static).map(|queue| queue.doorbell)
    }

    /// Returns true if this doorbell belongs to a queue that stays when the others are taken off.
    pub(super) fn has_static(&self, doorbell: DoorbellIndex) -> bool {
        self.queues.get(&doorbell).is_some_and(|queue| queue.is_static)
    }

    pub(super) fn remove(&mut self, ports: &Ports, doorbell: DoorbellIndex) -> Result<(), GuestError> {
        if self.queues.get(&doorbell).is_some_and(Queue::hangs) {
            return Err(GuestError::QueueHangs);
        }
        let Some(mut queue) = self.queues.remove(&doorbell) else {
            return Err(GuestError::RemoveQueueUnknown);
        };
        let kernel = ports.contexts.space(0);
        if !queue.unmap(ports, kernel.as_deref()) {
            // A frame is answered once, so the queue cannot leave later. No chip with an MES has processes that wait
            // for pages.
            self.queues.insert(doorbell, queue);
            return Err(GuestError::QueueHangs);
        }
        self.check_removed(ports, &queue, kernel.as_deref());
        let key = queue.process;
        // The rest of its work is in its MQD and its context save area.
        queue.stop();
        ports.doorbells.own(doorbell, Owner::Nobody);
        self.leave(ports, key);
        if let Some(kernel) = kernel {
            self.fill_slots(ports, &kernel);
        }
        Ok(())
    }

    /// Has the sanitizer, if there is one, check the memory that a queue leaves.
    fn check_removed(&self, ports: &Ports, queue: &Queue, kernel: Option<&AddressSpace>) {
        if let (Some(process), Some(kernel)) = (self.processes.get(&queue.process), kernel)
            && ports.tools.sanitizer().is_some()
        {
            let pointer = queue.wptr.space(kernel, process.space.as_deref());
            queue.check_removed(ports, process.pasid, pointer);
        }
    }

    /// Counts one queue less in a process; the last one frees the VMID.
    fn leave(&mut self, ports: &Ports, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        process.queues -= 1;
        if process.queues == 0 {
            if let Some(vmid) = process.vmid {
                ports.contexts.unmap_process(vmid);
            }
            self.processes.remove(&key);
        }
    }

    fn gang(&mut self, gang: Option<u64>) -> Result<impl Iterator<Item = &mut Queue>, GuestError> {
        if gang.is_some_and(|gang| !self.queues.values().any(|queue| queue.gang == gang)) {
            return Err(GuestError::GangUnknown);
        }
        Ok(self.queues.values_mut().filter(move |queue| gang.is_none_or(|gang| queue.gang == gang)))
    }

    pub(super) fn suspend(&mut self, ports: &Ports, gang: Option<u64>) -> Result<(), GuestError> {
        let kernel = ports.contexts.space(0);
        if self.gang(gang)?.any(|queue| queue.hangs()) {
            return Err(GuestError::QueueHangs);
        }
        // As in `remove`, a queue cannot leave later.
        let off = self.gang(gang)?.fold(true, |off, queue| queue.suspend(ports, kernel.as_deref()) & off);
        if off { Ok(()) } else { Err(GuestError::QueueHangs) }
    }

    pub(super) fn resume(&mut self, gang: Option<u64>) -> Result<(), GuestError> {
        for queue in self.gang(gang)? {
            queue.resume();
        }
        Ok(())
    }

    /// Serves every queue once, and gives slots to those that wait.
    pub(super) fn pass(&mut self, ports: &Ports) -> Turn {
        let (left, mut polls) = self.leave_again(ports);
        // A packet may wait for the queues that have left.
        let mut turn = if left { Turn::Now } else { Turn::WhenWoken };
        for queue in self.queues.values_mut().filter(|queue| queue.is_mapped()) {
            match queue.serve(ports) {
                Served::Idle => {}
                Served::Again => turn = Turn::Now,
                Served::Polls => polls = true,
            }
        }
        self.poll =
            if polls && turn != Turn::Now { (self.poll * 2).clamp(POLL.0, POLL.1) } else { POLL.0 / 2 };
        if polls {
            turn = turn.min(Turn::After(self.poll));
        }
        match ports.contexts.space(0) {
            Some(kernel) => turn.min(self.take_turns(ports, &kernel)),
            None => turn,
        }
    }

    /// Serves one queue; `None` if it is on no slot, has failed, or others may be waiting for a slot.
    pub(super) fn serve(&mut self, ports: &Ports, doorbell: DoorbellIndex) -> Option<Served> {
        let queue = self.queues.get(&doorbell)?;
        let (pool, partition) = (queue.pool, queue.partition);
        // All partitions take their VMIDs from one set.
        let vmids = self.hardware(partition)?.vmids.count_ones() as usize / self.hardware.len().max(1);
        let alike = self.queues.values().filter(|queue| queue.pool == pool).count();
        let exclusive = self.queues.values().any(|queue| queue.exclusive);
        if alike > self.slots(pool) || self.processes.len() > vmids || exclusive {
            return None;
        }
        let queue = self.queues.get_mut(&doorbell)?;
        if !queue.is_mapped() {
            return None;
        }
        let served = queue.serve(ports);
        queue.is_mapped().then_some(served)
    }

    /// Returns the doorbells of the queues that want a slot, in the order of their turns.
    fn waiting(&self, ports: &Ports, kernel: &AddressSpace) -> Vec<DoorbellIndex> {
        let pointer = |queue: &Queue| {
            let process = self.processes.get(&queue.process);
            queue.wptr.space(kernel, process.and_then(|process| process.space.as_deref()))
        };
        let waiting = self.queues.values().filter(|queue| queue.wants_slot(ports, pointer(queue)));
        let mut waiting: Vec<_> = waiting.map(|queue| (queue.turn, queue.doorbell)).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, doorbell)| doorbell).collect()
    }

    /// Returns the queues on a slot.
    fn mapped(&self) -> impl Iterator<Item = &Queue> {
        self.queues.values().filter(|queue| queue.slot().is_some())
    }

    /// Returns the number of hardware queues of a pool.
    fn slots(&self, pool: Pool) -> usize {
        self.hardware.iter().flat_map(|hardware| &hardware.slots).filter(|slot| slot.pool() == pool).count()
    }

    /// Returns the pool of a queue.
    fn pool(&self, doorbell: DoorbellIndex) -> Option<Pool> {
        self.queues.get(&doorbell).map(|queue| queue.pool)
    }

    /// Returns true if queues on slots keep this one off even if slots are free: it or one of them has to be alone on
    /// the compute pipes.
    fn is_kept_off(&self, doorbell: DoorbellIndex) -> bool {
        let Some(queue) = self.queues.get(&doorbell).filter(|queue| queue.pool.is_compute()) else {
            return false;
        };
        self.mapped().any(|other| other.pool == queue.pool && (queue.exclusive || other.exclusive))
    }

    /// Gives free slots to queues that want one.
    fn fill_slots(&mut self, ports: &Ports, kernel: &AddressSpace) {
        let mut closed = Vec::new();
        for doorbell in self.waiting(ports, kernel) {
            let Some(pool) = self.pool(doorbell).filter(|pool| !closed.contains(pool)) else { continue };
            // A queue that came later is not mapped before an exclusive one, which would never be alone then.
            match self.free_slot(pool).filter(|_| !self.is_kept_off(doorbell)) {
                Some(slot) => self.map(ports, kernel, doorbell, slot),
                None => closed.push(pool),
            }
        }
    }

    fn free_slot(&self, pool: Pool) -> Option<Place> {
        let slots = self.hardware.iter().flat_map(|hardware| &hardware.slots);
        let mut slots = slots.filter(|slot| slot.pool() == pool);
        slots.find(|&&id| !self.queues.values().any(|queue| queue.slot() == Some(id))).copied()
    }

    /// Puts a queue on a slot, if its process gets a VMID.
    fn map(&mut self, ports: &Ports, kernel: &AddressSpace, doorbell: DoorbellIndex, slot: Place) {
        let Some(key) = self.queues.get(&doorbell).map(|queue| queue.process) else { return };
        let Some(vmid) = self.vmid(ports, kernel, key) else { return };
        self.turns += 1;
        let turn = self.turns;
        let (Some(queue), Some(process)) = (self.queues.get_mut(&doorbell), self.processes.get(&key)) else {
            return;
        };
        queue.turn = turn;
        let space = ports.contexts.space(vmid);
        let pasid = process.pasid.into();
        match queue.map(ports, kernel, space.as_ref(), slot, (vmid, process.pasid)) {
            Ok(()) => {
                count(&ports.counters.queues_mapped);
                let (pipe, queue) = slot.numbers();
                let owner =
                    EventOwner { pasid, vmid, ..EventOwner::queue(Engine::Firmware, doorbell.dwords()) };
                ports.tools.tell(|| Moment::QueueMapped { doorbell, pipe, queue }.of(owner));
                ports.wake.wake();
            }
            Err(why) => {
                ports.counters.error(why, format_args!("doorbell={doorbell:#x}, when the queue was mapped"));
            }
        }
    }

    /// Tries again to take off the queues that wait for pages to leave. Returns two values: true if any has left, and
    /// true if any still waits.
    fn leave_again(&mut self, ports: &Ports) -> (bool, bool) {
        let (mut left, mut waits) = (false, false);
        for queue in self.queues.values_mut().filter(|queue| queue.is_leaving()) {
            let off = queue.unmap(ports, ports.contexts.space(0).as_deref());
            (left, waits) = (left | off, waits | !off);
        }
        (left, waits)
    }

    /// Stops every queue and forgets everything.
    pub(super) fn reset(&mut self, ports: &Ports) {
        for queue in std::mem::take(&mut self.queues).into_values() {
            queue.stop();
        }
        for process in self.processes.values() {
            if let Some(vmid) = process.vmid {
                ports.contexts.unmap_process(vmid);
            }
        }
        *self = Self::default();
    }

    /// Keeps waves where they are, or lets them go on.
    pub(super) fn hold(&mut self, held: bool) {
        for queue in self.queues.values_mut() {
            queue.hold(held);
        }
    }
}
