//! Memory that a file of the render node has handles of, until the last handle or its device goes.

use alloc::sync::Arc;

use super::Client;
use crate::hw::log;
use crate::object::Object;
use crate::os::{Backing, Os};

/// Time that the last handle of memory waits for the work of its file, as long as amdgpu waits for a ring.
const CLOSE_NS: u64 = 10_000_000_000;

impl<O: Os> Client<O> {
    /// A handle of memory is made (`amdgpu_gem_object_open`).
    pub fn handle_opened(&self, backing: &Arc<dyn Backing>) {
        self.space().lock().open_handle(backing);
    }

    /// A handle of memory is given back: with the last one, what GEM_VA has mapped of it is unmapped
    /// (`amdgpu_gem_object_close`), after the work that may use it.
    pub fn handle_closed(&self, backing: &Arc<dyn Backing>) {
        if !self.space().lock().close_handle(backing) {
            return;
        }
        // Work that does not end in time has a fault.
        let _ = self.wait_idle(Some(CLOSE_NS));
        match self.space().forget(backing) {
            Ok(unmapped) => drop(unmapped),
            // The address space keeps it.
            Err(error) => log!(self.device().hw, Warn, "memory of a closed handle stays mapped ({error})"),
        }
    }

    /// Memory of another device is gone: where the file has it mapped, the file's work ends, and no page table leads there any more.
    pub(crate) fn lose_memory_of(&self, device: u32) {
        let is_lost = |backing: &Arc<dyn Backing>| {
            Object::<O>::of(&**backing).is_some_and(|object| object.device() == device)
        };
        if !self.space().maps(is_lost) {
            return;
        }
        self.stop();
        match self.space().forget_those(is_lost) {
            Ok(unmapped) => drop(unmapped),
            Err(error) => {
                log!(self.device().hw, Error, "memory of a device that is gone stays mapped ({error})");
                // Page tables and memory are never given back.
                core::mem::forget(self.space().clone());
            }
        }
    }
}
