//! Contents of files of sysfs and debugfs, for the C files of the shim.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::Write as _;

use belfry_kfd_core::card::FILES;
use belfry_kfd_core::errno::{Errno, Result};

use crate::entry::{Gpu, KfdProcess, length, status};

/// Copies `from` to a buffer of the caller and returns its length, or `-ERANGE` when it does not fit.
///
/// # Safety
///
/// `text` is valid for `text_len` bytes.
unsafe fn copy_text(from: Result<&[u8]>, text: *mut u8, text_len: usize) -> isize {
    match from {
        Ok(from) if from.len() <= text_len => {
            // SAFETY: the source is a slice, the destination large enough, and they are different memory.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), text, from.len()) };
            from.len() as isize
        }
        Ok(_) => -(Errno::ERANGE.raw() as isize),
        Err(error) => -(error.raw() as isize),
    }
}

/// Borrows a path of the caller.
///
/// # Safety
///
/// `path` is valid for `path_len` bytes during `'a`.
unsafe fn path_of<'a>(path: *const u8, path_len: usize) -> Result<&'a str> {
    // SAFETY: as promised by the caller.
    core::str::from_utf8(unsafe { core::slice::from_raw_parts(path, path_len) }).map_err(|_| Errno::ENOENT)
}

/// Tells the id that the driver knows a process by.
///
/// # Safety
///
/// `process` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_process_id(process: *const KfdProcess) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { &*process }.id().into()
}

/// Writes the text of a topology file and returns its length.
///
/// # Safety
///
/// `gpu` is valid, `path` for `path_len` bytes and `text` for `text_len`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_sysfs_read(
    gpu: *const Gpu,
    path: *const u8,
    path_len: usize,
    text: *mut u8,
    text_len: usize,
) -> isize {
    // SAFETY: as promised by the caller.
    let (gpu, path) = unsafe { (&*gpu, path_of(path, path_len)) };
    let content = path.and_then(|path| gpu.sysfs_read(path));
    let bytes = content.as_ref().map(|content| content.as_bytes()).map_err(|error| *error);
    // SAFETY: as promised by the caller.
    unsafe { copy_text(bytes, text, text_len) }
}

/// Writes the entries of a topology directory, one per line, writable ones with a `=`, and returns the length of the
/// text.
///
/// # Safety
///
/// `gpu` is valid, `path` for `path_len` bytes and `text` for `text_len`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_sysfs_list(
    gpu: *const Gpu,
    path: *const u8,
    path_len: usize,
    text: *mut u8,
    text_len: usize,
) -> isize {
    // SAFETY: as promised by the caller.
    let (gpu, path) = unsafe { (&*gpu, path_of(path, path_len)) };
    let content = path.and_then(|path| {
        let mut lines = String::new();
        for name in gpu.sysfs_list(path)? {
            let writable = gpu.sysfs_is_writable(&format!("{path}/{name}"));
            lines += &name;
            lines += if writable { "=\n" } else { "\n" };
        }
        Ok(lines)
    });
    let bytes = content.as_ref().map(|content| content.as_bytes()).map_err(|error| *error);
    // SAFETY: as promised by the caller.
    unsafe { copy_text(bytes, text, text_len) }
}

/// Writes the content of a file of the card and returns its length.
///
/// # Safety
///
/// `gpu` is valid, `path` for `path_len` bytes and `text` for `text_len`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_card_read(
    gpu: *const Gpu,
    path: *const u8,
    path_len: usize,
    text: *mut u8,
    text_len: usize,
) -> isize {
    // SAFETY: as promised by the caller.
    let (gpu, path) = unsafe { (&*gpu, path_of(path, path_len)) };
    let content = path.and_then(|path| gpu.card_read(path));
    // SAFETY: as promised by the caller.
    unsafe { copy_text(content.as_deref().map_err(|error| *error), text, text_len) }
}

/// Writes the resources that processes hold of the device, and returns the length of the text.
///
/// # Safety
///
/// `gpu` is valid, and `text` for `text_len` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_usage(gpu: *const Gpu, text: *mut u8, text_len: usize) -> isize {
    // SAFETY: as promised by the caller.
    let usage = unsafe { &*gpu }.usage().to_string();
    // SAFETY: as promised by the caller.
    unsafe { copy_text(Ok(usage.as_bytes()), text, text_len) }
}

/// Writes to a file of the card.
///
/// # Safety
///
/// `gpu` is valid, `path` for `path_len` bytes and `text` for `text_len`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_card_write(
    gpu: *const Gpu,
    path: *const u8,
    path_len: usize,
    text: *const u8,
    text_len: usize,
) -> i32 {
    // SAFETY: as promised by the caller.
    let (gpu, path, text) =
        unsafe { (&*gpu, path_of(path, path_len), core::slice::from_raw_parts(text, text_len)) };
    status(path.and_then(|path| gpu.card_write(path, text)))
}

/// Writes mode and path of each file that the card has, one per line, and returns the length of it.
///
/// # Safety
///
/// `gpu` is valid, and `text` for `text_len` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_card_list(gpu: *const Gpu, text: *mut u8, text_len: usize) -> isize {
    // SAFETY: as promised by the caller.
    let card = unsafe { &*gpu }.card();
    let mut lines = String::new();
    // The monitor's class makes its name.
    for file in FILES.iter().filter(|file| file.path != "hwmon/name" && file.is_of(&card)) {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{:o} {}", file.mode(), file.path);
    }
    // SAFETY: as promised by the caller.
    unsafe { copy_text(Ok(lines.as_bytes()), text, text_len) }
}

/// Records the driver's events from now on, with room for `room` of them; 0 ends that. Returns 0 or a negative errno.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_trace_records(gpu: *const Gpu, room: u32) -> i32 {
    // SAFETY: as promised by the caller.
    status(unsafe { &*gpu }.trace_records(room))
}

/// Writes the oldest of these events as a chunk; returns its length, which may be 0, or a negative errno.
///
/// # Safety
///
/// `gpu` is valid, and `chunk` for `len` bytes that hold values.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_trace_read(
    gpu: *const Gpu,
    chunk: *mut u8,
    len: usize,
    always: bool,
) -> isize {
    // SAFETY: as promised by the caller.
    let (gpu, chunk) = unsafe { (&*gpu, core::slice::from_raw_parts_mut(chunk, len)) };
    length(gpu.trace_read(chunk, always))
}
