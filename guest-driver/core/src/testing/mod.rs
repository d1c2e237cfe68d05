//! An operating system for unit tests: VRAM is a vector, registers are a map, users do not exist, and nothing runs later
//! unless the test says so.
#![expect(unsafe_code, reason = "the lock trait has an unsafe method, and pages are reached by address")]

mod bench;
mod debug;
mod function;
mod lock;
mod scheduler;
mod smi;
mod users;
mod walk;

pub(crate) use bench::Bench;
pub(crate) use lock::Gate;
pub(crate) use walk::walk;

extern crate std;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::regs::Ip;

use debug::{FakeEventFile, FakeTarget};
use function::FakeFunction;
pub(crate) use function::{OWN_DOORBELLS, OWN_REGISTERS, OWN_VRAM};
use lock::{FakeLock, FakeQueue, HELD};
use scheduler::FakeScheduler;
use smi::FakeSmi;
use users::{FakeMirror, FakePin, Spoiler, Users};

use crate::errno::{Errno, Result};
use crate::os::{
    Backing, Change, Clock, CpuInfo, DmaBuf, DrmFile, Gem, Invalidate, LockRank, LogLevel, Os, PAGE_SIZE,
    ProcessKey, SmiClient, SystemPages, Task, UserArea, Work, WorkItem,
};
use crate::registers::RegisterMap;

/// Segment bases of the device on the bench, which are no card's: the driver has to go by them.
pub(crate) const BASES: [(Ip, &[u32]); 5] = [
    (Ip::GC, &[0x2_0000, 0x1_0000, 0x30_0000]),
    (Ip::MMHUB, &[0x1000]),
    (Ip::OSSSYS, &[0x3000]),
    (Ip::NBIF, &[0x4000, 0x5000, 0x6000]),
    (Ip::SMUIO, &[0x7000, 0x8000]),
];

/// The register map of [`BASES`].
pub(crate) fn registers() -> RegisterMap {
    let mut map = RegisterMap::new(crate::asic::ANY.registers, crate::asic::ANY.register_bytes);
    for ((ip, bases), (_, all)) in BASES.into_iter().zip(RegisterMap::BLOCKS) {
        map.add(ip, all, bases).unwrap();
    }
    map
}

/// Descriptors the users may have.
pub(crate) const FD_END: i32 = 8;

/// Bytes of the interrupt ring.
pub(crate) const IH_RING_SIZE: u32 = crate::ih::RING_SIZE;

/// Steps that a test is told of, in order.
pub(crate) type Trace = Arc<Mutex<Vec<&'static str>>>;

/// Called with offset and value of every register that is written.
type WriteHook = Box<dyn Fn(u32, u32) + Send + Sync>;
/// Called with every doorbell that is rung, and its value.
type DoorbellHook = Box<dyn Fn(&FakeOs, DoorbellOffset, u64) + Send + Sync>;

pub(crate) struct FakeOs {
    vram: Mutex<Vec<u8>>,
    registers: Mutex<BTreeMap<u32, u32>>,
    ticks: Mutex<u64>,
    /// The clock stands still but for what a test adds.
    pub(crate) manual_clock: Mutex<bool>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) trace: Trace,
    pub(crate) on_write: Mutex<Option<WriteHook>>,
    pub(crate) on_doorbell: Mutex<Option<DoorbellHook>>,
    /// The device acknowledges no invalidation.
    pub(crate) deaf: Mutex<bool>,
    /// Receivers of changes of pinned memory, first one first.
    pub(crate) notices: Mutex<Vec<Arc<dyn Invalidate>>>,
    pub(crate) users: Arc<Users>,
    queued: Arc<Mutex<Vec<Arc<dyn Work>>>>,
    pub(crate) scheduler: Mutex<Option<FakeScheduler>>,
    /// The users' descriptors: memory, or something else.
    pub(crate) descriptors: Mutex<BTreeMap<i32, Option<Arc<dyn Backing>>>>,
    /// Descriptors for events, which are open as long as their clients are here.
    pub(crate) smi: Mutex<Vec<Arc<dyn SmiClient>>>,
    /// Times that their readers were woken.
    pub(crate) woken: Arc<AtomicU32>,
    /// Times that threads have slept for a while.
    pub(crate) sleeps: AtomicU32,
    /// Devices do not reach each other's memory over the bus.
    pub(crate) alone: AtomicBool,
}

impl FakeOs {
    pub(crate) fn new(vram: usize) -> Self {
        Self {
            vram: Mutex::new(vec![0xcc; vram]),
            registers: Mutex::default(),
            ticks: Mutex::default(),
            manual_clock: Mutex::default(),
            log: Arc::default(),
            trace: Arc::default(),
            on_write: Mutex::default(),
            on_doorbell: Mutex::default(),
            deaf: Mutex::default(),
            notices: Mutex::default(),
            users: Arc::default(),
            queued: Arc::default(),
            scheduler: Mutex::default(),
            descriptors: Mutex::default(),
            smi: Mutex::default(),
            woken: Arc::default(),
            sleeps: AtomicU32::new(0),
            alone: AtomicBool::new(false),
        }
    }

