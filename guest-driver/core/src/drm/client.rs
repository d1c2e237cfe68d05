//! An open file of the render node (`struct amdgpu_fpriv`): its address space, its contexts, and its work.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::kfd::drm::DrmAmdgpuInfoGpuvmFault;

use super::bo_list::Lists;
use super::context::{Contexts, Record, RingId};
use super::hardware::Hardware;
use super::last_fault::LastFault;
use super::ring::{Ib, Ring};
use super::works::Pump;
use crate::asic::Interrupt;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::fence::{Dependency, Fence, Wanted};
use crate::hw::log;
use crate::object::Object;
use crate::os::{Backing, LockRank, LogLevel, Os, PAGE_SIZE, WaitQueue, WorkItem};
use crate::space::Space;
use crate::sync::{Guard, Mutex};

/// Bits of the golden counter that interrupts are stamped with.
const TIMESTAMP: u64 = (1 << 48) - 1;

/// Part of a submission for one ring.
pub(crate) struct Job {
    pub(crate) context: Arc<Record>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) ibs: Vec<Ib>,
    /// Work that has to be over first.
    pub(crate) dependencies: Vec<Dependency>,
    /// Place at which the program wants its number written, and the number.
    pub(crate) user_fence: Option<(Arc<dyn Backing>, u64, u64)>,
    /// Memory that it uses.
    pub(crate) objects: Vec<Arc<dyn Backing>>,
    /// The golden counter when the first job of the submission was handed over, 0 before.
    pub(crate) begun_at: Arc<AtomicU64>,
}

/// Work for a ring.
struct Line<O: Os> {
    /// The queue, while there is one.
    ring: Option<Ring<O>>,
    running: Option<Job>,
    waiting: VecDeque<Job>,
}

impl<O: Os> Default for Line<O> {
    fn default() -> Self {
        Self { ring: None, running: None, waiting: VecDeque::new() }
    }
}

/// Jobs that are over: to be dropped without the lock, as they may hold the last reference to memory.
#[derive(Default)]
struct Over(Vec<Job>);

impl Over {
    /// Tells that a job is over.
    fn put<O: Os>(&mut self, job: Job, outcome: Result<()>) {
        if let Some((backing, offset, number)) = &job.user_fence
            && outcome.is_ok()
            && let Some(object) = Object::<O>::of(&**backing)
        {
            // The submission checked the place. It fails only when the device is gone, and no program reads it then.
            let _ = object.store(*offset, *number);
        }
        job.fence.signal(outcome);
        self.0.push(job);
    }
}

/// Things that a file has beside its address space.
pub(crate) struct ClientState<O: Os> {
    pub(crate) contexts: Contexts,
    pub(crate) lists: Lists,
    hardware: Option<Hardware<O>>,
    lines: BTreeMap<RingId, Line<O>>,
    /// Memory of programs that has handles.
    programs: Vec<Weak<Object<O>>>,
    /// Times that work was ended because of a fault.
    resets: u32,
    closed: bool,
}

impl<O: Os> ClientState<O> {
    pub(crate) fn resets(&self) -> u32 {
        self.resets
    }

    /// Returns whether the file takes nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Notes memory of a program, whose pages are given back with the file.
    pub(crate) fn add_program(&mut self, object: &Arc<Object<O>>) {
        self.programs.retain(|object| object.strong_count() > 0);
        self.programs.push(Arc::downgrade(object));
    }
}

/// Things that a file of the render node has on the GPU.
pub struct Client<O: Os> {
    device: Arc<Device<O>>,
    id: u64,
    /// Number of the partition that its render node is of.
    partition: u32,
    space: Arc<Space<O>>,
    state: Mutex<O, ClientState<O>>,
    /// The device's epoch when the file was opened: after a recovery its page tables are gone for good.
    epoch: u64,
    /// The golden counter at the last fault of its work, 0 for none.
    faulted_at: AtomicU64,
    last_fault: LastFault,
    work: O::WorkItem,
}

