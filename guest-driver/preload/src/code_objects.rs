//! Code objects that the runtime in this process has loaded, with their debug information: ROCr lists them for debuggers
//! (`_amdgpu_r_debug`, a `struct r_debug` whose link map has a URI for each).
//!
//! | URI | where the code object is |
//! | --- | --- |
//! | `file://PATH#offset=N&size=N` | in a part of a file, or all of it |
//! | `memory://PID#offset=ADDRESS&size=N` | in the memory of a process, of this one here |
//!
//! Nothing that is read is believed: the list may change meanwhile, and the program may have written over it. Source: LLVM,
//! `AMDGPUUsage`, "Loaded Code Object Path Uniform Resource Identifier (URI)"; ROCr, `amd_hsa_loader.hpp`.
#![expect(unsafe_code, reason = "finds a library's variable")]

use std::collections::BTreeSet;
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

use belfry_inspect::symbols::CodeObject;

use crate::companion;
use crate::debug::read_memory;

/// Code objects that are looked at, at most.
const MOST: usize = 4096;
/// Bytes of one at most.
const LARGEST: usize = 256 << 20;
/// Bytes of all of them at most.
const ALL: usize = 1 << 30;
/// Bytes of a URI at most.
const URI: usize = 8192;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Offset of the link map in `struct r_debug`, and of the name and the next map in `struct link_map`.
const R_MAP: usize = 8;
const L_NAME: usize = 8;
const L_NEXT: usize = 24;

/// The runtime's library, by the name that others load it by.
const RUNTIME: &CStr = c"libhsa-runtime64.so.1";

/// Code objects that have been found already.
#[derive(Debug, Default)]
pub(crate) struct CodeObjects {
    seen: Mutex<(BTreeSet<Vec<u8>>, usize)>,
}

impl CodeObjects {
    /// The code objects that were not there at the last call.
    pub(crate) fn new_ones(&self) -> Vec<CodeObject> {
        let Ok(mut seen) = self.seen.lock() else { return Vec::new() };
        let (known, bytes) = &mut *seen;
        let mut found = Vec::new();
        for uri in uris() {
            if known.len() >= MOST || !known.insert(uri.clone()) {
                continue;
            }
            let Some(data) = read(&uri, ALL.saturating_sub(*bytes)) else { continue };
            *bytes += data.len();
            found.push(CodeObject { name: String::from_utf8_lossy(&uri).into_owned(), data });
        }
        found
    }
}

/// The runtime's `_amdgpu_r_debug`, if there is a runtime.
fn list() -> Option<usize> {
    // SAFETY: names that end with zero; a library that is not there is not loaded, and the one that is stays.
    let found = unsafe {
        let library = libc::dlopen(RUNTIME.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let found = libc::dlsym(library, c"_amdgpu_r_debug".as_ptr());
        libc::dlclose(library);
        found
    };
    (!found.is_null()).then_some(found as usize)
}

fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; 8];
    read_memory(&mut bytes, address as u64).ok()?;
    Some(usize::from_le_bytes(bytes))
}

/// A text that ends with zero, of [`URI`] bytes at most: page by page, as the next one may not be there.
fn text(mut address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < URI {
        let mut part = [0; PAGE];
        let part = &mut part[..PAGE - address % PAGE];
        read_memory(part, address as u64).ok()?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            return Some(text);
        }
        text.extend_from_slice(part);
        address = address.checked_add(part.len())?;
    }
    None
}

/// All URIs of the list.
fn uris() -> Vec<Vec<u8>> {
    let mut uris = Vec::new();
    let mut next = list().and_then(|list| word(list.checked_add(R_MAP)?));
    while let Some(at) = next.filter(|at| *at != 0 && uris.len() < MOST) {
        let field = |offset| word(at.checked_add(offset)?);
        uris.extend(field(L_NAME).and_then(text));
        next = field(L_NEXT);
    }
    uris
}

