//! Paths: which ones are the GPU's, and where their prepared files are.
//!
//! A path is ours when it is one of the prepared ones or lies below it. The prepared files hold relative links among
//! themselves, so that from there on the kernel does the rest; `..` is left to it as well once a path has become ours.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::cwd::{self, hidden};
use crate::inside::is_inside;
use crate::real::{PATH_MAX, raw};
use crate::settings::{Settings, settings};

/// Room for a path that was changed.
pub(crate) struct Buffer(MaybeUninit<[u8; PATH_MAX]>);

/// A path to use instead of the one that was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    /// The given one, or one in the buffer.
    pub(crate) path: *const c_char,
    /// True for one of the prepared files.
    pub(crate) ours: bool,
    /// True for a device node, or a directory of them.
    pub(crate) is_node: bool,
    /// Bytes at the beginning of `path` that the program has not given: the prepared directory, and for a
    /// relative path the directory it is relative to.
    pub(crate) extra: usize,
}

impl Buffer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// The path to use for one relative to `directory`, or to the working directory with `AT_FDCWD`.
    ///
    /// Files below a descriptor of a prepared directory are left to the kernel, which finds them there; only paths that
    /// may be a node are looked at.
    ///
    /// # Safety
    ///
    /// `path` is null or a C string that lives as long as the buffer.
    #[expect(unsafe_code, reason = "takes a C string")]
    pub(crate) unsafe fn resolve(&mut self, directory: i32, path: *const c_char) -> Resolved {
        // SAFETY: the caller's contract.
        unsafe { self.resolve_for(directory, path, false) }
    }

    /// Resolves a path as [`Buffer::resolve`] does, for a call that may change the file: everything below a prepared
    /// directory is found to be ours.
    ///
    /// # Safety
    ///
    /// As for [`Buffer::resolve`].
    #[expect(unsafe_code, reason = "takes a C string")]
    pub(crate) unsafe fn resolve_for(
        &mut self,
        directory: i32,
        path: *const c_char,
        writes: bool,
    ) -> Resolved {
        let untouched = Resolved { path, ours: false, is_node: false, extra: 0 };
        if path.is_null() || is_inside() {
            return untouched;
        }
        // SAFETY: the caller's contract.
        let given = unsafe { CStr::from_ptr(path) }.to_bytes();
        let Some(settings) = settings().filter(|settings| may_be_ours(settings, directory, given, writes))
        else {
            return untouched;
        };
        let mut text = Text { room: self.0.write([0; PATH_MAX]), len: 0 };
        let mut within = false;
        if given.first() != Some(&b'/') {
            let Some(len) = cwd::of(directory, text.room) else { return untouched };
            let skip = hidden(settings, &text.room[..len]);
            text.room.copy_within(skip..len, 0);
            (text.len, within) = (len - skip, skip > 0);
        }
        let base = text.len;
        match text.append(settings, given) {
            Some(Found::Ours(prefix)) => Resolved {
                path: text.room.as_ptr().cast(),
                ours: true,
                is_node: prefix.starts_with(b"/dev/"),
                extra: settings.tree.len() + if given.first() == Some(&b'/') { 0 } else { base + 1 },
            },
            // The kernel would look for it beside the prepared directory, or in one that the machine has not.
            Some(found) if (within || matches!(found, Found::Beside)) && text.end().is_some() => {
                Resolved { path: text.room.as_ptr().cast(), ..untouched }
            }
            _ => untouched,
        }
    }
}

/// Returns true if a path can be a prepared one: most cannot, and that is seen at a glance.
fn may_be_ours(settings: &Settings, directory: i32, path: &[u8], writes: bool) -> bool {
    let mut components = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let Some(first) = components.next() else { return false };
    if path.first() == Some(&b'/') {
        return matches!(first, b"sys" | b"dev" | b"..");
    }
    if directory == libc::AT_FDCWD {
        match cwd::place(settings) {
            cwd::Place::Elsewhere => return false,
            cwd::Place::Within => return true,
            cwd::Place::Above => {}
        }
    } else if writes {
        return true;
    }
    let last = components.next_back().unwrap_or(first);
    first == b".."
        || last.starts_with(b"renderD")
        || last.starts_with(b"card")
        || settings.prefixes.iter().any(|prefix| prefix.split(|&byte| byte == b'/').any(|part| part == first))
}