impl<O: Os> fmt::Debug for Client<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, resets) = {
            let state = self.state.lock();
            let jobs = |line: &Line<O>| line.waiting.len() + usize::from(line.running.is_some());
            let lines: Vec<_> = state.lines.iter().map(|(id, line)| (*id, jobs(line))).collect();
            (lines, state.resets)
        };
        f.debug_struct("Client")
            .field("space", &self.space)
            .field("jobs", &format_args!("{lines:?}"))
            .field("resets", &format_args!("{resets}"))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Client<O> {
    /// Makes a file of a partition's render node (`amdgpu_xcp_open_device`).
    ///
    /// # Errors
    ///
    /// `ENOENT` for a partition that there is not now, `ENOMEM`.
    pub(crate) fn new(device: &Arc<Device<O>>, id: u64, partition: u32) -> Result<Arc<Self>> {
        if partition >= device.nodes().count() {
            return Err(Errno::ENOENT);
        }
        let os = device.hw.os();
        let state = ClientState {
            contexts: Contexts::default(),
            lists: Lists::default(),
            hardware: None,
            lines: BTreeMap::new(),
            programs: Vec::new(),
            resets: 0,
            closed: false,
        };
        Ok(Arc::new(Self {
            device: device.clone(),
            id,
            partition,
            space: Space::new(device)?,
            state: Mutex::new(os, LockRank::Client, state)?,
            epoch: device.epoch(),
            faulted_at: AtomicU64::new(0),
            last_fault: LastFault::default(),
            work: os.work_new(Arc::new(Pump { device: device.clone(), id }))?,
        }))
    }

    /// Returns the identity of its file ([`DrmFile::id`](crate::os::DrmFile::id)).
    pub fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn device(&self) -> &Arc<Device<O>> {
        &self.device
    }

    pub(crate) fn space(&self) -> &Arc<Space<O>> {
        &self.space
    }

    pub(crate) fn lock(&self) -> Guard<'_, O, ClientState<O>> {
        self.state.lock()
    }

    /// Returns whether the device was reset since the file was opened, or is beyond repair: nothing of the file is left on it.
    pub(crate) fn is_lost(&self) -> bool {
        self.device.wedged() || self.device.epoch() != self.epoch
    }

    /// Has a worker look at the file's work.
    pub(crate) fn kick(&self) {
        self.work.queue();
    }

    /// The device says something about the file's work, at this time of the golden counter.
    ///
    /// Called from the interrupt thread, which does not wait for the file's state.
    pub(crate) fn interrupt(&self, interrupt: Interrupt, at: u64) {
        let what = match interrupt {
            Interrupt::Quiet => return,
            Interrupt::HandlerMessage(_) | Interrupt::Signal(_) => {
                self.work.queue();
                return;
            }
            Interrupt::PageFault { page, not_present, write } => self.memory_fault(page, not_present, write),
            // Waves of such work do not wait.
            Interrupt::PageRetry { page, told: _ } => self.memory_fault(page, true, false),
            Interrupt::Poison => {
                self.device.uncorrectable.fetch_add(1, Ordering::Relaxed);
                (0, false, false)
            }
            Interrupt::ShaderError(_) | Interrupt::BadPacket(_) | Interrupt::RingOne | Interrupt::Unknown => {
                (0, false, false)
            }
        };
        let (va, not_present, write) = what;
        let line = format_args!(
            "render node: work failed ({interrupt:?}), address {va:#x}, not present {not_present}, write {write}"
        );
        self.device.limits.bad_packet.log(&self.device.hw, LogLevel::Warn, line);
        self.faulted_at.fetch_max(at.max(1), Ordering::AcqRel);
        self.work.queue();
    }

    /// Keeps a memory fault; returns its address, and what the log says of it.
    fn memory_fault(&self, page: u64, not_present: bool, write: bool) -> (u64, bool, bool) {
        self.last_fault.put(page * PAGE_SIZE, not_present, write);
        (page * PAGE_SIZE, not_present, write)
    }

    /// Returns the last memory fault of the file's work.
    pub(super) fn last_fault(&self) -> DrmAmdgpuInfoGpuvmFault {
        self.last_fault.get()
    }

    /// Queues a submission: work of several rings that begins together, with `leader` the one that others wait for
    /// (`amdgpu_cs_submit`).
    ///
    /// # Errors
    ///
    /// `ENODEV` when the file or the device is gone, `ECANCELED` when the device was reset, and what keeps a ring from
    /// being there. The jobs are given back then.
    pub(crate) fn submit(&self, leader: RingId, context: u32, mut jobs: Vec<(RingId, Job)>) -> Result<u64> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Errno::ENODEV);
        }
        if self.is_lost() || state.contexts.get(context)?.record.is_guilty() {
            return Err(Errno::ECANCELED);
        }
        for (ring, _) in &jobs {
            self.ensure_ring(&mut state, *ring)?;
        }
        let others = jobs.iter().filter(|(ring, _)| *ring != leader);
        let begun: Vec<_> = others.map(|(_, job)| Dependency::Begun(job.fence.clone())).collect();
        let (_, first) = jobs.iter_mut().find(|(ring, _)| *ring == leader).ok_or(Errno::EINVAL)?;
        first.dependencies.extend(begun);
        let number = state.contexts.get(context)?.timeline(leader).push(first.fence.clone());
        if let Some((_, _, value)) = &mut first.user_fence {
            *value = number;
        }
        for (ring, mut job) in jobs {
            for backing in &job.objects {
                if let Some(object) = Object::<O>::of(&**backing) {
                    object.use_it(self.id, &job.fence, &mut job.dependencies);
                }
            }
            state.lines.entry(ring).or_default().waiting.push_back(job);
        }
        drop(state);
        self.pump();
        Ok(number)
    }

    /// Makes the queue of a ring, if there is none.
    fn ensure_ring(&self, state: &mut ClientState<O>, id: RingId) -> Result<()> {
        if state.lines.get(&id).is_some_and(|line| line.ring.is_some()) {
            return Ok(());
        }
        if state.hardware.is_none() {
            let (pasid, slice) = self.device.users.admit(&self.device, self.id)?;
            let made = Hardware::new(&self.device, pasid, slice, (self.partition, self.epoch))
                .and_then(|hardware| self.space.adopt(pasid).map(|()| hardware));
            state.hardware = Some(made.inspect_err(|_| self.device.users.dismiss(pasid))?);
        }
        let Some(hardware) = &mut state.hardware else { return Err(Errno::ENOMEM) };
        let ring = Ring::start(&self.device, &self.space, hardware, id)?;
        state.lines.entry(id).or_default().ring = Some(ring);
        Ok(())
    }

    /// Looks what is over, and hands over what is next.
    pub fn pump(&self) {
        let mut over = Over::default();
        self.advance(&mut self.state.lock(), &mut over);
        self.tell(over);
    }

    /// Wakes the threads that wait for what is over.
    fn tell(&self, over: Over) {
        if over.0.is_empty() {
            return;
        }
        drop(over);
        self.device.fences.wake_all();
        self.device.users.kick_files(self.id);
    }

    fn advance(&self, state: &mut ClientState<O>, over: &mut Over) {
        if self.is_lost() {
            self.end_all(state, over);
            return;
        }
        for line in state.lines.values_mut() {
            if line.ring.as_ref().is_some_and(Ring::is_over)
                && let Some(job) = line.running.take()
            {
                over.put::<O>(job, Ok(()));
            }
        }
        self.end_faulted(state, over);
        let ids: Vec<RingId> = state.lines.keys().copied().collect();
        // Work that begins may be what work of a ring before it waits for.
        while self.hand_over(state, &ids, over) {}
    }

    /// Gives each ring what it can be given; returns whether there was anything.
    fn hand_over(&self, state: &mut ClientState<O>, ids: &[RingId], over: &mut Over) -> bool {
        let mut any = false;
        for &id in ids {
            while let Some(job) = self.next(state, id, over) {
                any = true;
                // Before the device can begin: a fault of this work is not earlier.
                let now = (self.device.hw.clock_counter() & TIMESTAMP).max(1);
                let _ = job.begun_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                let result = self.ensure_ring(state, id).and_then(|()| {
                    let ring = state.lines.get_mut(&id).and_then(|line| line.ring.as_mut());
                    ring.ok_or(Errno::EIO)?.submit(&self.device, &job.ibs)
                });
                match (result, state.lines.get_mut(&id)) {
                    (Ok(()), Some(line)) => {
                        job.fence.begin();
                        line.running = Some(job);
                    }
                    (result, _) => over.put::<O>(job, result),
                }
            }
        }
        any
    }

    /// The job that a ring can be given now. Work of a context that was to blame is ended.
    fn next(&self, state: &mut ClientState<O>, id: RingId, over: &mut Over) -> Option<Job> {
        let line = state.lines.get_mut(&id)?;
        if line.running.is_some() {
            return None;
        }
        loop {
            let job = line.waiting.front()?;
            if job.context.is_guilty() {
                if let Some(job) = line.waiting.pop_front() {
                    over.put::<O>(job, Err(Errno::ECANCELED));
                }
                continue;
            }
            let ready = job.dependencies.iter().all(Dependency::is_met);
            return if ready { line.waiting.pop_front() } else { None };
        }
    }

    /// Ends what was running at a fault: which of several rings was to blame is not told.
    fn end_faulted(&self, state: &mut ClientState<O>, over: &mut Over) {
        let at = self.faulted_at.swap(0, Ordering::AcqRel);
        if at == 0 {
            return;
        }
        let ClientState { lines, hardware, resets, .. } = state;
        let Some(hardware) = hardware else { return };
        for line in lines.values_mut() {
            // What was handed over after the fault has no part in it, unless it belongs to what was running.
            let Some(job) = line.running.take_if(|job| job.begun_at.load(Ordering::Relaxed) <= at) else {
                continue;
            };
            if let Some(ring) = line.ring.take() {
                let _ = ring.stop(&self.device, &self.space, hardware);
            }
            job.context.blame();
            *resets += 1;
            log!(self.device.hw, Warn, "render node: a ring was stopped and its work ended");
            over.put::<O>(job, Err(Errno::ETIME));
        }
    }

    /// Stops every ring and ends all work.
    fn end_all(&self, state: &mut ClientState<O>, over: &mut Over) {
        let ClientState { lines, hardware, .. } = state;
        for line in lines.values_mut() {
            if let (Some(ring), Some(hardware)) = (line.ring.take(), hardware.as_mut()) {
                let _ = ring.stop(&self.device, &self.space, hardware);
            }
            for job in line.running.take().into_iter().chain(core::mem::take(&mut line.waiting)) {
                over.put::<O>(job, Err(Errno::ECANCELED));
            }
        }
    }

    /// Waits for all work the file has now; what comes after is not waited for.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` for a signal, `ENODEV` when the device is gone.
    pub(crate) fn wait_idle(&self, timeout_ns: Option<u64>) -> Result<bool> {
        let fences: Vec<Arc<Fence>> = {
            let state = self.state.lock();
            let running = state.lines.values().filter_map(|line| line.running.as_ref());
            let waiting = state.lines.values().flat_map(|line| &line.waiting);
            running.chain(waiting).map(|job| job.fence.clone()).collect()
        };
        if fences.is_empty() {
            return Ok(true);
        }
        self.device.wait_fences(&fences, Wanted::All, timeout_ns, || self.pump())
    }

    /// Stops the file's rings and ends its work, and takes no more. Idempotent.
    pub fn stop(&self) {
        let mut over = Over::default();
        let programs;
        {
            let mut state = self.state.lock();
            state.closed = true;
            programs = core::mem::take(&mut state.programs);
            self.end_all(&mut state, &mut over);
            let _ = self.device.flush_gart();
            if let Some(hardware) = state.hardware.take() {
                self.device.users.dismiss(hardware.pasid());
                if self.device.hw.alive() && self.device.wedged() {
                    // The scheduler may still write there.
                    core::mem::forget(hardware);
                } else {
                    self.space.abandon(hardware.pasid());
                }
            }
        }
        self.tell(over);
        // Programs may keep the handles, but no device reaches their pages any more.
        for object in programs.iter().filter_map(Weak::upgrade) {
            if let Some(range) = object.user() {
                range.release(self);
            }
        }
    }

    /// The file is closed.
    pub(crate) fn close(&self) {
        self.stop();
        if self.space.clear_files().is_err() {
            log!(self.device.hw, Error, "memory is left to a device that does not answer");
            // Page tables and memory are never given back.
            core::mem::forget(self.space.clone());
        }
    }
}