/// The code object of a URI, if it can be had and has no more bytes than that.
fn read(uri: &[u8], room: usize) -> Option<Vec<u8>> {
    let Uri { place, offset, size } = Uri::parse(uri)?;
    let fits = |size: usize| size <= LARGEST.min(room);
    match place {
        Place::Memory(pid) => {
            let size = size.filter(|size| fits(*size))?;
            if pid != companion::process() {
                return None;
            }
            let mut data = vec![0; size];
            read_memory(&mut data, offset as u64).ok()?;
            Some(data)
        }
        Place::File(path) => {
            let file = File::open(path).ok()?;
            let rest = usize::try_from(file.metadata().ok()?.len()).ok()?.checked_sub(offset)?;
            let size = size.unwrap_or(rest);
            if size > rest || !fits(size) {
                return None;
            }
            let mut data = vec![0; size];
            file.read_exact_at(&mut data, offset as u64).ok()?;
            Some(data)
        }
    }
}

#[derive(Debug, PartialEq)]
enum Place {
    File(PathBuf),
    Memory(i32),
}

/// A URI's parts; without a size, all bytes after the offset.
#[derive(Debug, PartialEq)]
struct Uri {
    place: Place,
    offset: usize,
    size: Option<usize>,
}

impl Uri {
    fn parse(uri: &[u8]) -> Option<Self> {
        let (path, rest) = match uri.iter().position(|byte| matches!(byte, b'#' | b'?')) {
            Some(at) => (&uri[..at], &uri[at + 1..]),
            None => (uri, &[][..]),
        };
        let place = if let Some(path) = path.strip_prefix(b"file://") {
            Place::File(PathBuf::from(OsString::from_vec(decode(path)?)))
        } else {
            Place::Memory(std::str::from_utf8(path.strip_prefix(b"memory://")?).ok()?.parse().ok()?)
        };
        let (mut offset, mut size) = (0, None);
        for part in std::str::from_utf8(rest).ok()?.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=')? {
                ("offset", value) => offset = number(value)?,
                ("size", value) => size = Some(number(value)?),
                _ => return None,
            }
        }
        Some(Self { place, offset, size })
    }
}

fn number(text: &str) -> Option<usize> {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Replaces `%20` and its like.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            decoded.push(first);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_those_of_files_and_of_memory() {
        let file = |path: &str, offset, size| Some(Uri { place: Place::File(path.into()), offset, size });
        assert_eq!(Uri::parse(b"file:///a%20b/c"), file("/a b/c", 0, None));
        assert_eq!(Uri::parse(b"file:///p#offset=0x10&size=32"), file("/p", 16, Some(32)));
        let memory = Uri { place: Place::Memory(17), offset: 0x7f00, size: Some(8) };
        assert_eq!(Uri::parse(b"memory://17#offset=0x7f00&size=8"), Some(memory));
        for wrong in [
            "",
            "http://x",
            "memory://x",
            "file:///p#offset",
            "file:///p#size=-1",
            "file:///%2",
            "file:///%zz",
        ] {
            assert_eq!(Uri::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn code_objects_are_read_from_their_places_and_no_others() {
        let file = std::env::current_exe().unwrap();
        let path = file.to_str().unwrap();
        let whole = std::fs::read(path).unwrap();
        let part = read(format!("file://{path}#offset=1&size=3").as_bytes(), 100).unwrap();
        assert_eq!(part, whole[1..4]);
        assert!(read(format!("file://{path}#offset=1&size=3").as_bytes(), 2).is_none(), "no room");
        assert!(read(format!("file://{path}#size={}", whole.len() + 1).as_bytes(), usize::MAX).is_none());
        let here = std::process::id();
        let bytes = *b"code";
        let at = |pid: u32| format!("memory://{pid}#offset={}&size=4", bytes.as_ptr() as usize);
        assert_eq!(read(at(here).as_bytes(), 100).as_deref(), Some(&bytes[..]));
        assert_eq!(text(c"name".as_ptr() as usize).as_deref(), Some(&b"name"[..]));
        assert_eq!((text(16), word(16)), (None, None));
        assert!(read(at(here + 1).as_bytes(), 100).is_none());
        assert!(
            read(format!("memory://{here}#offset=16&size=4").as_bytes(), 100).is_none(),
            "nothing is there"
        );
    }
}
