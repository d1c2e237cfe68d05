//! A GPU: where memory, signals, queues and loaded code come from.

use std::fmt;
use std::sync::Arc;

use belfry_abi::kfd::aperture::ProcessDeviceApertures;
use belfry_abi::kfd::misc::GetClockCountersArgs;

use crate::code_object::{CodeObject, unbundle};
use crate::copy_queue::CopyQueue;
use crate::error::Error;
use crate::kernel::{Kernel, Module};
use crate::memory::{MemoryKind, Pool};
use crate::opened::GpuInner;
use crate::process::Process;
use crate::queue::{Queue, QueueError, QueueOptions, icache};
use crate::signal::Signal;
use crate::topology::Agent;

/// A GPU this process has opened; clones refer to the same one.
#[derive(Clone)]
pub struct Gpu {
    pub(crate) inner: Arc<GpuInner>,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gpu").field(&self.inner.agent.gfx_name()).finish()
    }
}

impl Gpu {
    pub(crate) fn new(
        process: &Arc<Process>,
        agent: Agent,
        apertures: ProcessDeviceApertures,
    ) -> Result<Self, Error> {
        let code = icache::make(&process.kfd, &agent)?;
        Ok(Self { inner: Arc::new(GpuInner::new(process, agent, apertures, code)) })
    }

    /// Properties of the GPU in the topology.
    pub fn agent(&self) -> &Agent {
        &self.inner.agent
    }

    fn pool(&self, kind: MemoryKind) -> Pool {
        Pool { kfd: Arc::clone(&self.inner.process.kfd), gpus: vec![self.inner.agent.gpu_id], kind }
    }

    /// The GPU's own memory.
    pub fn vram(&self) -> Pool {
        self.pool(MemoryKind::Vram)
    }

    /// The GPU's own memory, mapped for other GPUs of the process as well.
    pub fn vram_for(&self, others: &[Gpu]) -> Pool {
        let mut pool = self.vram();
        let ids = others.iter().map(|gpu| gpu.inner.agent.gpu_id);
        pool.gpus.extend(ids.filter(|id| *id != self.inner.agent.gpu_id));
        pool
    }

    /// System memory, coherent between processor and GPU while kernels run.
    pub fn gtt(&self) -> Pool {
        self.pool(MemoryKind::Gtt)
    }

    /// This process's own pages, pinned for the GPU.
    pub fn userptr(&self) -> Pool {
        self.pool(MemoryKind::UserPtr)
    }

    /// Every pool.
    pub fn pools(&self) -> [Pool; 3] {
        [self.vram(), self.gtt(), self.userptr()]
    }

    /// A new signal.
    ///
    /// # Errors
    ///
    /// When memory for it runs out.
    pub fn signal(&self, value: i64) -> Result<Signal, Error> {
        Ok(Signal::new(&self.inner.process, value)?)
    }

    /// A user-mode queue with default options.
    ///
    /// # Errors
    ///
    /// As [`queue_with`](Self::queue_with).
    pub fn queue(&self) -> Result<Queue, QueueError> {
        self.queue_with(&QueueOptions::default())
    }

    /// A user-mode queue.
    ///
    /// # Errors
    ///
    /// [`QueueError`] for options out of range, and when the driver refuses.
    pub fn queue_with(&self, options: &QueueOptions) -> Result<Queue, QueueError> {
        Queue::new(&self.inner, options)
    }

    /// A queue of the SDMA engine with the fewest queues.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`]: `ENOMEM` when all are taken.
    pub fn copy_queue(&self) -> Result<CopyQueue, QueueError> {
        CopyQueue::new(&self.inner, None)
    }

    /// A queue of the SDMA engine of this number.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`]: `EINVAL` for an engine that there is not, `ENOMEM` when all its queues are taken.
    pub fn copy_queue_on(&self, engine: u32) -> Result<CopyQueue, QueueError> {
        CopyQueue::new(&self.inner, Some(engine))
    }

    /// Parses a code object, checks that it is for this GPU, and places it in memory.
    ///
    /// # Errors
    ///
    /// [`Error::CodeObject`] for a bad or foreign file, [`Error::Memory`] when there is no room.
    pub fn load(&self, bytes: &[u8]) -> Result<Module, Error> {
        let object = CodeObject::parse(bytes)?;
        Module::load(&self.inner, object)
    }

    /// Loads the code object that has a kernel, from a file as [`unbundle`] takes it: a code object, an offload bundle or a
    /// HIP program.
    ///
    /// # Errors
    ///
    /// As for [`Gpu::load`]; where no code object for this GPU has the kernel, the error lists those that there are.
    pub fn load_with_kernel(&self, file: &[u8], kernel: &str) -> Result<Module, Error> {
        let objects = unbundle(file, Some(&self.inner.agent.gfx_name()))?;
        Module::load(&self.inner, CodeObject::with_kernel(&objects, kernel)?)
    }

    /// Bytes of VRAM that are free.
    ///
    /// # Errors
    ///
    /// When the driver refuses.
    pub fn available_memory(&self) -> Result<u64, Error> {
        Ok(self.inner.process.kfd.available_memory(self.inner.agent.gpu_id)?)
    }

    /// The GPU's clock and the system's, read together.
    ///
    /// # Errors
    ///
    /// When the driver refuses.
    pub fn clocks(&self) -> Result<GetClockCountersArgs, Error> {
        Ok(self.inner.process.kfd.clock_counters(self.inner.agent.gpu_id)?)
    }

    /// Makes the code of a kernel the trap handler of queues created from now on; the handler finds `memory` as TMA.
    ///
    /// The handler's module and memory must be kept for as long as such queues are.
    ///
    /// # Errors
    ///
    /// When the driver refuses.
    pub fn set_trap_handler(&self, handler: &Kernel, memory: u64) -> Result<(), Error> {
        Ok(self.inner.process.kfd.set_trap_handler(self.inner.agent.gpu_id, handler.entry(), memory)?)
    }

    /// Places of the LDS and scratch apertures.
    pub fn apertures(&self) -> &ProcessDeviceApertures {
        &self.inner.apertures
    }
}
