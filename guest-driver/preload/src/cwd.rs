//! Directories that paths are relative to.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::path::PATH_MAX;
use crate::real::raw;
use crate::settings::Settings;

/// What is known of the working directory.
const UNKNOWN: u8 = 0;
const ELSEWHERE: u8 = 1;
const ABOVE: u8 = 2;

static WORKING: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The working directory may have changed.
pub(crate) fn changed() {
    WORKING.store(UNKNOWN, Ordering::Relaxed);
}

/// Whether a relative path can lead from the working directory to one of ours: it is above or beside one.
pub(crate) fn is_above(settings: &Settings) -> bool {
    match WORKING.load(Ordering::Relaxed) {
        UNKNOWN => {}
        known => return known == ABOVE,
    }
    let mut room = [0; PATH_MAX];
    let above = of(libc::AT_FDCWD, &mut room).is_some_and(|len| leads_to_ours(settings, &room[..len]));
    WORKING.store(if above { ABOVE } else { ELSEWHERE }, Ordering::Relaxed);
    above
}

/// Whether a directory is the root, `/sys`, `/dev`, or below one of these.
fn leads_to_ours(settings: &Settings, directory: &[u8]) -> bool {
    let first = |path: &[u8]| path.split(|&byte| byte == b'/').nth(1).map(<[u8]>::to_vec);
    match first(directory) {
        None => true,
        Some(own) => settings.prefixes.iter().any(|prefix| first(prefix).as_ref() == Some(&own)),
    }
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

fn opened(fd: i32, room: &mut [u8; PATH_MAX]) -> Option<usize> {
    use std::io::Write as _;
    let mut link = [0u8; 40];
    write!(&mut link[..39], "/proc/self/fd/{fd}").ok()?;
    let link = std::ffi::CStr::from_bytes_until_nul(&link).ok()?;
    raw::readlink(link, room)
}
