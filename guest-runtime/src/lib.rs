//! The user side: agents, memory, signals, queues, code objects and launches over KFD.
//!
//! A program opens a [`Runtime`], takes a [`Gpu`] from it, and gets everything else from there: [`Buffer`]s from its
//! memory pools, [`Signal`]s, [`Queue`]s, and [`Module`]s of compiled code whose [`Kernel`]s it launches.
//! No call into the kernel driver lies between a launch and the GPU: the packet is written to a ring in memory, and
//! a store to the doorbell tells the GPU to look.
//!
//! ```no_run
//! # fn main() -> Result<(), belfry_runtime::Error> {
//! # let code: &[u8] = &[];
//! use belfry_runtime::Runtime;
//!
//! let runtime = Runtime::open()?;
//! let gpu = runtime.gpu();
//! let a = gpu.vram().buffer_from(&[1.0f32; 4096])?;
//! let b = gpu.vram().buffer_from(&[2.0f32; 4096])?;
//! let sum = gpu.vram().buffer::<f32>(4096)?;
//!
//! let queue = gpu.queue()?;
//! let kernel = gpu.load(code)?.kernel("vecadd")?;
//! kernel.launch(&queue).grid(4096).block(256).args((&a, &b, &sum, 4096u32)).run()?;
//! assert_eq!(sum.to_vec(), [3.0; 4096]);
//! # Ok(())
//! # }
//! ```
//!
//! The layers, bottom up: [`transport`] reaches a driver, `kfd` has one method per ioctl, [`memory`], [`signal`] and
//! [`queue`] are made of those, [`code_object`] reads files, and [`launch`] puts them together.

pub mod code_object;
pub mod copy_queue;
mod doorbell;
mod error;
mod generation;
mod gpu;
pub mod kernarg;
pub mod kernel;
mod kfd;
mod launch_error;
pub mod memory;
mod opened;
mod process;
pub mod queue;
mod reservation;
pub mod signal;
pub mod topology;
pub mod transport;

use std::sync::Arc;
use std::time::Duration;

pub use copy_queue::CopyQueue;
pub use error::Error;
pub use gpu::Gpu;
pub use kernarg::{KernelArg, Scalar};
pub use kernel::launch::{self, Launch};
pub use kernel::{Kernel, Module};
pub use kfd::KfdError;
pub use memory::{Buffer, MemoryKind, Pool};
pub use process::MemoryFault;
pub use queue::{Completion, Queue, QueueOptions};
pub use signal::{Condition, Signal};
pub use topology::Agent;

use kfd::Kfd;
use process::Process;
use transport::{LinuxTransport, Transport};

/// An open connection to the driver, and the agents it offers.
///
/// The kernel keeps one compute context per process: open one runtime and share it.
#[derive(Debug)]
pub struct Runtime {
    agents: Vec<Agent>,
    gpus: Vec<Gpu>,
    version: (u32, u32),
}

impl Runtime {
    /// Opens `/dev/kfd` and its GPUs.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] without a driver, [`Error::NoGpu`] without a GPU, and [`Error::Driver`] if the driver refuses a
    /// request.
    pub fn open() -> Result<Self, Error> {
        Self::with_transport(LinuxTransport::open()?)
    }

    /// Opens the driver that a transport reaches.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_transport(transport: impl Transport + 'static) -> Result<Self, Error> {
        let kfd = Kfd::new(Box::new(transport))?;
        let version = kfd.version();
        let agents = topology::read(kfd.transport())?;
        let apertures = kfd.apertures(agents.len())?;
        let mut found = Vec::new();
        let mut refused = None;
        for agent in agents.iter().filter(|agent| agent.is_gpu()) {
            let Some(apertures) = apertures.iter().find(|entry| entry.gpu_id == agent.gpu_id) else {
                continue;
            };
            // A GPU whose render node this transport has not opened is not usable, the others are.
            match kfd.acquire_vm(agent.gpu_id) {
                Ok(()) => found.push((agent.clone(), *apertures)),
                Err(error) => refused = Some(error),
            }
        }
        if found.is_empty() {
            return Err(refused.map_or(Error::NoGpu, Error::Driver));
        }
        let ids = found.iter().map(|(agent, _)| agent.gpu_id).collect();
        let process = Arc::new(Process::new(Arc::new(kfd), ids)?);
        let gpus = found
            .into_iter()
            .map(|(agent, apertures)| Gpu::new(&process, agent, apertures))
            .collect::<Result<_, _>>()?;
        Ok(Self { agents, gpus, version })
    }

    /// Every node of the system, processors included.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// The GPUs; there is at least one.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The first GPU.
    pub fn gpu(&self) -> &Gpu {
        // PANIC: a runtime without a GPU does not open.
        &self.gpus[0]
    }

    /// Limits waits that are given no time of their own: each ends in a time-out after `limit`. For a GPU that may not
    /// answer. The first limit counts.
    pub fn limit_waits(&self, limit: Duration) {
        self.gpu().inner.process.limit_waits(limit);
    }

    /// Version of the driver's interface, major and minor.
    pub fn driver_version(&self) -> (u32, u32) {
        self.version
    }
}
