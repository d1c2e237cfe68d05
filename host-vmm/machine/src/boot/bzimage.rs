//! bzImage: the setup header is checked, the protected-mode part goes into memory.
//!
//! Linux `Documentation/arch/x86/boot.rst`, "The Real-Mode Kernel Header" and "64-bit Boot Protocol".

use std::io::Cursor;

use linux_loader::loader::bootparam::{XLF_KERNEL_64, setup_header};
use linux_loader::loader::{BzImage, KernelLoader as _};
use vm_memory::{ByteValued, GuestAddress, GuestMemoryMmap};

use super::file::Image;
use super::{Form, Kernel, map};
use crate::error::KernelError;

pub(super) type SetupHeader = setup_header;

/// Offset of the header in the file.
const HEADER: usize = 0x1f1;
/// `HdrS`.
const MAGIC: u32 = 0x5372_6448;
/// First version of the protocol that has `xloadflags`.
const VERSION_64: u16 = 0x020c;
const SECTOR: u64 = 512;
/// Offset of the 64-bit entry point from the start of the protected-mode part.
const ENTRY: u64 = 0x200;

/// Checks the header, and puts the kernel at the address that it asks for.
pub(super) fn load(memory: &GuestMemoryMmap, image: &Image) -> Result<Kernel, KernelError> {
    let header = header(image)?;
    let (at, init_size) = (header.pref_address, u64::from(header.init_size));
    let (from, room) = (map::KERNEL_START, map::low_end(memory));
    let end = at.checked_add(init_size).filter(|&end| from <= at && end <= room);
    let Some(end) = end else {
        return Err(KernelError::NoRoom { at, size: init_size, end: room });
    };
    BzImage::load(memory, Some(GuestAddress(at)), &mut Cursor::new(&image.content), None)
        .map_err(|error| image.bad(error.to_string()))?;
    Ok(Kernel {
        form: Form::Long { rip: at + ENTRY, header: Some(Box::new(header)) },
        end,
        initramfs_max: header.initrd_addr_max.into(),
        command_line_max: header.cmdline_size,
    })
}

fn header(image: &Image) -> Result<SetupHeader, KernelError> {
    let content = &image.content;
    let mut header = SetupHeader::default();
    let size = header.as_slice().len();
    let Some(bytes) = content.get(HEADER..HEADER + size) else {
        return Err(image.bad("it is neither an ELF file nor a bzImage"));
    };
    header.as_mut_slice().copy_from_slice(bytes);
    if header.header != MAGIC || header.boot_flag != 0xaa55 {
        return Err(image.bad("it is neither an ELF file nor a bzImage"));
    }
    let version = header.version;
    if version < VERSION_64 || header.xloadflags & XLF_KERNEL_64 == 0 {
        let (major, minor) = (version >> 8, version & 0xff);
        let text = format!(
            "it has no 64-bit entry point (boot protocol {major}.{minor:02}); kernels have one from Linux 3.8 on, \
             if built for x86-64"
        );
        return Err(image.bad(text));
    }
    if header.loadflags & 1 == 0 {
        return Err(image.bad("it is a zImage, to be loaded below 1 MiB"));
    }
    let sectors = match header.setup_sects {
        0 => 4,
        sectors => u64::from(sectors),
    };
    let whole = (sectors + 1) * SECTOR + u64::from(header.syssize) * 16;
    if whole > content.len() as u64 {
        let text = format!("it is cut short: {} of {whole} bytes are there", content.len());
        return Err(image.bad(text));
    }
    let code = content.len() as u64 - (sectors + 1) * SECTOR;
    if u64::from(header.init_size) < code {
        return Err(image.bad("it needs less memory than it has bytes"));
    }
    Ok(header)
}
