//! Loaded code and its kernels.

pub mod launch;

use std::any::Any;
use std::sync::Arc;

use belfry_abi::kernel_descriptor::KernelDescriptor;

use crate::code_object::{CodeObject, CodeObjectError, KernelInfo};
use crate::error::Error;
use crate::memory::{Allocation, HostAccess, MemoryKind};
use crate::opened::GpuInner;
use crate::queue::Queue;

use launch::Launch;

/// A code object in the GPU's memory.
#[derive(Debug, Clone)]
pub struct Module {
    inner: Arc<ModuleInner>,
}

#[derive(Debug)]
struct ModuleInner {
    gpu: Arc<GpuInner>,
    object: CodeObject,
    code: Arc<Allocation>,
}

impl Module {
    pub(crate) fn load(gpu: &Arc<GpuInner>, object: CodeObject) -> Result<Self, Error> {
        object.check_target(&gpu.agent.gfx_name())?;
        let (kfd, gpus) = (&gpu.process.kfd, [gpu.agent.gpu_id]);
        let code = Allocation::new(kfd, &gpus, MemoryKind::Vram, HostAccess::ReadWrite, object.image_size())?;
        let image = object.relocated(code.address())?;
        code.write_bytes(0, &image);
        gpu.code_uploaded();
        Ok(Self { inner: Arc::new(ModuleInner { gpu: Arc::clone(gpu), object, code: Arc::new(code) }) })
    }

    /// The kernels, in the order of the code object.
    pub fn kernels(&self) -> &[KernelInfo] {
        self.inner.object.kernels()
    }

    /// A kernel by name.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError::NoSuchKernel`], which lists the kernels there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel, CodeObjectError> {
        let info = self.inner.object.kernel(name)?.clone();
        let object = self.inner.code.address() + info.descriptor;
        Ok(Kernel { module: self.clone(), info, object })
    }
}

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub struct Kernel {
    module: Module,
    info: KernelInfo,
    object: u64,
}

impl Kernel {
    /// Metadata of the kernel.
    pub fn info(&self) -> &KernelInfo {
        &self.info
    }

    /// Starts a launch on a queue: set grid, block and arguments, then run it.
    pub fn launch<'a>(&'a self, queue: &'a Queue) -> Launch<'a> {
        Launch::new(self, queue)
    }

    /// Address of the kernel descriptor.
    pub(crate) fn object(&self) -> u64 {
        self.object
    }

    /// Address of the first instruction, as the kernel descriptor has it.
    pub(crate) fn entry(&self) -> u64 {
        const ENTRY: usize = core::mem::offset_of!(KernelDescriptor, kernel_code_entry_byte_offset);
        let mut offset = [0; 8];
        self.module.inner.code.read_bytes(self.info.descriptor as usize + ENTRY, &mut offset);
        self.object.wrapping_add_signed(i64::from_le_bytes(offset))
    }

    pub(crate) fn gpu(&self) -> &Arc<GpuInner> {
        &self.module.inner.gpu
    }

    pub(crate) fn code(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.module.inner.code) as _
    }
}
