//! Buffer objects in page tables: those of each node that they are mapped for.

use super::{Bo, BoKind};
use crate::asic::PageRights;
use crate::errno::Result;
use crate::os::{Os, PAGE_SIZE, SystemPages, UserPin};
use crate::process_device::ProcessDevices;
use crate::space::map_backing;
use crate::vm::Vm;
use crate::vram::VramMemory;

impl<O: Os> Bo<O> {
    /// Clears the page tables of all nodes that it is mapped for.
    ///
    /// # Errors
    ///
    /// `ETIME` when the device does not answer; all of them are cleared.
    pub(crate) fn unmap_everywhere(&self, devices: &ProcessDevices<O>) -> Result<()> {
        let mut result = Ok(());
        for (space, _) in devices.each().filter(|(_, nodes)| self.mapped_on & nodes != 0) {
            let mut tables = space.lock();
            self.unmap_from(&mut tables);
            result = result.and(space.flush(&mut tables));
        }
        result
    }

    /// Writes the page tables of all nodes that it is mapped for, which have nothing there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; a part may be mapped then.
    pub(crate) fn map_everywhere(&self, devices: &ProcessDevices<O>) -> Result<()> {
        let mut each = devices.each().filter(|(_, nodes)| self.mapped_on & nodes != 0);
        each.try_for_each(|(space, _)| self.map_into(&mut space.lock().vm))
    }
}

impl<O: Os> Bo<O> {
    /// Writes the page tables; memory that is lost stays out of them.
    pub(crate) fn map_into(&self, vm: &mut Vm<O>) -> Result<()> {
        if self.lost {
            return Ok(());
        }
        let flags = vm.page_bits(self.rights());
        match &self.kind {
            BoKind::Vram(memory) => self.map_vram(vm, memory),
            BoKind::System(memory) => {
                map_pages(vm, self.va, memory.pages().count(), |page| memory.pages().bus(page), flags)
            }
            BoKind::User(memory) => {
                map_pages(vm, self.va, memory.pin.count(), |page| memory.pin.bus(page), flags)
            }
            BoKind::Imported(memory) => match memory.vram() {
                Some(memory) => self.map_vram(vm, memory),
                None => map_backing(vm, self.va, memory.backing(), 0..self.size, self.rights()),
            },
            // Pages that follow each other on the bus (`kfd_mem_attach`).
            BoKind::Doorbell(bus) | BoKind::MmioRemap(bus) => vm.map(self.va, *bus, self.size, flags),
        }
    }

    /// Maps VRAM of any device of the machine.
    fn map_vram(&self, vm: &mut Vm<O>, memory: &VramMemory<O>) -> Result<()> {
        let mut va = self.va;
        for extent in memory.extents() {
            let (at, system) = vm.place_of(memory.hw(), extent.offset);
            let flags = vm.page_bits(PageRights { system, ..self.rights() });
            vm.map(va, at, extent.len, flags)?;
            va += extent.len;
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
