//! The entry points: what the operating system's side calls.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering;

use belfry_abi::kfd::mmap::{
    KFD_DOORBELL_PROCESS_SLICE, KFD_MMAP_TYPE_DOORBELL, KFD_MMAP_TYPE_MASK, KFD_MMAP_TYPE_MMIO,
    kfd_mmap_gpu_id,
};

use crate::card::{self, Card, Figures, Source};
use crate::config::Config;
use crate::device::Device;
use crate::discovery::discover;
use crate::drm::{self, Client};
use crate::errno::{Errno, Result};
use crate::interrupt;
use crate::ioctl;
use crate::lifetime;
use crate::os::{Os, PAGE_SIZE, ProcessKey, RenderFile};
use crate::partition;
use crate::process::{ClientMemory, Process};
use crate::processes::Processes;
use crate::show::Few;
use crate::suspend;
use crate::svm;
use crate::topology;
use crate::usage::{self, Usage};
use crate::xcp_tree;

/// Target of an `mmap` of the KFD node, which maps it uncached into the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmapTarget {
    /// The process's slice of BAR2: byte offset and length.
    Doorbells {
        /// Byte offset in BAR2.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The page of BAR5 that flushes the host data path.
    MmioRemap {
        /// Byte offset in BAR5.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// The driver of one GPU.
pub struct Kfd<O: Os> {
    processes: Arc<Processes<O>>,
    device: Arc<Device<O>>,
}

/// The device and its processes, one after the other. The caller holds none of the driver's locks.
impl<O: Os> fmt::Debug for Kfd<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        let processes = self.processes.all();
        f.debug_struct("Kfd")
            .field("gpu_ids", &format_args!("{:x?}", self.gpu_ids()))
            .field("partition", &format_args!("{}", device.nodes().mode()))
            .field("chip", &device.hw.asic().name)
            .field("present", &device.hw.alive())
            .field("wedged", &device.wedged())
            .field("recoveries", &format_args!("{}", device.epoch()))
            .field("vram", &format_args!("{} of {} bytes free", device.vram.free_bytes(), device.vram.size()))
            .field("gtt_used", &format_args!("{}", device.gtt_used.load(Ordering::Relaxed)))
            .field("processes", &Few(processes.iter().map(|process| (process.pasid(), process))))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Kfd<O> {
    /// Brings the device up that is behind a PCI function.
    ///
    /// # Errors
    ///
    /// The errno for the bus's probe; the reason is in the log.
    pub fn probe(os: O, function: O::Function) -> Result<Arc<Kfd<O>>> {
        let (hw, config) = discover((Arc::new(os), function))?;
        let processes = Processes::new(hw.os())?;
        let device = Device::probe(Arc::new(hw), config, processes.clone())?;
        Ok(Arc::new(Self { processes, device }))
    }

    /// The driver of a device that is on a bench.
    #[cfg(test)]
    pub(crate) fn of(processes: Arc<Processes<O>>, device: Arc<Device<O>>) -> Self {
        Self { processes, device }
    }

    /// Returns the operating system below.
    pub fn os(&self) -> &O {
        self.device.hw.os()
    }

    /// Returns what the device was found to be.
    pub fn config(&self) -> &Config {
        &self.device.config
    }

    /// Returns the ids user space names the GPU's nodes by.
    pub fn gpu_ids(&self) -> Vec<u16> {
        self.device.nodes().iter().map(|node| node.gpu_id).collect()
    }

    /// Stops the device: all queues are removed, memory is unpinned and freed. Later calls fail with `ENODEV`.
    ///
    /// Open processes and GEM objects stay valid as objects (the operating system drops them when their files close).
    /// Other entry points may be running on other threads: sleepers are woken, and nothing new reaches the device once
    /// this returns, but an access that had begun may still be on its way, so the operating system keeps the BARs mapped
    /// for it (or guards its own accessors). No interrupt is delivered from the start of this call on.
    pub fn remove(&self) {
        self.device.leave_asleep();
        lifetime::end_all(&self.processes);
        self.device.stop();
    }

    /// Suspends the device: the queues of all processes are taken off it, which saves their waves, its scheduler is stopped, and
    /// it raises no interrupt any more.
    ///
    /// The function may lose its registers from then on, and has to keep VRAM. Calls of programs wait where they need the device,
    /// until [`Kfd::resume`] or [`Kfd::remove`]. The caller holds none of the driver's locks.
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `EIO` when the device is beyond repair, `EBUSY` when it is suspended, `ETIME` when it hangs again after a
    /// reset. It runs on then.
    pub fn suspend(&self) -> Result<()> {
        suspend::suspend(&self.processes, &self.device)
    }

    /// Resumes a device that is suspended, and whose function can be accessed again: it is started anew, and the queues go on where
    /// they were.
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `EINVAL` when it is not suspended, `EIO` when it does not come back, which processes are told as of
    /// a reset.
    pub fn resume(&self) -> Result<()> {
        suspend::resume(&self.processes, &self.device)
    }

    /// Returns whether the device is suspended.
    pub fn is_suspended(&self) -> bool {
        self.device.is_asleep()
    }

    /// Frames of VRAM that the operating system had for pages of programs ([`Os::move_to_vram`]) are free: `len` bytes from byte
    /// `offset`, whole pages of it that it was given.
    pub fn frames_freed(&self, offset: u64, len: u64) {
        self.device.vram.give_frames_back([(offset, len)]);
    }

    /// The processor touches a page of the address space `key` at `va` that is in VRAM, where it has no access to: returns what
    /// the operating system moves to system memory, as large as the range's granularity says. [`Kfd::touched_end`] follows.
    ///
    /// `None` where `va` is in no range of a process.
    pub fn touched(&self, key: ProcessKey, va: u64) -> Option<Range<u64>> {
        svm::touched(&*self.processes.of_key(key)?, va)
    }

    /// Ends a move: what [`Kfd::touched`] returned has moved, or what was left of it in one area.
    pub fn touched_end(&self, key: ProcessKey, range: Range<u64>) {
        if let Some(process) = self.processes.of_key(key) {
            svm::touched_end(&process, &range);
        }
    }

    /// Records the driver's own events from now on, into a ring with room for the last `room` of them; 0 ends that and gives the
    /// ring's memory back. What a ring of before has is dropped.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`trace::MAX_RECORDS`](crate::trace::MAX_RECORDS), `ENOMEM`, `ENODEV` after `remove`.
    pub fn trace_records(&self, room: u32) -> Result<()> {
        let device = &self.device;
        device.trace.set_room(&device.hw, room)?;
        if room > 0 {
            for process in self.processes.all() {
                device.trace.record_open(device.hw.os(), process.pasid, process.opener);
            }
        }
        Ok(())
    }

    /// Takes the oldest of the recorded events, as a [`Chunk`](belfry_abi::driver_trace::Chunk) and its records; returns its
    /// length in bytes. It is 0 while nothing is recorded, and where there is no event, unless a chunk is wanted `always`.
    ///
    /// # Errors
    ///
    /// `EINVAL` when `out` has fewer than [`trace::LEAST_READ`](crate::trace::LEAST_READ) bytes.
    pub fn trace_read(&self, out: &mut [u8], always: bool) -> Result<usize> {
        self.device.trace.read(&self.device.hw, out, always)
    }

    /// Handles an interrupt; called on a thread that may sleep, for every MSI-X vector 0 message.
    ///
    /// One call handles at most as many entries as the ring has. It returns whether there may be more: the operating
    /// system then calls again without waiting for a message, after it has let others run and unless the function is
    /// being removed.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.device.hw.alive() && interrupt::handle_all(&self.processes, &self.device)
    }

    /// Opens the KFD node: the same key shares one process. Balanced by [`Kfd::close`].
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `ENOMEM`, `ENOSPC` when every PASID or doorbell slice is taken.
    pub fn open(&self, key: ProcessKey) -> Result<Arc<Process<O>>> {
        lifetime::open(&self.processes, &self.device, key)
    }

    /// Closes one open; the last one of a process tears the process down like [`Kfd::exit`].
    pub fn close(&self, process: &Arc<Process<O>>) {
        lifetime::close(&self.processes, process);
    }

    /// Tears a process down at once, however many opens are left: its address space is going away.
    ///
    /// Its queues are removed, its memory is unpinned and freed. Idempotent; unknown keys are ignored.
    pub fn exit(&self, key: ProcessKey) {
        lifetime::exit(&self.processes, key);
    }

    /// Runs the ioctl `command` with the user pointer `arg` on behalf of the process `caller`, which is the calling one.
    ///
    /// # Errors
    ///
    /// The errno of the ioctl; `EBADF` when `caller` is not the opener, `ENOTTY` for numbers outside the table.
    pub fn ioctl(
        &self,
        process: &Arc<Process<O>>,
        caller: ProcessKey,
        command: u32,
        arg: u64,
    ) -> Result<u32> {
        if caller != process.key() {
            return Err(Errno::EBADF);
        }
        if !self.device.hw.alive() {
            return Err(Errno::ENODEV);
        }
        ioctl::dispatch(&self.processes, process, command, arg)
    }

    /// Returns what an `mmap` of the KFD node at byte `offset` with `len` bytes maps. Takes no lock that is held while
    /// user memory is touched.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown type, GPU or length, `EBADF` when `caller` is not the opener.
    pub fn mmap(
        &self,
        process: &Arc<Process<O>>,
        caller: ProcessKey,
        offset: u64,
        len: u64,
    ) -> Result<MmapTarget> {
        if caller != process.key() {
            return Err(Errno::EBADF);
        }
        if !self.device.hw.alive() {
            return Err(Errno::ENODEV);
        }
        let node = process.nodes.named(kfd_mmap_gpu_id(offset).into())?;
        match offset & KFD_MMAP_TYPE_MASK {
            KFD_MMAP_TYPE_DOORBELL if len == KFD_DOORBELL_PROCESS_SLICE => {
                Ok(MmapTarget::Doorbells { offset: process.doorbell_offset(node), len })
            }
            KFD_MMAP_TYPE_MMIO if len == PAGE_SIZE => {
                Ok(MmapTarget::MmioRemap { offset: self.device.hw.asic().hdp_remap, len })
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Opens the render node of a partition, 0 for the GPU's own: `id` is what [`DrmFile::id`](crate::os::DrmFile::id) says of
    /// the file. Balanced by [`Kfd::drm_close`].
    ///
    /// # Errors
    ///
    /// `ENOENT` for a partition that there is not now, `ENODEV` after `remove`, `ENOMEM`, `EEXIST` for a file that is open.
    pub fn drm_open(&self, id: u64, partition: u32) -> Result<Arc<Client<O>>> {
        let client = Client::new(&self.device, id, partition)?;
        self.processes.add_file(&client)?;
        Ok(client)
    }

    /// Closes a file of the render node: all that it has mapped is unmapped.
    pub fn drm_close(&self, client: &Arc<Client<O>>) {
        client.close();
        self.processes.remove_file(client);
    }

    /// Runs an ioctl of the amdgpu driver for `client`, whose open file is `file`. `data` has the arguments and gets the
    /// answer; it is at least as long as the driver's structure, with zeros behind what the caller gave.
    ///
    /// # Errors
    ///
    /// The errno of the ioctl; `EINVAL` for numbers outside the table.
    pub fn drm_ioctl(
        &self,
        client: &Arc<Client<O>>,
        file: &dyn RenderFile,
        command: u32,
        data: &mut [u8],
    ) -> Result<()> {
        if !self.device.hw.alive() {
            return Err(Errno::ENODEV);
        }
        drm::dispatch(client, file, command, data)
    }

    /// Returns whether a file that [`Kfd::sysfs_read`] reads can be written to, by [`Kfd::card_write`].
    pub fn sysfs_is_writable(&self, path: &str) -> bool {
        path == xcp_tree::CHOICE
    }

    /// Returns the text of a topology file, by its path below `/sys/devices/virtual/kfd/kfd/topology`, or of a file of
    /// `ip_discovery` or `compute_partition_config` in the PCI device's directory, by its path there.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub fn sysfs_read(&self, path: &str) -> Result<String> {
        topology::read(&self.processes, &self.device, path)
    }

    /// Returns what the process holds that acquired its address space with this file of the render node
    /// ([`DrmFile::id`](crate::os::DrmFile::id)), if there is one.
    pub fn client_memory(&self, file: u64) -> Option<ClientMemory> {
        self.processes.all().iter().find_map(|process| process.client_memory(file))
    }

    /// Returns what processes hold of the device.
    pub fn usage(&self) -> Usage {
        usage::of(&self.processes, &self.device)
    }

    /// Returns what the files of the card are made of and does not change.
    pub fn card(&self) -> Card {
        self.device.card()
    }

    /// Bytes of VRAM and of system memory that this device has given away; [`figures`](Self::figures) has those of a whole card.
    pub fn own_memory(&self) -> (u64, u64) {
        self.device.own_memory()
    }

    /// Measures what a file of the card with this source needs, and leaves the other figures 0.
    pub fn figures(&self, source: Source) -> Figures {
        self.device.figures(source)
    }

    /// Returns the content of a file of the card, by its path below the PCI device's directory.
    ///
    /// # Errors
    ///
    /// `ENOENT` for a path that is not in [`FILES`](crate::card::FILES), `ENODEV` after `remove`.
    pub fn card_read(&self, path: &str) -> Result<Vec<u8>> {
        self.device.card_read(path)
    }

    /// Writes to a file of the card.
    ///
    /// # Errors
    ///
    /// As [`Kfd::card_read`]; `EACCES` for a file that is read-only, `EINVAL` for what it does not take.
    pub fn card_write(&self, path: &str, text: &[u8]) -> Result<()> {
        let device = &self.device;
        if path == xcp_tree::CHOICE {
            return xcp_tree::show(device, card::written(text)?);
        }
        let (file, card) = (card::file(path)?, device.card());
        if !device.hw.alive() {
            return Err(Errno::ENODEV);
        }
        if !file.is_of(&card) {
            return Err(Errno::ENOENT);
        }
        if file.shares_out() {
            return partition::switch(&self.processes, device, card::written(text)?);
        }
        file.store(&card, text)
    }

    /// Returns the entries of a topology directory, by its path below `/sys/devices/virtual/kfd/kfd/topology` (empty
    /// for the top), or of one of `ip_discovery` or `compute_partition_config`: names, directories with a trailing slash, links as `NAME>TARGET`.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub fn sysfs_list(&self, path: &str) -> Result<Vec<String>> {
        topology::list(&self.processes, &self.device, path)
    }
}
