//! The device as a vfio-user server: any VMM that speaks the protocol gets the GPU as a PCI function.
//!
//! One client at a time. When it leaves, in whatever way, the device is reset and the next one is served.

pub mod dma;
pub mod irqs;
pub mod protocol;
pub mod regions;
pub mod server;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use belfry_abi::pci;
use belfry_device::{Gpu, GpuConfig, ResetKind, Resources};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

pub use irqs::Irqs;
pub use regions::Regions;
pub use server::{Server, ServerError, StopHandle};

/// How doorbell writes reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum DoorbellMode {
    /// Every write is a message: exact and counted, at the price of an exit to the server.
    #[default]
    Trapped,
    /// The page is mapped into the guest and looked at while queues are mapped: faster writes, less exact counts.
    Polled,
}

/// Why the device could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Shared memory for VRAM or doorbells could not be had.
    #[error("cannot get {size} bytes of shared memory for {what}: {source}")]
    Memory {
        /// `VRAM` or `doorbells`.
        what: &'static str,
        /// Bytes asked for.
        size: u64,
        /// Why it failed.
        source: io::Error,
    },
    /// The device refused its configuration or resources.
    #[error(transparent)]
    Device(#[from] belfry_device::Error),
    /// The server could not start.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A PCI function behind a server; implemented by the GPU, and by stand-ins in tests.
pub trait Function: Send + Sync {
    /// Reads configuration space.
    fn config_read(&self, offset: usize, data: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&self, offset: usize, data: &[u8]);
    /// Reads a BAR; an error is an errno for the client.
    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> Result<(), i32>;
    /// Writes a BAR; an error is an errno for the client.
    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> Result<(), i32>;
    /// The guest's memory map was replaced.
    fn memory_changed(&self);
    /// The system was reset.
    fn reset(&self);
    /// The client is gone: back to power-on, with nothing of its data left.
    fn client_left(&self);
}

/// The GPU and the shared memory behind its BARs.
#[derive(Debug)]
pub struct GpuFunction {
    gpu: Arc<Gpu>,
    vram: OwnedFd,
    doorbells: OwnedFd,
}

impl GpuFunction {
    /// The device itself.
    #[must_use]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

impl Function for GpuFunction {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.gpu.config_read(offset, data);
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        self.gpu.config_write(offset, data);
    }

    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> Result<(), i32> {
        // An access the device does not take yields zeros on its bus, not an error of the transport.
        if let Err(error) = self.gpu.bar_read(bar, offset, data) {
            log::debug!(target: "vfio_user", "read: {error}");
        }
        Ok(())
    }

    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> Result<(), i32> {
        if let Err(error) = self.gpu.bar_write(bar, offset, data) {
            log::debug!(target: "vfio_user", "write: {error}");
        }
        Ok(())
    }

    fn memory_changed(&self) {
        self.gpu.memory_changed();
    }

    fn reset(&self) {
        self.gpu.reset(ResetKind::System);
    }

    fn client_left(&self) {
        // The first reset stops what still runs, the second one puts the discovery table back.
        self.gpu.reset(ResetKind::System);
        for (fd, size) in
            [(&self.vram, self.gpu.config().vram_size), (&self.doorbells, pci::DOORBELL_BAR_SIZE)]
        {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(error) = rustix::fs::fallocate(fd, punch, 0, size) {
                log::error!(target: "vfio_user", "cannot clear the device's memory: {error}");
            }
        }
        self.gpu.reset(ResetKind::System);
    }
}

/// Makes a GPU and a server for it that listens on `path`.
pub fn serve_gpu(
    path: &Path,
    config: GpuConfig,
    doorbell: DoorbellMode,
) -> Result<Server<GpuFunction>, SetupError> {
    let config = GpuConfig { poll_doorbells: doorbell == DoorbellMode::Polled, ..config };
    let vram_size = config.vram_size;
    let (vram_fd, vram) = shared_memory("VRAM", vram_size)?;
    let (doorbell_fd, doorbells) = shared_memory("doorbells", pci::DOORBELL_BAR_SIZE)?;
    let system = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let irqs = Arc::new(Irqs::new(pci::MSIX_VECTORS));
    let resources = Resources { vram, doorbells, system: system.clone(), interrupts: irqs.clone() };
    let gpu = Gpu::new(config, resources)?;
    let duplicate =
        |what, size, fd: &OwnedFd| fd.try_clone().map_err(|source| SetupError::Memory { what, size, source });
    let mapped_doorbells = match doorbell {
        DoorbellMode::Polled => Some(duplicate("doorbells", pci::DOORBELL_BAR_SIZE, &doorbell_fd)?),
        DoorbellMode::Trapped => None,
    };
    let regions = Regions::new(
        (vram_size, Some(duplicate("VRAM", vram_size, &vram_fd)?)),
        (pci::DOORBELL_BAR_SIZE, mapped_doorbells),
        pci::REGISTER_BAR_SIZE,
    );
    let function = Arc::new(GpuFunction { gpu, vram: vram_fd, doorbells: doorbell_fd });
    Ok(Server::bind(path, function, regions, irqs, system)?)
}

/// The argument that makes QEMU use a server on `path`.
#[must_use]
pub fn qemu_device(path: &Path) -> String {
    serde_json::json!({
        "driver": "vfio-user-pci",
        "socket": { "type": "unix", "path": path.display().to_string() },
    })
    .to_string()
}

/// Zeroed memory of a fixed size that another process can map, and its mapping here.
fn shared_memory(what: &'static str, size: u64) -> Result<(OwnedFd, MmapRegion), SetupError> {
    let failed = |source: io::Error| SetupError::Memory { what, size, source };
    let make = || -> io::Result<(OwnedFd, MmapRegion)> {
        let fd = rustix::fs::memfd_create(what, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, size)?;
        // A client that could shrink the file could kill this process with SIGBUS.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let region = MmapRegionBuilder::new(length)
            .with_file_offset(FileOffset::new(File::from(fd.try_clone()?), 0))
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .build()
            .map_err(io::Error::other)?;
        Ok((fd, region))
    };
    make().map_err(failed)
}
