//! Directories that paths are relative to.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::real::{PATH_MAX, raw};
use crate::settings::Settings;

/// Values of [`WORKING`].
const UNKNOWN: u8 = 0;
const ELSEWHERE: u8 = 1;
const ABOVE: u8 = 2;
const WITHIN: u8 = 3;

/// Position of the working directory, seen from the prepared paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No relative path leads to a prepared path.
    Elsewhere,
    /// Above or beside a prepared path.
    Above,
    /// In the prepared directory.
    Within,
}

static WORKING: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The working directory may have changed.
pub(crate) fn changed() {
    WORKING.store(UNKNOWN, Ordering::Relaxed);
}

/// Finds the position of the working directory.
pub(crate) fn place(settings: &Settings) -> Place {
    match WORKING.load(Ordering::Relaxed) {
        ELSEWHERE => return Place::Elsewhere,
        ABOVE => return Place::Above,
        WITHIN => return Place::Within,
        _ => {}
    }
    let mut room = [0; PATH_MAX];
    let place = match of(libc::AT_FDCWD, &mut room).map(|len| &room[..len]) {
        Some(path) if hidden(settings, path) > 0 => Place::Within,
        Some(path) if leads_to_ours(settings, path) => Place::Above,
        _ => Place::Elsewhere,
    };
    let known = match place {
        Place::Elsewhere => ELSEWHERE,
        Place::Above => ABOVE,
        Place::Within => WITHIN,
    };
    WORKING.store(known, Ordering::Relaxed);
    place
}

/// Returns true if a directory is the root, `/sys`, `/dev`, or below one of these.
fn leads_to_ours(settings: &Settings, directory: &[u8]) -> bool {
    match first(directory) {
        None => true,
        own => settings.prefixes.iter().any(|prefix| first(prefix) == own),
    }
}

/// The first component of an absolute path.
fn first(path: &[u8]) -> Option<&[u8]> {
    path.split(|&byte| byte == b'/').nth(1)
}

/// Writes the path of a directory (`AT_FDCWD`: the working one) to a buffer; its length, 0 for the root.
pub(crate) fn of(directory: i32, room: &mut [u8; PATH_MAX]) -> Option<usize> {
    let len = if directory == libc::AT_FDCWD { working(room)? } else { opened(directory, room)? };
    match room.get(..len)? {
        b"/" => Some(0),
        path if path.first() == Some(&b'/') => Some(len),
        // What the kernel calls unreachable, deleted, or no file at all.
        _ => None,
    }
}

#[expect(unsafe_code, reason = "a system call")]
fn working(room: &mut [u8; PATH_MAX]) -> Option<usize> {
    // SAFETY: the buffer is live and as long as it says.
    let len = unsafe { raw::call(libc::SYS_getcwd, [room.as_mut_ptr() as usize, PATH_MAX, 0, 0, 0, 0]) };
    // The kernel counts the zero.
    usize::try_from(len).ok()?.checked_sub(1)
}

/// Writes the path of anything that a descriptor is of to a buffer, as the kernel shows it; its length.
pub(crate) fn opened(fd: i32, room: &mut [u8; PATH_MAX]) -> Option<usize> {
    use std::io::Write as _;
    let mut link = [0u8; 40];
    write!(&mut link[..39], "/proc/self/fd/{fd}").ok()?;
    let link = std::ffi::CStr::from_bytes_until_nul(&link).ok()?;
    raw::readlink(link, room)
}

/// Number of bytes at the start of a path that are the prepared directory's, and not to be shown.
pub(crate) fn hidden(settings: &Settings, path: &[u8]) -> usize {
    match path.strip_prefix(settings.tree.as_slice()) {
        Some(rest) if rest.first() == Some(&b'/') => settings.tree.len(),
        _ => 0,
    }
}
