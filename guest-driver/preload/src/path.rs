//! Paths: which ones are the GPU's, and where their prepared files are.
//!
//! A path is ours when it is one of the prepared ones or lies below it. The prepared files hold relative links among
//! themselves, so that from there on the kernel does the rest; `..` is left to it as well once a path has become ours.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::cwd;
use crate::inside::is_inside;
use crate::settings::{Settings, settings};

/// The longest path the kernel takes, with its zero.
pub(crate) const PATH_MAX: usize = 4096;

/// Room for a path that was changed.
pub(crate) struct Buffer(MaybeUninit<[u8; PATH_MAX]>);

/// A path to use instead of the one that was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    /// The given one, or one in the buffer.
    pub(crate) path: *const c_char,
    /// It is one of the prepared files.
    pub(crate) ours: bool,
    /// It is a device node.
    pub(crate) is_node: bool,
}

impl Buffer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// The path to use for one relative to `directory`, or to the working directory with `AT_FDCWD`.
    ///
    /// # Safety
    ///
    /// `path` is null or a C string that lives as long as the buffer.
    #[expect(unsafe_code, reason = "takes a C string")]
    pub(crate) unsafe fn resolve(&mut self, directory: i32, path: *const c_char) -> Resolved {
        let untouched = Resolved { path, ours: false, is_node: false };
        if path.is_null() || is_inside() {
            return untouched;
        }
        // SAFETY: the caller's contract.
        let given = unsafe { CStr::from_ptr(path) }.to_bytes();
        let Some(settings) = settings().filter(|settings| settings.may_be_ours(directory, given)) else {
            return untouched;
        };
        let room = self.0.write([0; PATH_MAX]);
        let mut text = Text { room, len: 0 };
        let start = if given.first() == Some(&b'/') { Some(0) } else { cwd::of(directory, text.room) };
        let Some(start) = start else { return untouched };
        text.len = start;
        match text.append(settings, given) {
            Some(found) => {
                Resolved { path: text.room.as_ptr().cast(), ours: true, is_node: found.starts_with(b"/dev/") }
            }
            None => untouched,
        }
    }
}

impl Settings {
    /// Whether a path can be ours at all: what most are not is seen at a glance.
    fn may_be_ours(&self, directory: i32, path: &[u8]) -> bool {
        let mut components =
            path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let Some(first) = components.next() else { return false };
        if path.first() == Some(&b'/') {
            return matches!(first, b"sys" | b"dev" | b"..");
        }
        if directory == libc::AT_FDCWD && !cwd::is_above(self) {
            return false;
        }
        first == b".."
            || self.prefixes.iter().any(|prefix| prefix.split(|&byte| byte == b'/').any(|part| part == first))
    }

    /// The prepared path that a path is or lies below.
    fn prefix_of(&self, path: &[u8]) -> Option<&[u8]> {
        self.prefixes.iter().map(Vec::as_slice).find(|prefix| {
            path.strip_prefix(*prefix).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
        })
    }
}

/// A path that is being put together: absolute, without a slash at its end, and empty for the root.
struct Text<'a> {
    room: &'a mut [u8; PATH_MAX],
    len: usize,
}

impl Text<'_> {
    /// Appends a path, moving into the prepared directory where it becomes ours; the prepared path it has met.
    fn append<'s>(&mut self, settings: &'s Settings, path: &[u8]) -> Option<&'s [u8]> {
        let mut rest = path;
        loop {
            if let Some(prefix) = settings.prefix_of(&self.room[..self.len]) {
                return self.enter(settings, rest).map(|()| prefix);
            }
            rest = rest.trim_prefix_slashes();
            if rest.is_empty() {
                return None;
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

    /// Puts the prepared directory in front, the rest behind, and a zero at the end.
    fn enter(&mut self, settings: &Settings, rest: &[u8]) -> Option<()> {
        let tree = settings.tree.len();
        let len = self.len.checked_add(tree).filter(|&len| len + rest.len() < PATH_MAX)?;
        self.room.copy_within(..self.len, tree);
        self.room[..tree].copy_from_slice(&settings.tree);
        self.len = len;
        self.push(rest)?;
        self.push(&[0])
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len()).filter(|&end| end <= PATH_MAX)?;
        self.room[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Some(())
    }
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

/// How many bytes at the start of a path are the prepared directory's, and not to be shown.
pub(crate) fn hidden(path: &[u8]) -> usize {
    let Some(settings) = settings() else { return 0 };
    match path.strip_prefix(settings.tree.as_slice()) {
        Some(rest) if rest.first() == Some(&b'/') => settings.tree.len(),
        _ => 0,
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
    // SAFETY: the caller's contract.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    let (skip, len) = (hidden(bytes), bytes.len());
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
        text.append(&settings, path.as_bytes())?;
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
        ] {
            assert_eq!(resolved(base, path).as_deref(), expected, "{base} {path}");
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
            assert_eq!(settings.may_be_ours(libc::AT_FDCWD, path.as_bytes()), expected, "{path}");
        }
        assert!(!settings.may_be_ours(7, b"lib/x"));
        assert!(settings.may_be_ours(7, b"kfd"));
    }
}
