//! Files of the card whose content changes: a file that a program opens is filled with the content of that moment.
//!
//! In the prepared directory such a file is empty. A descriptor that was opened on it, by any path, becomes
//! one of memory with the content; a stream has read nothing yet when its descriptor changes under it.
#![expect(unsafe_code, reason = "system calls")]

use std::ffi::{CStr, CString, c_int};
use std::fs;
use std::path::PathBuf;

use once_cell::race::OnceBox;

use belfry_kfd_hosted::card::{FILES, File, Source};
use belfry_kfd_hosted::prepared::{CARD_FILE, PreparedCard, card_path};

use crate::card;
use crate::cwd;
use crate::identity::{Identity, raw_close};
use crate::inside::{inside, is_inside};
use crate::path::shown;
use crate::real::{PATH_MAX, raw};
use crate::settings::settings;

/// The files in the prepared directory.
struct Live {
    cards: Vec<PreparedCard>,
    /// With the number of the card.
    files: Vec<(Identity, usize, &'static File)>,
}

fn live() -> Option<&'static Live> {
    // As in `settings`.
    static LIVE: OnceBox<Option<Live>> = OnceBox::new();
    LIVE.get_or_init(|| Box::new(read())).as_ref()
}

fn read() -> Option<Live> {
    use std::os::unix::ffi::OsStringExt as _;
    let tree = &settings()?.tree;
    let text = fs::read(PathBuf::from(std::ffi::OsString::from_vec(
        [tree.as_slice(), b"/", CARD_FILE.as_bytes()].concat(),
    )));
    let cards: Vec<PreparedCard> = serde_json::from_slice(&text.ok()?).ok()?;
    let mut files = Vec::new();
    for (number, prepared) in cards.iter().enumerate() {
        files.extend(FILES.iter().filter(|file| file.source != Source::Card).filter_map(|file| {
            let place = format!("/{}/{}", prepared.device, card_path(number, file.path));
            let path = CString::new([tree.as_slice(), place.as_bytes()].concat()).ok()?;
            Some((Identity::of_path(&path)?, number, file))
        }));
    }
    Some(Live { files, cards })
}

/// Returns true if a path ends like one of the files: for most paths, no further look is needed.
fn may_be_live(path: &CStr) -> bool {
    let bytes = path.to_bytes();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &bytes[start..];
    FILES.iter().any(|file| {
        file.source != Source::Card
            && file.path.rsplit('/').next().is_some_and(|last| last.as_bytes() == name)
    })
}

/// Fills the file that a program has opened, if it is such a file.
///
/// # Errors
///
/// An errno where there is no memory or no descriptor to be had.
pub(crate) fn fill(path: &CStr, fd: c_int) -> Result<(), c_int> {
    if is_inside() || !may_be_live(path) || settings().is_none() {
        return Ok(());
    }
    inside(|| {
        let Some(live) = live() else { return Ok(()) };
        let identity = Identity::of_descriptor(fd);
        let Some((_, number, file)) = live.files.iter().find(|(known, ..)| Some(*known) == identity) else {
            return Ok(());
        };
        let known = &live.cards[*number].card;
        let figures = card::figures(*number, file.source, (known.vram, known.gtt));
        replace(fd, &name(fd), &file.show(known, &figures))
    })
}

/// The name of the memory for a descriptor's content, by which other processes recognise it
/// ([`LIVE`](crate::path::LIVE)).
fn name(fd: c_int) -> CString {
    // As long as the kernel takes (`MFD_NAME_MAX_LEN`).
    const MOST: usize = 249;
    let mut room = [0; PATH_MAX];
    let path = settings().zip(cwd::opened(fd, &mut room)).and_then(|(settings, len)| {
        let path = shown(settings, room.get(..len)?)?;
        CString::new([b"belfry:", path].concat()).ok()
    });
    path.filter(|name| name.count_bytes() <= MOST).unwrap_or_else(|| c"belfry:".into())
}

/// Makes a descriptor one of memory with this content.
fn replace(fd: c_int, name: &CStr, content: &[u8]) -> Result<(), c_int> {
    let check = |result: isize| if result < 0 { Err(-result as c_int) } else { Ok(result as c_int) };
    // SAFETY: the name is a C string.
    let memory = check(unsafe {
        raw::call(libc::SYS_memfd_create, [name.as_ptr() as usize, libc::MFD_CLOEXEC as usize, 0, 0, 0, 0])
    })?;
    raw::write(memory, content);
    // SAFETY: numbers alone; both descriptors are this call's, one of them soon the program's.
    let result = check(unsafe {
        raw::call(libc::SYS_lseek, [memory as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]);
        let flags = raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]);
        let closes = flags > 0 && flags as c_int & libc::FD_CLOEXEC != 0;
        let flags = if closes { libc::O_CLOEXEC } else { 0 };
        raw::call(libc::SYS_dup3, [memory as usize, fd as usize, flags as usize, 0, 0, 0])
    });
    raw_close(memory);
    result.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_files_that_change_are_looked_at() {
        for (path, expected) in [
            (c"/sys/class/drm/card0/device/gpu_busy_percent", true),
            (c"hwmon0/temp1_input", true),
            (c"gpu_metrics", true),
            (c"/sys/class/drm/card0/device/mem_info_vram_total", false),
            (c"/sys/class/drm/card0/device/hwmon", false),
            (c"/etc/passwd", false),
            (c"", false),
        ] {
            assert_eq!(may_be_live(path), expected, "{path:?}");
        }
    }
}
