//! Tells from the file of a program that is about to be started if the program will find the GPU.
//!
//! Little of the stack is used, as a caller that starts a program may have a few kilobytes of it.

#![expect(unsafe_code, reason = "takes C strings, and makes system calls")]

use std::ffi::{CStr, c_char, c_int};

use crate::identity::{raw_close, raw_open};
use crate::inside::is_inside;
use crate::notice;
use crate::real::PATH_MAX;
use crate::settings::settings;

/// `elf.h`.
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
/// `sizeof(Elf64_Ehdr)`.
const FILE_HEADER: usize = 64;
/// The part of an `Elf64_Phdr` up to `p_filesz`.
const PROGRAM_HEADER: usize = 40;
/// Program headers that are looked at; linkers make a dozen.
const MOST_HEADERS: usize = 64;
/// Notes of a segment that are looked at.
const MOST_NOTES: usize = 16;

/// Tells the user the problems of a program that does not load this library. With `searched`, a bare name is looked for
/// in `PATH`.
pub(crate) fn examine(path: *const c_char, searched: bool) {
    if is_inside() || path.is_null() || settings().is_none() {
        return;
    }
    // SAFETY: the program gives a C string.
    let name = unsafe { CStr::from_ptr(path) };
    if searched && !name.to_bytes().contains(&b'/') {
        examine_in_path(name.to_bytes());
    } else {
        examine_named(name);
    }
}

/// The C library itself takes as much of the stack to find it.
#[inline(never)]
fn examine_in_path(name: &[u8]) {
    let mut room = [0; PATH_MAX];
    if let Some(name) = found_in_path(name, &mut room) {
        examine_named(name);
    }
}

fn examine_named(name: &CStr) {
    let Some(fd) = raw_open(name, libc::O_RDONLY | libc::O_CLOEXEC) else { return };
    // The dynamic linker itself, called by its name, has no interpreter either.
    let file = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let why = if file.starts_with(b"ld") && file.contains(&b'.') { None } else { why_not_served(fd) };
    raw_close(fd);
    if let Some(why) = why {
        notice::say(format_args!("{} {why} (see --namespace)", name.to_string_lossy()));
    }
}

/// The file that a name is found as in `PATH`.
fn found_in_path<'a>(name: &[u8], room: &'a mut [u8; PATH_MAX]) -> Option<&'a CStr> {
    // SAFETY: the C library's list, read as it does to find the program.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    if path.is_null() {
        return None;
    }
    // SAFETY: a variable's value is a C string.
    for directory in unsafe { CStr::from_ptr(path) }.to_bytes().split(|&byte| byte == b':') {
        let len = directory.len() + 1 + name.len();
        let Some(place) = room.get_mut(..=len) else { continue };
        place[..directory.len()].copy_from_slice(directory);
        place[directory.len()] = b'/';
        place[directory.len() + 1..len].copy_from_slice(name);
        place[len] = 0;
        let found = CStr::from_bytes_until_nul(place).ok()?;
        if let Some(fd) = raw_open(found, libc::O_PATH | libc::O_CLOEXEC) {
            raw_close(fd);
            return CStr::from_bytes_until_nul(room).ok();
        }
    }
    None
}

/// Reads from a place of a file, by a system call of our own; `None` where there is less.
fn read_at<const N: usize>(fd: c_int, offset: usize) -> Option<[u8; N]> {
    let mut room = [0; N];
    // SAFETY: the buffer is live and as long as it says.
    let count = unsafe {
        let at = room.as_mut_ptr() as usize;
        crate::real::raw::call(libc::SYS_pread64, [fd as usize, at, N, offset, 0, 0])
    };
    usize::try_from(count).is_ok_and(|count| count == N).then_some(room)
}

/// Why a program will not find the GPU although it is started with this library.
fn why_not_served(fd: c_int) -> Option<&'static str> {
    let stat = crate::real::raw::fstat(fd)?;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    if stat.st_mode & libc::S_ISUID != 0 && stat.st_uid != user {
        return Some("runs with another user's rights: it does not load this library and finds no GPU");
    }
    let header = read_at::<FILE_HEADER>(fd, 0)?;
    if !header.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (mut has_interpreter, mut is_of_go) = (false, false);
    for (kind, offset, length) in program_headers(fd, &header) {
        has_interpreter |= kind == PT_INTERP;
        is_of_go |= kind == PT_NOTE && has_note_of_go(fd, offset, length);
    }
    if !has_interpreter {
        return Some("is statically linked: it does not load this library and finds no GPU");
    }
    if is_of_go {
        return Some(
            "makes its system calls itself, as programs in Go do: it finds no GPU but through C libraries",
        );
    }
    None
}

/// Program headers of a 64-bit ELF file: type, and offset and length in the file.
fn program_headers(
    fd: c_int,
    header: &[u8; FILE_HEADER],
) -> impl Iterator<Item = (u32, usize, usize)> + use<> {
    let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (size, count) = (half(54), half(56));
    let first = long(header, 32);
    (0..count.min(MOST_HEADERS)).filter_map(move |index| {
        let header = read_at::<PROGRAM_HEADER>(fd, first?.checked_add(index * size)?)?;
        Some((long(&header, 0)? as u32, long(&header, 8)?, long(&header, 32)?))
    })
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// Returns true if Go's linker has made a program: it leaves a note with the name `Go` (`cmd/link`,
/// `ELFNOTEGONAME`).
fn has_note_of_go(fd: c_int, offset: usize, length: usize) -> bool {
    let mut at = 0;
    for _ in 0..MOST_NOTES {
        // Lengths of name and content, a type, then both in whole words.
        let note =
            if at < length { offset.checked_add(at).and_then(|at| read_at::<16>(fd, at)) } else { None };
        let Some([a, b, c, d, e, f, g, h, _, _, _, _, name @ ..]) = note else { return false };
        if name == *b"Go\0\0" && [a, b, c, d] == [4, 0, 0, 0] {
            return true;
        }
        let words = |bytes| (u32::from_le_bytes(bytes) as usize).next_multiple_of(4);
        at += 12 + words([a, b, c, d]) + words([e, f, g, h]);
    }
    false
}
