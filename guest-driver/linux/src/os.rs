//! Linux as the core wants to see it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{
    Backing, Clock, CpuInfo, Invalidate, LockRank, LogLevel, Os, ProcessKey, SmiClient, Task, UserArea, Work,
};

use crate::debug::{DebugFile, DebugTarget};
use crate::ffi;
use crate::files::{Dmabuf, File, Object, Smi};
use crate::function::LinuxFunction;
use crate::memory::{Mirror, Pages, Pin};
use crate::results::check;
use crate::runtime::Line;
use crate::sync::{Lock, Queue, WorkItem};

/// The Linux kernel around one device; holds a reference to that.
pub(crate) struct LinuxOs {
    dev: *mut ffi::OsDevice,
}

// SAFETY: every function that takes the device may be called from any thread.
unsafe impl Send for LinuxOs {}
// SAFETY: as above.
unsafe impl Sync for LinuxOs {}

impl LinuxOs {
    /// Wraps a device.
    ///
    /// # Safety
    ///
    /// `dev` is valid during the call.
    pub(crate) unsafe fn new(dev: *mut ffi::OsDevice) -> LinuxOs {
        // SAFETY: as promised by the caller; from here on this reference keeps it valid.
        unsafe { ffi::os_device_get(dev) };
        LinuxOs { dev }
    }
}

impl Drop for LinuxOs {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of `new`.
        unsafe { ffi::os_device_put(self.dev) }
    }
}

// The device is valid in all calls below: self holds a reference.
impl Os for LinuxOs {
    type Function = LinuxFunction;
    type Pages = Pages;
    type Pin = Pin;
    type Mirror = Mirror;
    type Lock = Lock;
    type WaitQueue = Queue;
    type DrmFile = File;
    type Gem = Object;
    type DmaBuf = Dmabuf;
    type WorkItem = WorkItem;
    type SmiFile = Smi;
    type Target = DebugTarget;
    type EventFile = DebugFile;

    fn topology_changed(&self) {
        // SAFETY: the device is valid.
        unsafe { ffi::os_topology_changed(self.dev) }
    }

    fn pages_alloc(&self, count: usize) -> Result<Pages> {
        Pages::new(self.dev, count)
    }

    fn pin_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Pin> {
        Pin::new(self.dev, key, va, count, writable, notify)
    }

    fn has_svm(&self) -> bool {
        ffi::os_has_svm()
    }

