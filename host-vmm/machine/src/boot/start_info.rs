//! `hvm_start_info`: the boot parameters of a kernel that is entered through its PVH note.
//!
//! Xen `xen/include/public/arch-x86/hvm/start_info.h`.

use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator as _, BootParams};
use linux_loader::loader::elf::start_info::{hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::{Placed, map};
use crate::error::KernelError;

const START_INFO: u64 = 0x6000;
const MODULES: u64 = 0x6100;
const MEMORY_MAP: u64 = 0x6200;
const MAGIC: u32 = 0x336e_c578;

/// Writes the structure and the data that it points to; returns its address.
pub(super) fn write(
    memory: &GuestMemoryMmap,
    command_line: Placed,
    initramfs: Placed,
) -> Result<u32, KernelError> {
    let ranges: Vec<_> = map::ranges(memory)
        .iter()
        .map(|range| hvm_memmap_table_entry {
            addr: range.at,
            size: range.size,
            type_: range.kind as u32,
            reserved: 0,
        })
        .collect();
    let modules: Vec<_> = (initramfs.size > 0)
        .then(|| hvm_modlist_entry { paddr: initramfs.at, size: initramfs.size, ..Default::default() })
        .into_iter()
        .collect();
    let info = hvm_start_info {
        magic: MAGIC,
        version: 1,
        nr_modules: modules.len() as u32,
        modlist_paddr: if modules.is_empty() { 0 } else { MODULES },
        cmdline_paddr: command_line.at,
        rsdp_paddr: map::ACPI,
        memmap_paddr: MEMORY_MAP,
        memmap_entries: ranges.len() as u32,
        ..Default::default()
    };
    let mut params = BootParams::new(&info, GuestAddress(START_INFO));
    params.set_sections(&ranges, GuestAddress(MEMORY_MAP));
    params.set_modules(&modules, GuestAddress(MODULES));
    PvhBootConfigurator::write_bootparams(&params, memory).map_err(|_| KernelError::NoMemory)?;
    Ok(START_INFO as u32)
}