/// The prepared path that a path is or lies below.
fn prefix_of<'s>(settings: &'s Settings, path: &[u8]) -> Option<&'s [u8]> {
    settings.prefixes.iter().map(Vec::as_slice).find(|prefix| {
        path.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
    })
}

/// Result of the comparison of a path with the prepared ones.
enum Found<'s> {
    /// The path is, or lies below, this one of the prepared paths.
    Ours(&'s [u8]),
    /// The path is another one.
    Others,
    /// The path is another one, and goes up to it from a prepared directory.
    Beside,
}

/// A path that is being put together: absolute, without a slash at its end, and empty for the root.
struct Text<'a> {
    room: &'a mut [u8; PATH_MAX],
    len: usize,
}

impl Text<'_> {
    /// Appends a path, moving into the prepared directory where it becomes ours; `None` where it becomes too long.
    fn append<'s>(&mut self, settings: &'s Settings, path: &[u8]) -> Option<Found<'s>> {
        let mut rest = path;
        let mut others = Found::Others;
        loop {
            if let Some(prefix) = prefix_of(settings, &self.room[..self.len]) {
                // Up again from a directory is beside it, where the host's files are.
                let next = rest.trim_prefix_slashes();
                let leaves = next.starts_with(b"../") || next == b"..";
                if !leaves || is_link(settings, prefix) {
                    return self.enter(settings, rest).map(|()| Found::Ours(prefix));
                }
                others = Found::Beside;
            }
            rest = rest.trim_prefix_slashes();
            if rest.is_empty() {
                return Some(others);
            }
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            match part {
                b"." => {}
                b".." => self.len = self.room[..self.len].iter().rposition(|&byte| byte == b'/').unwrap_or(0),
                _ => {
                    self.push(b"/")?;
                    self.push(part)?;
                }
            }
            rest = after;
        }
    }

    /// Puts the prepared directory in front, then the rest, and a zero at the end.
    fn enter(&mut self, settings: &Settings, rest: &[u8]) -> Option<()> {
        let tree = settings.tree.len();
        let len = self.len.checked_add(tree).filter(|&len| len + rest.len() < PATH_MAX)?;
        self.room.copy_within(..self.len, tree);
        self.room[..tree].copy_from_slice(&settings.tree);
        self.len = len;
        if !rest.is_empty() && !rest.starts_with(b"/") {
            self.push(b"/")?;
        }
        self.push(rest)?;
        self.push(&[0])
    }

    /// Makes a C string of it.
    fn end(&mut self) -> Option<()> {
        if self.len == 0 {
            self.push(b"/")?;
        }
        self.push(&[0])
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len()).filter(|&end| end <= PATH_MAX)?;
        self.room[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Some(())
    }
}

/// Returns true if a prepared path is a link, after which `..` is above the link's target.
fn is_link(settings: &Settings, prefix: &[u8]) -> bool {
    let mut path = [0; PATH_MAX];
    let len = settings.tree.len();
    let Some(room) = path.get_mut(..len + prefix.len()).filter(|room| room.len() < PATH_MAX) else {
        return false;
    };
    room[..len].copy_from_slice(&settings.tree);
    room[len..].copy_from_slice(prefix);
    CStr::from_bytes_until_nul(&path).is_ok_and(|path| raw::readlink(path, &mut [0; 1]).is_some())
}

trait TrimSlashes {
    fn trim_prefix_slashes(&self) -> &Self;
}

impl TrimSlashes for [u8] {
    fn trim_prefix_slashes(&self) -> &Self {
        let start = self.iter().position(|&byte| byte != b'/').unwrap_or(self.len());
        &self[start..]
    }
}

/// Texts by which the kernel shows memory that has taken the place of a file whose content changes: before
/// and after the file's path.
pub(crate) const LIVE: (&[u8], &[u8]) = (b"/memfd:belfry:", b" (deleted)");

/// A path that the kernel has given, as a program is to see it; `None` where it sees it as it is.
pub(crate) fn shown<'p>(settings: &Settings, path: &'p [u8]) -> Option<&'p [u8]> {
    match hidden(settings, path) {
        0 => path.strip_prefix(LIVE.0)?.strip_suffix(LIVE.1).filter(|path| path.starts_with(b"/")),
        skip => path.get(skip..),
    }
}

