//! 64-bit ELF executables: Linux's `vmlinux`, and kernels of any other kind.

use std::io::Cursor;

use linux_loader::loader::elf::PvhBootCapability;
use linux_loader::loader::{Elf, KernelLoader as _};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use vm_memory::{Address as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

use super::file::Image;
use super::map::KERNEL_START;
use super::{COMMAND_LINE_LIMIT, Form, Kernel};
use crate::error::KernelError;

/// Notes larger than this hold no entry point.
const NOTES_LIMIT: u64 = 1 << 20;

/// Checks the file, and copies its segments to their addresses.
pub(super) fn load(memory: &GuestMemoryMmap, image: &Image) -> Result<Kernel, KernelError> {
    let segments = check(memory, image)?;
    let mut file = Cursor::new(&image.content);
    let loaded = Elf::load(memory, None, &mut file, Some(GuestAddress(KERNEL_START)))
        .map_err(|error| image.bad(error.to_string()))?;
    let form = match loaded.pvh_boot_cap {
        PvhBootCapability::PvhEntryPresent(entry) => {
            let at = entry.raw_value();
            let eip = u32::try_from(at).ok().filter(|_| segments.hold(at));
            let eip = eip.ok_or_else(|| image.bad("its PVH entry point is in none of its segments"))?;
            Form::Pvh { eip }
        }
        _ if segments.hold(loaded.kernel_load.raw_value()) => {
            Form::Long { rip: loaded.kernel_load.raw_value(), header: None }
        }
        _ => return Err(image.bad("its entry point is in none of its segments")),
    };
    Ok(Kernel {
        form,
        end: segments.end(),
        initramfs_max: u32::MAX.into(),
        command_line_max: COMMAND_LINE_LIMIT,
    })
}

/// First addresses of segments, and the addresses after their ends.
struct Segments(Vec<(u64, u64)>);

impl Segments {
    fn hold(&self, at: u64) -> bool {
        self.0.iter().any(|&(from, to)| (from..to).contains(&at))
    }

    fn end(&self) -> u64 {
        self.0.iter().map(|&(_, to)| to).max().unwrap_or(KERNEL_START)
    }
}

/// Checks the assumptions of the loader: the machine, and segments that do not overlap the tables below them.
fn check(memory: &GuestMemoryMmap, image: &Image) -> Result<Segments, KernelError> {
    let content = &*image.content;
    let header = object::elf::FileHeader64::<object::Endianness>::parse(content)
        .map_err(|_| image.bad("it is not a 64-bit ELF file"))?;
    let endian = header.endian().map_err(|_| image.bad("it is not a little-endian ELF file"))?;
    if header.e_machine(endian) != object::elf::EM_X86_64 || header.e_type(endian) != object::elf::ET_EXEC {
        return Err(image.bad("it is not an x86-64 executable with fixed addresses"));
    }
    let headers = header
        .program_headers(endian, content)
        .map_err(|_| image.bad("its program headers are cut short"))?;
    let mut segments = Vec::new();
    for segment in headers {
        let (at, size, bytes) = (segment.p_paddr(endian), segment.p_memsz(endian), segment.p_filesz(endian));
        match segment.p_type(endian) {
            object::elf::PT_LOAD => {}
            object::elf::PT_NOTE if bytes > NOTES_LIMIT => {
                return Err(image.bad(format!("it has {bytes} bytes of notes")));
            }
            _ => continue,
        }
        let from = segment.p_offset(endian);
        if from.checked_add(bytes).is_none_or(|end| end > content.len() as u64) {
            return Err(image.bad(format!("it is cut short: the segment at {at:#x} is not all there")));
        }
        if size < bytes {
            return Err(image.bad(format!("the segment at {at:#x} is smaller than its contents")));
        }
        if size == 0 {
            continue;
        }
        let end = at.checked_add(size).filter(|_| at >= KERNEL_START);
        let inside = |end: u64| memory.check_range(GuestAddress(at), size as usize) && end < 1 << 32;
        match end.filter(|&end| inside(end)) {
            Some(end) => segments.push((at, end)),
            None => {
                return Err(image.bad(format!(
                    "its segment of {size:#x} bytes at {at:#x} does not fit the guest's memory"
                )));
            }
        }
    }
    Ok(Segments(segments))
}