    fn mirror_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        Mirror::new(self.dev, key, va, count, writable, notify)
    }

    fn watch_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        Mirror::watch(self.dev, key, va, count, notify)
    }

    fn user_area(&self, key: ProcessKey, va: u64) -> Result<Option<UserArea>> {
        let mut area = UserArea { end: 0, writable: false, file: false };
        // SAFETY: `key` came from an open file, which holds the address space; the structure takes the results.
        let result =
            unsafe { ffi::os_user_area(key.0, va, &mut area.end, &mut area.writable, &mut area.file) };
        match check(result) {
            Ok(()) => Ok(Some(area)),
            Err(Errno::EFAULT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn has_vram_pages(&self) -> bool {
        // SAFETY: the device is valid.
        unsafe { ffi::os_has_vram_pages(self.dev) }
    }

    fn move_to_vram(&self, key: ProcessKey, va: u64, frames: &mut Vec<u64>) -> Result<usize> {
        let mut moved = 0;
        let (count, offsets) = (frames.len(), frames.as_mut_ptr());
        // SAFETY: `key` came from an open file, which holds the address space; `frames` has as many offsets as it says.
        let result = check(unsafe { ffi::os_move_to_vram(self.dev, key.0, va, count, offsets, &mut moved) });
        frames.retain(|frame| *frame != ffi::BELFRY_FRAME_TAKEN);
        result.map(|()| moved)
    }

    fn move_to_system(&self, key: ProcessKey, va: u64, count: usize) -> Result<usize> {
        let mut moved = 0;
        // SAFETY: `key` came from an open file, which holds the address space; `moved` takes the result.
        check(unsafe { ffi::os_move_to_system(self.dev, key.0, va, count, &mut moved) })?;
        Ok(moved)
    }

    fn has_peers(&self) -> bool {
        ffi::os_has_peers()
    }

    fn copy_from_user(&self, dst: &mut [u8], src: u64) -> Result<()> {
        // SAFETY: `dst` takes the bytes; the kernel checks the user's side.
        check(unsafe { ffi::os_copy_from_user(dst.as_mut_ptr(), src, dst.len()) })
    }

    fn copy_to_user(&self, dst: u64, src: &[u8]) -> Result<()> {
        // SAFETY: `src` gives the bytes; the kernel checks the user's side.
        check(unsafe { ffi::os_copy_to_user(dst, src.as_ptr(), src.len()) })
    }

    fn user_range_ok(&self, va: u64, len: u64) -> bool {
        ffi::os_user_range_ok(va, len)
    }

    fn drm_acquire(&self, fd: i32) -> Result<File> {
        File::acquire(self.dev, fd)
    }

    fn gem_create(&self, file: &File, backing: Arc<dyn Backing>) -> Result<Object> {
        file.create_gem(backing)
    }

    fn dmabuf_export(&self, gem: &Object) -> Result<Dmabuf> {
        gem.share()
    }

    fn dmabuf_fd(&self, dmabuf: &Dmabuf, flags: u32) -> Result<i32> {
        dmabuf.descriptor(flags)
    }

    fn dmabuf_get(&self, fd: i32) -> Result<Dmabuf> {
        Dmabuf::get(fd)
    }

    fn smi_open(&self, client: Arc<dyn SmiClient>) -> Result<(Smi, i32)> {
        Smi::open(client)
    }

    fn task(&self) -> Task {
        let mut task = Task::default();
        // SAFETY: the structure takes the results, and its name is as long as the shim's.
        unsafe { ffi::os_task(&mut task.id, task.name.as_mut_ptr()) };
        task
    }

    fn target(&self, pid: u32) -> Result<DebugTarget> {
        DebugTarget::get(self.dev, pid)
    }

    fn may_checkpoint(&self) -> bool {
        ffi::os_may_checkpoint()
    }

    fn event_file(&self, fd: i32) -> Result<DebugFile> {
        DebugFile::get(fd)
    }

    fn read_user(&self, key: ProcessKey, dst: &mut [u8], src: u64) -> Result<()> {
        // SAFETY: the buffer is as long as it says, and the core has the process that the key is of.
        check(unsafe { ffi::os_access_user(key.0, src, dst.as_mut_ptr().cast(), dst.len(), false) })
    }

    fn write_user(&self, key: ProcessKey, dst: u64, src: &[u8]) -> Result<()> {
        // SAFETY: as above; the buffer is only read.
        check(unsafe { ffi::os_access_user(key.0, dst, src.as_ptr().cast_mut().cast(), src.len(), true) })
    }

    fn clock_ns(&self, clock: Clock) -> u64 {
        match clock {
            Clock::Monotonic => ffi::os_clock_ns(),
            Clock::MonotonicRaw => ffi::os_clock_raw_ns(),
            Clock::Boot => ffi::os_clock_boot_ns(),
        }
    }

    fn sleep_us(&self, us: u64) {
        ffi::os_sleep_us(us);
    }

    fn lock_new(&self, rank: LockRank) -> Result<Lock> {
        Lock::new(rank)
    }

    fn wait_queue_new(&self) -> Result<Queue> {
        Queue::new()
    }

    fn work_new(&self, work: Arc<dyn Work>) -> Result<WorkItem> {
        WorkItem::new(self.dev, work)
    }

    fn cpu_info(&self) -> CpuInfo {
        let mut info = ffi::OsCpuInfo::default();
        // SAFETY: `info` takes the result.
        unsafe { ffi::os_cpu_info(&mut info) };
        CpuInfo { cores: info.cores, max_clock_mhz: info.max_clock_mhz, memory_bytes: info.memory_bytes }
    }

    fn log(&self, level: LogLevel, text: fmt::Arguments<'_>) {
        let line = Line::new(text);
        let bytes = line.as_bytes();
        let level = match level {
            LogLevel::Error => 0,
            LogLevel::Warn => 1,
            LogLevel::Info => 2,
            LogLevel::Debug => 3,
        };
        // SAFETY: the device is valid and the slice lives through the call.
        unsafe { ffi::os_log(self.dev, level, bytes.as_ptr(), bytes.len()) }
    }
}
