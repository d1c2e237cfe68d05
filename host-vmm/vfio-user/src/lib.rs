//! The device as a vfio-user server: any VMM that speaks the protocol gets the GPU as a PCI function.
//!
//! One client at a time. However it leaves, the device is then reset and the next client is served.
//! `docs/vfio-user.md` describes the rights of a client, and the result of each mistake.
#![expect(unsafe_code, reason = "renews memory whose region it keeps")]

mod bar_memory;
pub mod connection;
pub mod dma;
mod error;
mod eventfd;
mod function;
pub mod irqs;
pub mod protocol;
pub mod regions;
pub mod server;
mod shared_file;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use belfry_abi::pci;
use belfry_device::memory::Links;
use belfry_device::{Gpu, GpuConfig, ResetKind, Resources, Rom};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use bar_memory::BarMemory;
pub use error::{ServerError, SetupError};
pub use function::Function;
pub use irqs::Irqs;
pub use regions::Regions;
pub use server::{Server, StopHandle};

/// Ways in which doorbell writes reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum DoorbellMode {
    /// Every write is a message: exact and counted, at the price of an exit to the server.
    #[default]
    Trapped,
    /// The page is mapped into the guest and checked while queues are mapped: faster writes, less exact counts.
    Polled,
}

/// The GPU and the shared memory behind its BARs.
#[derive(Debug)]
pub struct GpuFunction {
    gpu: Arc<Gpu>,
    vram: BarMemory,
    doorbells: BarMemory,
}

impl GpuFunction {
    /// Returns the device itself.
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
        // An access that the device refuses reads zeros on its bus; it is no error of the transport.
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

    fn client_left(&self, regions: &mut Regions) -> Result<(), SetupError> {
        // The first reset stops running work, the second one puts the discovery table into the new memory.
        self.gpu.reset(ResetKind::System);
        for (bar, memory) in [(VRAM_BAR, &self.vram), (DOORBELL_BAR, &self.doorbells)] {
            // SAFETY: the GPU has the region for its whole life, and lives as long as this value.
            regions.replace_file(bar, unsafe { memory.renew() }?);
        }
        self.gpu.reset(ResetKind::System);
        Ok(())
    }
}

/// Numbers of the BARs (`Regions::new`).
const VRAM_BAR: u8 = 0;
const DOORBELL_BAR: u8 = 2;

/// Makes a GPU and a server for it that listens on `path`.
///
/// # Errors
///
/// Shared memory or asynchronous I/O cannot be had, the device refuses its configuration, or the socket
/// cannot be made.
pub fn serve_gpu(
    path: &Path,
    config: GpuConfig,
    doorbell: DoorbellMode,
) -> Result<Server<GpuFunction>, SetupError> {
    let config = GpuConfig { poll_doorbells: doorbell == DoorbellMode::Polled, ..config };
    let (vram_size, register_size) = (config.vram_size, config.chip.generation.register_bar.size);
    let rom_size = config.rom.as_ref().map_or(0, Rom::size);
    let (vram, vram_region) = BarMemory::new("VRAM", vram_size)?;
    let (doorbells, doorbell_region) = BarMemory::new("doorbells", pci::DOORBELL_BAR_SIZE)?;
    // SAFETY: the regions are in this frame.
    let (vram_file, doorbell_file) = unsafe { (vram.renew()?, doorbells.renew()?) };
    let system = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let irqs = Arc::new(Irqs::new(pci::MSIX_VECTORS).map_err(SetupError::Interrupts)?);
    let resources = Resources {
        vram: vram_region,
        doorbells: doorbell_region,
        system: system.clone(),
        interrupts: irqs.clone(),
    };
    let gpu = Gpu::new(config, resources)?;
    let mapped_doorbells = (doorbell == DoorbellMode::Polled).then_some(doorbell_file);
    let regions =
        Regions::new((vram_size, Some(vram_file)), (pci::DOORBELL_BAR_SIZE, mapped_doorbells), register_size);
    let regions = regions.with_rom(rom_size);
    let function = Arc::new(GpuFunction { gpu, vram, doorbells });
    Ok(Server::bind(path, function, regions, irqs, system)?)
}

/// Does the same for the GPUs of one machine, of which each has a socket, and reaches the VRAM of all others, by these links.
///
/// # Errors
///
/// As [`serve_gpu`]; more GPUs than reach each other.
pub fn serve_gpus<'a>(
    gpus: impl IntoIterator<Item = (&'a Path, GpuConfig)>,
    links: Links,
    doorbell: DoorbellMode,
) -> Result<Vec<Server<GpuFunction>>, SetupError> {
    let (paths, gpus): (Vec<_>, Vec<_>) = gpus.into_iter().unzip();
    let numbered = paths.into_iter().zip(GpuConfig::of_machine(links, gpus));
    let numbered = numbered.map(|(path, config)| serve_gpu(path, config, doorbell));
    let servers = numbered.collect::<Result<Vec<_>, _>>()?;
    Gpu::connect(&servers.iter().map(|server| &*server.function().gpu).collect::<Vec<_>>())?;
    Ok(servers)
}

/// Returns the values of QEMU's `-device` that make it use the servers on `sockets`: one GPU is on the root bus, and each of several below a
/// root port of its own, as on a real board.
#[must_use]
pub fn qemu_devices(sockets: &[impl AsRef<Path>]) -> Vec<String> {
    let device = |socket: &Path| {
        serde_json::json!({
            "driver": "vfio-user-pci",
            "socket": { "type": "unix", "path": socket.display().to_string() },
        })
    };
    if let [socket] = sockets {
        return vec![device(socket.as_ref()).to_string()];
    }
    let below_ports = (1..).zip(sockets).flat_map(|(slot, socket): (u32, _)| {
        let port = format!("gpu-port-{slot}");
        let mut device = device(socket.as_ref());
        device["bus"] = port.clone().into();
        // Nothing is plugged in later, so that firmware keeps no addresses free for that.
        let port = serde_json::json!({
            "driver": "pcie-root-port", "id": port, "chassis": slot, "slot": slot, "hotplug": false,
        });
        [port.to_string(), device.to_string()]
    });
    below_ports.collect()
}
