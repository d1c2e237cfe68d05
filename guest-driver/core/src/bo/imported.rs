//! Memory of a DMA-buf behind a buffer object.

use alloc::sync::Arc;

use crate::object::Object;
use crate::os::{Backing, BoPage, Os};
use crate::vram::VramMemory;

/// Memory of a DMA-buf behind a buffer object.
pub(crate) struct Imported<O: Os> {
    pub(crate) dmabuf: Arc<O::DmaBuf>,
    pub(crate) backing: Arc<dyn Backing>,
}

impl<O: Os> Imported<O> {
    pub(super) fn backing(&self) -> &dyn Backing {
        &*self.backing
    }

    /// The VRAM that it is, of whichever device of the machine; `None` for system memory, and for memory of another process's driver.
    pub(super) fn vram(&self) -> Option<&VramMemory<O>> {
        Object::<O>::of(&*self.backing)?.vram()
    }

    /// The bus address of page `page`, if it is in system memory.
    pub(super) fn bus(&self, page: usize) -> Option<u64> {
        match self.backing.page(page as u64) {
            Some(BoPage::System { bus, .. }) => Some(bus),
            _ => None,
        }
    }
}
