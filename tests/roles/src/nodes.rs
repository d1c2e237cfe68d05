//! The driver's nodes by hand, without a runtime: raw requests and mappings.
#![expect(unsafe_code, reason = "maps device memory, and passes pointers to ioctls")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;

use anyhow::{Context as _, Result};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    AcquireVmArgs, AllocFlags, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs,
};
use belfry_abi::kfd::mmap::{KFD_MMAP_TYPE_DOORBELL, KFD_MMAP_TYPE_MMIO, kfd_mmap_offset};

/// Directory in which the driver's functions are listed, bound and unbound.
pub(crate) const DRIVER: &str = "/sys/bus/pci/drivers/amdgpu";
/// The GPU's id, while it is bound.
const GPU_ID: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id";
pub(crate) const PAGE: usize = 4096;

/// The address of the function that is bound.
///
/// # Errors
///
/// When none is.
pub(crate) fn function() -> Result<String> {
    fs::read_dir(DRIVER)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.contains(':'))
        .context("no function is bound")
}

/// Binds or unbinds a function.
///
/// # Errors
///
/// When the kernel does.
pub(crate) fn write_driver(action: &str, function: &str) -> Result<()> {
    fs::write(format!("{DRIVER}/{action}"), function).with_context(|| format!("{action} of {function}"))
}

/// A mapping of a file, gone when dropped.
pub(crate) struct Mapping {
    address: *mut libc::c_void,
    len: usize,
}

// SAFETY: only atomics are reached through it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a part of a file, shared, for reading and writing.
    pub(crate) fn new(file: &File, len: usize, offset: u64) -> Option<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place the kernel chooses.
        let address = unsafe {
            let null = std::ptr::null_mut();
            libc::mmap(null, len, protection, libc::MAP_SHARED, file.as_raw_fd(), offset as libc::off_t)
        };
        (address != libc::MAP_FAILED).then_some(Self { address, len })
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.len);
        // SAFETY: inside the mapping, and other processes may change the words there.
        unsafe { AtomicU64::from_ptr(self.address.byte_add(offset).cast()) }
    }
}

impl Mapping {
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own.
        unsafe { libc::munmap(self.address, self.len) };
    }
}

/// An open pair of nodes.
pub(crate) struct Nodes<'a> {
    pub(crate) kfd: File,
    pub(crate) render: File,
    pub(crate) gpu_id: u32,
    /// Hears the error number of every request, 0 for success.
    told: &'a (dyn Fn(i32) + Sync),
}

impl<'a> Nodes<'a> {
    /// Opens both nodes of the device that is bound.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn open(told: &'a (dyn Fn(i32) + Sync)) -> Result<Self> {
        let gpu_id = fs::read_to_string(GPU_ID)?.trim().parse()?;
        let render = fs::read_dir("/dev/dri")?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.to_string_lossy().contains("renderD"))
            .min()
            .context("no render node")?;
        let render = File::options().read(true).write(true).open(render)?;
        Self::with(render, gpu_id, told)
    }

    /// Opens the KFD node, for a node of the topology and a file of a render node.
    ///
    /// # Errors
    ///
    /// When there is no KFD node.
    pub(crate) fn with(render: File, gpu_id: u32, told: &'a (dyn Fn(i32) + Sync)) -> Result<Self> {
        let kfd = File::options().read(true).write(true).open("/dev/kfd")?;
        Ok(Self { kfd, render, gpu_id, told })
    }

    pub(crate) fn acquire_vm(&self) -> io::Result<()> {
        let mut args = AcquireVmArgs { drm_fd: self.render.as_raw_fd() as u32, gpu_id: self.gpu_id };
        self.ioctl(nr::ACQUIRE_VM, &mut args)
    }

    /// Offset of this process's doorbells in the KFD node.
    pub(crate) fn doorbells(&self) -> u64 {
        kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, self.gpu_id as u16)
    }

    /// Offset of the flush page in the KFD node.
    pub(crate) fn flush_page(&self) -> u64 {
        kfd_mmap_offset(KFD_MMAP_TYPE_MMIO, self.gpu_id as u16)
    }

    pub(crate) fn ioctl<T>(&self, command: u32, args: &mut T) -> io::Result<()> {
        // SAFETY: `args` is as long as the command says; the kernel's accesses to memory it names are the child's risk.
        let result = unsafe { libc::ioctl(self.kfd.as_raw_fd(), command.into(), std::ptr::from_mut(args)) };
        let error = io::Error::last_os_error();
        if result >= 0 {
            (self.told)(0);
            return Ok(());
        }
        (self.told)(error.raw_os_error().unwrap_or(-1));
        Err(error)
    }

    pub(crate) fn alloc(
        &self,
        va: u64,
        size: usize,
        flags: AllocFlags,
        offset: u64,
    ) -> io::Result<AllocMemoryOfGpuArgs> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size: size as u64,
            mmap_offset: offset,
            gpu_id: self.gpu_id,
            flags: (flags | AllocFlags::WRITABLE | AllocFlags::NO_SUBSTITUTE).bits(),
            ..Default::default()
        };
        self.ioctl(nr::ALLOC_MEMORY_OF_GPU, &mut args)?;
        Ok(args)
    }

    pub(crate) fn free(&self, handle: u64) -> io::Result<()> {
        self.ioctl(nr::FREE_MEMORY_OF_GPU, &mut FreeMemoryOfGpuArgs { handle })
    }

    pub(crate) fn map(&self, command: u32, handle: u64) -> io::Result<()> {
        let ids = [self.gpu_id];
        let mut args = MapMemoryToGpuArgs {
            handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: 1,
            n_success: 0,
        };
        self.ioctl(command, &mut args)
    }
}