    pub(crate) fn advance_clock(&self, ns: u64) {
        *lock(&self.ticks) += ns;
    }

    /// Tells all who pinned, mirrored or watched memory of a change.
    pub(crate) fn tell(&self, change: &Change) {
        let notices = lock(&self.notices).clone();
        for notice in notices {
            notice.invalidated(change);
        }
    }

    /// Checks that pages may move: the thread that asks for it holds no lock.
    fn check_moving(&self) -> Result<()> {
        if HELD.get() != 0 {
            lock(&self.trace).push("move under a lock");
        }
        if *lock(&self.users.gone) { Err(Errno::ESRCH) } else { Ok(()) }
    }

    /// Runs what was queued, and returns how much that was.
    pub(crate) fn run_work(&self) -> usize {
        let queued = core::mem::take(&mut *lock(&self.queued));
        for work in &queued {
            work.run();
        }
        queued.len()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Page-aligned memory inside a larger piece.
pub(crate) struct FakePages {
    memory: Box<[u64]>,
    count: usize,
    trace: Trace,
}

impl SystemPages for FakePages {
    fn count(&self) -> usize {
        self.count
    }

    fn cpu(&self) -> NonNull<u8> {
        let start = NonNull::from(&*self.memory).cast::<u8>();
        start.map_addr(|address| address.saturating_add(address.get().wrapping_neg() % PAGE_SIZE as usize))
    }

    fn bus(&self, index: usize) -> u64 {
        self.cpu().as_ptr() as u64 + index as u64 * PAGE_SIZE
    }
}

impl Drop for FakePages {
    fn drop(&mut self) {
        // Smaller ones are the driver's own.
        if self.count > 4 {
            lock(&self.trace).push("free");
        }
    }
}

pub(crate) struct FakeWork {
    work: Arc<dyn Work>,
    queued: Arc<Mutex<Vec<Arc<dyn Work>>>>,
}

impl WorkItem for FakeWork {
    fn queue(&self) {
        let mut queued = lock(&self.queued);
        if !queued.iter().any(|other| Arc::ptr_eq(other, &self.work)) {
            queued.push(self.work.clone());
        }
    }
}

pub(crate) struct FakeFile(u64);

impl DrmFile for FakeFile {
    fn id(&self) -> u64 {
        self.0
    }
}

/// Memory behind a GEM object or a DMA-buf.
pub(crate) struct FakeMemory(Arc<dyn Backing>);

impl Gem for FakeMemory {
    fn mmap_offset(&self) -> u64 {
        0
    }
}

impl DmaBuf for FakeMemory {
    fn backing(&self) -> Arc<dyn Backing> {
        self.0.clone()
    }
}

impl Os for FakeOs {
    type Function = FakeFunction;
    type Pages = FakePages;
    type Pin = FakePin;
    type Mirror = FakeMirror;
    type Lock = FakeLock;
    type WaitQueue = FakeQueue;
    type DrmFile = FakeFile;
    type Gem = FakeMemory;
    type DmaBuf = FakeMemory;
    type WorkItem = FakeWork;
    type SmiFile = FakeSmi;
    type Target = FakeTarget;
    type EventFile = FakeEventFile;

    fn pages_alloc(&self, count: usize) -> Result<FakePages> {
        let memory = vec![0; (count + 1) * PAGE_SIZE as usize / 8].into();
        Ok(FakePages { memory, count, trace: self.trace.clone() })
    }

    fn pin_user(
        &self,
        _: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<FakePin> {
        if HELD.get() != 0 {
            lock(&self.trace).push("pin under a lock");
        }
        self.users.check(va, count, writable)?;
        lock(&self.notices).push(notify);
        Ok(FakePin { va, bus: (1 << 40) + va, count, users: self.users.clone(), trace: self.trace.clone() })
    }

    fn has_svm(&self) -> bool {
        true
    }

    fn mirror_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        next: Arc<dyn Invalidate>,
    ) -> Result<FakeMirror> {
        let spoiled = self.users.spoiled();
        let notify = Arc::new(Spoiler { spoiled: spoiled.clone(), next });
        Ok(FakeMirror { pin: Some(self.pin_user(key, va, count, writable, notify)?), spoiled })
    }

    fn watch_user(&self, _: ProcessKey, _: u64, _: usize, next: Arc<dyn Invalidate>) -> Result<FakeMirror> {
        let spoiled = self.users.spoiled();
        lock(&self.notices).push(Arc::new(Spoiler { spoiled: spoiled.clone(), next }));
        Ok(FakeMirror { pin: None, spoiled })
    }

    fn user_area(&self, _: ProcessKey, va: u64) -> Result<Option<UserArea>> {
        if *lock(&self.users.ended) {
            return Err(Errno::ESRCH);
        }
        Ok(self.users.area(va))
    }

    fn has_vram_pages(&self) -> bool {
        true
    }

    fn move_to_vram(&self, _: ProcessKey, va: u64, frames: &mut Vec<u64>) -> Result<usize> {
        self.check_moving()?;
        let end = va + frames.len() as u64 * PAGE_SIZE;
        self.users.check(va, frames.len(), false)?;
        self.tell(&Change { start: va, end, unmapped: false, held: true });
        Ok(self.users.move_to_vram(va, frames))
    }

    fn move_to_system(&self, _: ProcessKey, va: u64, count: usize) -> Result<usize> {
        self.check_moving()?;
        let range = va..va + count as u64 * PAGE_SIZE;
        self.tell(&Change { start: range.start, end: range.end, unmapped: false, held: true });
        let frames = self.users.move_to_system(range);
        let vram = lock(&self.users.vram).clone();
        if let Some(vram) = vram.and_then(|vram| vram.upgrade()) {
            vram.give_frames_back(frames.iter().map(|frame| (*frame, PAGE_SIZE)));
        }
        Ok(frames.len())
    }

    fn copy_from_user(&self, _: &mut [u8], _: u64) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn copy_to_user(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn user_range_ok(&self, _: u64, _: u64) -> bool {
        true
    }

    fn drm_acquire(&self, fd: i32) -> Result<FakeFile> {
        Ok(FakeFile(fd as u64))
    }

    fn gem_create(&self, _: &FakeFile, backing: Arc<dyn Backing>) -> Result<FakeMemory> {
        Ok(FakeMemory(backing))
    }

    fn has_peers(&self) -> bool {
        !self.alone.load(Ordering::Relaxed)
    }

    fn dmabuf_export(&self, gem: &FakeMemory) -> Result<FakeMemory> {
        Ok(FakeMemory(gem.0.clone()))
    }

    fn dmabuf_fd(&self, dmabuf: &FakeMemory, _: u32) -> Result<i32> {
        if HELD.get() != 0 {
            lock(&self.trace).push("descriptor under a lock");
        }
        let mut descriptors = lock(&self.descriptors);
        let fd = (0..FD_END).find(|fd| !descriptors.contains_key(fd)).ok_or(Errno::EMFILE)?;
        descriptors.insert(fd, Some(dmabuf.0.clone()));
        Ok(fd)
    }

    fn dmabuf_get(&self, fd: i32) -> Result<FakeMemory> {
        let descriptors = lock(&self.descriptors);
        let memory = descriptors.get(&fd).ok_or(Errno::EBADF)?;
        memory.clone().map(FakeMemory).ok_or(Errno::EINVAL)
    }

    fn smi_open(&self, client: Arc<dyn SmiClient>) -> Result<(FakeSmi, i32)> {
        let mut clients = lock(&self.smi);
        clients.push(client);
        Ok((FakeSmi(self.woken.clone()), clients.len() as i32))
    }

    fn task(&self) -> Task {
        Task { id: 0x1f3, name: *b"a program\0\0\0\0\0\0\0" }
    }

    fn target(&self, pid: u32) -> Result<FakeTarget> {
        Ok(FakeTarget(pid))
    }

    fn may_checkpoint(&self) -> bool {
        true
    }

    fn event_file(&self, _: i32) -> Result<FakeEventFile> {
        Ok(FakeEventFile(self.woken.clone()))
    }

    fn read_user(&self, _: ProcessKey, _: &mut [u8], _: u64) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn write_user(&self, _: ProcessKey, _: u64, _: &[u8]) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn clock_ns(&self, _: Clock) -> u64 {
        let mut ticks = lock(&self.ticks);
        if !*lock(&self.manual_clock) {
            // A millisecond passes with every look, so that no poll lasts.
            *ticks += 1_000_000;
        }
        *ticks
    }

    fn sleep_us(&self, _: u64) {
        self.sleeps.fetch_add(1, Ordering::AcqRel);
    }

    fn lock_new(&self, _rank: LockRank) -> Result<FakeLock> {
        Ok(FakeLock::default())
    }

    fn wait_queue_new(&self) -> Result<FakeQueue> {
        Ok(FakeQueue)
    }

    fn work_new(&self, work: Arc<dyn Work>) -> Result<FakeWork> {
        Ok(FakeWork { work, queued: self.queued.clone() })
    }

    fn cpu_info(&self) -> CpuInfo {
        CpuInfo { cores: 1, max_clock_mhz: 0, memory_bytes: 1 << 30 }
    }

    fn log(&self, _: LogLevel, line: fmt::Arguments<'_>) {
        lock(&self.log).push(line.to_string());
    }
}
