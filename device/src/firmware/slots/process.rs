//! Processes as the scheduler knows them: page tables, PASID, and the VMID that they hold while they run.

use std::sync::Arc;

use super::new::{NewProcess, Shape};
use crate::chip::Generation;
use crate::queue::Partition;
use crate::vm::{AddressSpace, ShaderMemory, Tables};

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Graphics cores that its queues are for.
    pub(super) partition: Partition,
    pub(super) pasid: u16,
    /// `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(super) base: u64,
    /// The rest of its context; `None` if registers have it.
    pub(super) shape: Option<Shape>,
    /// Its apertures; `None` if registers have them.
    pub(super) shader: Option<ShaderMemory>,
    /// VMID that it holds.
    pub(super) vmid: Option<u8>,
    /// Its address space, once it has had a VMID, or needs a space before that.
    pub(super) space: Option<Arc<AddressSpace>>,
    /// Number of queues added and not removed.
    pub(super) queues: u32,
}

impl Process {
    pub(super) fn new(new: &NewProcess, partition: Partition) -> Self {
        let NewProcess { pasid, base, shape, shader, .. } = *new;
        Self { partition, pasid, base, shape, shader, vmid: None, space: None, queues: 0 }
    }

    /// Has its waves wait for pages, if its registers say so.
    pub(super) fn set_waiting(&self, chip: &Generation) {
        let disable = chip.shader.retry_disable;
        if let (Some(space), Some(shader)) = (&self.space, self.shader) {
            space.set_waiting(disable != 0 && shader.config & disable == 0);
        }
    }

    /// Returns true if a driver's new process is this one.
    pub(super) fn agrees(&self, new: &NewProcess) -> bool {
        self.pasid == new.pasid && self.base == new.base
    }

    /// Returns its page tables, in a context that has these registers.
    pub(super) fn tables(&self, context: Tables) -> Tables {
        match self.shape {
            Some(Shape { cntl, range: (start, end) }) => Tables { cntl, base: self.base, start, end },
            None => Tables { base: self.base, ..context },
        }
    }
}
