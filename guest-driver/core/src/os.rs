//! The whole contract between the driver and the operating system under it.
//!
//! One implementation sits over a Linux kernel (`guest-driver/linux`), one over an in-process device
//! (`guest-driver/hosted`). The driver holds the policy, the operating system the mechanism: everything here is small,
//! named without Linux, and may be called from any sleepable context. Nothing here is called from a hard interrupt.
//!
//! # Glossary
//!
//! - **bus address**: what the device puts on the bus to reach system memory (a DMA address; in hosted mode the
//!   process's own virtual address).
//! - **pin**: user pages held in place so that the device may reach them.
//! - **mirror**: user pages that the device may reach until the operating system says that they change.
//! - **GEM object**: the operating system's handle of a buffer object, the thing that can be mapped through the render
//!   node.
//! - **DMA-buf**: the operating system's handle of memory that processes share; its descriptors can be sent to others.

mod debug;
mod function;
mod lock;
mod log;
mod memory;
mod room;
mod smi;
mod sync;
mod trace;
mod user;
mod work;

pub use belfry_abi::doorbell::DoorbellOffset;
pub use belfry_abi::kfd::memory::AllocFlags;
pub use debug::{EventFile, Target};
pub use function::{DeviceInfo, Function, MAX_PARTITIONS, OwnPlace};
pub use lock::{LockRank, RawLock, WaitOutcome, WaitQueue};
pub use log::LogLevel;
pub use memory::{Backing, BoPage, DmaBuf, Gem, Metadata, SharedMetadata, SystemPages};
pub use room::Room;
pub use smi::{SmiClient, SmiFile, Task};
pub use sync::{Awaited, ForeignFence, SharedFence, SyncExport, SyncPoint, SyncTarget};
pub use trace::DriverEvent;
pub(crate) use user::check_user_range;
pub use user::{Change, Invalidate, UserArea, UserMirror, UserPage, UserPin};
pub use work::{Work, WorkItem};

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::errno::Result;
use crate::fence::Fence;

/// Size of a page of system memory and of GPU memory, in bytes.
pub const PAGE_SIZE: u64 = 4096;

/// Identity of an address space; stable for its life and unique among the living (Linux: the address of its `mm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey(pub u64);

/// A clock the driver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Monotonic time since an arbitrary point (`CLOCK_MONOTONIC`), which programs give times in.
    Monotonic,
    /// Raw monotonic time since an arbitrary point (`CLOCK_MONOTONIC_RAW`).
    MonotonicRaw,
    /// Monotonic time that includes suspend (`CLOCK_BOOTTIME`).
    Boot,
}

/// Processors and memory that the operating system knows of, for the CPU node of the topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo {
    /// Number of online processors, at least 1.
    pub cores: u32,
    /// Highest clock in MHz, 0 if unknown.
    pub max_clock_mhz: u32,
    /// Installed memory in bytes.
    pub memory_bytes: u64,
}

/// Memory nodes of the machine, among which its processors and its memory are shared out evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numa {
    /// Nodes, at least 1.
    pub nodes: u32,
    /// Distance from a node to each other one (`node_distance`); that to itself is 10.
    pub distance: u32,
}

impl Default for Numa {
    fn default() -> Self {
        Self { nodes: 1, distance: 10 }
    }
}

impl Numa {
    /// Returns the share of a node in `whole`: the first ones have what is over.
    #[must_use]
    pub fn share(self, whole: u64, node: u32) -> u64 {
        let nodes = u64::from(self.nodes.max(1));
        whole / nodes + u64::from(u64::from(node) < whole % nodes)
    }
}

/// The file of the render node a process acquired its GPU address space with; dropping it gives the file back.
pub trait DrmFile: Send + Sync {
    /// Returns an identity that equals that of another `DrmFile` exactly when both are the same open file.
    fn id(&self) -> u64;
}

/// The open file of the render node that a call of [`Kfd::drm_ioctl`](crate::Kfd::drm_ioctl) came by: its handles.
pub trait RenderFile {
    /// Makes a handle of new memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn handle_create(&self, backing: Arc<dyn Backing>) -> Result<u32>;

    /// Returns the memory of a handle.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    fn lookup(&self, handle: u32) -> Result<Arc<dyn Backing>>;

    /// Returns the offset to pass to `mmap` for the memory of a handle, in bytes.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    fn mmap_offset(&self, handle: u32) -> Result<u64>;

    /// Returns the address space of who calls.
    fn caller(&self) -> ProcessKey;

    /// Makes the end of new work, which can be put into syncobjs of this file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn fence_new(&self) -> Result<Arc<Fence>>;

    /// Returns what is in a syncobj; `kick` runs when it is over, under any lock, and never waits.
    ///
    /// # Errors
    ///
    /// `ENOENT` for a bad handle, `EINVAL` when nothing is there, `ETIME` and `ERESTARTSYS` when that was waited for.
    fn sync_await(&self, at: SyncPoint, kick: Arc<dyn Work>) -> Result<Awaited>;

