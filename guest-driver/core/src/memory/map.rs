//! Buffer objects in page tables.

use super::{Bo, BoKind};
use crate::errno::Result;
use crate::os::{Os, PAGE_SIZE, SystemPages, UserPin};
use crate::space::map_backing;
use crate::vm::Vm;

impl<O: Os> Bo<O> {
    /// Writes the page tables.
    pub(super) fn map_into(&self, vm: &mut Vm<O>) -> Result<()> {
        let flags = vm.page_bits(self.rights());
        match &self.kind {
            BoKind::Vram(memory) => {
                let mut va = self.va;
                for extent in memory.extents() {
                    vm.map(va, extent.offset, extent.len, flags)?;
                    va += extent.len;
                }
                Ok(())
            }
            BoKind::System(memory) => {
                map_pages(vm, self.va, memory.pages.count(), |page| memory.pages.bus(page), flags)
            }
            BoKind::User(memory) => {
                map_pages(vm, self.va, memory.pin.count(), |page| memory.pin.bus(page), flags)
            }
            BoKind::Imported(memory) => {
                map_backing(vm, self.va, memory.backing(), 0..self.size, self.rights())
            }
            BoKind::Doorbell | BoKind::MmioRemap => Ok(()),
        }
    }
}

/// Maps pages, joining those that follow each other on the bus.
fn map_pages<O: Os>(
    vm: &mut Vm<O>,
    va: u64,
    count: usize,
    bus: impl Fn(usize) -> u64,
    flags: u64,
) -> Result<()> {
    let mut first = 0;
    while first < count {
        let start = bus(first);
        let mut end = first + 1;
        while end < count && bus(end) == start + (end - first) as u64 * PAGE_SIZE {
            end += 1;
        }
        vm.map(va + first as u64 * PAGE_SIZE, start, (end - first) as u64 * PAGE_SIZE, flags)?;
        first = end;
    }
    Ok(())
}
