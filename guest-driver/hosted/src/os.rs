//! The driver's operating system, hosted: a device in the same process, and this process as all of its users.

use std::cell::Cell;
use std::sync::Arc;

use belfry_device::Gpu;
use belfry_device::faults::Exhausted;
use belfry_kfd_core::os::{
    Backing, Clock, CpuInfo, DriverEvent, DrmFile, Gem as _, Invalidate, LockRank, LogLevel, Numa, Os,
    ProcessKey, Room, SmiClient, Task, UserArea, Work,
};
use belfry_kfd_core::{Errno, Result};

use crate::arena::{Arena, Pages};
use crate::bars::HostedFunction;
use crate::debug::{HostedEventFile, HostedTarget};
use crate::dmabuf::{Exports, HostedDmaBuf};
use crate::exploring::Exploring;
use crate::gems::{Gems, HostedGem, Mappable};
use crate::mapped::area;
use crate::node::RenderFiles;
use crate::pins::{Mirror, Pin, Pins};
use crate::smi::Smi;
use crate::sync::{Lock, Pool, WaitQueue, WorkItem};
use crate::time::DriverTime;
use crate::trace;
use crate::user_memory::{USER_END, copy_user};

thread_local! {
    /// The render node files of the process that is calling the driver on this thread.
    static CALLER: Cell<Option<(RenderFiles, u64)>> = const { Cell::new(None) };
}

/// Runs `call` as a call of the process that has these render nodes, with identity `id`.
pub(crate) fn calling<R>(files: RenderFiles, id: u64, call: impl FnOnce() -> R) -> R {
    let before = CALLER.replace(Some((files, id)));
    let result = call();
    CALLER.set(before);
    result
}

/// Identity of the file of a render node that a process has, by the node's number among those of all GPUs.
pub(crate) fn file_id(process: u64, number: u32) -> u64 {
    process | u64::from(number) << 48
}

/// The system around one hosted GPU, as the driver sees it. Cheap to make: one per load of the driver.
pub struct HostedOs {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) gems: Arc<Gems>,
    pub(crate) exports: Arc<Exports>,
    /// Addresses of maps that are no memory of programs, of all GPUs of the machine.
    pub(crate) memory: Arc<[u64]>,
    /// The GPUs of the machine reach each other over the bus.
    pub(crate) peers: bool,
    /// Memory nodes of the machine.
    pub(crate) numa: Numa,
    pub(crate) time: DriverTime,
    pub(crate) pid: u32,
    pub(crate) works: Arc<Pool>,
    pub(crate) exploring: Option<Arc<Exploring>>,
}

impl std::fmt::Debug for HostedOs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedOs").finish_non_exhaustive()
    }
}

/// An open render node.
#[derive(Debug)]
pub struct HostedDrmFile {
    id: u64,
}

impl DrmFile for HostedDrmFile {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Os for HostedOs {
    type Function = HostedFunction;
    type Pages = Pages;
    type Pin = Pin;
    type Mirror = Mirror;
    type Lock = Lock;
    type WaitQueue = WaitQueue;
    type DrmFile = HostedDrmFile;
    type Gem = HostedGem;
    type DmaBuf = HostedDmaBuf;
    type Target = HostedTarget;
    type EventFile = HostedEventFile;
    type WorkItem = WorkItem;
    type SmiFile = Smi;

    fn has_room(&self, what: Room, pasid: u16) -> bool {
        // A replay has no driver.
        if self.gpu.config().record.is_some() {
            return true;
        }
        let what = match what {
            Room::Vram => Exhausted::Vram,
            Room::System => Exhausted::System,
            Room::Doorbell => Exhausted::Doorbells,
        };
        !self.gpu.faults().is_exhausted(what, Some(pasid.into()))
    }

    fn memory_allocated(&self, va: u64, bytes: u64) {
        if let Some(sanitizer) = &self.gpu.config().sanitizer {
            sanitizer.allocated(va, bytes);
        }
    }

    fn memory_unmapped(&self, va: u64, bytes: u64) {
        if let Some(sanitizer) = &self.gpu.config().sanitizer {
            sanitizer.unmapped(va, bytes);
        }
    }

    fn memory_freed(&self, va: u64) {
        if let Some(sanitizer) = &self.gpu.config().sanitizer {
            sanitizer.freed(va);
        }
    }

    fn pages_alloc(&self, count: usize) -> Result<Pages> {
        self.arena.allocate(count)
    }

