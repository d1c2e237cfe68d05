//! The entry points of one device: what the operating system's side calls for a PCI function.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;

use super::Kfd;
use crate::card::{self, Card, Figures, Source};
use crate::config::Config;
use crate::device::Device;
use crate::drm::Client;
use crate::errno::{Errno, Result};
use crate::interrupt;
use crate::lifetime;
use crate::object::Object;
use crate::os::{Backing, Os};
use crate::partition;
use crate::suspend;
use crate::topology;
use crate::usage::{self, Usage};
use crate::xcp_tree;

/// A device of the machine: one GPU.
pub struct KfdDevice<O: Os> {
    kfd: Arc<Kfd<O>>,
    device: Arc<Device<O>>,
}

/// The device and the machine's processes, one after the other. The caller holds none of the driver's locks.
impl<O: Os> fmt::Debug for KfdDevice<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        f.debug_struct("KfdDevice")
            .field("gpu_ids", &format_args!("{:x?}", self.gpu_ids()))
            .field("partition", &format_args!("{}", device.nodes().mode()))
            .field("chip", &device.hw.asic().name)
            .field("present", &device.hw.alive())
            .field("wedged", &device.wedged())
            .field("recoveries", &format_args!("{}", device.epoch()))
            .field("vram", &format_args!("{} of {} bytes free", device.vram.free_bytes(), device.vram.size()))
            .field("gtt_used", &format_args!("{}", device.gtt_used.load(Ordering::Relaxed)))
            .field("kfd", &self.kfd)
            .finish_non_exhaustive()
    }
}

impl<O: Os> KfdDevice<O> {
    pub(crate) fn new(kfd: &Arc<Kfd<O>>, device: Arc<Device<O>>) -> Arc<Self> {
        Arc::new(Self { kfd: kfd.clone(), device })
    }

    /// Returns the driver of the machine.
    pub fn kfd(&self) -> &Arc<Kfd<O>> {
        &self.kfd
    }

    /// Returns its number in the machine, which no other device has or had.
    pub fn number(&self) -> u32 {
        self.device.number
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

    /// Stops the device: the processes that have it are ended, memory is unpinned and freed. Their later calls fail with `ENODEV`.
    ///
    /// Open processes and GEM objects stay valid as objects (the operating system drops them when their files close).
    /// Other entry points may be running on other threads: sleepers are woken, and nothing new reaches the device once
    /// this returns, but an access that had begun may still be on its way, so the operating system keeps the BARs mapped
    /// for it (or guards its own accessors). No interrupt is delivered from the start of this call on.
    pub fn remove(&self) {
        self.device.leave_asleep();
        lifetime::leave(self.kfd.processes(), &self.device);
        self.device.stop();
        // What other files would map of it from now on is not there.
        lifetime::forget_memory(self.kfd.processes(), &self.device);
    }

    /// Returns whether a file of the device's render node may import memory: its own, and that of another device of the machine that it
    /// reaches (`amdgpu_gem_prime_import`).
    pub fn imports(&self, backing: &dyn Backing) -> bool {
        let Some(object) = Object::<O>::of(backing) else { return false };
        let device = &self.device;
        let is_known = || self.kfd.processes().devices().iter().any(|other| other.number == object.device());
        let is_reached = || object.vram().is_none_or(|memory| device.hw.reaches_vram_of(memory.hw()));
        !object.is_exclusive() && (object.device() == device.number || (is_known() && is_reached()))
    }

    /// Suspends the device: the queues of all processes are taken off it, which saves their waves, its scheduler is stopped, and
    /// it raises no interrupt any more.
    ///
    /// The function may lose its registers from then on, and has to keep VRAM. Calls of programs wait where they need the device,
    /// until [`KfdDevice::resume`] or [`KfdDevice::remove`]. The caller holds none of the driver's locks.
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `EIO` when the device is beyond repair, `EBUSY` when it is suspended, `ETIME` when it hangs again after a
    /// reset. It runs on then.
    pub fn suspend(&self) -> Result<()> {
        suspend::suspend(self.kfd.processes(), &self.device)
    }

    /// Resumes a device that is suspended, and whose function can be accessed again: it is started anew, and the queues go on where
    /// they were.
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `EINVAL` when it is not suspended, `EIO` when it does not come back, which processes are told as of
    /// a reset.
    pub fn resume(&self) -> Result<()> {
        suspend::resume(self.kfd.processes(), &self.device)
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
            for process in self.kfd.processes().all() {
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
        self.device.hw.alive() && interrupt::handle_all(self.kfd.processes(), &self.device)
    }

    /// Opens the render node of a partition, 0 for the GPU's own: `id` is what [`DrmFile::id`](crate::os::DrmFile::id) says of
    /// the file. Balanced by [`Kfd::drm_close`].
    ///
    /// # Errors
    ///
    /// `ENOENT` for a partition that there is not now, `ENODEV` after `remove`, `ENOMEM`, `EEXIST` for a file that is open.
    pub fn drm_open(&self, id: u64, partition: u32) -> Result<Arc<Client<O>>> {
        let client = Client::new(&self.device, id, partition)?;
        self.kfd.processes().add_file(&client)?;
        Ok(client)
    }

    /// Returns whether a file that [`KfdDevice::sysfs_read`] reads can be written to, by [`KfdDevice::card_write`].
    pub fn sysfs_is_writable(&self, path: &str) -> bool {
        path == xcp_tree::CHOICE
    }

    /// Returns the text of a file of `ip_discovery` or `compute_partition_config` in the PCI device's directory, by its path there, or of a
    /// topology file, as [`Kfd::sysfs_read`] does.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENODEV` after `remove` of the last device.
    pub fn sysfs_read(&self, path: &str) -> Result<String> {
        topology::read_of(&self.device, path).unwrap_or_else(|| self.kfd.sysfs_read(path))
    }

    /// Returns the entries of a directory of `ip_discovery` or `compute_partition_config`, or of the topology, as [`Kfd::sysfs_list`] does.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENODEV` after `remove` of the last device.
    pub fn sysfs_list(&self, path: &str) -> Result<Vec<String>> {
        topology::list_of(&self.device, path).unwrap_or_else(|| self.kfd.sysfs_list(path))
    }

    /// Returns what processes hold of the device.
    pub fn usage(&self) -> Usage {
        usage::of(self.kfd.processes(), &self.device)
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
    /// As [`KfdDevice::card_read`]; `EACCES` for a file that is read-only, `EINVAL` for what it does not take.
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
            return partition::switch(self.kfd.processes(), device, card::written(text)?);
        }
        file.store(&card, text)
    }
}
