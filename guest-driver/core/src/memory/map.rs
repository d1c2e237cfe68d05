//! Buffer objects in page tables.

use super::{Bo, BoKind};
use crate::asic::PageRights;
use crate::errno::{Errno, Result};
use crate::os::{Backing, BoPage, Os, PAGE_SIZE, SystemPages, UserPin};
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
            BoKind::Imported(memory) => self.map_backing(vm, memory.backing()),
            BoKind::Doorbell | BoKind::MmioRemap => Ok(()),
        }
    }

    /// Maps pages that may be of either kind, joining those that follow each other.
    fn map_backing(&self, vm: &mut Vm<O>, backing: &dyn Backing) -> Result<()> {
        let place = |index| match backing.page(index) {
            Some(BoPage::Vram(offset)) => Ok((false, offset)),
            Some(BoPage::System { bus, .. }) => Ok((true, bus)),
            None => Err(Errno::ENODEV),
        };
        let count = self.size / PAGE_SIZE;
        let mut first = 0;
        while first < count {
            let (system, start) = place(first)?;
            let mut end = first + 1;
            while end < count && place(end)? == (system, start + (end - first) * PAGE_SIZE) {
                end += 1;
            }
            let flags = vm.page_bits(PageRights { system, ..self.rights() });
            vm.map(self.va + first * PAGE_SIZE, start, (end - first) * PAGE_SIZE, flags)?;
            first = end;
        }
        Ok(())
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
