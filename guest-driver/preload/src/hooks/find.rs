//! Walking trees and matching patterns: the C library does it with functions of its own, so that paths are changed on
//! the way in and on the way out.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::inside::is_inside;
use crate::path::Buffer;
use crate::real::next;

/// `glob_t`, as far as it is the same everywhere (glob.h).
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    offset: usize,
}

type GlobError = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

macro_rules! globs {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pattern: *const c_char, flags: c_int, error: GlobError, found: *mut c_void
        ) -> c_int {
            let mut buffer = Buffer::new();
            // A pattern is a path whose first parts hold no wildcard, as far as ours are concerned.
            // SAFETY: the program gives a C string or null.
            let resolved = unsafe { buffer.resolve(libc::AT_FDCWD, pattern) };
            let result = next!(
                $name(resolved.path, flags, error, found):
                fn(*const c_char, c_int, GlobError, *mut c_void) -> c_int, else libc::GLOB_ABORTED
            );
            if resolved.ours && result == 0 {
                // SAFETY: the call has filled the structure; its strings are the program's from now on.
                unsafe {
                    let found = &*found.cast::<Glob>();
                    let first = if flags & libc::GLOB_DOOFFS != 0 { found.offset } else { 0 };
                    for at in first..first + found.count {
                        cut(*found.paths.add(at), resolved.extra);
                    }
                }
            }
            result
        }
    )*};
}

/// Cuts the part that the program has not given from the start of a path.
///
/// # Safety
///
/// `path` is a C string that may be written.
unsafe fn cut(path: *mut c_char, extra: usize) {
    // SAFETY: the caller's contract; both ranges lie in the string, whose last byte is its zero.
    unsafe {
        let len = CStr::from_ptr(path).to_bytes_with_nul().len();
        if extra < len {
            std::ptr::copy(path.add(extra), path, len - extra);
        }
    }
}

globs! { glob glob64 }

/// `struct FTW` (ftw.h).
#[repr(C)]
struct Ftw {
    base: c_int,
    level: c_int,
}

type Visit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut Ftw) -> c_int;
type OldVisit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int) -> c_int;

thread_local! {
    static VISIT: Cell<Option<Visit>> = const { Cell::new(None) };
    static OLD_VISIT: Cell<Option<OldVisit>> = const { Cell::new(None) };
    /// Bytes of each path that the program has not given.
    static EXTRA: Cell<usize> = const { Cell::new(0) };
}

/// A path without the part that the program has not given, and the length of that part.
///
/// # Safety
///
/// `path` is a C string.
unsafe fn shown(path: *const c_char) -> (*const c_char, usize) {
    // The walk may change the working directory, unseen.
    crate::cwd::changed();
    // SAFETY: the caller's contract; the part left out is shorter than the string.
    unsafe {
        let skip = EXTRA.get().min(CStr::from_ptr(path).to_bytes().len());
        (path.add(skip), skip)
    }
}

unsafe extern "C" fn visit(
    path: *const c_char,
    stat: *const libc::stat,
    kind: c_int,
    ftw: *mut Ftw,
) -> c_int {
    let Some(visit) = VISIT.get() else { return 0 };
    // SAFETY: the C library calls with valid pointers, which the program's function gets.
    unsafe {
        let (path, skip) = shown(path);
        let mut ftw = Ftw { base: (*ftw).base - skip as c_int, level: (*ftw).level };
        visit(path, stat, kind, &raw mut ftw)
    }
}

unsafe extern "C" fn old_visit(path: *const c_char, stat: *const libc::stat, kind: c_int) -> c_int {
    let Some(visit) = OLD_VISIT.get() else { return 0 };
    // SAFETY: as above.
    unsafe { visit(shown(path).0, stat, kind) }
}

macro_rules! walks {
    ($(fn $name:ident, $type:ty, $cell:ident, $wrapper:ident $(, $flags:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, function: $type, limit: c_int $(, $flags: c_int)?) -> c_int {
            let mut buffer = Buffer::new();
            // SAFETY: the program gives a C string or null.
            let found = unsafe { buffer.resolve(libc::AT_FDCWD, path) };
            let ours = found.ours && !is_inside();
            let before = if ours { ($cell.replace(Some(function)), EXTRA.replace(found.extra)) } else { (None, 0) };
            let function = if ours { $wrapper as $type } else { function };
            let result = next!(
                $name(found.path, function, limit $(, $flags)?):
                fn(*const c_char, $type, c_int $(, walks!(@int $flags))?) -> c_int, else -1
            );
            if ours {
                $cell.set(before.0);
                EXTRA.set(before.1);
            }
            crate::cwd::changed();
            result
        }
    )*};
    (@int $any:ident) => { c_int };
}

walks! {
    fn nftw, Visit, VISIT, visit, flags;
    fn nftw64, Visit, VISIT, visit, flags;
    fn ftw, OldVisit, OLD_VISIT, old_visit;
    fn ftw64, OldVisit, OLD_VISIT, old_visit;
}
