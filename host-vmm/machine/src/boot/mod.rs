//! Kernels in memory, their boot parameters, and the state in which they are entered.
//!
//! | form | parameters | entered in |
//! | --- | --- | --- |
//! | bzImage | zero page | long mode, 0x200 bytes after its start |
//! | ELF with a `XEN_ELFNOTE_PHYS32_ENTRY` note | `hvm_start_info` | 32-bit protected mode without paging |
//! | any other 64-bit ELF executable with fixed addresses | zero page | long mode, at its entry point |
//!
//! Linux `Documentation/arch/x86/boot.rst` (bzImage, zero page), Xen `docs/misc/pvh.pandoc` (PVH).

mod bzimage;
mod elf;
mod entry;
mod file;
#[cfg(test)]
pub(crate) mod handmade;
mod map;
mod start_info;
#[cfg(test)]
mod tests;
mod zero_page;

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

pub(super) use entry::{Entry, enter};
pub(super) use map::{ACPI, ACPI_SIZE};

use crate::config::{Config, Initramfs};

use crate::error::KernelError;

/// Address of the command line, with room for as many bytes as Linux takes.
const COMMAND_LINE: u64 = 0x2_0000;
/// Linux's `COMMAND_LINE_SIZE` on x86, without the byte that ends it.
const COMMAND_LINE_LIMIT: u32 = 2047;

/// A kernel in memory, and the limits for the parts that are placed beside it.
struct Kernel {
    form: Form,
    /// First address after everything that it needs before it knows its memory.
    end: u64,
    /// Last address that an initramfs may have.
    initramfs_max: u64,
    /// Bytes of a command line that it takes.
    command_line_max: u32,
}

enum Form {
    /// The zero page is in `rsi`; bzImages bring a header for it.
    Long { rip: u64, header: Option<Box<bzimage::SetupHeader>> },
    /// The start info is in `ebx`.
    Pvh { eip: u32 },
}

/// Address and size of a part in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    at: u64,
    size: u64,
}

/// Puts the kernel, its initramfs and its boot parameters into memory; returns its entry.
///
/// # Errors
///
/// Files that cannot be read or are of another kind than they should be, and memory without room for them.
pub(super) fn load(memory: &GuestMemoryMmap, config: &Config) -> Result<Entry, KernelError> {
    let image = file::Image::open(&config.kernel)?;
    let kernel = if image.is_elf() { elf::load(memory, &image) } else { bzimage::load(memory, &image) }?;
    let command_line = command_line(memory, &kernel, &config.command_line)?;
    let initramfs = match &config.initramfs {
        Some(initramfs) => place(memory, &kernel, initramfs)?,
        None => Placed::default(),
    };
    entry::tables(memory)?;
    Ok(match kernel.form {
        Form::Long { rip, header } => {
            let rsi = zero_page::write(memory, header.as_deref(), command_line, initramfs)?;
            Entry::Long { rip, rsi }
        }
        Form::Pvh { eip } => {
            let ebx = start_info::write(memory, command_line, initramfs)?;
            Entry::Protected { eip, ebx }
        }
    })
}

fn command_line(memory: &GuestMemoryMmap, kernel: &Kernel, text: &str) -> Result<Placed, KernelError> {
    let (length, limit) = (text.len(), kernel.command_line_max.min(COMMAND_LINE_LIMIT));
    if length > limit as usize {
        return Err(KernelError::CommandLineTooLong { length, limit });
    }
    if text.contains('\0') {
        return Err(KernelError::CommandLineZero);
    }
    let write = |data: &[u8], at| memory.write_slice(data, GuestAddress(at));
    write(text.as_bytes(), COMMAND_LINE)
        .and_then(|()| write(&[0], COMMAND_LINE + length as u64))
        .map_err(|_| KernelError::NoMemory)?;
    Ok(Placed { at: COMMAND_LINE, size: length as u64 })
}

/// Puts the initramfs as high as the kernel takes it, so that the kernel has room to grow.
fn place(memory: &GuestMemoryMmap, kernel: &Kernel, initramfs: &Initramfs) -> Result<Placed, KernelError> {
    let top = map::low_end(memory).min(kernel.initramfs_max.saturating_add(1)) & !0xfff;
    let room = top.saturating_sub(kernel.end.next_multiple_of(4096));
    let read;
    let content = match initramfs {
        Initramfs::Bytes(content) => content,
        Initramfs::File(path) => {
            read = file::read(path, room).map_err(|error| match error {
                file::ReadError::Io(source) => KernelError::ReadInitramfs { path: path.clone(), source },
                file::ReadError::TooLarge => KernelError::InitramfsTooLarge { room },
            })?;
            &read
        }
    };
    let size = content.len() as u64;
    if size > room {
        return Err(KernelError::InitramfsTooLarge { room });
    }
    let at = (top - size) & !0xfff;
    memory.write_slice(content, GuestAddress(at)).map_err(|_| KernelError::InitramfsTooLarge { room })?;
    Ok(Placed { at, size })
}
