//! The driver's operating system, hosted: a device in the same process, and this process as all of its users.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci;
use belfry_device::Gpu;
use belfry_device::faults::Exhausted;
use belfry_device::lock::{RwLock, rank};
use belfry_device::sanitize::Sanitizer;
use belfry_kfd_core::os::{
    Backing, Clock, CpuInfo, DeviceInfo, DriverEvent, DrmFile, Gem as _, Invalidate, LockRank, LogLevel, Os,
    OwnPlace, PAGE_SIZE, ProcessKey, Room, SmiClient, Task, UserArea, Work,
};
use belfry_kfd_core::{Errno, Result};

use crate::arena::{Arena, Pages};
use crate::debug::{HostedEventFile, HostedTarget};
use crate::dmabuf::{Exports, HostedDmaBuf};
use crate::exploring::Exploring;
use crate::function;
use crate::gems::{Gems, HostedGem, Mappable};
use crate::gpu::{Bars, Place};
use crate::mapped::area;
use crate::pins::{Mirror, Pin, Pins};
use crate::process::RenderFiles;
use crate::smi::Smi;
use crate::sync::{Lock, Pool, WaitQueue, WorkItem};
use crate::time::DriverTime;
use crate::trace;
use crate::user_memory::{USER_END, copy_user};

/// Bytes of a contiguous piece of VRAM that are marked as not written; the rest of the piece is not checked.
const MAX_MARKED: u64 = 64 << 20;

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

/// Identity of the file of a partition's render node that a process has.
pub(crate) fn file_id(process: u64, partition: u32) -> u64 {
    process | u64::from(partition) << 48
}

/// Memory and device of one hosted GPU, as the driver sees it. Cheap to make: one per load of the driver.
pub struct HostedOs {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) gems: Arc<Gems>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) bars: Arc<Bars>,
    pub(crate) place: Place,
    pub(crate) time: DriverTime,
    pub(crate) pid: u32,
    pub(crate) works: Arc<Pool>,
    pub(crate) exploring: Option<Arc<Exploring>>,
    /// Held by accesses to the device; a save of the device holds it alone.
    pub(crate) access: Arc<RwLock<(), rank::HostedAccess>>,
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

impl HostedOs {
    /// Others may go on here, in a schedule that is explored.
    fn point(&self) {
        if let Some(exploring) = &self.exploring {
            exploring.point();
        }
    }

    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) {
        let _access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.gpu.bar_read(bar, offset, data) {
            log::warn!(target: "kfd", "read of BAR {bar} at {offset:#x}: {error}");
            data.fill(0xff);
        }
    }

    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) {
        let _access = self.access.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.gpu.bar_write(bar, offset, data) {
            log::warn!(target: "kfd", "write of BAR {bar} at {offset:#x}: {error}");
        }
    }
}

impl Os for HostedOs {
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

    fn device_info(&self) -> DeviceInfo {
        let config = |offset: usize| function::read_u32(&self.gpu, offset);
        let (ids, class, subsystem) = (config(0x00), config(0x08), config(0x2c));
        DeviceInfo {
            vendor_id: ids as u16,
            device_id: (ids >> 16) as u16,
            revision_id: class as u8,
            subsystem_vendor_id: subsystem as u16,
            subsystem_id: (subsystem >> 16) as u16,
            domain: self.place.domain,
            location_id: self.place.location_id,
            render_minor: self.place.render_minor,
            partition_minors: self.place.partition_minors(self.gpu.config()),
        }
    }

    fn reg_read(&self, offset: u32) -> u32 {
        let mut bytes = [0; 4];
        self.point();
        self.bar_read(pci::BAR_REGISTERS, u64::from(offset), &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn reg_write(&self, offset: u32, value: u32) {
        self.bar_write(pci::BAR_REGISTERS, u64::from(offset), &value.to_le_bytes());
        // A flush of flushed memory changes nothing, so that no schedule depends on it.
        if u64::from(offset) != self.gpu.config().chip.generation.register_bar.hdp_remap {
            self.point();
        }
    }

    fn doorbell_size(&self) -> u64 {
        pci::DOORBELL_BAR_SIZE
    }

    fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        self.bar_write(pci::BAR_DOORBELLS, offset.bytes(), &value.to_le_bytes());
        self.point();
    }

    fn own_bus_address(&self, place: OwnPlace) -> u64 {
        match place {
            OwnPlace::Doorbells(offset) => self.bars.doorbells.address() + offset,
            OwnPlace::Flushes(_) => self.bars.flushes.0.address(),
        }
    }

    fn used_by_others(&self) -> (u64, u64) {
        self.gpu.config().activity.others_memory()
    }

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

    fn vram_unwritten(&self, va: u64, offset: u64, bytes: u64) {
        if !self.gpu.config().sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.marks_memory()) {
            return;
        }
        let mut block = [0; 4096];
        for done in (0..bytes.min(MAX_MARKED)).step_by(block.len()) {
            Sanitizer::mark(va.wrapping_add(done), &mut block);
            self.vram_write(offset + done, &block);
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

    fn vram_size(&self) -> u64 {
        self.gpu.config().vram_size
    }

    fn vram_read(&self, offset: u64, data: &mut [u8]) {
        self.bar_read(pci::BAR_VRAM, offset, data);
    }

    fn vram_write(&self, offset: u64, data: &[u8]) {
        self.bar_write(pci::BAR_VRAM, offset, data);
    }

    fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        let mut done = 0;
        if byte == 0 && offset.is_multiple_of(PAGE_SIZE) {
            // Whole pages become holes: the cost of a fill with zeros does not depend on the size.
            done = len & !(PAGE_SIZE - 1);
            self.bars.vram.punch(offset as usize, done as usize);
        }
        let block = [byte; 4096];
        while done < len {
            let piece = (len - done).min(4096);
            self.vram_write(offset + done, &block[..piece as usize]);
            done += piece;
        }
    }

    fn write_barrier(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    fn reset_function(&self) -> Result<()> {
        function::reset(&self.gpu)
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
        let memory = [self.bars.vram.address(), self.bars.doorbells.address(), self.arena.memory().address()];
        Ok(area(va, &memory))
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
        Ok(WaitQueue::new(self.time.source()).explored(self.exploring.as_ref()))
    }

    fn work_new(&self, work: Arc<dyn Work>) -> Result<WorkItem> {
        Ok(WorkItem::new(work, &self.works).explored(self.exploring.as_ref()))
    }

    fn cpu_info(&self) -> CpuInfo {
        let cores = belfry_device::processors() as u32;
        // The size of the memory for buffer objects, not the machine's.
        CpuInfo { cores, max_clock_mhz: 0, memory_bytes: self.arena.memory().size() as u64 }
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
