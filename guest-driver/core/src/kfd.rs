//! The entry points of the machine: what the operating system's side calls for processes, whichever devices they use.

mod device;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::kfd::mmap::{
    KFD_DOORBELL_PROCESS_SLICE, KFD_MMAP_TYPE_DOORBELL, KFD_MMAP_TYPE_MASK, KFD_MMAP_TYPE_MMIO,
    kfd_mmap_gpu_id,
};

use crate::device::Device;
use crate::discovery::discover;
use crate::drm::{self, Client};
use crate::errno::{Errno, Result};
use crate::ioctl;
use crate::lifetime;
use crate::os::{Os, PAGE_SIZE, ProcessKey, RenderFile};
use crate::process::{ClientMemory, Process};
use crate::processes::Processes;
use crate::show::Few;
use crate::svm;
use crate::topology;

pub use device::KfdDevice;

/// Target of an `mmap` of the KFD node, which maps it uncached into the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmapTarget {
    /// The process's slice of BAR2: byte offset and length.
    Doorbells {
        /// Number of the device ([`KfdDevice::number`]).
        device: u32,
        /// Byte offset in BAR2.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The page of BAR5 that flushes the host data path.
    MmioRemap {
        /// Number of the device ([`KfdDevice::number`]).
        device: u32,
        /// Byte offset in BAR5.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// The driver of a machine's GPUs: its devices, and the processes that use them.
pub struct Kfd<O: Os> {
    processes: Arc<Processes<O>>,
    /// Number of the next device.
    next: AtomicU32,
}

/// The processes, one after the other. The caller holds none of the driver's locks.
impl<O: Os> fmt::Debug for Kfd<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = self.processes.all();
        f.debug_struct("Kfd")
            .field("gpu_ids", &format_args!("{:x?}", self.gpu_ids()))
            .field("processes", &Few(processes.iter().map(|process| (process.pasid(), process))))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Kfd<O> {
    /// The driver of a machine, without a device yet; its locks are those of `os`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(os: &O) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { processes: Processes::new(os)?, next: AtomicU32::new(0) }))
    }

    /// Brings the device up that is behind a PCI function; `os` is the operating system as that function has it. Its nodes follow those of
    /// the devices that came before. Processes that are there do not see it.
    ///
    /// # Errors
    ///
    /// The errno for the bus's probe; the reason is in the log.
    pub fn probe(self: &Arc<Self>, os: O, function: O::Function) -> Result<Arc<KfdDevice<O>>> {
        let (hw, config) = discover((Arc::new(os), function))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let device = Device::probe(Arc::new(hw), config, number, self.processes.clone())?;
        self.add(device)
    }

    /// Adds a device that works to the machine.
    pub(crate) fn add(self: &Arc<Self>, device: Arc<Device<O>>) -> Result<Arc<KfdDevice<O>>> {
        self.processes.add_device(&device).inspect_err(|_| device.stop())?;
        device.announce();
        Ok(KfdDevice::new(self, device))
    }

    pub(crate) fn processes(&self) -> &Arc<Processes<O>> {
        &self.processes
    }

    /// Returns the ids user space names the nodes of all GPUs by, in their order.
    pub fn gpu_ids(&self) -> Vec<u16> {
        let of = |device: Arc<Device<O>>| device.nodes().iter().map(|node| node.gpu_id).collect::<Vec<_>>();
        self.processes.devices().into_iter().flat_map(of).collect()
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

    /// Opens the KFD node: the same key shares one process. Balanced by [`Kfd::close`].
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device, `ENOMEM`, `ENOSPC` when every PASID or doorbell slice is taken.
    pub fn open(&self, key: ProcessKey) -> Result<Arc<Process<O>>> {
        lifetime::open(&self.processes, key)
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
        if !process.nodes.are_alive() {
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
        if !process.nodes.are_alive() {
            return Err(Errno::ENODEV);
        }
        let node = process.nodes.named(kfd_mmap_gpu_id(offset).into())?;
        let device = node.device.number;
        match offset & KFD_MMAP_TYPE_MASK {
            KFD_MMAP_TYPE_DOORBELL if len == KFD_DOORBELL_PROCESS_SLICE => {
                Ok(MmapTarget::Doorbells { device, offset: node.doorbell_offset(), len })
            }
            KFD_MMAP_TYPE_MMIO if len == PAGE_SIZE => {
                Ok(MmapTarget::MmioRemap { device, offset: node.device.hw.asic().hdp_remap, len })
            }
            _ => Err(Errno::EINVAL),
        }
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
        if !client.device().hw.alive() {
            return Err(Errno::ENODEV);
        }
        drm::dispatch(client, file, command, data)
    }

    /// Returns the text of a topology file, by its path below `/sys/devices/virtual/kfd/kfd/topology`.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENODEV` without a device.
    pub fn sysfs_read(&self, path: &str) -> Result<String> {
        topology::read(&self.processes, path)
    }

    /// Returns the entries of a topology directory, by its path below `/sys/devices/virtual/kfd/kfd/topology` (empty for the top): names,
    /// directories with a trailing slash, links as `NAME>TARGET`.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENODEV` without a device.
    pub fn sysfs_list(&self, path: &str) -> Result<Vec<String>> {
        topology::list(&self.processes, path)
    }

    /// Returns what the process holds that acquired its address space with this file of the render node
    /// ([`DrmFile::id`](crate::os::DrmFile::id)), if there is one.
    pub fn client_memory(&self, file: u64) -> Option<ClientMemory> {
        self.processes.all().iter().find_map(|process| process.client_memory(file))
    }
}

#[cfg(test)]
mod tests;