/// Takes the prepared directory away from the start of a C string, in place.
///
/// # Safety
///
/// `path` is null or a C string that may be written.
#[expect(unsafe_code, reason = "changes a C string")]
pub(crate) unsafe fn reveal(path: *mut c_char) -> *mut c_char {
    if path.is_null() || is_inside() {
        return path;
    }
    let Some(settings) = settings() else { return path };
    // SAFETY: the caller's contract.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    let (skip, len) = (hidden(settings, bytes), bytes.len());
    if skip > 0 {
        // SAFETY: both ranges lie in the string, whose last byte is its zero.
        unsafe { std::ptr::copy(path.add(skip), path, len - skip) };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::for_tests("/tree", &["/sys/class/kfd", "/sys/class/drm", "/dev/kfd", "/dev/dri"])
    }

    fn resolved(base: &str, path: &str) -> Option<String> {
        let settings = settings();
        let mut room = [0; PATH_MAX];
        room[..base.len()].copy_from_slice(base.as_bytes());
        let mut text = Text { room: &mut room, len: base.len() };
        let Found::Ours(_) = text.append(&settings, path.as_bytes())? else { return None };
        let end = text.room.iter().position(|&byte| byte == 0).unwrap();
        Some(String::from_utf8(text.room[..end].to_vec()).unwrap())
    }

    #[test]
    fn paths_of_the_gpu_are_found_in_the_tree() {
        for (base, path, expected) in [
            ("", "/dev/kfd", Some("/tree/dev/kfd")),
            ("", "//dev/./kfd", Some("/tree/dev/kfd")),
            ("", "/dev/kfd0", None),
            ("", "/dev/dri/renderD128", Some("/tree/dev/dri/renderD128")),
            ("", "/dev/dri/", Some("/tree/dev/dri/")),
            ("", "/dev", None),
            ("", "/sys/class/net/../kfd/kfd", Some("/tree/sys/class/kfd/kfd")),
            ("", "/sys/class/kfd/kfd/../x", Some("/tree/sys/class/kfd/kfd/../x")),
            ("", "/etc/passwd", None),
            ("/sys", "class/drm/card0", Some("/tree/sys/class/drm/card0")),
            ("/sys/class/net", "../drm", Some("/tree/sys/class/drm")),
            ("/dev", "null", None),
            ("/sys/class/kfd", "../drm/card0", Some("/tree/sys/class/drm/card0")),
            ("/sys/class/kfd", "../net", None),
            ("", "/sys/class/kfd/../net", None),
            ("", "/sys/class/kfd/../kfd/kfd", Some("/tree/sys/class/kfd/kfd")),
            ("/dev/dri", "renderD128", Some("/tree/dev/dri/renderD128")),
        ] {
            assert_eq!(resolved(base, path).as_deref(), expected, "{base} {path}");
        }
    }

    #[test]
    fn paths_that_go_up_from_a_directory_of_the_gpu_need_none_of_the_machine() {
        let settings = settings();
        for (path, expected) in [
            ("/sys/class/drm/..", Some("/sys/class")),
            ("/sys/class/kfd/../net", Some("/sys/class/net")),
            ("/dev/dri/../..", Some("")),
            ("/sys/class/net", None),
            ("/sys/class/net/..", None),
        ] {
            let mut room = [0; PATH_MAX];
            let mut text = Text { room: &mut room, len: 0 };
            let is_beside = matches!(text.append(&settings, path.as_bytes()), Some(Found::Beside));
            let found = is_beside.then(|| std::str::from_utf8(&text.room[..text.len]).unwrap());
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn paths_that_are_too_long_are_left_alone() {
        let long = format!("/dev/dri/{}", "x".repeat(PATH_MAX));
        assert_eq!(resolved("", &long), None);
    }

    #[test]
    fn most_paths_are_dismissed_at_a_glance() {
        let settings = settings();
        for (path, expected) in [
            ("/usr/lib/x.so", false),
            ("/sys/devices", true),
            ("//dev//kfd", true),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(may_be_ours(&settings, libc::AT_FDCWD, path.as_bytes(), false), expected, "{path}");
        }
        assert!(!may_be_ours(&settings, 7, b"lib/x", false));
        assert!(may_be_ours(&settings, 7, b"lib/x", true));
        assert!(may_be_ours(&settings, 7, b"kfd", false));
        assert!(may_be_ours(&settings, 7, b"dri/renderD128", false));
    }
}