    fn pin_user(
        &self,
        _key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Pin> {
        self.pins.pin(va, count, writable, notify)
    }

    fn has_svm(&self) -> bool {
        true
    }

    fn mirror_user(
        &self,
        _key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        self.pins.mirror(va, count, writable, notify)
    }

    fn watch_user(
        &self,
        _key: ProcessKey,
        va: u64,
        count: usize,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        self.pins.watch(va, count, notify)
    }

    fn user_area(&self, _key: ProcessKey, va: u64) -> Result<Option<UserArea>> {
        Ok(area(va, &self.memory))
    }

    /// `false`: a process could change its memory while this driver copies it.
    fn has_vram_pages(&self) -> bool {
        false
    }

    fn move_to_vram(&self, _key: ProcessKey, _va: u64, _frames: &mut Vec<u64>) -> Result<usize> {
        Err(Errno::EOPNOTSUPP)
    }

    fn move_to_system(&self, _key: ProcessKey, _va: u64, _count: usize) -> Result<usize> {
        Err(Errno::EOPNOTSUPP)
    }

    fn has_peers(&self) -> bool {
        self.peers
    }

    fn copy_from_user(&self, dst: &mut [u8], src: u64) -> Result<()> {
        copy_user(dst.as_mut_ptr(), dst.len(), src, false)
    }

    fn copy_to_user(&self, dst: u64, src: &[u8]) -> Result<()> {
        copy_user(src.as_ptr().cast_mut(), src.len(), dst, true)
    }

    fn user_range_ok(&self, va: u64, len: u64) -> bool {
        va.checked_add(len).is_some_and(|end| end <= USER_END)
    }

    fn drm_acquire(&self, fd: i32) -> Result<HostedDrmFile> {
        match CALLER.get() {
            Some((files, key)) => {
                let partition = files.partition(fd).ok_or(Errno::EINVAL)?;
                Ok(HostedDrmFile { id: file_id(key, partition) })
            }
            None => Err(Errno::EINVAL),
        }
    }

    fn gem_create(&self, file: &HostedDrmFile, backing: Arc<dyn Backing>) -> Result<HostedGem> {
        Ok(self.gems.insert(file.id, Mappable::Backing(backing)))
    }

    fn dmabuf_export(&self, gem: &HostedGem) -> Result<HostedDmaBuf> {
        self.gems.backing(gem.mmap_offset()).map(HostedDmaBuf::own).ok_or(Errno::EINVAL)
    }

    fn dmabuf_fd(&self, dmabuf: &HostedDmaBuf, flags: u32) -> Result<i32> {
        self.exports.descriptor(dmabuf, flags)
    }

    fn dmabuf_get(&self, fd: i32) -> Result<HostedDmaBuf> {
        self.exports.get(fd)
    }

    fn smi_open(&self, client: Arc<dyn SmiClient>) -> Result<(Smi, i32)> {
        Smi::open(client)
    }

    fn task(&self) -> Task {
        crate::smi::task()
    }

    fn target(&self, pid: u32) -> Result<HostedTarget> {
        HostedTarget::of(pid, self.pid, CALLER.get().map(|(_, key)| key))
    }

    fn may_checkpoint(&self) -> bool {
        crate::debug::may_checkpoint()
    }

    fn event_file(&self, fd: i32) -> Result<HostedEventFile> {
        HostedEventFile::of(fd)
    }

    fn read_user(&self, _: ProcessKey, dst: &mut [u8], src: u64) -> Result<()> {
        copy_user(dst.as_mut_ptr(), dst.len(), src, false)
    }

    fn write_user(&self, _: ProcessKey, dst: u64, src: &[u8]) -> Result<()> {
        copy_user(src.as_ptr().cast_mut(), src.len(), dst, true)
    }

    fn clock_ns(&self, clock: Clock) -> u64 {
        self.time.clock_ns(clock)
    }

    fn sleep_us(&self, us: u64) {
        let pause = std::time::Duration::from_micros(us);
        match &self.exploring {
            Some(exploring) => exploring.sleep(pause),
            None => self.time.source().pause(pause),
        }
    }

    fn lock_new(&self, rank: LockRank) -> Result<Lock> {
        Ok(Lock::new(rank))
    }

    fn wait_queue_new(&self) -> Result<WaitQueue> {
        Ok(WaitQueue::new(self.time.source())
            .explored(self.exploring.clone().map(|exploring| exploring as _)))
    }

    fn work_new(&self, work: Arc<dyn Work>) -> Result<WorkItem> {
        Ok(WorkItem::new(work, &self.works).explored(self.exploring.clone().map(|exploring| exploring as _)))
    }

    fn cpu_info(&self) -> CpuInfo {
        let cores = belfry_device::processors() as u32;
        // The size of the memory for buffer objects, not the machine's.
        CpuInfo { cores, max_clock_mhz: 0, memory_bytes: self.arena.memory().size() as u64 }
    }

    fn numa(&self) -> Numa {
        self.numa
    }

    fn trace(&self, pasid: u16, event: DriverEvent) {
        trace::record(self.gpu.tracer(), pasid, event);
    }

    fn log(&self, level: LogLevel, line: std::fmt::Arguments<'_>) {
        let level = match level {
            LogLevel::Error => log::Level::Error,
            LogLevel::Warn => log::Level::Warn,
            LogLevel::Info => log::Level::Info,
            LogLevel::Debug => log::Level::Debug,
        };
        log::log!(target: "kfd", level, "{line}");
    }
}
