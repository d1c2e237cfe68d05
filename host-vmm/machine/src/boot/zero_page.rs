//! The zero page, `struct boot_params`: the boot parameters of Linux if it is entered in long mode.

use linux_loader::loader::bootparam::{boot_e820_entry, boot_params};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::bzimage::SetupHeader;
use super::{Placed, map};
use crate::error::KernelError;

const ZERO_PAGE: u64 = 0x7000;
/// Number for a loader without a number of its own.
const LOADER: u8 = 0xff;

/// Writes the page; returns its address.
pub(super) fn write(
    memory: &GuestMemoryMmap,
    header: Option<&SetupHeader>,
    command_line: Placed,
    initramfs: Placed,
) -> Result<u64, KernelError> {
    let mut page = boot_params::default();
    match header {
        Some(header) => page.hdr = *header,
        None => {
            page.hdr.boot_flag = 0xaa55;
            page.hdr.header = 0x5372_6448;
            page.hdr.kernel_alignment = 1 << 24;
        }
    }
    page.hdr.type_of_loader = LOADER;
    // Everything is below 4 GiB.
    page.hdr.cmd_line_ptr = command_line.at as u32;
    page.hdr.ramdisk_image = initramfs.at as u32;
    page.hdr.ramdisk_size = initramfs.size as u32;
    page.acpi_rsdp_addr = map::ACPI;
    let ranges = map::ranges(memory);
    let mut table = page.e820_table;
    for (entry, range) in table.iter_mut().zip(&ranges) {
        *entry = boot_e820_entry { addr: range.at, size: range.size, r#type: range.kind as u32 };
    }
    page.e820_table = table;
    page.e820_entries = ranges.len() as u8;
    memory.write_obj(page, GuestAddress(ZERO_PAGE)).map_err(|_| KernelError::NoMemory)?;
    Ok(ZERO_PAGE)
}
