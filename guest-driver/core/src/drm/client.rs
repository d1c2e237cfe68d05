//! An open file of the render node (`struct amdgpu_fpriv`).

use alloc::sync::Arc;
use core::fmt;

use crate::device::Device;
use crate::errno::Result;
use crate::hw::log;
use crate::os::{Backing, Os};
use crate::space::Space;

/// What a file of the render node has on the GPU.
pub struct Client<O: Os> {
    device: Arc<Device<O>>,
    id: u64,
    space: Arc<Space<O>>,
}

impl<O: Os> fmt::Debug for Client<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("space", &self.space).finish_non_exhaustive()
    }
}

impl<O: Os> Client<O> {
    pub(crate) fn new(device: &Arc<Device<O>>, id: u64) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { device: device.clone(), id, space: Space::new(device)? }))
    }

    /// Returns the identity of its file ([`DrmFile::id`](crate::os::DrmFile::id)).
    pub fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn device(&self) -> &Arc<Device<O>> {
        &self.device
    }

    pub(crate) fn space(&self) -> &Arc<Space<O>> {
        &self.space
    }

    /// A handle of memory is made (`amdgpu_gem_object_open`).
    pub fn handle_opened(&self, backing: &Arc<dyn Backing>) {
        self.space.lock().open_handle(backing);
    }

    /// A handle of memory is given back: with the last one, what GEM_VA has mapped of it is unmapped
    /// (`amdgpu_gem_object_close`).
    pub fn handle_closed(&self, backing: &Arc<dyn Backing>) {
        if !self.space.lock().close_handle(backing) {
            return;
        }
        match self.space.forget(backing) {
            Ok(unmapped) => drop(unmapped),
            // The address space keeps it.
            Err(error) => log!(self.device.hw, Warn, "memory of a closed handle stays mapped ({error})"),
        }
    }

    /// The file is closed.
    pub(crate) fn close(&self) {
        if self.space.clear_files().is_err() {
            log!(self.device.hw, Error, "memory is left to a device that does not answer");
            // Page tables and memory are never given back.
            core::mem::forget(self.space.clone());
        }
    }
}