    /// Returns a syncobj to put work into, at a point of it or in the place of what is there.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a bad handle, `ENOMEM`.
    fn sync_target(&self, at: SyncPoint) -> Result<Box<dyn SyncTarget>>;

    /// Makes work, `None` for what was over long ago, something that others wait for.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENOMEM`.
    fn sync_export(&self, fence: Option<&Arc<Fence>>, to: SyncExport) -> Result<u32>;
}

/// The operating system, as far as the driver needs it.
pub trait Os: Send + Sync + Sized + 'static {
    /// A PCI function with a GPU.
    type Function: Function;
    /// Pages of system memory.
    type Pages: SystemPages;
    /// Pinned user pages.
    type Pin: UserPin;
    /// Mirrored user pages.
    type Mirror: UserMirror;
    /// A sleeping lock.
    type Lock: RawLock;
    /// A wait queue.
    type WaitQueue: WaitQueue;
    /// An open file of the render node.
    type DrmFile: DrmFile;
    /// A GEM object.
    type Gem: Gem;
    /// A DMA-buf.
    type DmaBuf: DmaBuf;
    /// A piece of work for a worker thread.
    type WorkItem: WorkItem;
    /// A descriptor that gives events.
    type SmiFile: SmiFile;
    /// A process that may be debugged.
    type Target: Target;
    /// A descriptor that tells a debugger of events.
    type EventFile: EventFile;

    // ---- limits and checks of memory ----

    /// Returns whether there is something of this kind left for a process; a system that has things fail on purpose says no at times.
    fn has_room(&self, _what: Room, _pasid: u16) -> bool {
        true
    }

    /// A process has so many bytes at a GPU virtual address from now on: what it asked for, not the pages that it takes. A system that
    /// checks what kernels access wants to know.
    fn memory_allocated(&self, _va: u64, _bytes: u64) {}

    /// Memory at a GPU virtual address is about to be unmapped from a GPU, as its process has asked for.
    fn memory_unmapped(&self, _va: u64, _bytes: u64) {}

    /// Memory that a process had at a GPU virtual address is freed.
    fn memory_freed(&self, _va: u64) {}

    // ---- memory ----

    /// Allocates `count` zeroed pages the device can reach.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn pages_alloc(&self, count: usize) -> Result<Self::Pages>;

    /// Pins `count` pages from page-aligned `va` of the address space `key`, for writing if `writable`.
    ///
    /// `notify` is told when the range changes, until the pin is dropped.
    ///
    /// # Errors
    ///
    /// `EFAULT` when a page is not mapped or not writable, `ENOMEM` past a limit, `ESRCH` when the space is gone.
    fn pin_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Self::Pin>;

    /// Returns whether programs may register their memory as shared virtual memory: [`Os::user_area`] and
    /// [`Os::mirror_user`] answer, and [`Invalidate::invalidated`] says what is unmapped.
    fn has_svm(&self) -> bool;

    /// Looks `count` pages up from page-aligned `va` of the address space `key`, and brings them in, for writing if `writable`.
    ///
    /// The range lies in one [`UserArea`], and `writable` is what that says. `notify` is told when the range changes, until the
    /// mirror is dropped.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when the area is another one by now or changes all the time, `EFAULT` and `EPERM` when a page cannot be had,
    /// `ENOMEM`, `ESRCH` when the space is gone, `EOPNOTSUPP` without [`Os::has_svm`].
    fn mirror_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Self::Mirror>;

    /// Makes a mirror of no pages, whose `notify` is told when `count` pages from page-aligned `va` change; it is current
    /// while nothing has changed since this began to watch. The range need not be mapped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ESRCH` when the space is gone, `EOPNOTSUPP` without [`Os::has_svm`].
    fn watch_user(
        &self,
        key: ProcessKey,
        va: u64,
        count: usize,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Self::Mirror>;

    /// Returns what of the address space `key` lies at `va`; `None` where nothing is mapped, or memory of a device.
    ///
    /// # Errors
    ///
    /// `ESRCH` when the space is gone, `EOPNOTSUPP` without [`Os::has_svm`].
    fn user_area(&self, key: ProcessKey, va: u64) -> Result<Option<UserArea>>;

    /// Returns whether pages of programs can be in VRAM: [`Os::move_to_vram`] works.
    fn has_vram_pages(&self) -> bool;

    /// Moves pages of the address space `key` to VRAM, from page-aligned `va` on: page `i` to the frame at byte offset `frames[i]`,
    /// which the driver has taken from VRAM. The range lies in one [`UserArea`].
    ///
    /// Frames that the operating system has no use for stay in `frames`: pages of shared memory and of files do not move, and
    /// those that are in VRAM already need not. The others are its own until it gives them back by [`crate::KfdDevice::frames_freed`],
    /// when no process has their pages any more. [`Invalidate::invalidated`] is told before pages move, as of any change.
    ///
    /// Returns how many pages have moved.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT` when the area is another one by now, `ESRCH` when the space is gone, `EOPNOTSUPP` without
    /// [`Os::has_vram_pages`]; nothing has moved then, and all frames are left.
    fn move_to_vram(&self, key: ProcessKey, va: u64, frames: &mut Vec<u64>) -> Result<usize>;

    /// Moves `count` pages from page-aligned `va` of the address space `key` to system memory, as far as they are in VRAM.
    /// A page that the kernel or another device holds stays. The range lies in one [`UserArea`]. The driver has the frames of the
    /// moved pages again when this returns.
    ///
    /// Returns how many pages have moved.
    ///
    /// # Errors
    ///
    /// As of [`Os::move_to_vram`].
    fn move_to_system(&self, key: ProcessKey, va: u64, count: usize) -> Result<usize>;

    /// Returns whether devices reach the memory of other devices over the bus (`CONFIG_HSA_AMD_P2P`, `pci_p2pdma_distance`).
    fn has_peers(&self) -> bool {
        true
    }

    /// Copies from the calling process.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `dst` is then unspecified.
    fn copy_from_user(&self, dst: &mut [u8], src: u64) -> Result<()>;

    /// Copies to the calling process.
    ///
    /// # Errors
    ///
    /// `EFAULT`; a part may have been written.
    fn copy_to_user(&self, dst: u64, src: &[u8]) -> Result<()>;

    /// Returns whether the range lies in user space at all (Linux: `access_ok`); it need not be mapped.
    fn user_range_ok(&self, va: u64, len: u64) -> bool;

    // ---- files ----

    /// Takes a reference to the calling process's file descriptor, if it is a render node of this very device.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is anything else.
    fn drm_acquire(&self, fd: i32) -> Result<Self::DrmFile>;

    /// Makes a buffer object that `file` may map.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn gem_create(&self, file: &Self::DrmFile, backing: Arc<dyn Backing>) -> Result<Self::Gem>;

    /// Returns the DMA-buf of a GEM object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn dmabuf_export(&self, gem: &Self::Gem) -> Result<Self::DmaBuf>;

    /// Makes a descriptor of a DMA-buf in the calling process, closed by `execve` if `flags` have `O_CLOEXEC`; other flags
    /// have no effect.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENOMEM`.
    fn dmabuf_fd(&self, dmabuf: &Self::DmaBuf, flags: u32) -> Result<i32>;

    /// Returns the DMA-buf that a descriptor of the calling process leads to, if it is one of this driver.
    ///
    /// # Errors
    ///
    /// `EBADF` when there is no such descriptor, `EINVAL` when it is of anything else.
    fn dmabuf_get(&self, fd: i32) -> Result<Self::DmaBuf>;

    /// Makes a descriptor of the calling process for a client of system management.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EMFILE`.
    fn smi_open(&self, client: Arc<dyn SmiClient>) -> Result<(Self::SmiFile, i32)>;

    /// Returns who calls.
    fn task(&self) -> Task;

    // ---- debuggers ----

    /// Returns the process with this identity, as the caller names it.
    ///
    /// # Errors
    ///
    /// `ESRCH` when there is none, or it has no address space.
    fn target(&self, pid: u32) -> Result<Self::Target>;

    /// Returns whether the caller may checkpoint processes (`CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`).
    fn may_checkpoint(&self) -> bool;

    /// Returns what the calling process's descriptor leads to.
    ///
    /// # Errors
    ///
    /// `EBADF` when there is no such descriptor.
    fn event_file(&self, fd: i32) -> Result<Self::EventFile>;

    /// Copies from an address space; may be called on any thread.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `ESRCH` when the space is gone.
    fn read_user(&self, key: ProcessKey, dst: &mut [u8], src: u64) -> Result<()>;

    /// Copies to an address space; may be called on any thread.
    ///
    /// # Errors
    ///
    /// `EFAULT`, when a part may have been written; `ESRCH` when the space is gone.
    fn write_user(&self, key: ProcessKey, dst: u64, src: &[u8]) -> Result<()>;

    // ---- time, locks, words ----

    /// Returns a clock in nanoseconds.
    fn clock_ns(&self, clock: Clock) -> u64;

    /// Sleeps for about `us` microseconds.
    fn sleep_us(&self, us: u64);

    /// Makes a lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn lock_new(&self, rank: LockRank) -> Result<Self::Lock>;

    /// Makes a wait queue.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn wait_queue_new(&self) -> Result<Self::WaitQueue>;

    /// Makes a piece of work; it runs when it is queued.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn work_new(&self, work: Arc<dyn Work>) -> Result<Self::WorkItem>;

    /// The GPU has other nodes: the operating system shows the topology anew, where it keeps what [`crate::Kfd::sysfs_list`] says.
    /// No lock of the driver is held.
    fn topology_changed(&self) {}

    /// Returns what is known about processors and memory.
    fn cpu_info(&self) -> CpuInfo;

    /// Returns the memory nodes of the machine.
    fn numa(&self) -> Numa {
        Numa::default()
    }

    /// Takes note of something for a timeline; `pasid` is that of the process. It is called under locks, and must not wait.
    fn trace(&self, pasid: u16, event: DriverEvent) {
        let _ = (pasid, event);
    }

    /// Logs one line.
    fn log(&self, level: LogLevel, line: fmt::Arguments<'_>);
}
